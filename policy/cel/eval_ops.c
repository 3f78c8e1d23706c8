#include "policy/cel/eval.h"

#include "policy/lib/time.h"

static struct policy_value overflow(struct eval *e, const struct node *n)
{
    return eval_fail(e, n, POLICY_E_OVERFLOW, "the number does not fit 64 bits");
}

static struct policy_value by_zero(struct eval *e, const struct node *n)
{
    return eval_fail(e, n, POLICY_E_DIVIDE_BY_ZERO, "division by zero");
}

static struct policy_value int_op(struct eval *e, const struct node *n, uint8_t op, int64_t l,
                                  int64_t r)
{
    int64_t v;
    switch (op) {
    case OP_ADD:
        return __builtin_add_overflow(l, r, &v) ? overflow(e, n) : policy_int(v);
    case OP_SUB:
        return __builtin_sub_overflow(l, r, &v) ? overflow(e, n) : policy_int(v);
    case OP_MUL:
        return __builtin_mul_overflow(l, r, &v) ? overflow(e, n) : policy_int(v);
    default:
        break;
    }
    if (r == 0) {
        return by_zero(e, n);
    }
    if (l == INT64_MIN && r == -1) {
        return overflow(e, n);
    }
    return policy_int(op == OP_DIV ? l / r : l % r);
}

static struct policy_value uint_op(struct eval *e, const struct node *n, uint8_t op, uint64_t l,
                                   uint64_t r)
{
    uint64_t v;
    switch (op) {
    case OP_ADD:
        return __builtin_add_overflow(l, r, &v) ? overflow(e, n) : policy_uint(v);
    case OP_SUB:
        return __builtin_sub_overflow(l, r, &v) ? overflow(e, n) : policy_uint(v);
    case OP_MUL:
        return __builtin_mul_overflow(l, r, &v) ? overflow(e, n) : policy_uint(v);
    default:
        break;
    }
    if (r == 0) {
        return by_zero(e, n);
    }
    return policy_uint(op == OP_DIV ? l / r : l % r);
}

static double double_op(uint8_t op, double l, double r)
{
    switch (op) {
    case OP_ADD:
        return l + r;
    case OP_SUB:
        return l - r;
    case OP_MUL:
        return l * r;
    default:
        return l / r;
    }
}

static struct policy_value concat_text(struct eval *e, const struct node *n, struct policy_value l,
                                       struct policy_value r)
{
    size_t len = (size_t)l.len + r.len;
    if (len > UINT32_MAX) {
        return eval_out_of_memory(e, n);
    }
    if (!eval_charge(e, eval_text_cost(len))) {
        return eval_limit(e, n);
    }
    char *out = arena_alloc(e->arena, len);
    if (!out) {
        return eval_out_of_memory(e, n);
    }
    if (l.len > 0) {
        memcpy(out, l.as.text, l.len);
    }
    if (r.len > 0) {
        memcpy(out + l.len, r.as.text, r.len);
    }
    return eval_take_text(l.kind, out, len);
}

static struct policy_value concat_lists(struct eval *e, const struct node *n,
                                        const struct policy_list *l, const struct policy_list *r)
{
    size_t left = policy_list_size(l);
    size_t right = policy_list_size(r);
    struct policy_value *items;
    struct policy_value list = eval_make_list(e, n, left + right, &items);
    for (size_t i = 0; i < left + right && !value_failed(list); i++) {
        int code =
            i < left ? eval_list_get(e, l, i, &items[i]) : eval_list_get(e, r, i - left, &items[i]);
        if (code) {
            return eval_fail_code(e, n, code);
        }
    }
    return list;
}

static struct policy_value arithmetic(struct eval *e, const struct node *n, uint8_t op,
                                      struct policy_value l, struct policy_value r)
{
    if (l.kind == POLICY_TIMESTAMP || l.kind == POLICY_DURATION) {
        return time_arithmetic(e, n, op, l, r);
    }
    if (l.kind != r.kind) {
        return eval_no_overload(e, n, r);
    }
    switch (l.kind) {
    case POLICY_INT:
        return int_op(e, n, op, l.as.i, r.as.i);
    case POLICY_UINT:
        return uint_op(e, n, op, l.as.u, r.as.u);
    case POLICY_DOUBLE:
        return op == OP_MOD ? eval_no_overload(e, n, l)
                            : policy_double(double_op(op, l.as.d, r.as.d));
    case POLICY_STRING:
    case POLICY_BYTES:
        return op == OP_ADD ? concat_text(e, n, l, r) : eval_no_overload(e, n, l);
    case POLICY_LIST:
        return op == OP_ADD ? concat_lists(e, n, l.as.list, r.as.list) : eval_no_overload(e, n, l);
    default:
        return eval_no_overload(e, n, l);
    }
}

