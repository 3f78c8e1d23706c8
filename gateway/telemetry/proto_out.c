#include "gateway/telemetry/proto_out.h"

#include <assert.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, VARINT_MAX_BYTES = 10 };

struct proto_out proto_out_to(struct buf *out)
{
    return (struct proto_out){.out = out};
}

static size_t varint_write(uint64_t v, uint8_t ret[VARINT_MAX_BYTES])
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) {
        ret[n++] = (uint8_t)(v | 0x80);
    }
    ret[n++] = (uint8_t)v;
    return n;
}

static void put_varint(struct proto_out *p, uint64_t v)
{
    uint8_t bytes[VARINT_MAX_BYTES];
    buf_add(p->out, bytes, varint_write(v, bytes));
}

static void put_tag(struct proto_out *p, unsigned field, unsigned wire)
{
    put_varint(p, (uint64_t)field << 3 | wire);
}

void proto_begin(struct proto_out *p, unsigned field)
{
    assert(p->depth < PROTO_OUT_DEPTH_MAX);
    put_tag(p, field, WIRE_BYTES);
    p->starts[p->depth++] = p->out->len;
}

/* The length is known only now: what was written moves up to make room for it. */
void proto_end(struct proto_out *p)
{
    assert(p->depth > 0);
    size_t start = p->starts[--p->depth];
    uint8_t length[VARINT_MAX_BYTES];
    if (p->out->failed) {
        return;
    }
    size_t content = p->out->len - start;
    size_t n = varint_write(content, length);
    if (!buf_reserve(p->out, n)) {
        return;
    }
    memmove(p->out->ptr + start + n, p->out->ptr + start, content);
    memcpy(p->out->ptr + start, length, n);
    p->out->len += n;
}

void proto_text(struct proto_out *p, unsigned field, struct str s)
{
    put_tag(p, field, WIRE_BYTES);
    put_varint(p, s.len);
    if (s.len > 0) {
        buf_add_str(p->out, s);
    }
}

void proto_varint(struct proto_out *p, unsigned field, uint64_t v)
{
    put_tag(p, field, WIRE_VARINT);
    put_varint(p, v);
}

void proto_item_fixed64(struct proto_out *p, uint64_t v)
{
    buf_add_u64(p->out, v); /* little-endian, as protobuf's */
}

void proto_item_double(struct proto_out *p, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    buf_add_u64(p->out, bits);
}

void proto_fixed64(struct proto_out *p, unsigned field, uint64_t v)
{
    put_tag(p, field, WIRE_FIXED64);
    proto_item_fixed64(p, v);
}

void proto_double(struct proto_out *p, unsigned field, double v)
{
    put_tag(p, field, WIRE_FIXED64);
    proto_item_double(p, v);
}
