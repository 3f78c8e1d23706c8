#ifndef GATEWAY_TEXT_YAML_PLACE_H
#define GATEWAY_TEXT_YAML_PLACE_H

#include "gateway/text/tree.h"
#include "policy/base/arena.h"

/* A text and where its lines begin: a place in it is found without reading all that stands before.
 */
struct text_lines {
    struct str text;
    const size_t *starts; /* of each line; the first one's is behind a byte order mark */
    size_t count;         /* 1 at least */
};

/* False when the arena is full. The text is borrowed. */
bool text_lines_find(struct text_lines *lines, struct str text, struct arena *arena);

/* A place in a text: line and column (characters) from 1, and the byte. */
struct text_place {
    uint32_t line;
    uint32_t column;
    size_t offset;
};

/* Where byte `offset` of a scalar's text (as read: without quotes, indentation and escapes) stands
 * in the YAML file that the scalar was read from; whatever the style. The scalar's own place when
 * it cannot be told. */
struct text_place yaml_place_of(const struct text_lines *file, const struct tree_node *scalar,
                                size_t offset);

/* The place of a line and column. */
struct text_place text_place_at(const struct text_lines *file, uint32_t line, uint32_t column);

/* The line that holds a byte, without its end. */
struct str text_line_at(struct str file, size_t offset);

#endif
