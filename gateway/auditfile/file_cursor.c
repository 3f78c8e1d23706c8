#include "gateway/auditfile/file_cursor.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/auditfile/segment_reader.h"

struct file_cursor {
    struct segment_reader *reader;
    struct segment_block block;
    struct buf plain;
    bool is_active;
    uint64_t offset; /* among the lines */
    uint64_t wanted; /* what stands before it is passed over */
};

int file_cursor_open(int dir_fd, const struct segment *segment, uint64_t offset,
                     struct file_cursor **ret, struct error *err)
{
    struct file_cursor *c = calloc(1, sizeof *c);
    if (!c) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
    }
    segment_block_init(&c->block);
    buf_init(&c->plain, SEGMENT_LINE_MAX_BYTES);
    c->is_active = segment->is_active;
    c->wanted = offset;
    int rc = segment_reader_open(dir_fd, segment, &c->reader, err);
    if (rc) {
        file_cursor_close(c);
        return rc;
    }
    if (!segment->is_compressed) {
        file_cursor_go_to(c, offset);
    }
    *ret = c;
    return 0;
}

void file_cursor_close(struct file_cursor *c)
{
    if (c) {
        segment_reader_close(c->reader);
        segment_block_free(&c->block);
        buf_free(&c->plain);
        free(c);
    }
}

uint64_t file_cursor_offset(const struct file_cursor *c)
{
    return c->offset;
}

void file_cursor_go_to(struct file_cursor *c, uint64_t offset)
{
    segment_reader_go_to(c->reader, offset);
    c->offset = offset;
    c->wanted = offset;
}

uint64_t file_cursor_inode(const struct file_cursor *c)
{
    return segment_reader_inode(c->reader);
}

/* What has no newline yet is read again when it has. */
static void leave_unended(struct file_cursor *c, struct str *text)
{
    const char *newline = text->len > 0 ? memrchr(text->ptr, '\n', text->len) : NULL;
    size_t whole = newline ? (size_t)(newline - text->ptr) + 1 : 0;
    if (whole < text->len) {
        text->len = whole;
        segment_reader_go_to(c->reader, c->offset + whole);
    }
}

static int next_block(struct file_cursor *c, struct str *ret, struct error *err)
{
    int rc = segment_reader_next(c->reader, &c->block, err);
    if (rc == 1 && segment_block_text(&c->block, &c->plain, ret, err) < 0) {
        return -err->status;
    }
    if (rc == 1 && c->is_active && c->block.is_last_torn) {
        leave_unended(c, ret);
        rc = ret->len > 0;
    }
    return rc;
}

int file_cursor_next(struct file_cursor *c, struct file_lines *ret, struct error *err)
{
    for (;;) {
        struct str text;
        int rc = next_block(c, &text, err);
        if (rc != 1) {
            return rc;
        }
        uint64_t begin = c->offset;
        c->offset += text.len;
        if (c->offset > c->wanted) {
            size_t skipped = begin < c->wanted ? (size_t)(c->wanted - begin) : 0;
            *ret = (struct file_lines){str_make(text.ptr + skipped, text.len - skipped),
                                       begin + skipped};
            return 1;
        }
    }
}
