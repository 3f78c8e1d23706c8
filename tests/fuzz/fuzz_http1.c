/* The HTTP/1.1 reader on arbitrary bytes, whole and in pieces: both must see the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "gateway/edge/http1_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    unsigned heads;
    unsigned ends;
    size_t body_bytes;
    int error_status;
};

/* Every input is copied to its own allocation, so that a read past its end shows. */
static struct outcome read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct outcome o = {0};
    struct http1_reader r;
    struct http1_head head;
    struct str body;
    struct buf in;
    buf_init(&in, SIZE_MAX / 2);
    http1_reader_init(&r);
    for (size_t at = 0; at < size && o.error_status == 0; at += piece) {
        buf_add(&in, data + at, size - at < piece ? size - at : piece);
        uint8_t *copy = malloc(in.len ? in.len : 1);
        if (!copy) {
            break;
        }
        for (size_t i = 0; i < in.len; i++) {
            copy[i] = in.ptr[i];
        }
        struct bytes cursor = bytes_over(copy, in.len);
        enum http1_event event;
        while ((event = http1_reader_next(&r, &cursor, &head, &body)) != HTTP1_NEED_MORE) {
            o.heads += event == HTTP1_HEAD;
            o.ends += event == HTTP1_END;
            o.body_bytes += event == HTTP1_BODY ? body.len : 0;
            if (event == HTTP1_BAD) {
                o.error_status = r.error_status;
                break;
            }
        }
        buf_consume(&in, in.len - bytes_left(&cursor));
        free(copy);
    }
    buf_free(&in);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 4096) {
        return 0;
    }
    size_t piece = 1 + data[0] % 16;
    struct outcome whole = read_all(data + 1, size - 1, size);
    struct outcome pieces = read_all(data + 1, size - 1, piece);
    if (whole.heads != pieces.heads || whole.ends != pieces.ends ||
        whole.body_bytes != pieces.body_bytes ||
        (whole.error_status == 0) != (pieces.error_status == 0)) {
        abort();
    }
    return 0;
}
