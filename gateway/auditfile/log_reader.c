#include "gateway/auditfile/log_reader.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/segment_reader.h"

enum {
    LIST_ARENA_MAX_BYTES = 256 << 20,
    LISTINGS_MAX = 16, /* of a folder that changes under our hands */
};

struct log_reader {
    int dir_fd;
    uint64_t from_sequence;
    bool has_begun; /* a line of from_sequence or later was met */
    struct segment current;
    bool has_current; /* it is open, or was read */
    struct segment_reader *reader;
    struct segment_block block;
    struct buf plain;
    struct str left; /* of the block */
};

int log_reader_open(int dir_fd, uint64_t from_sequence, struct log_reader **ret, struct error *err)
{
    struct log_reader *r = calloc(1, sizeof *r);
    if (!r) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
    }
    r->from_sequence = from_sequence;
    segment_block_init(&r->block);
    buf_init(&r->plain, SEGMENT_LINE_MAX_BYTES);
    r->dir_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->dir_fd == -1) {
        log_reader_close(r);
        return error_set(err, STATUS_UNAVAILABLE, "the audit log's folder cannot be opened");
    }
    *ret = r;
    return 0;
}

void log_reader_close(struct log_reader *r)
{
    if (r) {
        segment_reader_close(r->reader);
        segment_block_free(&r->block);
        buf_free(&r->plain);
        fd_close(&r->dir_fd);
        free(r);
    }
}

/* The file to read next, by what is there now: the one that holds from_sequence, or the one behind
 * the current. NULL when there is none. */
static const struct segment *choose(const struct log_reader *r, const struct segment *list,
                                    size_t count)
{
    const struct segment *chosen = NULL;
    for (size_t i = 0; i < count; i++) {
        if (r->has_current) {
            if (list[i].first_sequence > r->current.first_sequence) {
                return &list[i];
            }
        } else if (!chosen || list[i].first_sequence <= r->from_sequence) {
            chosen = &list[i];
        }
    }
    return chosen;
}

static uint64_t newest_finished(const struct segment *list, size_t count)
{
    for (size_t i = count; i > 0; i--) {
        if (!list[i - 1].is_active) {
            return list[i - 1].first_sequence;
        }
    }
    return 0;
}

/* Opens the next file. 1; 0 when there is none; -NOT_FOUND when it changed its name meanwhile. */
static int open_listed(struct log_reader *r, struct arena *arena, struct error *err)
{
    struct segment *list;
    struct segment *again;
    size_t count;
    size_t count_again;
    if (segment_list(r->dir_fd, arena, &list, &count, err) < 0) {
        return -err->status;
    }
    const struct segment *next = choose(r, list, count);
    if (!next) {
        return 0;
    }
    int rc = segment_reader_open(r->dir_fd, next, &r->reader, err);
    if (rc == 0 && next->is_active) {
        /* The file of that name must be the one that stood behind the others. */
        rc = segment_list(r->dir_fd, arena, &again, &count_again, err);
        if (rc == 0 && newest_finished(again, count_again) != newest_finished(list, count)) {
            rc = error_set(err, STATUS_NOT_FOUND, "the audit log was rotated");
        }
    }
    if (rc == 0 && !r->has_current) {
        rc = segment_reader_seek(r->reader, r->from_sequence, err);
    }
    if (rc != -STATUS_NOT_FOUND) {
        r->current = *next; /* also when it cannot be read, for who names it */
    }
    if (rc < 0) {
        segment_reader_close(r->reader);
        r->reader = NULL;
        return rc;
    }
    r->has_current = true;
    return 1;
}

static int open_next(struct log_reader *r, struct error *err)
{
    int rc = -STATUS_NOT_FOUND;
    for (int i = 0; i < LISTINGS_MAX && rc == -STATUS_NOT_FOUND; i++) {
        struct arena arena;
        arena_init(&arena, LIST_ARENA_MAX_BYTES);
        rc = open_listed(r, &arena, err);
        arena_free(&arena);
    }
    return rc;
}

int log_reader_next_block(struct log_reader *r, struct log_block *ret, struct error *err)
{
    for (;;) {
        int rc = r->reader ? segment_reader_next(r->reader, ret->block, err) : 0;
        if (rc != 0) {
            ret->segment = r->current;
            return rc;
        }
        segment_reader_close(r->reader);
        r->reader = NULL;
        if (r->has_current && r->current.is_active) {
            return 0;
        }
        rc = open_next(r, err);
        if (rc != 1) {
            ret->segment = r->current;
            return rc;
        }
    }
}

/* The next block with something in it. */
static int fill(struct log_reader *r, struct error *err)
{
    struct log_block block = {.block = &r->block};
    int rc;
    do {
        rc = log_reader_next_block(r, &block, err);
        if (rc == 1 && segment_block_text(&r->block, &r->plain, &r->left, err) < 0) {
            return error_wrap(err, "%s", r->current.name);
        }
    } while (rc == 1 && r->left.len == 0);
    return rc;
}

/* False for what stands before the line that was asked for. */
static bool is_wanted(struct log_reader *r, struct str text)
{
    struct line line;
    if (!r->has_begun && line_read_head(text, &line)) {
        r->has_begun = line.sequence >= r->from_sequence;
    }
    return r->has_begun || r->from_sequence <= 1;
}

int log_reader_next(struct log_reader *r, struct log_line *ret, struct error *err)
{
    struct str text;
    do {
        int rc = r->left.len > 0 ? 1 : fill(r, err);
        if (rc != 1) {
            return rc;
        }
        bool is_torn = r->current.is_active && r->block.is_last_torn;
        (void)line_take(&r->left, &text);
        if (is_torn && r->left.len == 0) {
            return 0;
        }
    } while (!is_wanted(r, text));
    *ret = (struct log_line){.text = text, .file = r->current.name};
    return 1;
}
