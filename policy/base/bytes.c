#include "policy/base/bytes.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/base/checked.h"

enum { BUF_ROOM_FIRST = 256 };

struct bytes bytes_over(const void *p, size_t n)
{
    return (struct bytes){p, p ? (const uint8_t *)p + n : NULL};
}

size_t bytes_left(const struct bytes *in)
{
    return (size_t)(in->end - in->next);
}

static bool read_integer(struct bytes *in, void *ret, size_t n)
{
    if (n > bytes_left(in)) {
        return false;
    }
    memcpy(ret, in->next, n);
    in->next += n;
    return true;
}

bool bytes_read_u8(struct bytes *in, uint8_t *ret)
{
    return read_integer(in, ret, sizeof *ret);
}

bool bytes_read_u16(struct bytes *in, uint16_t *ret)
{
    return read_integer(in, ret, sizeof *ret);
}

bool bytes_read_u32(struct bytes *in, uint32_t *ret)
{
    return read_integer(in, ret, sizeof *ret);
}

bool bytes_read_u64(struct bytes *in, uint64_t *ret)
{
    return read_integer(in, ret, sizeof *ret);
}

bool bytes_read_view(struct bytes *in, size_t n, struct str *ret)
{
    if (n > bytes_left(in)) {
        return false;
    }
    *ret = str_make(in->next, n);
    in->next += n;
    return true;
}

bool bytes_read_str(struct bytes *in, size_t len_max, struct str *ret)
{
    struct bytes probe = *in;
    uint32_t n;
    if (!bytes_read_u32(&probe, &n) || n > len_max || !bytes_read_view(&probe, n, ret)) {
        return false;
    }
    *in = probe;
    return true;
}

void buf_init(struct buf *b, size_t len_max)
{
    *b = (struct buf){.len_max = len_max};
}

void buf_free(struct buf *b)
{
    free(b->ptr);
    *b = (struct buf){.len_max = b->len_max};
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    size_t need;
    if (b->failed || !checked_add(b->len, n, &need) || need > b->len_max) {
        b->failed = true;
        return NULL;
    }
    if (need > b->room) {
        size_t room = b->room ? b->room : BUF_ROOM_FIRST;
        while (room < need) {
            room = room > b->len_max / 2 ? b->len_max : room * 2;
        }
        uint8_t *p = realloc(b->ptr, room);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->ptr = p;
        b->room = room;
    }
    return b->ptr + b->len;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
    if (n == 0) {
        return;
    }
    uint8_t *to = buf_reserve(b, n);
    if (to) {
        memcpy(to, p, n);
        b->len += n;
    }
}

void buf_add_str(struct buf *b, struct str s)
{
    buf_add(b, s.ptr, s.len);
}

void buf_add_cstr(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_u8(struct buf *b, uint8_t v)
{
    buf_add(b, &v, sizeof v);
}

void buf_add_u16(struct buf *b, uint16_t v)
{
    buf_add(b, &v, sizeof v);
}

void buf_add_u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}

void buf_add_u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof v);
}

void buf_add_counted(struct buf *b, struct str s)
{
    if (s.len > UINT32_MAX) {
        b->failed = true;
        return;
    }
    buf_add_u32(b, (uint32_t)s.len);
    buf_add_str(b, s);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return;
    }
    uint8_t *to = buf_reserve(b, (size_t)n + 1);
    if (to) {
        va_start(ap, format);
        (void)vsnprintf((char *)to, (size_t)n + 1, format, ap);
        va_end(ap);
        b->len += (size_t)n;
    }
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n > 0 && n < b->len) {
        memmove(b->ptr, b->ptr + n, b->len - n);
    }
    b->len -= n;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

struct str buf_str(const struct buf *b)
{
    return str_make(b->ptr, b->len);
}
