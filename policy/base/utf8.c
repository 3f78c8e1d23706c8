#include "policy/base/utf8.h"

static bool is_continuation(uint8_t c)
{
    return (c & 0xC0) == 0x80;
}

size_t utf8_decode(struct str s, uint32_t *ret_code_point)
{
    if (s.len == 0) {
        return 0;
    }
    const uint8_t *p = (const uint8_t *)s.ptr;
    uint8_t c = p[0];
    if (c < 0x80) {
        *ret_code_point = c;
        return 1;
    }
    size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n > s.len) {
        return 0;
    }
    uint32_t v = c & (0x7FU >> n);
    for (size_t i = 1; i < n; i++) {
        if (!is_continuation(p[i])) {
            return 0;
        }
        v = v << 6 | (p[i] & 0x3FU);
    }
    bool overlong = (n == 3 && v < 0x800) || (n == 4 && v < 0x10000);
    if (overlong || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF)) {
        return 0;
    }
    *ret_code_point = v;
    return n;
}

bool utf8_is_valid(struct str s)
{
    size_t i = 0;
    while (i < s.len) {
        /* Eight ASCII bytes at a time: names, commands and paths are nearly always that. */
        uint64_t word;
        if (s.len - i >= sizeof word) {
            memcpy(&word, s.ptr + i, sizeof word);
            if ((word & 0x8080808080808080U) == 0) {
                i += sizeof word;
                continue;
            }
        }
        uint32_t ignored;
        size_t n = utf8_decode(str_make(s.ptr + i, s.len - i), &ignored);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

size_t utf8_encode(uint32_t v, char out[4])
{
    if (v < 0x80) {
        out[0] = (char)v;
        return 1;
    }
    if (v < 0x800) {
        out[0] = (char)(0xC0 | v >> 6);
        out[1] = (char)(0x80 | (v & 0x3F));
        return 2;
    }
    if (v < 0x10000) {
        if (v >= 0xD800 && v <= 0xDFFF) {
            return 0;
        }
        out[0] = (char)(0xE0 | v >> 12);
        out[1] = (char)(0x80 | (v >> 6 & 0x3F));
        out[2] = (char)(0x80 | (v & 0x3F));
        return 3;
    }
    if (v > 0x10FFFF) {
        return 0;
    }
    out[0] = (char)(0xF0 | v >> 18);
    out[1] = (char)(0x80 | (v >> 12 & 0x3F));
    out[2] = (char)(0x80 | (v >> 6 & 0x3F));
    out[3] = (char)(0x80 | (v & 0x3F));
    return 4;
}

size_t utf8_count(struct str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++) {
        count += !is_continuation((uint8_t)s.ptr[i]);
    }
    return count;
}

size_t utf8_offset(struct str s, size_t index)
{
    size_t seen = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_continuation((uint8_t)s.ptr[i]) && seen++ == index) {
            return i;
        }
    }
    return s.len;
}
