#include "gateway/services/oneshot_files.h"

#include "gateway/rpc/codec.h"
#include "gateway/services/oneshot_output.h"
#include "gateway/services/oneshot_path.h"
#include "policy/base/utf8.h"

enum { PATH_BYTES_MAX = 4096 };

#define END_MARK UINT32_MAX

void oneshot_files_write(struct buf *out, const char *path, bool is_executable, struct str bytes)
{
    buf_add_counted(out, str_from(path));
    buf_add_u32(out, is_executable ? 0755 : 0644);
    buf_add_u64(out, bytes.len);
    buf_add_str(out, bytes);
}

static const char *why_skipped(uint8_t kind)
{
    static const char *const WHY[ONESHOT_FILE_KIND_COUNT] = {
        [ONESHOT_FILE_REGULAR] = "",
        [ONESHOT_FILE_LINK] = "symbolic link",
        [ONESHOT_FILE_PIPE] = "named pipe",
        [ONESHOT_FILE_SOCKET] = "socket",
        [ONESHOT_FILE_DEVICE] = "device",
        [ONESHOT_FILE_TOO_LARGE] = "too large",
        [ONESHOT_FILE_UNREADABLE] = "not readable",
        [ONESHOT_FILE_FOLDER] = "directory",
    };
    return WHY[kind];
}

static int malformed(struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "the files that come back cannot be read: not what was expected");
}

static int full(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the files that come back are too large");
}

static int parse_one(struct bytes *in, struct arena *arena, Ext__RunCollected **ret,
                     struct error *err)
{
    struct str path;
    struct str content;
    uint32_t mode;
    uint64_t size;
    uint8_t kind;
    if (!bytes_read_str(in, PATH_BYTES_MAX, &path) || !bytes_read_u32(in, &mode) ||
        !bytes_read_u64(in, &size) || !bytes_read_u8(in, &kind) ||
        !bytes_read_str(in, bytes_left(in), &content) || kind >= ONESHOT_FILE_KIND_COUNT ||
        (kind != ONESHOT_FILE_REGULAR && content.len > 0) || path.len == 0 || str_has_nul(path) ||
        !utf8_is_valid(path)) {
        return malformed(err);
    }
    Ext__RunCollected *item = CODEC_NEW(arena, Ext__RunCollected, ext__run_collected);
    if (!item) {
        return full(err);
    }
    item->path = arena_strndup(arena, path.ptr, path.len);
    item->skipped = arena_strdup(arena, why_skipped(kind));
    item->mode = mode & 07777;
    item->size_bytes = size;
    *ret = item;
    if (item->path && !oneshot_path_is_below(item->path)) {
        return malformed(err); /* who asked may write it below a folder of his own */
    }
    if (!item->path || !item->skipped ||
        oneshot_text_or_data(content, arena, &item->text, &item->data)) {
        return full(err);
    }
    return 0;
}

static bool at_end_mark(const struct bytes *in)
{
    struct bytes ahead = *in;
    uint32_t mark;
    return bytes_read_u32(&ahead, &mark) && mark == END_MARK;
}

int oneshot_files_parse(struct str bytes, struct arena *arena, struct oneshot_files *ret,
                        struct error *err)
{
    struct bytes in = bytes_over(bytes.ptr, bytes.len);
    struct oneshot_files files = {0};
    files.items = arena_calloc(arena, ONESHOT_FILES_OUT_MAX, sizeof *files.items);
    if (!files.items) {
        return full(err);
    }
    while (!at_end_mark(&in)) {
        if (files.count == ONESHOT_FILES_OUT_MAX) {
            return malformed(err);
        }
        int rc = parse_one(&in, arena, &files.items[files.count], err);
        if (rc) {
            return rc;
        }
        files.count++;
    }
    uint32_t mark;
    if (!bytes_read_u32(&in, &mark) || !bytes_read_u32(&in, &files.left_out) ||
        bytes_left(&in) > 0) {
        return malformed(err);
    }
    *ret = files;
    return 0;
}
