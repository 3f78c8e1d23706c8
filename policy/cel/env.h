#ifndef CEL_ENV_H
#define CEL_ENV_H

#include "policy/cel/ast.h"
#include "policy/cel/function.h"

struct variable {
    struct str name;
    const struct type *type;
};

struct policy_env {
    unsigned libraries;
    struct arena arena;
    struct variable *variables;
    size_t variables_count;
    size_t variables_room;
    struct overload *overloads; /* sorted by name, style, number of arguments */
    size_t overloads_count;
    size_t overloads_room;
    struct str container;
};

static inline bool env_has(const struct policy_env *env, unsigned library)
{
    return (env->libraries & library) != 0;
}

/* The variable with exactly that name; false when there is none. */
bool env_find_variable(const struct policy_env *env, struct str name, size_t *ret_index);

/* The overloads of a name and style, all argument counts; NULL when there are none. */
const struct overload *env_find_function(const struct policy_env *env, struct str name, bool member,
                                         size_t *ret_count);

/* The declared name nearest to `name` within two edits, or empty. */
struct str env_nearest_function(const struct policy_env *env, struct str name);

#endif
