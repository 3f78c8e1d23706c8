#ifndef AUDITFILE_RECORD_TEXT_H
#define AUDITFILE_RECORD_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/hash.h"
#include "gateway/text/tree.h"
#include "policy/base/json_out.h"

/* What the log's own kinds of records have in common: written without sequence and prev, read from
 * the whole line. */

enum { RECORD_TEXT_ARENA_MAX_BYTES = 64 << 20 };

/* Begins the object: apiVersion, kind, metadata.createdAt. */
void record_text_begin(struct json_out *j, const char *kind, int64_t wall_ns);
void record_text_hash(struct json_out *j, const char *key, const uint8_t hash[HASH_BYTES]);

/* Members of an object; false when it is not there or of another form. */
bool record_text_read_number(const struct tree_node *map, const char *key, uint64_t *ret);
bool record_text_read_hash(const struct tree_node *map, const char *key, uint8_t ret[HASH_BYTES]);

/* A text, NUL-terminated, in the tree's arena; NULL when it is not there. */
const char *record_text_read(const struct tree_node *map, const char *key);

#endif
