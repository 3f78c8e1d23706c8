#include "policy/cel/eval.h"

#include "policy/lib/sort.h"

/* The lists and sets extensions. */

enum { RANGE_MAX = 1000000, FLATTEN_DEPTH_MAX = 100 };

/* The items of any list as an array; NULL with *failed set on failure. */
static const struct policy_value *items_of(struct eval *e, const struct node *n,
                                           const struct policy_list *list, size_t *ret_count,
                                           struct policy_value *failed)
{
    const struct array_list *array = value_array(list);
    *ret_count = policy_list_size(list);
    if (array) {
        return array->items;
    }
    struct policy_value *items;
    *failed = eval_make_list(e, n, *ret_count, &items);
    for (size_t i = 0; i < *ret_count && !value_failed(*failed); i++) {
        int code = eval_list_get(e, list, i, &items[i]);
        if (code) {
            *failed = eval_fail_code(e, n, code);
        }
    }
    return value_failed(*failed) ? NULL : items;
}

static struct policy_value list_over(struct eval *e, const struct node *n,
                                     const struct policy_value *items, size_t count)
{
    const struct policy_list *list = policy_list_build(e->arena, items, count);
    return list ? policy_list(list) : eval_out_of_memory(e, n);
}

/* Is v == one of items? A bool, or the failure. */
static struct policy_value is_among(struct eval *e, const struct node *n, struct policy_value v,
                                    const struct policy_value *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct policy_value same = eval_equal(e, n, items[i], v);
        if (value_failed(same) || same.as.truth) {
            return same;
        }
    }
    return policy_bool(false);
}

static struct policy_value distinct(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    size_t count;
    size_t kept = 0;
    struct policy_value failed;
    struct policy_value *out;
    const struct policy_value *items = items_of(e, n, args[0].as.list, &count, &failed);
    if (!items) {
        return failed;
    }
    struct policy_value made = eval_make_list(e, n, count, &out);
    for (size_t i = 0; i < count && !value_failed(made); i++) {
        struct policy_value seen = is_among(e, n, items[i], out, kept);
        if (value_failed(seen)) {
            return seen;
        }
        if (!seen.as.truth) {
            out[kept++] = items[i];
        }
    }
    return value_failed(made) ? made : list_over(e, n, out, kept);
}

/* Elements of a list after flattening, counted (out NULL) or copied; negative code on failure. */
static int flatten_into(struct eval *e, const struct policy_list *list, int64_t depth,
                        struct policy_value *out, size_t *used)
{
    size_t count = policy_list_size(list);
    for (size_t i = 0; i < count; i++) {
        struct policy_value v;
        int code = eval_charge(e, 1) ? eval_list_get(e, list, i, &v) : -POLICY_E_COST;
        if (code) {
            return code;
        }
        if (v.kind == POLICY_LIST && depth > 0) {
            code = flatten_into(e, v.as.list, depth - 1, out, used);
            if (code) {
                return code;
            }
            continue;
        }
        if (out) {
            out[*used] = v;
        }
        (*used)++;
    }
    return 0;
}

static struct policy_value flatten_to(struct eval *e, const struct node *n,
                                      struct policy_value list, int64_t depth)
{
    size_t count = 0;
    size_t used = 0;
    struct policy_value *out;
    depth = depth > FLATTEN_DEPTH_MAX ? FLATTEN_DEPTH_MAX : depth;
    int code = flatten_into(e, list.as.list, depth, NULL, &count);
    if (code) {
        return eval_fail_code(e, n, code);
    }
    struct policy_value made = eval_make_list(e, n, count, &out);
    if (value_failed(made)) {
        return made;
    }
    code = flatten_into(e, list.as.list, depth, out, &used);
    return code ? eval_fail_code(e, n, code) : made;
}

static struct policy_value flatten(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    return flatten_to(e, n, args[0], 1);
}

static struct policy_value flatten_depth(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    if (args[1].as.i < 0) {
        return eval_fail_on(e, n, POLICY_E_INVALID_ARGUMENT,
                            "a depth must not be negative:", args[1]);
    }
    return flatten_to(e, n, args[0], args[1].as.i);
}

