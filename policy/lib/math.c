#include "policy/cel/eval.h"

#include <math.h>

/* The math extension. */

#define UNUSED_CALL                                                                                \
    (void)e;                                                                                       \
    (void)n

static struct policy_value first_arg(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    UNUSED_CALL;
    return args[0];
}

/* greatest (sign 1) or least (sign -1) of a list of numbers; the first of equals wins. */
static struct policy_value extreme(struct eval *e, const struct node *n,
                                   const struct policy_list *list, int sign)
{
    size_t count = policy_list_size(list);
    struct policy_value best = policy_absent();
    if (!eval_charge(e, count)) {
        return eval_limit(e, n);
    }
    for (size_t i = 0; i < count; i++) {
        struct policy_value v;
        int code = eval_list_get(e, list, i, &v);
        if (code) {
            return eval_fail_code(e, n, code);
        }
        if (!value_is_number(v)) {
            return eval_no_overload(e, n, v);
        }
        if (i == 0 || value_compare_numbers(v, best) == sign) {
            best = v;
        }
    }
    return count > 0 ? best
                     : eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "the list must not be empty");
}

static struct policy_value greatest(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return extreme(e, n, args[0].as.list, 1);
}

static struct policy_value least(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    return extreme(e, n, args[0].as.list, -1);
}

static struct policy_value math_ceil(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_double(ceil(args[0].as.d));
}

static struct policy_value math_floor(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_double(floor(args[0].as.d));
}

static struct policy_value math_round(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_double(round(args[0].as.d));
}

static struct policy_value math_trunc(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_double(trunc(args[0].as.d));
}

static struct policy_value math_abs(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    struct policy_value v = args[0];
    if (v.kind == POLICY_DOUBLE) {
        return policy_double(fabs(v.as.d));
    }
    return v.kind == POLICY_INT && v.as.i < 0 ? eval_negate(e, n, v) : v;
}

static struct policy_value math_sign(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    UNUSED_CALL;
    struct policy_value v = args[0];
    if (v.kind == POLICY_INT) {
        return policy_int((v.as.i > 0) - (v.as.i < 0));
    }
    if (v.kind == POLICY_UINT) {
        return policy_uint(v.as.u > 0);
    }
    return isnan(v.as.d) ? v : policy_double((v.as.d > 0) - (v.as.d < 0));
}

static struct policy_value math_is_inf(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_bool(isinf(args[0].as.d));
}

static struct policy_value math_is_nan(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_bool(isnan(args[0].as.d));
}

static struct policy_value math_is_finite(struct eval *e, const struct node *n,
                                          const struct policy_value *args)
{
    UNUSED_CALL;
    return policy_bool(isfinite(args[0].as.d));
}

static struct policy_value math_sqrt(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    UNUSED_CALL;
    struct policy_value v = args[0];
    double d = v.kind == POLICY_INT    ? (double)v.as.i
               : v.kind == POLICY_UINT ? (double)v.as.u
                                       : v.as.d;
    return policy_double(sqrt(d));
}

/* Bits of int and uint alike; the result has the kind of the first argument. */
static struct policy_value with_bits(struct policy_value v, uint64_t bits)
{
    v.as.u = bits;
    return v;
}

static struct policy_value bit_and(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    UNUSED_CALL;
    return with_bits(args[0], args[0].as.u & args[1].as.u);
}

static struct policy_value bit_or(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    UNUSED_CALL;
    return with_bits(args[0], args[0].as.u | args[1].as.u);
}

static struct policy_value bit_xor(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    UNUSED_CALL;
    return with_bits(args[0], args[0].as.u ^ args[1].as.u);
}

static struct policy_value bit_not(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    UNUSED_CALL;
    return with_bits(args[0], ~args[0].as.u);
}

static struct policy_value shift(struct eval *e, const struct node *n,
                                 const struct policy_value *args, bool left)
{
    int64_t by = args[1].as.i;
    if (by < 0) {
        return eval_fail_on(e, n, POLICY_E_INVALID_ARGUMENT,
                            "a shift must not be negative:", args[1]);
    }
    uint64_t bits = by >= 64 ? 0 : left ? args[0].as.u << by : args[0].as.u >> by;
    return with_bits(args[0], bits);
}

static struct policy_value shift_left(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    return shift(e, n, args, true);
}

static struct policy_value shift_right(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    return shift(e, n, args, false);
}

static const struct function_row rows[] = {
    {"math.greatest", 0, "int -> int", first_arg},
    {"math.greatest", 0, "uint -> uint", first_arg},
    {"math.greatest", 0, "double -> double", first_arg},
    {"math.greatest", 0, "list(int) -> int", greatest},
    {"math.greatest", 0, "list(uint) -> uint", greatest},
    {"math.greatest", 0, "list(double) -> double", greatest},
    {"math.greatest", 0, "list(dyn) -> dyn", greatest},
    {"math.least", 0, "int -> int", first_arg},
    {"math.least", 0, "uint -> uint", first_arg},
    {"math.least", 0, "double -> double", first_arg},
    {"math.least", 0, "list(int) -> int", least},
    {"math.least", 0, "list(uint) -> uint", least},
    {"math.least", 0, "list(double) -> double", least},
    {"math.least", 0, "list(dyn) -> dyn", least},
    {"math.ceil", 0, "double -> double", math_ceil},
    {"math.floor", 0, "double -> double", math_floor},
    {"math.round", 0, "double -> double", math_round},
    {"math.trunc", 0, "double -> double", math_trunc},
    {"math.abs", 0, "int -> int", math_abs},
    {"math.abs", 0, "uint -> uint", math_abs},
    {"math.abs", 0, "double -> double", math_abs},
    {"math.sign", 0, "int -> int", math_sign},
    {"math.sign", 0, "uint -> uint", math_sign},
    {"math.sign", 0, "double -> double", math_sign},
    {"math.isInf", 0, "double -> bool", math_is_inf},
    {"math.isNaN", 0, "double -> bool", math_is_nan},
    {"math.isFinite", 0, "double -> bool", math_is_finite},
    {"math.sqrt", 0, "int -> double", math_sqrt},
    {"math.sqrt", 0, "uint -> double", math_sqrt},
    {"math.sqrt", 0, "double -> double", math_sqrt},
    {"math.bitAnd", 0, "int, int -> int", bit_and},
    {"math.bitAnd", 0, "uint, uint -> uint", bit_and},
    {"math.bitOr", 0, "int, int -> int", bit_or},
    {"math.bitOr", 0, "uint, uint -> uint", bit_or},
    {"math.bitXor", 0, "int, int -> int", bit_xor},
    {"math.bitXor", 0, "uint, uint -> uint", bit_xor},
    {"math.bitNot", 0, "int -> int", bit_not},
    {"math.bitNot", 0, "uint -> uint", bit_not},
    {"math.bitShiftLeft", 0, "int, int -> int", shift_left},
    {"math.bitShiftLeft", 0, "uint, int -> uint", shift_left},
    {"math.bitShiftRight", 0, "int, int -> int", shift_right},
    {"math.bitShiftRight", 0, "uint, int -> uint", shift_right},
};

const struct function_table functions_math = {POLICY_LIB_MATH, rows, sizeof rows / sizeof rows[0]};
