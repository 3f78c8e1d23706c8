#include "gateway/edge/compression.h"

#include <zlib.h>

enum {
    GZIP_WINDOW_BITS = 15 + 16, /* zlib's way to say "gzip header" */
    GZIP_LEVEL = 1,             /* messages are small and the loop is shared: speed over size */
    GUNZIP_STEP_BYTES = 16384,
};

int compression_gzip(struct buf *out, struct str bytes, struct error *err)
{
    z_stream z = {0};
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "compress the answer: out of memory");
    }
    int rc = -STATUS_RESOURCE_EXHAUSTED;
    size_t room = deflateBound(&z, bytes.len);
    uint8_t *to = buf_reserve(out, room);
    if (to) {
        z.next_in = (Bytef *)(uintptr_t)bytes.ptr;
        z.avail_in = (uInt)bytes.len;
        z.next_out = to;
        z.avail_out = (uInt)room;
        if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
            out->len += room - z.avail_out;
            rc = 0;
        }
    }
    (void)deflateEnd(&z);
    return rc ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "compress the answer: out of memory") : 0;
}

static int inflate_all(z_stream *z, struct buf *out, struct error *err)
{
    for (;;) {
        size_t left = out->len_max - out->len;
        /* One byte over the limit tells "just fits" from "too large". */
        size_t room = left + 1 < GUNZIP_STEP_BYTES ? left + 1 : GUNZIP_STEP_BYTES;
        uint8_t step[GUNZIP_STEP_BYTES];
        z->next_out = step;
        z->avail_out = (uInt)room;
        int rc = inflate(z, Z_NO_FLUSH);
        size_t made = room - z->avail_out;
        if (made > left) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                             "message is over the limit of %zu bytes once uncompressed",
                             out->len_max);
        }
        buf_add(out, step, made);
        if (out->failed) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "uncompress: out of memory");
        }
        if (rc == Z_STREAM_END && z->avail_in == 0) {
            return 0;
        }
        if (rc != Z_OK || (made == 0 && z->avail_in == 0)) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "message is not valid gzip");
        }
    }
}

int compression_gunzip(struct buf *out, struct str bytes, struct error *err)
{
    z_stream z = {0};
    if (inflateInit2(&z, GZIP_WINDOW_BITS) != Z_OK) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "uncompress: out of memory");
    }
    z.next_in = (Bytef *)(uintptr_t)bytes.ptr;
    z.avail_in = (uInt)bytes.len;
    int rc = inflate_all(&z, out, err);
    (void)inflateEnd(&z);
    return rc;
}
