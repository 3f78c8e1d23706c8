/* A YAML file of several documents, each read as a Policy or a Template. */
#include <stdlib.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/rpc/codec.h"
#include "gateway/text/yaml_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 8 << 20, OUTPUT_BYTES_MAX = 8 << 20 };

static void check_document(const struct tree_node *tree, struct arena *arena)
{
    struct error err = {0};
    ProtobufCMessage *m = NULL;
    ProtobufCMessage *again = NULL;
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    (void)codec_decode_tree(&core__policy__descriptor, tree, CODEC_LENIENT, arena, &m, &err);
    if (codec_decode_tree(&cordium__template__descriptor, tree, CODEC_STRICT, arena, &m, &err) ==
            0 &&
        codec_encode_yaml(m, &out, &err) == 0) {
        int status = codec_decode_yaml(&cordium__template__descriptor, buf_str(&out), CODEC_STRICT,
                                       arena, &again, &err);
        if (status < 0 ? err.status != STATUS_RESOURCE_EXHAUSTED : !codec_equal(m, again)) {
            abort();
        }
    }
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct error err = {0};
    struct yaml_stream *stream = NULL;
    const struct tree_node *tree;
    arena_init(&arena, ARENA_BYTES_MAX);
    if (yaml_stream_open(str_make(data, size), &stream, &err) == 0) {
        while (yaml_stream_next(stream, &arena, &tree, &err) == 0 && tree) {
            check_document(tree, &arena);
        }
    }
    yaml_stream_close(stream);
    arena_free(&arena);
    return 0;
}
