#include "gateway/auditfile/erase.h"

#include <errno.h>
#include <unistd.h>

#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/record_text.h"
#include "gateway/auditfile/segment_reader.h"
#include "gateway/auditfile/segment_writer.h"
#include "gateway/auditfile/tombstone.h"
#include "gateway/text/json_reader.h"

/* ---- whose a line is ---- */

static bool subject_has(const struct erase_subject *s, struct str uid)
{
    for (size_t i = 0; i < s->count; i++) {
        if (str_is(uid, s->uids[i])) {
            return true;
        }
    }
    return false;
}

bool erase_subject_add(struct erase_subject *s, const char *uid, struct arena *arena)
{
    if (!*uid || subject_has(s, str_from(uid))) {
        return true;
    }
    const char *copy = s->count < ERASE_UIDS_MAX ? arena_strdup(arena, uid) : NULL;
    if (copy) {
        s->uids[s->count++] = copy;
    }
    return copy;
}

static const struct tree_node *user_ref(const struct tree_node *root)
{
    return tree_member(tree_member(tree_member(root, "entry"), "common"), "userRef");
}

static bool is_his(const struct tree_node *root, const struct erase_subject *s)
{
    const char *by_ref = record_text_read(user_ref(root), "uid");
    const char *by_run = record_text_read(tree_member(root, "cordium"), "userUID");
    return (by_ref && subject_has(s, str_from(by_ref))) ||
           (by_run && subject_has(s, str_from(by_run)));
}

/* A cheap look before the parse. */
static bool may_be_his(struct str text, const struct erase_subject *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (memmem(text.ptr, text.len, s->uids[i], strlen(s->uids[i]))) {
            return true;
        }
    }
    return false;
}

/* ---- finding ---- */

static int take_uid(struct str text, const char *name, struct erase_subject *s, struct arena *arena,
                    struct error *err)
{
    struct arena scratch;
    const struct tree_node *root = NULL;
    struct error ignored;
    bool ok = true;
    if (!memmem(text.ptr, text.len, name, strlen(name))) {
        return 0;
    }
    arena_init(&scratch, RECORD_TEXT_ARENA_MAX_BYTES);
    if (json_read(text, &scratch, &root, &ignored) == 0) {
        const char *found = record_text_read(user_ref(root), "name");
        const char *uid = record_text_read(user_ref(root), "uid");
        ok = !found || strcmp(found, name) != 0 || !uid || erase_subject_add(s, uid, arena);
    }
    arena_free(&scratch);
    return ok ? 0
              : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                          "more than %d Users had the name '%s': erase by UID", ERASE_UIDS_MAX,
                          name);
}

int erase_find_uids(int dir_fd, const char *name, struct erase_subject *s, struct arena *arena,
                    struct error *err)
{
    struct log_reader *reader = NULL;
    struct log_line line;
    int rc = log_reader_open(dir_fd, 0, &reader, err);
    while (rc >= 0 && (rc = log_reader_next(reader, &line, err)) == 1) {
        rc = take_uid(line.text, name, s, arena, err);
    }
    log_reader_close(reader);
    return rc;
}

/* Calls take() with each line of a file. */
static int each_line(int dir_fd, const struct segment *segment,
                     int (*take)(void *arg, struct str text, struct error *err), void *arg,
                     struct error *err)
{
    struct segment_reader *reader = NULL;
    struct segment_block block;
    struct buf plain;
    struct str text;
    struct str one;
    int rc = segment_reader_open(dir_fd, segment, &reader, err);
    if (rc) {
        return rc;
    }
    segment_block_init(&block);
    buf_init(&plain, SEGMENT_LINE_MAX_BYTES);
    while ((rc = segment_reader_next(reader, &block, err)) == 1) {
        rc = segment_block_text(&block, &plain, &text, err);
        while (rc == 0 && line_take(&text, &one)) {
            rc = take(arg, one, err);
        }
        if (rc) {
            break;
        }
    }
    segment_reader_close(reader);
    segment_block_free(&block);
    buf_free(&plain);
    return rc;
}

