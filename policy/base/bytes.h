#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

/* A cursor over bytes from outside. Getters fail at the end, and then change nothing.
 * Integers are little-endian: both ends of our own formats run on one machine. */
struct bytes {
    const uint8_t *next;
    const uint8_t *end; /* next <= end */
};

struct bytes bytes_over(const void *p, size_t n);
size_t bytes_left(const struct bytes *in);
bool bytes_read_u8(struct bytes *in, uint8_t *ret);
bool bytes_read_u16(struct bytes *in, uint16_t *ret);
bool bytes_read_u32(struct bytes *in, uint32_t *ret);
bool bytes_read_u64(struct bytes *in, uint64_t *ret);

/* A view of the next n bytes, not a copy. */
bool bytes_read_view(struct bytes *in, size_t n, struct str *ret);

/* A u32 length and that many bytes; fails when the length is over len_max. */
bool bytes_read_str(struct bytes *in, size_t len_max, struct str *ret);

/* A growing buffer that is born with a maximum. After an append that does not fit or
 * cannot be allocated, `failed` is set, the content is as before, and every later append
 * does nothing: check once at the end. */
struct buf {
    uint8_t *ptr;
    size_t len;
    size_t room;
    size_t len_max;
    bool failed;
};

void buf_init(struct buf *b, size_t len_max);
void buf_free(struct buf *b);

/* Makes room for n more bytes and returns where they go, or NULL. The caller adds to len. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_add_cstr(struct buf *b, const char *s);
void buf_add_u8(struct buf *b, uint8_t v);
void buf_add_u16(struct buf *b, uint16_t v);
void buf_add_u32(struct buf *b, uint32_t v);
void buf_add_u64(struct buf *b, uint64_t v);

/* As bytes_read_str() reads it. */
void buf_add_counted(struct buf *b, struct str s);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first n bytes; n <= len. */
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);
struct str buf_str(const struct buf *b);

#endif
