#include "gateway/auditfile/segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/frame.h"
#include "gateway/auditfile/line.h"

enum { CHUNK_BYTES = 512 << 10 /* what a frame is first looked for in */ };

struct segment_reader {
    int fd;
    bool is_compressed;
    char name[SEGMENT_NAME_SIZE];
    uint64_t offset;
    struct buf ahead; /* what was read and not given yet; begins at offset */
};

int segment_reader_open(int dir_fd, const struct segment *segment, struct segment_reader **ret,
                        struct error *err)
{
    struct segment_reader *r = calloc(1, sizeof *r);
    if (!r) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
    }
    r->fd = openat(dir_fd, segment->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    r->is_compressed = segment->is_compressed;
    memcpy(r->name, segment->name, sizeof r->name);
    buf_init(&r->ahead, SEGMENT_LINE_MAX_BYTES + SEGMENT_BLOCK_BYTES);
    if (r->fd == -1) {
        int number = errno;
        segment_reader_close(r);
        return error_set_errno(err, number == ENOENT ? STATUS_NOT_FOUND : STATUS_UNAVAILABLE,
                               number, "open %s", segment->name);
    }
    *ret = r;
    return 0;
}

void segment_reader_close(struct segment_reader *r)
{
    if (r) {
        fd_close(&r->fd);
        buf_free(&r->ahead);
        free(r);
    }
}

uint64_t segment_reader_offset(const struct segment_reader *r)
{
    return r->offset;
}

uint64_t segment_reader_inode(const struct segment_reader *r)
{
    struct stat st;
    return fstat(r->fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Reads up to `want` bytes more behind what is there. 1, or 0 at the end of the file. */
static int read_more(struct segment_reader *r, size_t want, struct error *err)
{
    uint8_t *to = buf_reserve(&r->ahead, want);
    if (!to) {
        return error_set(err, STATUS_DATA_LOSS, "%s: at byte %" PRIu64 ": longer than %d MiB",
                         r->name, r->offset, SEGMENT_LINE_MAX_BYTES >> 20);
    }
    ssize_t n;
    do {
        n = pread(r->fd, to, want, (off_t)(r->offset + r->ahead.len));
    } while (n == -1 && errno == EINTR);
    if (n == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "read %s", r->name);
    }
    r->ahead.len += (size_t)n;
    return n > 0;
}

/* Hands the first n bytes over and keeps the rest. */
static int give(struct segment_reader *r, size_t n, struct segment_block *block, struct error *err)
{
    buf_clear(&block->bytes);
    if (n == r->ahead.len) {
        struct buf swap = block->bytes;
        block->bytes = r->ahead;
        r->ahead = swap;
    } else {
        buf_add(&block->bytes, r->ahead.ptr, n);
        buf_consume(&r->ahead, n);
    }
    r->offset += n;
    return block->bytes.failed
               ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log")
               : 1;
}

static int next_lines(struct segment_reader *r, struct segment_block *block, struct error *err)
{
    size_t looked_at = 0;
    for (;;) {
        const uint8_t *newline =
            r->ahead.len >= SEGMENT_BLOCK_BYTES
                ? memrchr(r->ahead.ptr + looked_at, '\n', r->ahead.len - looked_at)
                : NULL;
        if (newline) {
            return give(r, (size_t)(newline - r->ahead.ptr) + 1, block, err);
        }
        looked_at = r->ahead.len >= SEGMENT_BLOCK_BYTES ? r->ahead.len : 0;
        int rc = read_more(r, SEGMENT_BLOCK_BYTES, err);
        if (rc < 0 || (rc == 0 && r->ahead.len == 0)) {
            return rc;
        }
        if (rc == 0) {
            block->is_last_torn = r->ahead.ptr[r->ahead.len - 1] != '\n';
            return give(r, r->ahead.len, block, err);
        }
    }
}

static int next_frame(struct segment_reader *r, struct segment_block *block, struct error *err)
{
    size_t want = CHUNK_BYTES;
    size_t size;
    for (;;) {
        int rc = r->ahead.len > 0 ? frame_measure(buf_str(&r->ahead), &size, err) : 0;
        if (rc < 0) {
            return error_wrap(err, "%s: at byte %" PRIu64, r->name, r->offset);
        }
        if (rc == 1) {
            return give(r, size, block, err);
        }
        rc = read_more(r, want, err);
        if (rc < 0 || (rc == 0 && r->ahead.len == 0)) {
            return rc;
        }
        if (rc == 0) {
            return error_set(err, STATUS_DATA_LOSS, "%s: at byte %" PRIu64 ": its end is cut off",
                             r->name, r->offset);
        }
        want = r->ahead.len;
    }
}

int segment_reader_next(struct segment_reader *r, struct segment_block *block, struct error *err)
{
    block->is_compressed = r->is_compressed;
    block->is_last_torn = false;
    return r->is_compressed ? next_frame(r, block, err) : next_lines(r, block, err);
}

void segment_block_init(struct segment_block *block)
{
    *block = (struct segment_block){0};
    buf_init(&block->bytes, SEGMENT_LINE_MAX_BYTES + SEGMENT_BLOCK_BYTES);
}

void segment_block_free(struct segment_block *block)
{
    buf_free(&block->bytes);
}

int segment_block_text(const struct segment_block *block, struct buf *plain, struct str *ret,
                       struct error *err)
{
    if (!block->is_compressed) {
        *ret = buf_str(&block->bytes);
        return 0;
    }
    buf_clear(plain);
    int rc = frame_decode(buf_str(&block->bytes), plain, err);
    *ret = buf_str(plain);
    return rc;
}

/* ---- seeking ---- */

/* The first sequence of a block; 0 when none of its lines tells one. */
static int first_sequence(const struct segment_block *block, struct buf *plain, uint64_t *ret,
                          struct error *err)
{
    struct str text;
    struct str one;
    struct line line;
    *ret = 0;
    int rc = segment_block_text(block, plain, &text, err);
    while (rc == 0 && *ret == 0 && line_take(&text, &one)) {
        *ret = line_read_head(one, &line) ? line.sequence : 0;
    }
    return rc;
}

void segment_reader_go_to(struct segment_reader *r, uint64_t offset)
{
    buf_clear(&r->ahead);
    r->offset = offset;
}

/* Where each frame begins. */
static int index_frames(struct segment_reader *r, struct segment_block *block, struct buf *ret,
                        struct error *err)
{
    int rc;
    segment_reader_go_to(r, 0);
    for (;;) {
        uint64_t offset = r->offset;
        rc = next_frame(r, block, err);
        if (rc != 1) {
            return rc;
        }
        buf_add(ret, &offset, sizeof offset);
        if (ret->failed) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
        }
    }
}

