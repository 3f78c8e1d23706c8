#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "gateway/auditfile/file_cursor.h"
#include "gateway/auditfile/index_known.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/line_index_internal.h"
#include "gateway/auditfile/record_text.h"
#include "gateway/auditfile/tombstone.h"

enum {
    LIST_ARENA_MAX_BYTES = 256 << 20,
    LINE_ARENA_MAX_BYTES = 4 << 20,
    LIST_MAX_BYTES = 1 << 30,
    LISTINGS_MAX = 16, /* of a folder that changes under our hands */
    IDLE_SECONDS = 2,  /* a wake-up that was missed costs no more */
};

/* A file that lines are taken from, into rows of its own. */
struct source {
    struct file_cursor *cursor; /* NULL: none */
    struct segment segment;
    uint64_t file;      /* its first sequence; 0 until a line tells */
    uint64_t strangers; /* lines of an active file before its first one of ours */
    bool is_finished;
    struct index_rows *rows;
};

struct builder {
    struct line_index *ix;
    struct index_db *db;
    int dir_fd;
    struct arena scratch;
    int64_t next_id;
    struct source tail;     /* the newest file */
    struct source past;     /* one that the index does not have yet */
    struct buf past_chunks; /* struct index_chunk, of `past` */
};

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log's index");
}

/* ---- lines ---- */

static int store_rows(struct builder *b, struct source *s, struct error *err)
{
    struct index_chunk chunk = s->rows->chunk;
    int rc = chunk.rows > 0 ? index_rows_store(s->rows, b->db, err) : 0;
    if (rc) {
        return rc;
    }
    bool ok = true;
    if (s == &b->tail) {
        ok = line_index_publish_kept_tail(b->ix, &chunk);
    } else if (chunk.rows > 0) {
        buf_add(&b->past_chunks, &chunk, sizeof chunk);
        ok = !b->past_chunks.failed;
    }
    index_rows_begin(s->rows, b->next_id++, s->file, chunk.end_offset);
    return ok ? 0 : no_memory(err);
}

static int drop_file(struct builder *b, uint64_t file, struct error *err)
{
    int rc = index_db_drop_file(b->db, file, err);
    if (rc == 0) {
        line_index_unpublish_file(b->ix, file);
    }
    return rc;
}

/* Its lines have to be looked at again. */
static int redo_file(struct builder *b, uint64_t file, struct error *err)
{
    if ((b->tail.cursor && file == b->tail.file) || file == 0) {
        return 0;
    }
    line_index_forget_unread(b->ix, file);
    if (!line_index_add_gap(b->ix, file)) {
        return no_memory(err);
    }
    return drop_file(b, file, err);
}

/* What is deleted or erased is not found any more. */
static int take_tombstone(struct builder *b, struct str text, struct error *err)
{
    struct arena arena;
    struct tombstone t;
    uint64_t file = 0;
    bool is_compressed;
    int rc = 0;
    arena_init(&arena, RECORD_TEXT_ARENA_MAX_BYTES);
    if (tombstone_read(text, &arena, &t)) {
        if (t.is_erasure && segment_parse_name(t.erasure.name, &file, &is_compressed)) {
            rc = redo_file(b, file, err);
        } else if (!t.is_erasure && t.file.first_sequence != b->tail.file) {
            line_index_remove_gap(b->ix, t.file.first_sequence);
            line_index_forget_unread(b->ix, t.file.first_sequence);
            rc = drop_file(b, t.file.first_sequence, err);
        }
    }
    arena_free(&arena);
    return rc;
}

static int take_line(struct builder *b, struct source *s, struct str text, uint64_t offset,
                     struct error *err)
{
    struct line line;
    if (!line_read_head(text, &line)) {
        s->strangers++;
        return 0;
    }
    if (s->file == 0) {
        s->file = line.sequence > s->strangers ? line.sequence - s->strangers : line.sequence;
        s->rows->chunk.file = s->file;
    }
    int rc = index_rows_is_full(s->rows) ? store_rows(b, s, err) : 0;
    if (rc == 0) {
        index_rows_add(s->rows, b->db, text, line.sequence, offset, &b->scratch);
        arena_reset(&b->scratch);
        rc = s == &b->tail && line.kind == LINE_TOMBSTONE ? take_tombstone(b, text, err) : 0;
    }
    return rc;
}

