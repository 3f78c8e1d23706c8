#include "gateway/rpc/codec_scalar.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/text/tree.h"

enum { NUMBER_TEXT_MAX = 512 }; /* longer numbers are nobody's */

static const int64_t timestamp_seconds_min = -62135596800; /* 0001-01-01 */
static const int64_t timestamp_seconds_max = 253402300799; /* 9999-12-31 23:59:59 */
static const int64_t duration_seconds_max = 315576000000;  /* google/protobuf/duration.proto */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool digits_only(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i])) {
            return false;
        }
    }
    return s.len > 0;
}

/* strtod on a copy; the process runs in the C locale. */
static bool read_finite(struct str text, double *ret)
{
    char copy[NUMBER_TEXT_MAX];
    if (text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    double v = strtod(copy, NULL);
    if (!isfinite(v)) {
        return false;
    }
    *ret = v;
    return true;
}

/* The magnitude of a number text without its sign. */
static bool read_magnitude(struct str digits, uint64_t *ret)
{
    if (digits_only(digits)) {
        uint64_t v = 0;
        for (size_t i = 0; i < digits.len; i++) {
            uint64_t digit = (uint64_t)(digits.ptr[i] - '0');
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v)) {
                return false;
            }
        }
        *ret = v;
        return true;
    }
    double v;
    /* Beyond 2^53 a fraction or exponent could not be told from its neighbours. */
    if (!read_finite(digits, &v) || v != floor(v) || v > 9007199254740992.0) {
        return false;
    }
    *ret = (uint64_t)v;
    return true;
}

