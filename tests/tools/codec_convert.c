/* Converts messages for the differential test, one request after the other on stdin:
 *   mode (1 byte), length of the type's name (1), name, length of the data (4, big-endian), data
 * and answers with: 1 or 0 for success (1), length (4), data or the error's text.
 * Modes: j JSON to wire, s JSON to wire strictly, y YAML to wire, w wire to JSON, Y wire to YAML,
 * r wire to wire, c wire to wire through a copy. */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/rpc/codec.h"

enum { INPUT_BYTES_MAX = 16 << 20, ARENA_BYTES_MAX = 64 << 20 };

static int decode(char mode, const ProtobufCMessageDescriptor *d, struct str in,
                  struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    switch (mode) {
    case 'j':
        return codec_decode_json(d, in, CODEC_LENIENT, arena, ret, err);
    case 's':
        return codec_decode_json(d, in, CODEC_STRICT, arena, ret, err);
    case 'y':
        return codec_decode_yaml(d, in, CODEC_STRICT, arena, ret, err);
    default:
        return codec_decode_wire(d, in, arena, ret, err);
    }
}

static int convert(char mode, struct str type, struct str in, struct arena *arena, struct buf *out,
                   struct error *err)
{
    const struct schema_message *schema = schema_message_by_name(type);
    ProtobufCMessage *m = NULL;
    if (!schema) {
        return error_set(err, STATUS_NOT_FOUND, "no message %.*s", STR_ARG(type));
    }
    int status = decode(mode, schema->descriptor, in, arena, &m, err);
    if (status < 0) {
        return status;
    }
    if (mode == 'c') {
        ProtobufCMessage *copy = codec_copy(m, arena);
        if (!copy || !codec_equal(copy, m)) {
            return error_set(err, STATUS_INTERNAL, "the copy is not equal");
        }
        m = copy;
    }
    return mode == 'w'   ? codec_encode_json(m, out, err)
           : mode == 'Y' ? codec_encode_yaml(m, out, err)
                         : codec_encode_wire(m, out, err);
}

static bool read_exactly(void *to, size_t n)
{
    return fread(to, 1, n, stdin) == n;
}

static void answer(bool ok, struct str data)
{
    unsigned char head[5] = {ok, (unsigned char)(data.len >> 24), (unsigned char)(data.len >> 16),
                             (unsigned char)(data.len >> 8), (unsigned char)data.len};
    fwrite(head, 1, sizeof(head), stdout);
    if (data.len > 0) {
        fwrite(data.ptr, 1, data.len, stdout);
    }
    fflush(stdout);
}

int main(void)
{
    char *in = malloc(INPUT_BYTES_MAX);
    unsigned char head[2];
    while (in && read_exactly(head, 2)) {
        char type[256];
        unsigned char len[4];
        if (!read_exactly(type, head[1]) || !read_exactly(len, 4)) {
            break;
        }
        size_t n = (size_t)len[0] << 24 | (size_t)len[1] << 16 | (size_t)len[2] << 8 | len[3];
        if (n > INPUT_BYTES_MAX || !read_exactly(in, n)) {
            break;
        }
        /* A block of its own size, so that the sanitizers see a read beyond it. */
        char *exact = malloc(n > 0 ? n : 1);
        if (!exact) {
            break;
        }
        memcpy(exact, in, n);
        struct arena arena;
        struct buf out;
        struct error err = {0};
        arena_init(&arena, ARENA_BYTES_MAX);
        buf_init(&out, ARENA_BYTES_MAX);
        int status =
            convert((char)head[0], str_make(type, head[1]), str_make(exact, n), &arena, &out, &err);
        answer(status == 0, status == 0 ? buf_str(&out) : str_from(err.text));
        buf_free(&out);
        arena_free(&arena);
        free(exact);
    }
    free(in);
    return 0;
}