/* The next lines of a source. 1; 0 at its end. */
static int take_lines(struct builder *b, struct source *s, struct error *err)
{
    struct file_lines lines = {STR_NONE, 0};
    struct str one;
    int rc = file_cursor_next(s->cursor, &lines, err);
    uint64_t offset = lines.offset;
    struct str text = lines.text;
    while (rc == 1 && line_take(&text, &one)) {
        int taken = take_line(b, s, one, offset, err);
        rc = taken < 0 ? taken : 1;
        offset += one.len + 1;
    }
    if (rc == 1 && s == &b->tail) {
        line_index_publish_tail(b->ix, s->rows);
    }
    return rc;
}

/* ---- files ---- */

static int open_source(struct builder *b, struct source *s, const struct segment *segment,
                       uint64_t offset, struct error *err)
{
    file_cursor_close(s->cursor);
    s->cursor = NULL;
    s->segment = *segment;
    s->file = segment->is_active ? 0 : segment->first_sequence;
    s->strangers = 0;
    s->is_finished = !segment->is_active;
    index_rows_begin(s->rows, b->next_id++, s->file, offset);
    return file_cursor_open(b->dir_fd, segment, offset, &s->cursor, err);
}

/* How the file stands on the disk now. False when it is gone. */
static bool stat_file(const struct builder *b, uint64_t file, struct index_file *ret)
{
    char name[SEGMENT_NAME_SIZE];
    struct stat st;
    for (int is_compressed = 0; is_compressed <= 1; is_compressed++) {
        segment_format_name(file, is_compressed, name);
        if (fstatat(b->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            *ret = (struct index_file){
                .file = file, .disk_bytes = (uint64_t)st.st_size, .is_compressed = is_compressed};
            return true;
        }
    }
    return false;
}

/* All lines of a finished file are in. */
static int finish_source(struct builder *b, struct source *s, struct error *err)
{
    struct index_file file;
    uint64_t bytes = file_cursor_offset(s->cursor);
    if (s->file == 0) {
        return error_set(err, STATUS_UNAVAILABLE, "a file of the log without a line was replaced");
    }
    file_cursor_close(s->cursor);
    s->cursor = NULL;
    int rc = store_rows(b, s, err);
    if (rc == 0 && stat_file(b, s->file, &file)) {
        file.bytes = bytes;
        rc = index_db_put_file(b->db, &file, err);
    }
    return rc;
}

static int list(const struct builder *b, struct arena *arena, struct segment **ret, size_t *count,
                struct error *err)
{
    arena_reset(arena);
    return segment_list(b->dir_fd, arena, ret, count, err);
}

static uint64_t newest_finished(const struct segment *s, size_t count)
{
    for (size_t i = count; i > 0; i--) {
        if (!s[i - 1].is_active) {
            return s[i - 1].first_sequence;
        }
    }
    return 0;
}

/* The file behind `file`. */
static const struct segment *behind(const struct segment *s, size_t count, uint64_t file)
{
    for (size_t i = 0; i < count; i++) {
        if (s[i].first_sequence > file) {
            return &s[i];
        }
    }
    return NULL;
}

/* Opens the file behind the given one as the tail. The active file must be the one that stood
 * behind the others when they were listed. */
static int open_tail_behind(struct builder *b, uint64_t file, struct arena *arena,
                            struct error *err)
{
    for (int i = 0; i < LISTINGS_MAX; i++) {
        struct segment *segments;
        size_t count;
        int rc = list(b, arena, &segments, &count, err);
        const struct segment *next = rc ? NULL : behind(segments, count, file);
        if (rc || !next) {
            return rc;
        }
        uint64_t newest = newest_finished(segments, count);
        rc = open_source(b, &b->tail, next, 0, err);
        if (rc == 0 && b->tail.segment.is_active) {
            rc = list(b, arena, &segments, &count, err);
            if (rc == 0 && newest_finished(segments, count) != newest) {
                continue;
            }
        }
        if (rc != -STATUS_NOT_FOUND) {
            return rc;
        }
    }
    return error_set(err, STATUS_UNAVAILABLE, "the audit log's files change too fast");
}

/* Has the active file another name by now, or none? */
static bool has_finished(const struct builder *b)
{
    struct stat st;
    return fstatat(b->dir_fd, SEGMENT_ACTIVE_NAME, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
           (uint64_t)st.st_ino != file_cursor_inode(b->tail.cursor);
}

/* Takes in what the newest file has more, and goes on to the next when it is finished. */
static int follow(struct builder *b, struct error *err)
{
    struct arena arena;
    int rc = 1;
    arena_init(&arena, LIST_ARENA_MAX_BYTES);
    while (rc == 1 && !line_index_is_stopping(b->ix)) {
        if (!b->tail.cursor) {
            rc = open_tail_behind(b, b->tail.file, &arena, err);
            rc = rc == 0 && b->tail.cursor ? 1 : rc;
            continue;
        }
        rc = take_lines(b, &b->tail, err);
        if (rc == 0 && b->tail.is_finished) {
            rc = finish_source(b, &b->tail, err);
            rc = rc ? rc : 1;
        } else if (rc == 0 && has_finished(b)) {
            b->tail.is_finished = true; /* what came before it was renamed is still to be read */
            rc = 1;
        }
    }
    arena_free(&arena);
    return rc < 0 ? rc : 0;
}

/* ---- files that are not in yet ---- */

static uint64_t newest_gap(struct line_index *ix)
{
    (void)pthread_mutex_lock(&ix->lock);
    size_t n = ix->gaps.len / sizeof(uint64_t);
    uint64_t file = n > 0 ? ((const uint64_t *)(const void *)ix->gaps.ptr)[n - 1] : 0;
    (void)pthread_mutex_unlock(&ix->lock);
    return file;
}

static int begin_past(struct builder *b, uint64_t file, struct error *err)
{
    struct index_file found;
    struct segment segment = {.first_sequence = file};
    buf_clear(&b->past_chunks);
    int rc = drop_file(b, file, err); /* what was begun */
    if (rc == 0 && !stat_file(b, file, &found)) {
        line_index_remove_gap(b->ix, file);
        return 0;
    }
    if (rc == 0) {
        segment.is_compressed = found.is_compressed;
        segment_format_name(file, found.is_compressed, segment.name);
        rc = open_source(b, &b->past, &segment, 0, err);
    }
    return rc == -STATUS_NOT_FOUND ? 0 : rc; /* compressed meanwhile: next time */
}

/* A file that cannot be read is logged once, told with each answer that lacks its lines, and looked
 * at again when it changes. */
static int give_up_past(struct builder *b, struct error *err)
{
    struct index_unread unread = {.file = b->past.file};
    log_warning("audit log: its index: %s: %s; its lines are not found until it is put back from "
                "a copy",
                b->past.segment.name, err->text);
    (void)snprintf(unread.name, sizeof unread.name, "%s", b->past.segment.name);
    (void)snprintf(unread.text, sizeof unread.text, "%.*s", (int)sizeof unread.text - 1, err->text);
    index_unread_stat(&unread, b->dir_fd);
    file_cursor_close(b->past.cursor);
    b->past.cursor = NULL;
    return line_index_give_up_file(b->ix, &unread) ? 0 : no_memory(err);
}

/* The thread alone changes the list. 0 when there is none. */
static uint64_t changed_unread(const struct builder *b)
{
    const struct buf *list = &b->ix->unread;
    const struct index_unread *all = (const struct index_unread *)(const void *)list->ptr;
    for (size_t i = 0; i < list->len / sizeof *all; i++) {
        if (index_unread_has_changed(&all[i], b->dir_fd)) {
            return all[i].file;
        }
    }
    return 0;
}

static int retry_unread(struct builder *b, struct error *err)
{
    uint64_t file = changed_unread(b);
    return file > 0 ? redo_file(b, file, err) : 0;
}

static int end_past(struct builder *b, struct error *err)
{
    int rc = finish_source(b, &b->past, err);
    if (rc == 0 && !line_index_publish_file(b->ix, b->past.file, &b->past_chunks)) {
        rc = no_memory(err);
    }
    return rc;
}

/* Some lines of the newest file that the index does not have. 1; 0 when it has all. */
static int take_past(struct builder *b, struct error *err)
{
    uint64_t file = newest_gap(b->ix);
    if (file == 0) {
        return 0;
    }
    if (!b->past.cursor || b->past.file != file) {
        int rc = begin_past(b, file, err);
        return rc ? rc : 1;
    }
    int rc = take_lines(b, &b->past, err);
    if (rc == -STATUS_DATA_LOSS) {
        rc = give_up_past(b, err);
    } else if (rc == 0) {
        rc = end_past(b, err);
    }
    return rc < 0 ? rc : 1;
}

/* ---- what there was before ---- */

/* What is to be taken in. */
static int add_gaps(struct builder *b, const struct segment *s, size_t count,
                    const struct buf *known, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!s[i].is_active && !index_known_has(known, s[i].first_sequence) &&
            !line_index_add_gap(b->ix, s[i].first_sequence)) {
            return no_memory(err);
        }
    }
    return 0;
}

