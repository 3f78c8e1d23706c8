#include "policy/cel/eval.h"

#include <math.h>
#include <stdio.h>

#include "policy/base/utf8.h"
#include "policy/lib/net.h"
#include "policy/lib/numbers.h"
#include "policy/lib/time.h"

/* CEL language definition, "Type conversion": int(), uint(), double(), string(), bytes(),
 * bool(), timestamp(), duration(), type(), dyn(), size(). */

static struct policy_value cannot(struct eval *e, const struct node *n, struct policy_value v)
{
    const char *text = arena_printf(e->arena, "%.*s() cannot convert", STR_ARG(n->name));
    return text ? eval_fail_on(e, n, POLICY_E_CONVERSION, text, v) : eval_out_of_memory(e, n);
}

static struct policy_value too_large(struct eval *e, const struct node *n, struct policy_value v)
{
    const char *text = arena_printf(e->arena, "%.*s() cannot hold", STR_ARG(n->name));
    return text ? eval_fail_on(e, n, POLICY_E_OVERFLOW, text, v) : eval_out_of_memory(e, n);
}

static struct policy_value same(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    (void)e;
    (void)n;
    return args[0];
}

static struct policy_value int_from_uint(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    return args[0].as.u > INT64_MAX ? too_large(e, n, args[0]) : policy_int((int64_t)args[0].as.u);
}

static struct policy_value int_from_double(struct eval *e, const struct node *n,
                                           const struct policy_value *args)
{
    double d = args[0].as.d;
    return d > -0x1p63 && d < 0x1p63 ? policy_int((int64_t)d) : too_large(e, n, args[0]);
}

static struct policy_value int_from_string(struct eval *e, const struct node *n,
                                           const struct policy_value *args)
{
    int64_t v;
    return number_parse_int(policy_value_str(args[0]), &v) ? policy_int(v) : cannot(e, n, args[0]);
}

static struct policy_value int_from_time(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_int(args[0].as.i); /* whole seconds; of a duration, nanoseconds */
}

static struct policy_value uint_from_int(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    return args[0].as.i < 0 ? too_large(e, n, args[0]) : policy_uint((uint64_t)args[0].as.i);
}

static struct policy_value uint_from_double(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    double d = args[0].as.d;
    return d >= 0 && d < 0x1p64 ? policy_uint((uint64_t)d) : too_large(e, n, args[0]);
}

static struct policy_value uint_from_string(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    uint64_t v;
    return number_parse_uint(policy_value_str(args[0]), &v) ? policy_uint(v)
                                                            : cannot(e, n, args[0]);
}

static struct policy_value double_from_int(struct eval *e, const struct node *n,
                                           const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_double((double)args[0].as.i);
}

static struct policy_value double_from_uint(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_double((double)args[0].as.u);
}

static struct policy_value double_from_string(struct eval *e, const struct node *n,
                                              const struct policy_value *args)
{
    double v;
    return number_parse_double(policy_value_str(args[0]), &v) ? policy_double(v)
                                                              : cannot(e, n, args[0]);
}

static struct policy_value text_result(struct eval *e, const struct node *n, const char *text,
                                       size_t len)
{
    char *copy = eval_alloc(e, len);
    if (!copy) {
        return eval_alloc_failed(e, n);
    }
    memcpy(copy, text, len);
    return eval_take_text(POLICY_STRING, copy, len);
}

static struct policy_value string_from_number(struct eval *e, const struct node *n,
                                              const struct policy_value *args)
{
    char text[NUMBER_TEXT_MAX];
    size_t len;
    if (args[0].kind == POLICY_DOUBLE) {
        len = number_format_double(args[0].as.d, text);
    } else if (args[0].kind == POLICY_INT) {
        len = (size_t)snprintf(text, sizeof text, "%lld", (long long)args[0].as.i);
    } else {
        len = (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)args[0].as.u);
    }
    return text_result(e, n, text, len);
}

static struct policy_value string_from_bool(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_cstring(args[0].as.truth ? "true" : "false");
}

