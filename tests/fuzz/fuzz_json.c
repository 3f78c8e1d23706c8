/* JSON text as a message of the API; the first byte chooses which. */
#include <stdlib.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/rpc/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Never reorder: the corpus's first bytes are indexes here. */
static const ProtobufCMessageDescriptor *const types[] = {
    &cordium__workspace__descriptor,      &cordium__exec_request__descriptor,
    &cordium__secret__descriptor,         &core__policy__descriptor,
    &core__cluster_config__descriptor,    &core__user__descriptor,
    &core__session__descriptor,           &cordium__get_space_membership_request__descriptor,
    &cordium__cluster_config__descriptor, &cordium__start_workspace_request__descriptor,
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

enum { ARENA_BYTES_MAX = 8 << 20, OUTPUT_BYTES_MAX = 8 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const ProtobufCMessageDescriptor *d = types[data[0] % TYPE_COUNT];
    struct arena arena;
    struct buf out;
    struct error err = {0};
    ProtobufCMessage *m = NULL;
    ProtobufCMessage *again = NULL;
    arena_init(&arena, ARENA_BYTES_MAX);
    buf_init(&out, OUTPUT_BYTES_MAX);
    unsigned flags = data[0] & 0x80 ? CODEC_STRICT : CODEC_LENIENT;
    int status = codec_decode_json(d, str_make(data + 1, size - 1), flags, &arena, &m, &err);
    /* What JSON may say, the store must be able to keep. */
    if (status == 0 && (codec_encode_wire(m, &out, &err) < 0 ||
                        (codec_decode_wire(d, buf_str(&out), &arena, &again, &err) < 0 &&
                         err.status != STATUS_RESOURCE_EXHAUSTED))) {
        abort();
    }
    buf_free(&out);
    arena_free(&arena);
    return 0;
}
