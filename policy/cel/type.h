#ifndef CEL_TYPE_H
#define CEL_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Types as the checker sees them. Immutable but for `bound` of a PARAM. */
enum type_kind {
    TYPE_DYN,
    TYPE_NULL,
    TYPE_BOOL,
    TYPE_INT,
    TYPE_UINT,
    TYPE_DOUBLE,
    TYPE_STRING,
    TYPE_BYTES,
    TYPE_TIMESTAMP,
    TYPE_DURATION,
    TYPE_LIST,     /* 1 parameter */
    TYPE_MAP,      /* 2 */
    TYPE_TYPE,     /* 0 or 1 */
    TYPE_ABSTRACT, /* named, any number */
    TYPE_PARAM,
};

enum { TYPE_PARAMS_MAX = 8, TYPE_DEPTH_MAX = 64, TYPE_STEPS_MAX = 2000000 };

struct type {
    uint8_t kind; /* enum type_kind */
    uint8_t count;
    struct str name; /* ABSTRACT, PARAM */
    const struct type **params;
    const struct type *bound; /* PARAM: what it stands for, or NULL */
};

/* What the checker has bound so far, so that a failed attempt can be undone. */
struct type_trail_entry {
    struct type *param;
    const struct type *before;
};

struct type_context {
    struct arena *arena;
    struct type_trail_entry *trail;
    size_t trail_count;
    size_t trail_room;
    size_t steps; /* types may share parts, so that walking them can take long: bounded */
    bool out_of_memory;
};

/* The one type of a kind without parameters. */
const struct type *type_simple(enum type_kind kind);
const struct type *type_make(struct arena *arena, enum type_kind kind, struct str name,
                             const struct type *a, const struct type *b);
const struct type *type_list(struct arena *arena, const struct type *elem);
const struct type *type_map(struct arena *arena, const struct type *key, const struct type *value);
const struct type *type_optional(struct arena *arena, const struct type *elem);
const struct type *type_type(struct arena *arena, const struct type *of);
struct type *type_fresh(struct arena *arena);

/* Parses one type off the front of *text ("map(string, dyn)"); NULL when it is none or memory is
 * out. Single capitals are PARAMs, and the same letter is the same PARAM within `letters`. */
const struct type *type_parse(struct arena *arena, struct str *text,
                              const struct type *letters[26]);

/* Skips space, then takes `token` off the front of *text; false when something else is there. */
bool type_take(struct str *text, const char *token);

/* Copies with each unbound letter PARAM replaced by a fresh one per `fresh`. */
const struct type *type_instantiate(struct arena *arena, const struct type *t,
                                    const struct type *fresh[26]);

/* What a chain of bound PARAMs ends in. */
const struct type *type_find(const struct type *t);
bool type_is_optional(const struct type *t);
bool type_is_dyn(const struct type *t);

/* May a `from` stand where a `to` is wanted? Binds PARAMs when yes, nothing when no. */
bool type_assign(struct type_context *tc, const struct type *to, const struct type *from);
bool type_assign_all(struct type_context *tc, const struct type *const *to,
                     const struct type *const *from, size_t count);

/* The element type of a literal that held `a` so far and now gets `b`; dyn when they differ. */
const struct type *type_join(struct type_context *tc, const struct type *a, const struct type *b);

/* Replaces bound PARAMs, and the free ones by dyn when free_is_dyn. */
const struct type *type_resolve(struct arena *arena, const struct type *t, bool free_is_dyn);
bool type_equal(const struct type *a, const struct type *b);
void type_print(const struct type *t, struct buf *out);

#endif
