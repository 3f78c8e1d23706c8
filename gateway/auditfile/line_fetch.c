#include "gateway/auditfile/line_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/frame.h"
#include "gateway/auditfile/frame_table.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/segment.h"

enum { TABLE_MAX_BYTES = 1 << 30 };

struct line_fetch {
    int dir_fd;
    int fd; /* of `file` */
    uint64_t file;
    bool is_compressed;
    bool is_active;
    struct buf table; /* of a compressed file */
    struct buf raw;   /* a line, or a frame as it is on the disk */
    struct buf plain; /* the content of the frame at frame_offset */
    uint64_t frame_offset;
    bool has_frame;
};

struct line_fetch *line_fetch_new(int dir_fd)
{
    struct line_fetch *f = calloc(1, sizeof *f);
    if (f) {
        f->dir_fd = dir_fd;
        f->fd = -1;
        buf_init(&f->table, TABLE_MAX_BYTES);
        buf_init(&f->raw, SEGMENT_LINE_MAX_BYTES);
        buf_init(&f->plain, SEGMENT_LINE_MAX_BYTES);
    }
    return f;
}

void line_fetch_free(struct line_fetch *f)
{
    if (f) {
        fd_close(&f->fd);
        buf_free(&f->table);
        buf_free(&f->raw);
        buf_free(&f->plain);
        free(f);
    }
}

static bool open_name(struct line_fetch *f, const char *name)
{
    f->fd = openat(f->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return f->fd != -1;
}

/* A file may get its name, or be compressed, while we look for it: after the active name comes the
 * plain one once more, and after that the compressed one. */
static int open_file(struct line_fetch *f, uint64_t file, struct error *err)
{
    char plain[SEGMENT_NAME_SIZE];
    char packed[SEGMENT_NAME_SIZE];
    fd_close(&f->fd);
    f->has_frame = false;
    f->file = file;
    segment_format_name(file, false, plain);
    segment_format_name(file, true, packed);
    for (int i = 0; i < 2; i++) {
        f->is_active = false;
        f->is_compressed = false;
        if (open_name(f, plain)) {
            return 0;
        }
        f->is_compressed = true;
        if (open_name(f, packed)) {
            buf_clear(&f->table);
            return frame_table_read(f->fd, &f->table, err);
        }
    }
    f->is_compressed = false;
    f->is_active = true;
    return open_name(f, SEGMENT_ACTIVE_NAME)
               ? 0
               : error_set(err, STATUS_NOT_FOUND, "%s is not in the log any more", plain);
}

/* False when the bytes are not there. */
static bool read_at(int fd, uint64_t offset, size_t n, struct buf *ret)
{
    buf_clear(ret);
    uint8_t *to = buf_reserve(ret, n);
    while (to && ret->len < n) {
        ssize_t got = pread(fd, to + ret->len, n - ret->len, (off_t)(offset + ret->len));
        if (got == 0 || (got == -1 && errno != EINTR)) {
            return false;
        }
        ret->len += got > 0 ? (size_t)got : 0;
    }
    return to;
}

static bool load_frame(struct line_fetch *f, const struct frame_place *p, struct error *err)
{
    if (f->has_frame && f->frame_offset == p->content_offset) {
        return true;
    }
    buf_clear(&f->plain);
    f->has_frame = read_at(f->fd, p->disk_offset, p->disk_bytes, &f->raw) &&
                   frame_decode(buf_str(&f->raw), &f->plain, err) == 0;
    f->frame_offset = p->content_offset;
    return f->has_frame;
}

/* What stands at the place; false when the file is shorter. */
static bool read_line(struct line_fetch *f, const struct index_place *place, struct str *ret,
                      struct error *err)
{
    if (!f->is_compressed) {
        bool ok = read_at(f->fd, place->offset, place->length, &f->raw);
        *ret = buf_str(&f->raw);
        return ok;
    }
    const struct frame_place *p = frame_table_find(&f->table, place->offset);
    if (!p || !load_frame(f, p, err)) {
        return false;
    }
    uint64_t begin = place->offset - p->content_offset;
    if (begin > f->plain.len || place->length > f->plain.len - begin) {
        return false;
    }
    *ret = str_make(f->plain.ptr + begin, place->length);
    return true;
}

static bool is_the_line(struct str text, uint64_t sequence)
{
    struct line line;
    return line_read_head(text, &line) && line.sequence == sequence;
}

int line_fetch(struct line_fetch *f, const struct index_place *place, struct str *ret,
               struct error *err)
{
    /* The second time the file may have another name, or another content. */
    for (int i = 0; i < 2; i++) {
        bool is_open = i == 0 && f->fd != -1 && f->file == place->file;
        int rc = is_open ? 0 : open_file(f, place->file, err);
        if (rc) {
            return rc;
        }
        if (read_line(f, place, ret, err) && is_the_line(*ret, place->sequence)) {
            return 0;
        }
        if (!is_open && f->is_active) {
            break;
        }
    }
    fd_close(&f->fd);
    return f->is_active ? error_set(err, STATUS_NOT_FOUND,
                                    "line %" PRIu64 " is not in the log any more", place->sequence)
                        : error_set(err, STATUS_DATA_LOSS,
                                    "line %" PRIu64 " does not stand where the index has it",
                                    place->sequence);
}
