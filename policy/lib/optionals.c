#include "policy/cel/eval.h"

/* The optional types extension; or(), orValue(), optMap() are nodes of the plan. */

static struct policy_value optional_of(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    return eval_make_optional(e, n, args[0]);
}

static struct policy_value optional_none(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    (void)e;
    (void)n;
    (void)args;
    return (struct policy_value){.kind = POLICY_OPTIONAL};
}

static bool is_zero(struct policy_value v)
{
    switch (v.kind) {
    case POLICY_NULL:
        return true;
    case POLICY_BOOL:
        return !v.as.truth;
    case POLICY_INT:
    case POLICY_UINT:
    case POLICY_DURATION:
        return v.as.u == 0;
    case POLICY_DOUBLE:
        return v.as.d == 0;
    case POLICY_STRING:
    case POLICY_BYTES:
        return v.len == 0;
    case POLICY_LIST:
        return policy_list_size(v.as.list) == 0;
    case POLICY_MAP:
        return policy_map_size(v.as.map) == 0;
    case POLICY_TIMESTAMP:
        return v.as.i == 0 && v.len == 0;
    default:
        return false;
    }
}

static struct policy_value of_non_zero(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    return is_zero(args[0]) ? optional_none(e, n, args) : eval_make_optional(e, n, args[0]);
}

static struct policy_value has_value(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_bool(args[0].as.inner != NULL);
}

static struct policy_value value_of(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return args[0].as.inner
               ? *args[0].as.inner
               : eval_fail(e, n, POLICY_E_EMPTY_OPTIONAL, "value() of optional.none()");
}

static struct policy_value unwrap(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    size_t count = policy_list_size(args[0].as.list);
    size_t kept = 0;
    struct policy_value *items;
    struct policy_value made = eval_make_list(e, n, count, &items);
    for (size_t i = 0; i < count && !value_failed(made); i++) {
        struct policy_value v;
        int code = eval_list_get(e, args[0].as.list, i, &v);
        if (code) {
            return eval_fail_code(e, n, code);
        }
        if (v.kind != POLICY_OPTIONAL) {
            return eval_no_overload(e, n, v);
        }
        if (v.as.inner) {
            items[kept++] = *v.as.inner;
        }
    }
    if (value_failed(made)) {
        return made;
    }
    const struct policy_list *list = policy_list_build(e->arena, items, kept);
    return list ? policy_list(list) : eval_out_of_memory(e, n);
}

static const struct function_row rows[] = {
    {"optional.of", 0, "A -> optional_type(A)", optional_of},
    {"optional.none", 0, "-> optional_type(A)", optional_none},
    {"optional.ofNonZeroValue", 0, "A -> optional_type(A)", of_non_zero},
    {"optional.unwrap", 0, "list(optional_type(A)) -> list(A)", unwrap},
    {"unwrapOpt", FUNCTION_MEMBER, "list(optional_type(A)) -> list(A)", unwrap},
    {"hasValue", FUNCTION_MEMBER, "optional_type(A) -> bool", has_value},
    {"value", FUNCTION_MEMBER, "optional_type(A) -> A", value_of},
    {"or", FUNCTION_MEMBER, "optional_type(A), optional_type(A) -> optional_type(A)", NULL},
    {"orValue", FUNCTION_MEMBER, "optional_type(A), A -> A", NULL},
};

const struct function_table functions_optionals = {POLICY_LIB_OPTIONALS, rows,
                                                   sizeof rows / sizeof rows[0]};