struct finding {
    const struct erase_subject *subject;
    struct hasher *hasher;
    struct buf *lines;
};

static int find_line(void *arg, struct str text, struct error *err)
{
    struct finding *f = arg;
    struct line line;
    struct arena arena;
    const struct tree_node *root = NULL;
    struct error ignored;
    if (!may_be_his(text, f->subject)) {
        return 0;
    }
    if (!line_look(text, f->hasher, &line)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "a line cannot be hashed");
    }
    arena_init(&arena, RECORD_TEXT_ARENA_MAX_BYTES);
    if (line.is_ours && line.kind == LINE_RECORD && json_read(text, &arena, &root, &ignored) == 0 &&
        is_his(root, f->subject)) {
        struct chain found = {.sequence = line.sequence};
        memcpy(found.hash, line.hash, HASH_BYTES);
        buf_add(f->lines, &found, sizeof found);
    }
    arena_free(&arena);
    return f->lines->failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory") : 0;
}

int erase_find_lines(int dir_fd, const struct segment *segment, const struct erase_subject *s,
                     struct buf *ret, struct error *err)
{
    struct finding f = {.subject = s, .hasher = hasher_new(), .lines = ret};
    int rc = f.hasher ? each_line(dir_fd, segment, find_line, &f, err)
                      : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    hasher_free(f.hasher);
    return rc;
}

/* ---- replacing ---- */

struct rewriting {
    struct segment_writer *writer;
    struct buf pending; /* lines that make the next frames */
    const struct chain *lines;
    size_t count;
    size_t next; /* of lines: they come in the same order */
};

static int flush(struct rewriting *r, struct error *err)
{
    int rc = r->pending.failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory")
                               : segment_writer_add(r->writer, buf_str(&r->pending), err);
    buf_clear(&r->pending);
    return rc;
}

static int copy_line(void *arg, struct str text, struct error *err)
{
    struct rewriting *r = arg;
    struct line line;
    bool is_erased = r->next < r->count && line_read_head(text, &line) &&
                     line.sequence == r->lines[r->next].sequence;
    if (is_erased) {
        tombstone_write_stub(line.sequence, line.prev, r->lines[r->next].hash, &r->pending);
        r->next++;
    } else {
        buf_add_str(&r->pending, text);
    }
    buf_add_u8(&r->pending, '\n');
    return r->pending.len >= SEGMENT_BLOCK_BYTES || r->pending.failed ? flush(r, err) : 0;
}

int erase_rewrite(int dir_fd, const struct segment *segment, const struct chain *lines,
                  size_t count, struct error *err)
{
    char other[SEGMENT_NAME_SIZE];
    struct rewriting r = {.lines = lines, .count = count};
    buf_init(&r.pending, SEGMENT_LINE_MAX_BYTES + 2UL * SEGMENT_BLOCK_BYTES);
    int rc = segment_writer_open(dir_fd, segment, &r.writer, err);
    rc = rc ? rc : each_line(dir_fd, segment, copy_line, &r, err);
    rc = rc ? rc : flush(&r, err);
    if (rc == 0 && r.next != count) {
        rc = error_set(err, STATUS_ABORTED, "%s changed meanwhile", segment->name);
    }
    rc = rc ? rc : segment_writer_finish(r.writer, segment->modified_seconds, err);
    rc = rc ? rc : segment_writer_commit(r.writer, err);
    segment_writer_free(r.writer);
    buf_free(&r.pending);
    segment_format_name(segment->first_sequence, !segment->is_compressed, other);
    if (rc == 0 && segment->has_both && unlinkat(dir_fd, other, 0) == -1 && errno != ENOENT) {
        rc = error_set_errno(err, STATUS_UNAVAILABLE, errno, "remove %s", other);
    }
    return rc;
}
