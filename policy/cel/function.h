#ifndef CEL_FUNCTION_H
#define CEL_FUNCTION_H

#include "policy/cel/type.h"
#include "policy/policy.h"

struct eval;
struct node;

/* A library function. The evaluator calls it only with as many arguments as the signature has,
 * and of the kinds that the signature names. A receiver is args[0]. */
typedef struct policy_value function_impl(struct eval *e, const struct node *call,
                                          const struct policy_value *args);

enum { FUNCTION_ARGS_MAX = 6, KIND_ANY = 255 };

enum function_flags {
    FUNCTION_MEMBER = 1,
    FUNCTION_IMPURE = 2, /* depends on the moment: never folded */
};

/* One line of a library's table. */
struct function_row {
    const char *name;      /* "size", "math.ceil", "_+_" */
    unsigned flags;        /* enum function_flags */
    const char *signature; /* "string, int -> string" */
    function_impl *impl;   /* NULL: an operator, which the evaluator knows */
};

struct function_table {
    unsigned library; /* POLICY_LIB_*, 0: always there */
    const struct function_row *rows;
    size_t count;
};

/* A row as an env keeps it. */
struct overload {
    struct str name;
    uint8_t flags;
    uint8_t args_count;
    uint8_t kinds[FUNCTION_ARGS_MAX]; /* enum policy_kind, or KIND_ANY */
    const struct type *params[FUNCTION_ARGS_MAX];
    const struct type *result;
    function_impl *impl;
};

extern const struct function_table functions_operators;
extern const struct function_table functions_conversions;
extern const struct function_table functions_strings;
extern const struct function_table functions_strings_ext;
extern const struct function_table functions_format;
extern const struct function_table functions_time;
extern const struct function_table functions_math;
extern const struct function_table functions_encoders;
extern const struct function_table functions_lists;
extern const struct function_table functions_sets;
extern const struct function_table functions_regex;
extern const struct function_table functions_regex_ext;
extern const struct function_table functions_network;
extern const struct function_table functions_optionals;
extern const struct function_table functions_octelium;
extern const struct function_table functions_octelium_time;
extern const struct function_table functions_octelium_lists;
extern const struct function_table functions_octelium_net;
extern const struct function_table functions_json;

#endif
