#ifndef GATEWAY_TEXT_YAML_OUT_H
#define GATEWAY_TEXT_YAML_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/text/sink.h"

/* Writes YAML in block style, as people write it: two spaces a level, text of several lines as a
 * literal block, quotes only where YAML would take the text for something else. What it writes
 * yaml_reader reads back to the same values. */
struct yaml_out {
    struct buf *out;
    unsigned depth;
    struct {
        bool is_map;
        bool has_items;
        bool is_item; /* stands in a list, after its "-" */
    } levels[SINK_DEPTH_MAX + 1];
    bool after_key;
    bool on_item_line; /* the next key goes on the line of the "-" */
};

struct yaml_out yaml_out_to(struct buf *out);

/* The writer must outlive the sink. */
struct sink yaml_out_sink(struct yaml_out *y);

#endif