struct policy_value eval_equal(struct eval *e, const struct node *n, struct policy_value l,
                               struct policy_value r)
{
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    /* The comparison draws on all that is left, in one go. */
    uint64_t all = e->cost_left + (uint64_t)e->fuel;
    int64_t fuel = all > INT64_MAX ? INT64_MAX : (int64_t)all;
    int64_t before = fuel;
    int same = value_equal(l, r, e->arena, &fuel);
    if (same < 0) {
        if (same == -POLICY_E_COST) {
            e->fuel = 0;
            e->cost_left = 0;
        }
        return eval_fail_code(e, n, same);
    }
    if (!eval_charge(e, (uint64_t)(before - fuel))) {
        return eval_limit(e, n);
    }
    return policy_bool(same == 1);
}

/* A text and an item of a list: a text equals nothing but texts. 1, 0, or negative when the budget
 * is used up. */
static inline int text_is_item(struct eval *e, struct policy_value text,
                               const struct policy_value *item)
{
    bool is_text = item->kind == POLICY_STRING;
    uint32_t len = is_text && item->len < text.len ? item->len : text.len;
    if (!eval_charge(e, is_text ? eval_text_cost(len) : 1)) {
        return -1;
    }
    return is_text && item->len == text.len &&
           str_same_bytes(item->as.text, text.as.text, text.len);
}

static struct policy_value text_in_list(struct eval *e, const struct node *n,
                                        struct policy_value text, const struct policy_list *list)
{
    const struct array_list *array = value_array(list);
    size_t count = array ? array->count : policy_list_size(list);
    int same = 0;
    for (size_t i = 0; i < count && same == 0; i++) {
        struct policy_value item;
        int code = array ? 0 : eval_list_get(e, list, i, &item);
        if (code) {
            return eval_fail_code(e, n, code);
        }
        same = text_is_item(e, text, array ? &array->items[i] : &item);
    }
    return same < 0 ? eval_limit(e, n) : policy_bool(same);
}

struct policy_value eval_in(struct eval *e, const struct node *n, struct policy_value item,
                            struct policy_value container)
{
    struct policy_value found_value;
    if (container.kind == POLICY_MAP) {
        int found = item.kind == POLICY_STRING
                        ? value_map_get_name(container.as.map, item, e->arena, &found_value)
                        : policy_map_get(container.as.map, item, e->arena, &found_value);
        return found < 0 ? eval_fail_code(e, n, value_input_error(found)) : policy_bool(found == 1);
    }
    if (container.kind != POLICY_LIST) {
        return eval_no_overload(e, n, container);
    }
    if (item.kind == POLICY_STRING) {
        return text_in_list(e, n, item, container.as.list);
    }
    size_t count = policy_list_size(container.as.list);
    for (size_t i = 0; i < count; i++) {
        int code = eval_list_get(e, container.as.list, i, &found_value);
        if (code) {
            return eval_fail_code(e, n, code);
        }
        struct policy_value same = eval_equal(e, n, item, found_value);
        if (value_failed(same) || same.as.truth) {
            return same;
        }
    }
    return policy_bool(false);
}

static struct policy_value as_double(struct policy_value v)
{
    return v.kind == POLICY_INT    ? policy_double((double)v.as.i)
           : v.kind == POLICY_UINT ? policy_double((double)v.as.u)
                                   : v;
}

/* `<` between a double and an integer compares as doubles, which the conformance tests fix at the
 * edge of int64 (9223372036854775808.0 <= 9223372036854775807); == stays exact. */
static int order_of(struct policy_value l, struct policy_value r)
{
    if (value_is_number(l) && value_is_number(r) && l.kind != r.kind &&
        (l.kind == POLICY_DOUBLE || r.kind == POLICY_DOUBLE)) {
        return value_compare_numbers(as_double(l), as_double(r));
    }
    return value_compare(l, r);
}

