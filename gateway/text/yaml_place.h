#ifndef GATEWAY_TEXT_YAML_PLACE_H
#define GATEWAY_TEXT_YAML_PLACE_H

#include "gateway/text/tree.h"

/* A place in a text: line and column (characters) from 1, and the byte. */
struct text_place {
    uint32_t line;
    uint32_t column;
    size_t offset;
};

/* Where byte `offset` of a scalar's text (as read: without quotes, indentation and escapes) stands
 * in the YAML file that the scalar was read from; whatever the style. The scalar's own place when
 * it cannot be told. */
struct text_place yaml_place_of(struct str file, const struct tree_node *scalar, size_t offset);

/* The place of a line and column. */
struct text_place text_place_at(struct str file, uint32_t line, uint32_t column);

/* The line that holds a byte, without its end. */
struct str text_line_at(struct str file, size_t offset);

#endif