static struct policy_value range(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    int64_t count = args[0].as.i < 0 ? 0 : args[0].as.i;
    struct policy_value *out;
    if (count > RANGE_MAX) {
        return eval_fail_on(e, n, POLICY_E_INVALID_ARGUMENT, "a range is at most 1000000 long, not",
                            args[0]);
    }
    struct policy_value made = eval_make_list(e, n, (size_t)count, &out);
    for (int64_t i = 0; i < count && !value_failed(made); i++) {
        out[i] = policy_int(i);
    }
    return made;
}

static struct policy_value reverse(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    size_t count;
    struct policy_value failed;
    struct policy_value *out;
    const struct policy_value *items = items_of(e, n, args[0].as.list, &count, &failed);
    if (!items) {
        return failed;
    }
    struct policy_value made = eval_make_list(e, n, count, &out);
    for (size_t i = 0; i < count && !value_failed(made); i++) {
        out[i] = items[count - 1 - i];
    }
    return made;
}

static struct policy_value slice(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    size_t count;
    struct policy_value failed;
    const struct policy_value *items = items_of(e, n, args[0].as.list, &count, &failed);
    int64_t from = args[1].as.i;
    int64_t to = args[2].as.i;
    if (!items) {
        return failed;
    }
    if (from < 0 || to < from || (uint64_t)to > count) {
        return eval_fail_on(e, n, POLICY_E_INDEX_RANGE, "slice() beyond the list's bounds, from",
                            args[1]);
    }
    return list_over(e, n, items + from, (size_t)(to - from));
}

static struct policy_value sort(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    size_t count;
    struct policy_value failed;
    struct policy_value *out;
    const struct policy_value *items = items_of(e, n, args[0].as.list, &count, &failed);
    if (!items) {
        return failed;
    }
    struct policy_value made = eval_make_list(e, n, count, &out);
    struct policy_entry *entries = arena_calloc(e->arena, count, sizeof *entries);
    if (value_failed(made) || !entries) {
        return value_failed(made) ? made : eval_out_of_memory(e, n);
    }
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct policy_entry){items[i], items[i]};
    }
    failed = sort_entries(e, n, entries, count);
    for (size_t i = 0; i < count && !value_failed(failed); i++) {
        out[i] = entries[i].value;
    }
    return value_failed(failed) ? failed : made;
}

static struct policy_value end_of(struct eval *e, const struct node *n,
                                  const struct policy_list *list, bool last)
{
    size_t count = policy_list_size(list);
    struct policy_value v;
    if (count == 0) {
        return (struct policy_value){.kind = POLICY_OPTIONAL};
    }
    int code = eval_list_get(e, list, last ? count - 1 : 0, &v);
    return code ? eval_fail_code(e, n, code) : eval_make_optional(e, n, v);
}

static struct policy_value first(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    return end_of(e, n, args[0].as.list, false);
}

static struct policy_value last(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    return end_of(e, n, args[0].as.list, true);
}

/* How many elements of b are in a: all of them, or (any) at least one. */
static struct policy_value membership(struct eval *e, const struct node *n, struct policy_value a,
                                      struct policy_value b, bool any)
{
    size_t count_a;
    size_t count_b;
    struct policy_value failed;
    const struct policy_value *in_a = items_of(e, n, a.as.list, &count_a, &failed);
    const struct policy_value *in_b = in_a ? items_of(e, n, b.as.list, &count_b, &failed) : NULL;
    if (!in_b) {
        return failed;
    }
    for (size_t i = 0; i < count_b; i++) {
        struct policy_value among = is_among(e, n, in_b[i], in_a, count_a);
        if (value_failed(among) || among.as.truth == any) {
            return among;
        }
    }
    return policy_bool(!any);
}

static struct policy_value contains_all(struct eval *e, const struct node *n,
                                        const struct policy_value *args)
{
    return membership(e, n, args[0], args[1], false);
}

static struct policy_value intersects(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    return membership(e, n, args[0], args[1], true);
}

