#include "policy/lib/text.h"

struct case_row {
    uint32_t first;
    uint32_t last;
    uint32_t step;
    int32_t delta;
};

#include "policy/lib/unicode_case.inc"

size_t text_find(struct str s, struct str what, size_t from)
{
    if (from > s.len) {
        return TEXT_NOWHERE;
    }
    if (what.len == 0) {
        return from;
    }
    if (what.len > s.len - from) {
        return TEXT_NOWHERE;
    }
    /* glibc's memmem is two-way search: linear. */
    const char *at = memmem(s.ptr + from, s.len - from, what.ptr, what.len);
    return at ? (size_t)(at - s.ptr) : TEXT_NOWHERE;
}

size_t text_find_last(struct str s, struct str what, size_t from)
{
    if (what.len > s.len) {
        return TEXT_NOWHERE;
    }
    size_t at = s.len - what.len;
    at = from < at ? from : at;
    for (;; at--) {
        if (what.len == 0 || memcmp(s.ptr + at, what.ptr, what.len) == 0) {
            return at;
        }
        if (at == 0) {
            return TEXT_NOWHERE;
        }
    }
}

size_t text_offset(struct str s, int64_t index)
{
    if (index < 0 || (uint64_t)index > s.len) {
        return TEXT_NOWHERE;
    }
    int64_t seen = 0;
    size_t i = 0;
    for (; i < s.len; i++) {
        if (((unsigned char)s.ptr[i] & 0xC0) != 0x80 && seen++ == index) {
            return i;
        }
    }
    return seen == index ? i : TEXT_NOWHERE;
}

bool text_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static uint32_t map_case(uint32_t c, const struct case_row *rows, size_t count)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct case_row *row = &rows[middle];
        if (c < row->first) {
            high = middle;
        } else if (c > row->last) {
            low = middle + 1;
        } else {
            return (c - row->first) % row->step == 0 ? (uint32_t)((int32_t)c + row->delta) : c;
        }
    }
    return c;
}

uint32_t text_to_lower(uint32_t c)
{
    return map_case(c, to_lower, sizeof to_lower / sizeof to_lower[0]);
}

uint32_t text_to_upper(uint32_t c)
{
    return map_case(c, to_upper, sizeof to_upper / sizeof to_upper[0]);
}
