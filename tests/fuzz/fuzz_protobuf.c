/* Wire bytes as a message of the API; the first byte chooses which. What is accepted must
 * come back the same from every format that we write. */
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

static void must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static int write_text(const ProtobufCMessage *m, bool yaml, struct buf *out)
{
    struct error err;
    buf_clear(out);
    return yaml ? codec_encode_yaml(m, out, &err) : codec_encode_json(m, out, &err);
}

/* The text, read and written again, is the same text. The messages need not be: NaN has many bit
 * patterns, and a Value of no kind is written as null. */
static void check_text(const ProtobufCMessage *m, struct arena *arena, struct buf *out, bool yaml)
{
    struct error err = {0};
    struct buf second;
    ProtobufCMessage *again = NULL;
    if (write_text(m, yaml, out) < 0) {
        return; /* out of range, or too deep for text */
    }
    int status =
        yaml ? codec_decode_yaml(m->descriptor, buf_str(out), CODEC_STRICT, arena, &again, &err)
             : codec_decode_json(m->descriptor, buf_str(out), CODEC_STRICT, arena, &again, &err);
    must(status == 0 || err.status == STATUS_RESOURCE_EXHAUSTED);
    if (status == 0) {
        buf_init(&second, OUTPUT_BYTES_MAX);
        must(write_text(again, yaml, &second) == 0 && str_eq(buf_str(out), buf_str(&second)));
        buf_free(&second);
    }
}

static void check_wire(const ProtobufCMessage *m, struct arena *arena, struct buf *out)
{
    struct error err = {0};
    ProtobufCMessage *again = NULL;
    buf_clear(out);
    must(codec_encode_wire(m, out, &err) == 0);
    int status = codec_decode_wire(m->descriptor, buf_str(out), arena, &again, &err);
    must(status == 0 || err.status == STATUS_RESOURCE_EXHAUSTED);
    must(status < 0 || codec_equal(m, again));
    ProtobufCMessage *copy = codec_copy(m, arena);
    must(!copy || codec_equal(m, copy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct arena arena;
    struct buf out;
    struct error err = {0};
    ProtobufCMessage *m = NULL;
    arena_init(&arena, ARENA_BYTES_MAX);
    buf_init(&out, OUTPUT_BYTES_MAX);
    if (codec_decode_wire(types[data[0] % TYPE_COUNT], str_make(data + 1, size - 1), &arena, &m,
                          &err) == 0) {
        check_wire(m, &arena, &out);
        check_text(m, &arena, &out, false);
        check_text(m, &arena, &out, true);
    }
    buf_free(&out);
    arena_free(&arena);
    return 0;
}
