#ifndef EDGE_ENVELOPE_H
#define EDGE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* The five bytes before each message of gRPC ("Length-Prefixed-Message"), gRPC-Web and
 * Connect streams: flags, then a big-endian length. */
enum {
    ENVELOPE_HEAD_BYTES = 5,
    ENVELOPE_COMPRESSED = 0x01,
    ENVELOPE_CONNECT_END = 0x02, /* Connect: the JSON end of a stream */
    ENVELOPE_WEB_TRAILER = 0x80, /* gRPC-Web: trailers as text */
};

struct envelope {
    uint8_t flags;
    struct str payload; /* a view of the input */
};

enum envelope_result {
    ENVELOPE_WHOLE,
    ENVELOPE_SHORT,     /* more bytes must come; the cursor did not move */
    ENVELOPE_TOO_LARGE, /* the announced length is over the maximum, told by the head alone */
};

/* Reads one message and moves the cursor behind it. *ret_announced_bytes, set unless the head
 * itself is short, is the length that the head tells. */
enum envelope_result envelope_read(struct bytes *in, size_t payload_bytes_max, struct envelope *ret,
                                   size_t *ret_announced_bytes);

/* len must fit in 32 bits. */
void envelope_write_head(uint8_t ret[ENVELOPE_HEAD_BYTES], uint8_t flags, size_t len);

#endif