/* Publishes the chunks of known files, and drops those of others; the active file's are kept, and
 * told in *ret_resume: the last of them. */
static int sort_chunks(struct builder *b, const struct buf *chunks, const struct buf *known,
                       struct index_chunk *ret_resume, struct error *err)
{
    const struct index_chunk *c = (const struct index_chunk *)(const void *)chunks->ptr;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < chunks->len / sizeof *c; i++) {
        b->next_id = c[i].id >= b->next_id ? c[i].id + 1 : b->next_id;
        if (index_known_has(known, c[i].file) || (b->tail.file > 0 && c[i].file == b->tail.file)) {
            rc = line_index_publish_kept_tail(b->ix, &c[i]) ? 0 : no_memory(err);
            *ret_resume = c[i].file == b->tail.file ? c[i] : *ret_resume;
        } else if (i == 0 || c[i].file != c[i - 1].file) {
            rc = index_db_drop_file(b->db, c[i].file, err);
        }
    }
    return rc;
}

/* The active file's first sequence, by its first lines. */
static int identify_tail(struct builder *b, struct error *err)
{
    struct file_lines lines;
    struct str one;
    struct line line;
    uint64_t strangers = 0;
    int rc = b->tail.cursor && b->tail.segment.is_active
                 ? file_cursor_next(b->tail.cursor, &lines, err)
                 : 0;
    while (rc == 1 && b->tail.file == 0 && line_take(&lines.text, &one)) {
        if (line_read_head(one, &line)) {
            b->tail.file = line.sequence > strangers ? line.sequence - strangers : line.sequence;
        }
        strangers++;
    }
    return rc < 0 ? rc : 0;
}