bool scalar_read_i64(struct str text, int64_t *ret)
{
    if (!tree_text_is_number(text)) {
        return false;
    }
    bool is_negative = text.ptr[0] == '-';
    struct str digits = {text.ptr + is_negative, text.len - is_negative};
    uint64_t v;
    if (!read_magnitude(digits, &v) || v > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *ret = is_negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool scalar_read_u64(struct str text, uint64_t *ret)
{
    if (!tree_text_is_number(text)) {
        return false;
    }
    bool is_negative = text.ptr[0] == '-';
    struct str digits = {text.ptr + is_negative, text.len - is_negative};
    uint64_t v;
    if (!read_magnitude(digits, &v) || (is_negative && v > 0)) {
        return false;
    }
    *ret = v;
    return true;
}

bool scalar_read_double(struct str text, double *ret)
{
    if (str_is(text, "NaN")) {
        *ret = NAN;
        return true;
    }
    if (str_is(text, "Infinity") || str_is(text, "-Infinity")) {
        *ret = text.ptr[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    return tree_text_is_number(text) && read_finite(text, ret);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (is_digit(c)) {
        return c - '0' + 52;
    }
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bool scalar_read_base64(struct str text, struct arena *arena, uint8_t **ret, size_t *ret_len)
{
    size_t len = text.len;
    for (int i = 0; i < 2 && len > 0 && text.ptr[len - 1] == '='; i++) {
        len--;
    }
    if (len % 4 == 1 || (len != text.len && text.len % 4 != 0)) {
        return false;
    }
    uint8_t *bytes = arena_alloc(arena, len / 4 * 3 + 3);
    if (!bytes) {
        return false;
    }
    size_t n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < len; i++) {
        int v = base64_value(text.ptr[i]);
        if (v < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 != 0) {
            bytes[n++] = (uint8_t)(bits >> (2 * (3 - i % 4)));
        }
    }
    *ret = n > 0 ? bytes : NULL;
    *ret_len = n;
    return true;
}

void scalar_write_base64(struct buf *out, const uint8_t *bytes, size_t len)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *to = buf_reserve(out, (len + 2) / 3 * 4);
    if (!to) {
        return;
    }
    uint8_t *w = to;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        *w++ = (uint8_t)alphabet[v >> 18];
        *w++ = (uint8_t)alphabet[v >> 12 & 63];
        *w++ = (uint8_t)(left > 1 ? alphabet[v >> 6 & 63] : '=');
        *w++ = (uint8_t)(left > 2 ? alphabet[v & 63] : '=');
    }
    out->len += (size_t)(w - to);
}

/* Exactly `digits` digits at the cursor. */
static bool take_number(struct str *s, size_t digits, int *ret)
{
    int v = 0;
    if (s->len < digits || !digits_only((struct str){s->ptr, digits})) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        v = v * 10 + (s->ptr[i] - '0');
    }
    *s = (struct str){s->ptr + digits, s->len - digits};
    *ret = v;
    return true;
}

static bool take_char(struct str *s, const char *any_of)
{
    if (s->len == 0 || s->ptr[0] == '\0' || !strchr(any_of, s->ptr[0])) {
        return false;
    }
    *s = (struct str){s->ptr + 1, s->len - 1};
    return true;
}

/* Nothing, or '.' and 1 to 9 digits. */
static bool take_fraction(struct str *s, int32_t *ret_nanos)
{
    *ret_nanos = 0;
    if (!take_char(s, ".")) {
        return true;
    }
    int32_t scale = 100000000;
    size_t n = 0;
    for (; n < s->len && is_digit(s->ptr[n]); n++) {
        if (n == 9) {
            return false;
        }
        *ret_nanos += (s->ptr[n] - '0') * scale;
        scale /= 10;
    }
    *s = (struct str){s->ptr + n, s->len - n};
    return n > 0;
}

/* Days from 1970-01-01 in the Gregorian calendar: years are taken to begin in March, so that
 * the day that leaps is the last one, and 400 years always have 146097 days. */
static int64_t days_from_date(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static bool date_is_valid(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    bool leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + (month == 2 && leaps);
}

static bool take_offset(struct str *s, int *ret_seconds)
{
    *ret_seconds = 0;
    if (take_char(s, "Zz")) {
        return true;
    }
    bool is_west = s->len > 0 && s->ptr[0] == '-';
    int hours;
    int minutes;
    if (!take_char(s, "+-") || !take_number(s, 2, &hours) || !take_char(s, ":") ||
        !take_number(s, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ret_seconds = (hours * 3600 + minutes * 60) * (is_west ? -1 : 1);
    return true;
}

bool scalar_read_timestamp(struct str text, int64_t *ret_seconds, int32_t *ret_nanos)
{
    int year, month, day, hour, minute, second, offset;
    int32_t nanos;
    struct str s = text;
    if (!take_number(&s, 4, &year) || !take_char(&s, "-") || !take_number(&s, 2, &month) ||
        !take_char(&s, "-") || !take_number(&s, 2, &day) || !take_char(&s, "Tt") ||
        !take_number(&s, 2, &hour) || !take_char(&s, ":") || !take_number(&s, 2, &minute) ||
        !take_char(&s, ":") || !take_number(&s, 2, &second) || !take_fraction(&s, &nanos) ||
        !take_offset(&s, &offset) || s.len > 0) {
        return false;
    }
    if (!date_is_valid(year, month, day) || hour > 23 || minute > 59 || second > 59) {
        return false;
    }
    int64_t seconds =
        days_from_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    if (seconds < timestamp_seconds_min || seconds > timestamp_seconds_max) {
        return false;
    }
    *ret_seconds = seconds;
    *ret_nanos = nanos;
    return true;
}

static void write_fraction(struct buf *out, int32_t nanos)
{
    if (nanos == 0) {
        return;
    }
    if (nanos % 1000000 == 0) {
        buf_printf(out, ".%03d", nanos / 1000000);
    } else if (nanos % 1000 == 0) {
        buf_printf(out, ".%06d", nanos / 1000);
    } else {
        buf_printf(out, ".%09d", nanos);
    }
}

bool scalar_write_timestamp(struct buf *out, int64_t seconds, int32_t nanos)
{
    if (seconds < timestamp_seconds_min || seconds > timestamp_seconds_max || nanos < 0 ||
        nanos > 999999999) {
        return false;
    }
    /* The inverse of days_from_date(). */
    int64_t days = (seconds - timestamp_seconds_min) / 86400 + timestamp_seconds_min / 86400;
    int64_t second_of_day = seconds - days * 86400;
    int64_t z = days + 719468;
    int64_t era = z / 146097; /* z >= 0: year 1 is after the era's begin in the year 0 */
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    buf_printf(out,
               "%04" PRId64 "-%02" PRId64 "-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64,
               year, month, day, second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    write_fraction(out, nanos);
    buf_add_u8(out, 'Z');
    return true;
}

bool scalar_read_duration(struct str text, int64_t *ret_seconds, int32_t *ret_nanos)
{
    struct str s = text;
    bool is_negative = take_char(&s, "-");
    int64_t seconds = 0;
    size_t n = 0;
    for (; n < s.len && is_digit(s.ptr[n]); n++) {
        seconds = seconds * 10 + (s.ptr[n] - '0');
        if (seconds > duration_seconds_max) {
            return false;
        }
    }
    s = (struct str){s.ptr + n, s.len - n};
    int32_t nanos;
    if (n == 0 || !take_fraction(&s, &nanos) || !take_char(&s, "s") || s.len > 0 ||
        (seconds == duration_seconds_max && nanos > 0)) {
        return false;
    }
    *ret_seconds = is_negative ? -seconds : seconds;
    *ret_nanos = is_negative ? -nanos : nanos;
    return true;
}

bool scalar_write_duration(struct buf *out, int64_t seconds, int32_t nanos)
{
    if (seconds < -duration_seconds_max || seconds > duration_seconds_max || nanos < -999999999 ||
        nanos > 999999999 || (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0)) {
        return false;
    }
    bool is_negative = seconds < 0 || nanos < 0;
    buf_printf(out, "%s%" PRId64, is_negative ? "-" : "", is_negative ? -seconds : seconds);
    write_fraction(out, is_negative ? -nanos : nanos);
    buf_add_u8(out, 's');
    return true;
}