static struct policy_value equivalent(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    struct policy_value there = membership(e, n, args[0], args[1], false);
    if (value_failed(there) || !there.as.truth) {
        return there;
    }
    return membership(e, n, args[1], args[0], false);
}

/* The least (sign -1) or greatest (1) element of a list. */
static struct policy_value extreme(struct eval *e, const struct node *n,
                                   const struct policy_list *list, int sign)
{
    size_t count;
    struct policy_value failed;
    const struct policy_value *items = items_of(e, n, list, &count, &failed);
    if (!items) {
        return failed;
    }
    if (count == 0) {
        return eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "the list must not be empty");
    }
    if (!eval_charge(e, count)) {
        return eval_limit(e, n);
    }
    struct policy_value best = items[0];
    for (size_t i = 0; i < count; i++) {
        int order = value_compare(items[i], best);
        if (order == ORDER_NONE || items[i].kind != items[0].kind) {
            return eval_no_overload(e, n, items[i]);
        }
        best = order == sign ? items[i] : best;
    }
    return best;
}

static struct policy_value list_min(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return extreme(e, n, args[0].as.list, -1);
}

static struct policy_value list_max(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return extreme(e, n, args[0].as.list, 1);
}

static const struct function_row list_rows[] = {
    {"distinct", FUNCTION_MEMBER, "list(A) -> list(A)", distinct},
    {"flatten", FUNCTION_MEMBER, "list(list(A)) -> list(A)", flatten},
    {"flatten", FUNCTION_MEMBER, "list(dyn) -> list(dyn)", flatten},
    {"flatten", FUNCTION_MEMBER, "list(dyn), int -> list(dyn)", flatten_depth},
    {"lists.range", 0, "int -> list(int)", range},
    {"reverse", FUNCTION_MEMBER, "list(A) -> list(A)", reverse},
    {"slice", FUNCTION_MEMBER, "list(A), int, int -> list(A)", slice},
    {"sort", FUNCTION_MEMBER, "list(int) -> list(int)", sort},
    {"sort", FUNCTION_MEMBER, "list(uint) -> list(uint)", sort},
    {"sort", FUNCTION_MEMBER, "list(double) -> list(double)", sort},
    {"sort", FUNCTION_MEMBER, "list(bool) -> list(bool)", sort},
    {"sort", FUNCTION_MEMBER, "list(string) -> list(string)", sort},
    {"sort", FUNCTION_MEMBER, "list(bytes) -> list(bytes)", sort},
    {"sort", FUNCTION_MEMBER, "list(timestamp) -> list(timestamp)", sort},
    {"sort", FUNCTION_MEMBER, "list(duration) -> list(duration)", sort},
    {"first", FUNCTION_MEMBER, "list(A) -> optional_type(A)", first},
    {"last", FUNCTION_MEMBER, "list(A) -> optional_type(A)", last},
};

const struct function_table functions_lists = {POLICY_LIB_LISTS, list_rows,
                                               sizeof list_rows / sizeof list_rows[0]};

static const struct function_row set_rows[] = {
    {"sets.contains", 0, "list(A), list(A) -> bool", contains_all},
    {"sets.equivalent", 0, "list(A), list(A) -> bool", equivalent},
    {"sets.intersects", 0, "list(A), list(A) -> bool", intersects},
};

const struct function_table functions_sets = {POLICY_LIB_SETS, set_rows,
                                              sizeof set_rows / sizeof set_rows[0]};

static const struct function_row octelium_rows[] = {
    {"hasAny", FUNCTION_MEMBER, "list(A), list(A) -> bool", intersects},
    {"hasAll", FUNCTION_MEMBER, "list(A), list(A) -> bool", contains_all},
    {"min", FUNCTION_MEMBER, "list(A) -> A", list_min},
    {"max", FUNCTION_MEMBER, "list(A) -> A", list_max},
};

const struct function_table functions_octelium_lists = {
    POLICY_LIB_OCTELIUM, octelium_rows, sizeof octelium_rows / sizeof octelium_rows[0]};
