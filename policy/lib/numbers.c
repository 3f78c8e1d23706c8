#include "policy/lib/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS_MAX = 20, EXPONENT_FROM = 6, EXPONENT_BELOW = -4, DOUBLE_TEXT_MAX = 1100 };

/* value = 0.d1d2d3... times 10 to the power of exponent + 1 */
struct digits {
    char text[DIGITS_MAX];
    int count;
    int exponent;
};

/* 15 digits are always exact, 17 always suffice (IEEE 754). */
static struct digits shortest_digits(double d)
{
    char text[40];
    struct digits out = {.count = 0};
    for (int precision = 14; precision <= 16; precision++) {
        (void)snprintf(text, sizeof text, "%.*e", precision, d);
        if (strtod(text, NULL) == d) {
            break;
        }
    }
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9' && out.count < DIGITS_MAX) {
            out.text[out.count++] = *p;
        }
    }
    out.exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (out.count > 1 && out.text[out.count - 1] == '0') {
        out.count--;
    }
    return out;
}

static size_t copy_word(const char *word, char *out)
{
    size_t n = strlen(word);
    memcpy(out, word, n);
    return n;
}

static size_t write_plain(struct digits s, char *out)
{
    size_t len = 0;
    if (s.exponent < 0) {
        out[len++] = '0';
        out[len++] = '.';
        for (int i = -1; i > s.exponent; i--) {
            out[len++] = '0';
        }
    }
    for (int i = 0; i < s.count || i <= s.exponent; i++) {
        if (i > 0 && i == s.exponent + 1) {
            out[len++] = '.';
        }
        out[len++] = i < s.count ? s.text[i] : '0';
    }
    return len;
}

static size_t write_exponent(struct digits s, char *out)
{
    size_t len = 0;
    out[len++] = s.text[0];
    if (s.count > 1) {
        out[len++] = '.';
    }
    for (int i = 1; i < s.count; i++) {
        out[len++] = s.text[i];
    }
    char exponent[16];
    (void)snprintf(exponent, sizeof exponent, "e%+03d", s.exponent);
    return len + copy_word(exponent, out + len);
}

static size_t format(double d, const char *infinity, bool may_have_exponent, char *out)
{
    if (isnan(d)) {
        return copy_word("NaN", out);
    }
    size_t len = 0;
    if (signbit(d)) {
        out[len++] = '-';
    }
    if (isinf(d)) {
        return len + copy_word(infinity, out + len);
    }
    struct digits s = shortest_digits(fabs(d));
    if (may_have_exponent && d != 0 &&
        (s.exponent < EXPONENT_BELOW || s.exponent >= EXPONENT_FROM)) {
        return len + write_exponent(s, out + len);
    }
    return len + write_plain(s, out + len);
}

size_t number_format_double(double d, char out[NUMBER_TEXT_MAX])
{
    return format(d, signbit(d) ? "Inf" : "+Inf", true, out);
}

size_t number_format_plain(double d, char out[NUMBER_PLAIN_MAX])
{
    return format(d, "Infinity", false, out);
}

static bool parse_digits(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.ptr[i] - '0'), &v)) {
            return false;
        }
    }
    *ret = v;
    return true;
}

bool number_parse_uint(struct str s, uint64_t *ret)
{
    return parse_digits(s, ret);
}

bool number_parse_int(struct str s, int64_t *ret)
{
    uint64_t v;
    bool negative = s.len > 0 && s.ptr[0] == '-';
    if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
        s = str_make(s.ptr + 1, s.len - 1);
    }
    if (!parse_digits(s, &v) || v > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static bool is_word(const char *text, const char *word)
{
    size_t i = 0;
    for (; word[i]; i++) {
        if ((text[i] | 32) != word[i]) {
            return false;
        }
    }
    return text[i] == '\0';
}

/* digits, point, digits, exponent: at least one digit before the exponent. */
static bool is_decimal(const char *p)
{
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        digits++;
    }
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            digits++;
        }
    }
    if (digits == 0) {
        return false;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') {
            p++;
        }
        if (*p < '0' || *p > '9') {
            return false;
        }
        while (*p >= '0' && *p <= '9') {
            p++;
        }
    }
    return *p == '\0';
}

bool number_parse_double(struct str s, double *ret)
{
    char text[DOUBLE_TEXT_MAX];
    if (s.len == 0 || s.len >= sizeof text || str_has_nul(s)) {
        return false;
    }
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    const char *p = text + (text[0] == '+' || text[0] == '-');
    bool negative = text[0] == '-';
    if (is_word(p, "nan")) {
        *ret = NAN;
        return true;
    }
    if (is_word(p, "inf") || is_word(p, "infinity")) {
        *ret = negative ? -INFINITY : INFINITY;
        return true;
    }
    if (!is_decimal(p)) {
        return false;
    }
    double v = strtod(text, NULL);
    if (isinf(v)) {
        return false;
    }
    *ret = v;
    return true;
}
