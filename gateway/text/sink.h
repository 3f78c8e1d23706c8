#ifndef GATEWAY_TEXT_SINK_H
#define GATEWAY_TEXT_SINK_H

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Where a value is written as text: JSON or YAML. The caller nests properly, at most
 * SINK_DEPTH_MAX deep, and looks at the buffer's `failed` at the end. */
enum { SINK_DEPTH_MAX = 62 };

struct sink_ops {
    void (*begin_map)(void *state);
    void (*end_map)(void *state);
    void (*begin_list)(void *state);
    void (*end_list)(void *state);
    void (*key)(void *state, struct str key);
    void (*string)(void *state, struct str text);
    void (*real)(void *state, double value); /* shortest digits; NaN and the infinities as text */
    void (*word)(void *state, const char *text); /* a number, true, false, null: as it is */
};

struct sink {
    const struct sink_ops *ops;
    void *state;
};

#endif
