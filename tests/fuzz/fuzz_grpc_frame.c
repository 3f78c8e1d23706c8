/* Envelopes, their compression, and the texts of RPC headers, on arbitrary bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "gateway/edge/compression.h"
#include "gateway/edge/envelope.h"
#include "gateway/edge/header_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PLAIN_BYTES_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_over(data, size);
    struct envelope e;
    size_t announced;
    while (envelope_read(&in, PLAIN_BYTES_MAX, &e, &announced) == ENVELOPE_WHOLE) {
        if (e.payload.len != announced) {
            abort();
        }
        if (e.flags & ENVELOPE_COMPRESSED) {
            struct buf plain;
            buf_init(&plain, PLAIN_BYTES_MAX);
            (void)compression_gunzip(&plain, e.payload, NULL);
            if (plain.len > PLAIN_BYTES_MAX) {
                abort();
            }
            buf_free(&plain);
        }
    }
    struct str text = str_make(data, size);
    uint64_t ns;
    (void)header_text_parse_grpc_timeout(text, &ns);
    (void)header_text_parse_connect_timeout(text, &ns);
    (void)header_text_list_has(text, "gzip");
    struct buf out;
    buf_init(&out, 4 * size + 8);
    header_text_add_percent_encoded(&out, text);
    for (size_t i = 0; i < out.len; i++) {
        if (out.ptr[i] < 0x20 || out.ptr[i] > 0x7e) {
            abort();
        }
    }
    header_text_add_base64(&out, str_make(data, size / 4));
    buf_free(&out);
    return 0;
}