static struct policy_value string_from_bytes(struct eval *e, const struct node *n,
                                             const struct policy_value *args)
{
    if (!eval_charge(e, eval_text_cost(args[0].len))) {
        return eval_limit(e, n);
    }
    if (!utf8_is_valid(policy_value_str(args[0]))) {
        return eval_fail(e, n, POLICY_E_CONVERSION, "string() of bytes that are not valid UTF-8");
    }
    return policy_string(policy_value_str(args[0]));
}

static struct policy_value string_from_time(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    char text[TIME_TEXT_MAX];
    size_t len = args[0].kind == POLICY_TIMESTAMP ? time_format_timestamp(args[0], text)
                                                  : time_format_duration(args[0], text);
    return text_result(e, n, text, len);
}

static struct policy_value bytes_from_string(struct eval *e, const struct node *n,
                                             const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_bytes(policy_value_str(args[0]));
}

static struct policy_value bool_from_string(struct eval *e, const struct node *n,
                                            const struct policy_value *args)
{
    static const char *const words[2][5] = {{"0", "f", "false", "FALSE", "False"},
                                            {"1", "t", "true", "TRUE", "True"}};
    for (size_t truth = 0; truth < 2; truth++) {
        for (size_t i = 0; i < 5; i++) {
            if (str_is(policy_value_str(args[0]), words[truth][i])) {
                return policy_bool(truth == 1);
            }
        }
    }
    return cannot(e, n, args[0]);
}

static struct policy_value type_of(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    (void)e;
    (void)n;
    struct policy_value v = policy_cstring(policy_kind_name(args[0].kind));
    v.kind = POLICY_TYPE;
    return v;
}

static struct policy_value size_of(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    switch (args[0].kind) {
    case POLICY_STRING:
        if (!eval_charge(e, eval_text_cost(args[0].len))) {
            return eval_limit(e, n);
        }
        return policy_int((int64_t)utf8_count(policy_value_str(args[0])));
    case POLICY_BYTES:
        return policy_int((int64_t)args[0].len);
    case POLICY_LIST:
        return policy_int((int64_t)policy_list_size(args[0].as.list));
    default:
        return policy_int((int64_t)policy_map_size(args[0].as.map));
    }
}

static const struct function_row rows[] = {
    {"int", 0, "int -> int", same},
    {"int", 0, "uint -> int", int_from_uint},
    {"int", 0, "double -> int", int_from_double},
    {"int", 0, "string -> int", int_from_string},
    {"int", 0, "timestamp -> int", int_from_time},
    {"int", 0, "duration -> int", int_from_time},
    {"uint", 0, "uint -> uint", same},
    {"uint", 0, "int -> uint", uint_from_int},
    {"uint", 0, "double -> uint", uint_from_double},
    {"uint", 0, "string -> uint", uint_from_string},
    {"double", 0, "double -> double", same},
    {"double", 0, "int -> double", double_from_int},
    {"double", 0, "uint -> double", double_from_uint},
    {"double", 0, "string -> double", double_from_string},
    {"string", 0, "string -> string", same},
    {"string", 0, "int -> string", string_from_number},
    {"string", 0, "uint -> string", string_from_number},
    {"string", 0, "double -> string", string_from_number},
    {"string", 0, "bool -> string", string_from_bool},
    {"string", 0, "bytes -> string", string_from_bytes},
    {"string", 0, "timestamp -> string", string_from_time},
    {"string", 0, "duration -> string", string_from_time},
    {"bytes", 0, "bytes -> bytes", same},
    {"bytes", 0, "string -> bytes", bytes_from_string},
    {"bool", 0, "bool -> bool", same},
    {"bool", 0, "string -> bool", bool_from_string},
    {"dyn", 0, "A -> dyn", same},
    {"type", 0, "A -> type(A)", type_of},
    {"size", 0, "string -> int", size_of},
    {"size", 0, "bytes -> int", size_of},
    {"size", 0, "list(A) -> int", size_of},
    {"size", 0, "map(A, B) -> int", size_of},
    {"size", FUNCTION_MEMBER, "string -> int", size_of},
    {"size", FUNCTION_MEMBER, "bytes -> int", size_of},
    {"size", FUNCTION_MEMBER, "list(A) -> int", size_of},
    {"size", FUNCTION_MEMBER, "map(A, B) -> int", size_of},
};

const struct function_table functions_conversions = {0, rows, sizeof rows / sizeof rows[0]};
