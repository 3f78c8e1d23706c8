#include "gateway/edge/header_text.h"

static bool parse_digits(struct str s, size_t digits_max, uint64_t *ret)
{
    if (s.len == 0 || s.len > digits_max) {
        return false;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *ret = v;
    return true;
}

static uint64_t timeout_unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return 3600ull * 1000000000;
    case 'M':
        return 60ull * 1000000000;
    case 'S':
        return 1000000000;
    case 'm':
        return 1000000;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

bool header_text_parse_grpc_timeout(struct str s, uint64_t *ret_ns)
{
    uint64_t count;
    if (s.len < 2 || !parse_digits(str_make(s.ptr, s.len - 1), 8, &count)) {
        return false;
    }
    uint64_t unit_ns = timeout_unit_ns(s.ptr[s.len - 1]);
    if (unit_ns == 0) {
        return false;
    }
    /* 99999999 hours are 3.6e20 ns: more than 64 bits hold, and than anybody waits. */
    if (__builtin_mul_overflow(count, unit_ns, ret_ns)) {
        *ret_ns = UINT64_MAX;
    }
    return true;
}

bool header_text_parse_connect_timeout(struct str s, uint64_t *ret_ns)
{
    uint64_t ms;
    if (!parse_digits(s, 10, &ms)) {
        return false;
    }
    *ret_ns = ms * 1000000; /* at most 1e16: fits */
    return true;
}

void header_text_add_percent_encoded(struct buf *out, struct str s)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.ptr[i];
        if (c >= 0x20 && c <= 0x7e && c != '%') {
            buf_add_u8(out, c);
        } else {
            char escape[3] = {'%', hex[c >> 4], hex[c & 15]};
            buf_add(out, escape, sizeof escape);
        }
    }
}

void header_text_add_base64(struct buf *out, struct str s)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = (const uint8_t *)s.ptr;
    for (size_t i = 0; i < s.len; i += 3) {
        size_t n = s.len - i < 3 ? s.len - i : 3;
        uint32_t v = (uint32_t)p[i] << 16;
        v |= n > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        v |= n > 2 ? (uint32_t)p[i + 2] : 0;
        char four[4] = {alphabet[v >> 18], alphabet[v >> 12 & 63], alphabet[v >> 6 & 63],
                        alphabet[v & 63]};
        buf_add(out, four, n + 1);
    }
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool header_text_is_nocase(struct str s, const char *lower_text)
{
    for (size_t i = 0; i < s.len; i++) {
        if (lower_text[i] == '\0' || lower(s.ptr[i]) != lower_text[i]) {
            return false;
        }
    }
    return lower_text[s.len] == '\0';
}

struct str header_text_trim(struct str s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

bool header_text_list_has(struct str list, const char *lower_token)
{
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t n = comma ? (size_t)(comma - list.ptr) : list.len;
        struct str item = {list.ptr, n};
        const char *semicolon = n > 0 ? memchr(item.ptr, ';', n) : NULL;
        if (semicolon) {
            item.len = (size_t)(semicolon - item.ptr);
        }
        if (header_text_is_nocase(header_text_trim(item), lower_token)) {
            return true;
        }
        n += comma ? 1 : 0;
        list = str_make(list.ptr + n, list.len - n);
    }
    return false;
}

bool header_text_is_token(struct str s)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!is_alnum && !memchr(marks, c, sizeof marks - 1)) {
            return false;
        }
    }
    return s.len > 0;
}
