#ifndef GATEWAY_TEXT_JSON_READER_H
#define GATEWAY_TEXT_JSON_READER_H

#include "gateway/text/tree.h"

/* Reads one JSON text (RFC 8259), strictly: valid UTF-8, no NUL, no lone surrogates, no duplicate
 * keys, nothing after the value, at most TREE_DEPTH_MAX levels. The tree owns its texts, so
 * `text` may go away. INVALID_ARGUMENT with line and column, or RESOURCE_EXHAUSTED. */
int json_read(struct str text, struct arena *arena, const struct tree_node **ret,
              struct error *err);

#endif
