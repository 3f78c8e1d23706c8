#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Text as pointer and length, passed by value; never owns. ptr may be NULL when len is 0.
 * The bytes may hold anything: use str_has_nul() or utf8_is_valid() where it matters. */
struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_NONE ((struct str){NULL, 0})

/* printf("%.*s", STR_ARG(s)) */
#define STR_ARG(s) (int)((s).len > 4096 ? 4096 : (s).len), ((s).ptr ? (s).ptr : "")

/* A NULL pointer gives the empty text. */
static inline struct str str_from(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

static inline struct str str_make(const void *ptr, size_t len)
{
    return (struct str){ptr, len};
}

static inline uint64_t str_word(const char *s)
{
    uint64_t word;
    memcpy(&word, s, sizeof word);
    return word;
}

static inline uint32_t str_half_word(const char *s)
{
    uint32_t word;
    memcpy(&word, s, sizeof word);
    return word;
}

/* memcmp() == 0 without a call for the short texts that member names are: two words, which may
 * overlap, cover them. */
static inline bool str_same_bytes(const char *a, const char *b, size_t len)
{
    if (len > 16) {
        return memcmp(a, b, len) == 0;
    }
    if (len >= 8) {
        return ((str_word(a) ^ str_word(b)) | (str_word(a + len - 8) ^ str_word(b + len - 8))) == 0;
    }
    if (len >= 4) {
        return ((str_half_word(a) ^ str_half_word(b)) |
                (str_half_word(a + len - 4) ^ str_half_word(b + len - 4))) == 0;
    }
    for (size_t i = 0; i < len; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool str_is(struct str a, const char *b)
{
    return str_eq(a, str_from(b));
}

/* Order of the bytes; the same as the order of code points for UTF-8. */
static inline int str_cmp(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool str_starts_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq((struct str){s.ptr, prefix.len}, prefix);
}

static inline bool str_ends_with(struct str s, struct str suffix)
{
    return s.len >= suffix.len &&
           str_eq((struct str){s.ptr + (s.len - suffix.len), suffix.len}, suffix);
}

static inline bool str_has_nul(struct str s)
{
    return s.len > 0 && memchr(s.ptr, 0, s.len);
}

/* Equality of two C strings where NULL counts as "". */
static inline bool cstr_eq(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

#endif
