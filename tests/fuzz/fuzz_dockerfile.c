/* A Dockerfile comes from whoever may write a template. Whatever it says: the text that comes out
 * is the text that went in, with ARG lines between. */
#include <stdlib.h>

#include "executor/image/dockerfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line_of(struct str *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t n = end ? (size_t)(end - rest->ptr) + 1 : rest->len;
    struct str line = {rest->ptr, n};
    *rest = (struct str){rest->ptr + n, rest->len - n};
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const NAMES[] = {"ADDED_BY_THE_FUZZER"};
    static const char ADDED[] = "ARG ADDED_BY_THE_FUZZER\n";
    struct str in = str_make(data, size);
    struct buf out;
    struct error err;

    buf_init(&out, 4 << 20);
    if (dockerfile_add_args(in, NAMES, 1, &out, &err) == 0 && out.len > 0 &&
        !memmem(data, size, "ADDED_BY", 8)) {
        struct str rest = buf_str(&out);
        while (rest.len > 0) {
            struct str line = line_of(&rest);
            if (str_is(line, ADDED)) {
                continue;
            }
            struct str original = line_of(&in);
            bool same = str_eq(line, original);
            /* A last line without an end gets one. */
            bool ended =
                line.len == original.len + 1 && in.len == 0 && str_starts_with(line, original);
            if (!same && !ended) {
                abort();
            }
        }
        if (in.len > 0) {
            abort();
        }
    }
    buf_free(&out);
    return 0;
}
