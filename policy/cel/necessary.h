#ifndef CEL_NECESSARY_H
#define CEL_NECESSARY_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/policy.h"

/* What must hold of ctx for an expression to be true, where that can be read off its form: the
 * conjuncts at its top, in the order in which they are evaluated, from the first one on.
 *
 * Each such conjunct looks at one path of constant names below ctx, compares with constants that
 * are texts, and is bounded so that all of them together stay far below every limit of an
 * evaluation. Therefore it gives true, or false, or lacks its input (a key or member that is not
 * there), as long as the path itself can be read; and no other error. The one exception is said at
 * NECESSARY_KEY. */
enum necessary_kind {
    NECESSARY_EQUAL,  /* the value at the path is one of the texts; false for other kinds */
    NECESSARY_KEY,    /* the text is a key of the map, or an item of the list, at the path. A value
                         of another kind is an error; a list of more than NECESSARY_ITEMS_MAX items
                         may be beyond the limits */
    NECESSARY_MEMBER, /* has(): the text is a key of the map at the path; input is missing when the
                         value is no map */
};

enum {
    NECESSARY_CONJUNCTS_MAX = 16, /* of one expression */
    NECESSARY_TEXTS_MAX = 100,    /* of one conjunct */
    NECESSARY_TEXT_MAX_BYTES = 256,
    NECESSARY_ITEMS_MAX = 100,
    NECESSARY_PATH_MAX = 16, /* names */
};

struct necessary {
    enum necessary_kind kind;
    const struct policy_value *path; /* strings: the names behind ctx */
    const struct policy_value *texts;
    uint32_t path_count; /* may be 0: ctx itself */
    uint32_t text_count; /* 1 but for EQUAL */
};

/* attrs: the attributes of the policy, a map or ABSENT, which count as constants. `ret` has room
 * for NECESSARY_CONJUNCTS_MAX; what it points to lives as long as the program, attrs and arena.
 * *ret_whole tells that the expression is nothing but these conjuncts. Gives their number, which is
 * 0 too when the arena is full. */
size_t program_necessary(const struct policy_program *program, struct policy_value attrs,
                         struct arena *arena, struct necessary *ret, bool *ret_whole);

#endif
