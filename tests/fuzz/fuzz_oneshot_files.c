/* What cordium-files writes inside a sandbox, read by the gateway. */
#include <stdint.h>
#include <stdlib.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/oneshot_files.h"
#include "gateway/services/oneshot_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct oneshot_files files;
    struct error err;
    struct buf out;
    arena_init(&arena, 16 << 20);
    buf_init(&out, 16 << 20);
    if (oneshot_files_parse(str_make(data, size), &arena, &files, &err) == 0) {
        /* Whatever comes back must be fit for an answer. */
        for (size_t i = 0; i < files.count; i++) {
            if (!oneshot_path_is_below(files.items[i]->path) ||
                (codec_encode_json(&files.items[i]->base, &out, &err) < 0 && !out.failed)) {
                abort();
            }
            buf_clear(&out);
        }
    }
    buf_free(&out);
    arena_free(&arena);
    return 0;
}