/* Goes on in the active file behind the chunk that was kept last. When what stands there is not the
 * next line, the file is another: its lines are taken in from its beginning. */
static int resume_tail(struct builder *b, const struct index_chunk *last, struct error *err)
{
    struct file_lines lines;
    struct str one;
    struct line line;
    uint64_t offset = last->end_offset;
    if (!b->tail.cursor || b->tail.is_finished) {
        return 0;
    }
    file_cursor_go_to(b->tail.cursor, offset);
    int rc = last->rows > 0 ? file_cursor_next(b->tail.cursor, &lines, err) : 0;
    if (rc == 1 && line_take(&lines.text, &one) && line_read_head(one, &line) &&
        line.sequence != last->last_sequence + 1) {
        rc = drop_file(b, b->tail.file, err);
        offset = 0;
    }
    file_cursor_go_to(b->tail.cursor, offset);
    index_rows_begin(b->tail.rows, b->next_id++, b->tail.file, offset);
    return rc < 0 ? rc : 0;
}

static int load(struct builder *b, const struct segment *s, size_t count, struct error *err)
{
    struct buf chunks;
    struct buf known;
    struct index_chunk resume = {0};
    buf_init(&chunks, LIST_MAX_BYTES);
    buf_init(&known, LIST_MAX_BYTES);
    int rc = index_db_list_chunks(b->db, &chunks, err);
    rc = rc ? rc : index_known_list(b->db, b->dir_fd, s, count, &known, err);
    rc = rc ? rc : add_gaps(b, s, count, &known, err);
    rc = rc ? rc : identify_tail(b, err);
    rc = rc ? rc : sort_chunks(b, &chunks, &known, &resume, err);
    rc = rc ? rc : resume_tail(b, &resume, err);
    buf_free(&chunks);
    buf_free(&known);
    return rc;
}

