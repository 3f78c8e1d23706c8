#include "gateway/auditfile/frame.h"

#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "gateway/auditfile/segment.h"

enum { LEVEL = 3 };

struct frame_encoder {
    ZSTD_CCtx *ctx;
};

int frame_content_size(struct str frame, size_t *ret, struct error *err)
{
    unsigned long long n = ZSTD_getFrameContentSize(frame.ptr, frame.len);
    if (n == ZSTD_CONTENTSIZE_UNKNOWN || n == ZSTD_CONTENTSIZE_ERROR ||
        n > SEGMENT_LINE_MAX_BYTES) {
        return error_set(err, STATUS_DATA_LOSS,
                         "a frame tells no content size, or one over %d MiB: it was not made by us",
                         SEGMENT_LINE_MAX_BYTES >> 20);
    }
    *ret = (size_t)n;
    return 0;
}

int frame_measure(struct str bytes, size_t *ret_bytes, struct error *err)
{
    size_t content;
    size_t n = ZSTD_findFrameCompressedSize(bytes.ptr, bytes.len);
    if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_srcSize_wrong) {
        return 0;
    }
    if (ZSTD_isError(n)) {
        return error_set(err, STATUS_DATA_LOSS, "no zstd frame: %s", ZSTD_getErrorName(n));
    }
    if (frame_content_size(str_make(bytes.ptr, n), &content, err) < 0) {
        return -STATUS_DATA_LOSS;
    }
    *ret_bytes = n;
    return 1;
}

int frame_decode(struct str frame, struct buf *out, struct error *err)
{
    size_t room = 0;
    int rc = frame_content_size(frame, &room, err);
    if (rc || room == 0) {
        return rc;
    }
    uint8_t *to = buf_reserve(out, room);
    if (!to) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for a frame");
    }
    size_t n = ZSTD_decompress(to, room, frame.ptr, frame.len);
    if (ZSTD_isError(n) || n != room) {
        return error_set(err, STATUS_DATA_LOSS, "a zstd frame is damaged: %s",
                         ZSTD_isError(n) ? ZSTD_getErrorName(n) : "it is shorter than it says");
    }
    out->len += n;
    return 0;
}

struct frame_encoder *frame_encoder_new(void)
{
    struct frame_encoder *e = calloc(1, sizeof *e);
    if (!e) {
        return NULL;
    }
    e->ctx = ZSTD_createCCtx();
    if (!e->ctx || ZSTD_isError(ZSTD_CCtx_setParameter(e->ctx, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->ctx, ZSTD_c_checksumFlag, 1)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->ctx, ZSTD_c_contentSizeFlag, 1))) {
        frame_encoder_free(e);
        return NULL;
    }
    return e;
}

void frame_encoder_free(struct frame_encoder *e)
{
    if (e) {
        ZSTD_freeCCtx(e->ctx);
        free(e);
    }
}

int frame_encode(struct frame_encoder *e, struct str content, struct buf *out, struct error *err)
{
    size_t room = ZSTD_compressBound(content.len);
    uint8_t *to = buf_reserve(out, room);
    if (!to) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for a frame");
    }
    size_t n = ZSTD_compress2(e->ctx, to, room, content.ptr, content.len);
    if (ZSTD_isError(n)) {
        return error_set(err, STATUS_INTERNAL, "compress a frame: %s", ZSTD_getErrorName(n));
    }
    out->len += n;
    return 0;
}