/* The last frame whose first line is not behind the one that is looked for. */
static int seek_frame(struct segment_reader *r, uint64_t sequence, struct segment_block *block,
                      struct buf *plain, struct error *err)
{
    struct buf index;
    buf_init(&index, SEGMENT_LINE_MAX_BYTES);
    int rc = index_frames(r, block, &index, err);
    const uint64_t *offsets = (const uint64_t *)(const void *)index.ptr;
    size_t low = 0;
    size_t high = index.len / sizeof *offsets;
    while (rc == 0 && high - low > 1) {
        size_t middle = low + (high - low) / 2;
        uint64_t first = 0;
        segment_reader_go_to(r, offsets[middle]);
        rc = next_frame(r, block, err);
        rc = rc == 1 ? first_sequence(block, plain, &first, err) : rc;
        *(first > 0 && first <= sequence ? &low : &high) = middle;
    }
    segment_reader_go_to(r, high > 0 ? offsets[low] : 0);
    buf_free(&index);
    return rc;
}

/* The first whole line at or behind the offset. */
static int sequence_behind(struct segment_reader *r, uint64_t offset, struct segment_block *block,
                           uint64_t *ret_offset, uint64_t *ret_sequence, struct error *err)
{
    struct str one;
    struct line line;
    segment_reader_go_to(r, offset);
    int rc = next_lines(r, block, err);
    struct str text = buf_str(&block->bytes);
    bool is_whole = rc == 1 && (offset == 0 || line_take(&text, &one));
    *ret_sequence = 0;
    *ret_offset = offset + block->bytes.len - text.len;
    while (is_whole && *ret_sequence == 0 && line_take(&text, &one)) {
        *ret_sequence = line_read_head(one, &line) ? line.sequence : 0;
    }
    return rc < 0 ? rc : 0;
}

static int seek_line(struct segment_reader *r, uint64_t sequence, struct segment_block *block,
                     struct error *err)
{
    off_t end = lseek(r->fd, 0, SEEK_END);
    uint64_t low = 0;
    uint64_t high = end > 0 ? (uint64_t)end : 0;
    int rc = 0;
    while (rc == 0 && high - low > SEGMENT_BLOCK_BYTES) {
        uint64_t at;
        uint64_t first;
        uint64_t middle = low + (high - low) / 2;
        rc = sequence_behind(r, middle, block, &at, &first, err);
        if (first > 0 && first <= sequence && at < high) {
            low = at;
        } else {
            high = middle;
        }
    }
    segment_reader_go_to(r, low);
    return rc;
}

void segment_reader_skip(struct segment_reader *r, uint64_t bytes)
{
    off_t end = r->is_compressed ? 0 : lseek(r->fd, 0, SEEK_END);
    segment_reader_go_to(r, end > 0 && (uint64_t)end > bytes ? (uint64_t)end - bytes : 0);
}

int segment_reader_seek(struct segment_reader *r, uint64_t sequence, struct error *err)
{
    struct segment_block block;
    struct buf plain;
    segment_block_init(&block);
    block.is_compressed = r->is_compressed;
    buf_init(&plain, SEGMENT_LINE_MAX_BYTES);
    int rc = r->is_compressed ? seek_frame(r, sequence, &block, &plain, err)
                              : seek_line(r, sequence, &block, err);
    segment_block_free(&block);
    buf_free(&plain);
    return rc;
}