/* The newest file first: what has just happened is asked for most. */
static int begin(struct builder *b, struct error *err)
{
    struct arena arena;
    struct segment *segments;
    size_t count;
    arena_init(&arena, LIST_ARENA_MAX_BYTES);
    int rc = list(b, &arena, &segments, &count, err);
    uint64_t newest = rc ? 0 : newest_finished(segments, count);
    rc = rc ? rc : open_tail_behind(b, newest, &arena, err);
    b->tail.file = rc == 0 && !b->tail.cursor ? newest : b->tail.file;
    rc = rc ? rc : list(b, &arena, &segments, &count, err);
    rc = rc ? rc : load(b, segments, count, err);
    arena_free(&arena);
    return rc;
}

/* ---- the thread's work ---- */

static int redo_refreshed(struct builder *b, struct error *err)
{
    struct line_index *ix = b->ix;
    uint64_t file = 0;
    int rc = 0;
    do {
        (void)pthread_mutex_lock(&ix->lock);
        size_t n = ix->refreshes.len / sizeof file;
        file = n > 0 ? ((const uint64_t *)(const void *)ix->refreshes.ptr)[n - 1] : 0;
        ix->refreshes.len -= n > 0 ? sizeof file : 0;
        (void)pthread_mutex_unlock(&ix->lock);
        rc = redo_file(b, file, err);
    } while (rc == 0 && file > 0);
    return rc;
}

static void set_ready(struct line_index *ix)
{
    (void)pthread_mutex_lock(&ix->lock);
    ix->is_ready = true;
    ix->failure = (struct error){0};
    (void)pthread_cond_broadcast(&ix->changed);
    (void)pthread_mutex_unlock(&ix->lock);
}

static void idle(struct line_index *ix)
{
    struct timespec until;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_SECONDS;
    (void)pthread_mutex_lock(&ix->lock);
    while (!ix->is_awake && !ix->is_stopping && rc == 0) {
        rc = pthread_cond_timedwait(&ix->woken, &ix->lock, &until);
    }
    ix->is_awake = false;
    (void)pthread_mutex_unlock(&ix->lock);
}

static bool must_end(struct line_index *ix)
{
    (void)pthread_mutex_lock(&ix->lock);
    bool must = ix->is_stopping || ix->is_damaged;
    (void)pthread_mutex_unlock(&ix->lock);
    return must;
}

static int work(struct builder *b, struct error *err)
{
    int rc = begin(b, err);
    rc = rc ? rc : follow(b, err);
    if (rc == 0) {
        set_ready(b->ix);
    }
    while (rc == 0 && !must_end(b->ix)) {
        rc = follow(b, err);
        rc = rc ? rc : redo_refreshed(b, err);
        rc = rc ? rc : retry_unread(b, err);
        rc = rc ? rc : take_past(b, err);
        if (rc == 0) {
            idle(b->ix);
        }
        rc = rc == 1 ? 0 : rc;
    }
    return rc;
}

int index_builder_run(struct line_index *ix, struct error *err)
{
    struct builder b = {.ix = ix, .db = ix->db, .dir_fd = ix->dir_fd, .next_id = 1};
    arena_init(&b.scratch, LINE_ARENA_MAX_BYTES);
    buf_init(&b.past_chunks, LIST_MAX_BYTES);
    b.tail.rows = index_rows_new();
    b.past.rows = index_rows_new();
    int rc = b.tail.rows && b.past.rows ? work(&b, err) : no_memory(err);
    (void)pthread_mutex_lock(&ix->lock);
    ix->tail = NULL;
    ix->tail_chunk = (struct index_chunk){0};
    (void)pthread_mutex_unlock(&ix->lock);
    file_cursor_close(b.tail.cursor);
    file_cursor_close(b.past.cursor);
    index_rows_free(b.tail.rows);
    index_rows_free(b.past.rows);
    buf_free(&b.past_chunks);
    arena_free(&b.scratch);
    return rc;
}
