#ifndef DECIDE_SHAPE_H
#define DECIDE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"

/* What is known about the input of rules before any request exists, so that a rule can be told
 * that what it looks at is never there, or never equal to what it says. The one who makes the
 * input describes it; the library only asks. */

enum policy_shape_kind {
    POLICY_SHAPE_ANY, /* nothing is known */
    POLICY_SHAPE_BOOL,
    POLICY_SHAPE_STRING,
    POLICY_SHAPE_NUMBER,        /* a double, as Octelium hands out every number of up to 32 bits */
    POLICY_SHAPE_INT,           /* an int of the language */
    POLICY_SHAPE_INT_TEXT,      /* a number of 64 bits, as text of decimal digits */
    POLICY_SHAPE_ENUM,          /* text, one of a few */
    POLICY_SHAPE_TIME_TEXT,     /* RFC 3339 text */
    POLICY_SHAPE_DURATION_TEXT, /* "1.5s" */
    POLICY_SHAPE_BYTES_TEXT,    /* base64 text */
    POLICY_SHAPE_LIST,
    POLICY_SHAPE_MAP,    /* keys are data */
    POLICY_SHAPE_OBJECT, /* keys are known */
};

struct policy_shape_ops;

/* Passed by copy; `of` means something to the ops only. */
struct policy_shape {
    enum policy_shape_kind kind;
    bool may_be_absent;  /* there are requests without it */
    bool zero_is_absent; /* false, 0, "" and empty count as "no such key" */
    bool is_never;       /* known to authors of policies, but no request here has it */
    const struct policy_shape_ops *ops; /* NULL for kinds that have no parts */
    const void *of;
};

/* Functions allocate from the arena only, and may answer POLICY_SHAPE_ANY when it is full. */
struct policy_shape_ops {
    /* OBJECT: false when it has no such member. */
    bool (*member)(const struct policy_shape *object, struct str name, struct arena *arena,
                   struct policy_shape *ret);
    /* OBJECT: the name of member i, NULL at the end. */
    const char *(*member_name)(const struct policy_shape *object, size_t i);
    /* LIST and MAP: of each element. */
    void (*element)(const struct policy_shape *container, struct arena *arena,
                    struct policy_shape *ret);
    /* ENUM: text i, NULL at the end. The first is the one that zero stands for. */
    const char *(*enum_text)(const struct policy_shape *of, size_t i);
};

/* "text", "a number": for messages. */
const char *policy_shape_kind_name(enum policy_shape_kind kind);

#endif
