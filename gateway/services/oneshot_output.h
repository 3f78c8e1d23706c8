#ifndef SERVICES_ONESHOT_OUTPUT_H
#define SERVICES_ONESHOT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/ext.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* What is kept of a program's output: the first and the last part, half of the limit each; what
 * lies between is counted and dropped. */
struct oneshot_output {
    struct buf head;
    uint8_t *tail; /* a ring */
    size_t head_max;
    size_t tail_max;
    size_t tail_at; /* where the next byte goes */
    uint64_t total_bytes;
    bool has_failed; /* no memory: bytes are counted only */
};

void oneshot_output_init(struct oneshot_output *o, size_t bytes_max);
void oneshot_output_free(struct oneshot_output *o);
void oneshot_output_add(struct oneshot_output *o, struct str bytes);

/* All kept bytes of output that was not cut; for our own programs. */
struct str oneshot_output_all(struct oneshot_output *o, struct arena *arena);

/* NULL when the arena is full. A cut never splits a character. */
Ext__RunOutput *oneshot_output_message(const struct oneshot_output *o, struct arena *arena);

/* Bytes as text when they are UTF-8 without NUL (which JSON's readers in C cut at), else as data.
 * -RESOURCE_EXHAUSTED. */
int oneshot_text_or_data(struct str bytes, struct arena *arena, char **ret_text,
                         ProtobufCBinaryData *ret_data);

#endif