static struct policy_value order(struct eval *e, const struct node *n, uint8_t op,
                                 struct policy_value l, struct policy_value r)
{
    if ((l.kind == POLICY_STRING || l.kind == POLICY_BYTES) &&
        !eval_charge(e, eval_text_cost(l.len < r.len ? l.len : r.len))) {
        return eval_limit(e, n);
    }
    int o = order_of(l, r);
    if (o == ORDER_NONE) {
        return eval_no_overload(e, n, l.kind == r.kind ? l : r);
    }
    if (o == ORDER_NAN) {
        return eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "NaN has no order");
    }
    switch (op) {
    case OP_LT:
        return policy_bool(o < 0);
    case OP_LE:
        return policy_bool(o <= 0);
    case OP_GT:
        return policy_bool(o > 0);
    default:
        return policy_bool(o >= 0);
    }
}

struct policy_value eval_binary_op(struct eval *e, const struct node *n, uint8_t op,
                                   struct policy_value l, struct policy_value r)
{
    struct policy_value same;
    switch (op) {
    case OP_EQ:
        return eval_equal(e, n, l, r);
    case OP_NE:
        same = eval_equal(e, n, l, r);
        return value_failed(same) ? same : policy_bool(!same.as.truth);
    case OP_IN:
        return eval_in(e, n, l, r);
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return order(e, n, op, l, r);
    default:
        return arithmetic(e, n, op, l, r);
    }
}

struct policy_value eval_negate(struct eval *e, const struct node *n, struct policy_value v)
{
    if (v.kind == POLICY_INT) {
        return v.as.i == INT64_MIN ? overflow(e, n) : policy_int(-v.as.i);
    }
    return v.kind == POLICY_DOUBLE ? policy_double(-v.as.d) : eval_no_overload(e, n, v);
}

static const struct function_row rows[] = {
    {"!_", 0, "bool -> bool", NULL},
    {"-_", 0, "int -> int", NULL},
    {"-_", 0, "double -> double", NULL},
    {"_+_", 0, "int, int -> int", NULL},
    {"_+_", 0, "uint, uint -> uint", NULL},
    {"_+_", 0, "double, double -> double", NULL},
    {"_+_", 0, "string, string -> string", NULL},
    {"_+_", 0, "bytes, bytes -> bytes", NULL},
    {"_+_", 0, "list(A), list(A) -> list(A)", NULL},
    {"_+_", 0, "timestamp, duration -> timestamp", NULL},
    {"_+_", 0, "duration, timestamp -> timestamp", NULL},
    {"_+_", 0, "duration, duration -> duration", NULL},
    {"_-_", 0, "int, int -> int", NULL},
    {"_-_", 0, "uint, uint -> uint", NULL},
    {"_-_", 0, "double, double -> double", NULL},
    {"_-_", 0, "timestamp, timestamp -> duration", NULL},
    {"_-_", 0, "timestamp, duration -> timestamp", NULL},
    {"_-_", 0, "duration, duration -> duration", NULL},
    {"_*_", 0, "int, int -> int", NULL},
    {"_*_", 0, "uint, uint -> uint", NULL},
    {"_*_", 0, "double, double -> double", NULL},
    {"_/_", 0, "int, int -> int", NULL},
    {"_/_", 0, "uint, uint -> uint", NULL},
    {"_/_", 0, "double, double -> double", NULL},
    {"_%_", 0, "int, int -> int", NULL},
    {"_%_", 0, "uint, uint -> uint", NULL},
    {"_==_", 0, "A, A -> bool", NULL},
    {"_!=_", 0, "A, A -> bool", NULL},
    {"@in", 0, "A, list(A) -> bool", NULL},
    {"@in", 0, "A, map(A, B) -> bool", NULL},
    {"_?_:_", 0, "bool, A, A -> A", NULL},
#define ORDER_ROWS(op)                                                                             \
    {op, 0, "bool, bool -> bool", NULL}, {op, 0, "int, int -> bool", NULL},                        \
        {op, 0, "uint, uint -> bool", NULL}, {op, 0, "double, double -> bool", NULL},              \
        {op, 0, "string, string -> bool", NULL}, {op, 0, "bytes, bytes -> bool", NULL},            \
        {op, 0, "timestamp, timestamp -> bool", NULL},                                             \
    {                                                                                              \
        op, 0, "duration, duration -> bool", NULL                                                  \
    }
    ORDER_ROWS("_<_"),
    ORDER_ROWS("_<=_"),
    ORDER_ROWS("_>_"),
    ORDER_ROWS("_>=_"),
};

const struct function_table functions_operators = {0, rows, sizeof rows / sizeof rows[0]};
