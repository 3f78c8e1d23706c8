#ifndef GATEWAY_TEXT_YAML_READER_H
#define GATEWAY_TEXT_YAML_READER_H

#include "gateway/text/tree.h"

/* Reads YAML as far as files that people write need it: block and flow style, all scalar styles,
 * comments, several documents. Aliases, anchors, tags, merge keys, duplicate keys and keys that
 * are not plain text are refused, so that what a reviewer reads is what is meant.
 *
 * Scalars without quotes look like null (empty, ~, null), a boolean (true, false), a JSON number,
 * or text; see tree_node.is_plain. Errors are INVALID_ARGUMENT with the place, or
 * RESOURCE_EXHAUSTED. */
struct yaml_stream;

/* `text` is borrowed until the stream is closed. */
int yaml_stream_open(struct str text, struct yaml_stream **ret, struct error *err);
void yaml_stream_close(struct yaml_stream *stream); /* NULL is fine */

/* The next document that says something, or *ret NULL at the end. After an error the stream can
 * only be closed. Trees own their texts. */
int yaml_stream_next(struct yaml_stream *stream, struct arena *arena, const struct tree_node **ret,
                     struct error *err);

/* A text of one document; an empty one and a second one are errors. */
int yaml_read(struct str text, struct arena *arena, const struct tree_node **ret,
              struct error *err);

#endif
