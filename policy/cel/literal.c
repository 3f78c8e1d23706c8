#include "policy/cel/literal.h"

#include <math.h>
#include <stdlib.h>

/* Digits of INT and UINT tokens; false when they exceed 64 bits. */
static bool read_magnitude(struct str text, uint64_t *ret)
{
    uint64_t base = 10;
    size_t i = 0;
    if (text.len > 2 && text.ptr[1] == 'x') {
        base = 16;
        i = 2;
    }
    uint64_t v = 0;
    for (; i < text.len && (text.ptr[i] | 32) != 'u'; i++) {
        int c = text.ptr[i];
        uint64_t digit = (uint64_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v)) {
            return false;
        }
    }
    *ret = v;
    return true;
}

static bool read_double(struct compile *c, const struct token *t, bool negative,
                        struct policy_value *ret)
{
    char *text = arena_strndup(c->arena, t->text.ptr, t->text.len);
    if (!text) {
        compile_out_of_memory(c);
        return false;
    }
    double v = strtod(text, NULL);
    if (isinf(v)) {
        compile_fail(c, t->begin, "number too large for double");
        return false;
    }
    *ret = policy_double(negative ? -v : v);
    return true;
}

bool literal_read_number(struct compile *c, const struct token *t, bool negative,
                         struct policy_value *ret)
{
    if (t->kind == TOKEN_DOUBLE) {
        return read_double(c, t, negative, ret);
    }
    uint64_t v = 0;
    bool is_uint = t->kind == TOKEN_UINT;
    bool fits = read_magnitude(t->text, &v) && (is_uint || v <= (uint64_t)INT64_MAX + negative);
    if (!fits) {
        compile_fail(c, t->begin, "number too large for %s", is_uint ? "uint" : "int");
        return false;
    }
    *ret = is_uint ? policy_uint(v) : policy_int(negative ? (int64_t)(0 - v) : (int64_t)v);
    return true;
}
