#include "gateway/edge/envelope.h"

#include <assert.h>

enum envelope_result envelope_read(struct bytes *in, size_t payload_bytes_max, struct envelope *ret,
                                   size_t *ret_announced_bytes)
{
    struct bytes probe = *in;
    struct str head;
    if (!bytes_read_view(&probe, ENVELOPE_HEAD_BYTES, &head)) {
        return ENVELOPE_SHORT;
    }
    const uint8_t *p = (const uint8_t *)head.ptr;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    *ret_announced_bytes = len;
    if (len > payload_bytes_max) {
        return ENVELOPE_TOO_LARGE;
    }
    struct envelope e = {.flags = p[0]};
    if (!bytes_read_view(&probe, len, &e.payload)) {
        return ENVELOPE_SHORT;
    }
    *ret = e;
    *in = probe;
    return ENVELOPE_WHOLE;
}

void envelope_write_head(uint8_t ret[ENVELOPE_HEAD_BYTES], uint8_t flags, size_t len)
{
    assert(len <= UINT32_MAX);
    ret[0] = flags;
    ret[1] = (uint8_t)(len >> 24);
    ret[2] = (uint8_t)(len >> 16);
    ret[3] = (uint8_t)(len >> 8);
    ret[4] = (uint8_t)len;
}
