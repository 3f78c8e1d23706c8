#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "gateway/auditfile/line_index_internal.h"

enum {
    RETRY_SECONDS = 10,
    LIST_MAX_BYTES = 1 << 30,
    CELL_MAX_BYTES = INDEX_CHUNK_ROWS * 8 + 64,
};

/* ---- the thread ---- */

/* Under the lock: until then, or until it is woken to stop. */
static void wait_for(struct line_index *ix, unsigned seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (!ix->is_stopping && pthread_cond_timedwait(&ix->woken, &ix->lock, &until) == 0) {
    }
}

static void forget_all(struct line_index *ix)
{
    buf_clear(&ix->chunks);
    buf_clear(&ix->gaps);
    buf_clear(&ix->refreshes);
    buf_clear(&ix->unread);
    ix->tail = NULL;
    ix->tail_chunk = (struct index_chunk){0};
    ix->indexed_sequence = 0;
    ix->is_ready = false;
    ix->generation++;
}

/* A database that SQLite or we cannot read is made anew. */
static int open_db(struct line_index *ix, bool is_damaged, struct error *err)
{
    struct index_db *db = ix->db;
    int rc = db && is_damaged ? index_db_reset(db, err) : 0;
    rc = db || rc ? rc : index_db_open(ix->dir, &db, err);
    (void)pthread_mutex_lock(&ix->lock);
    ix->db = rc ? ix->db : db;
    (void)pthread_mutex_unlock(&ix->lock);
    return rc;
}

static bool is_damage(int rc)
{
    return rc == -STATUS_FAILED_PRECONDITION || rc == -STATUS_INTERNAL ||
           rc == -STATUS_ALREADY_EXISTS;
}

static void *run(void *arg)
{
    struct line_index *ix = arg;
    bool is_damaged = false;
    while (!line_index_is_stopping(ix)) {
        struct error err = {0};
        int rc = open_db(ix, is_damaged, &err);
        rc = rc ? rc : index_builder_run(ix, &err);
        (void)pthread_mutex_lock(&ix->lock);
        bool was_damaged = is_damaged;
        is_damaged = ix->is_damaged || is_damage(rc);
        bool is_in_vain = !ix->is_damaged && (!is_damaged || was_damaged);
        forget_all(ix);
        if (rc && !ix->is_stopping) {
            log_warning("audit log: its index: %s; %s", err.text,
                        is_damaged ? "it is made anew" : "tried again later");
        }
        if (rc && is_in_vain) {
            ix->failure = err;
            (void)pthread_cond_broadcast(&ix->changed);
            wait_for(ix, RETRY_SECONDS);
        }
        ix->is_damaged = false;
        (void)pthread_mutex_unlock(&ix->lock);
    }
    return NULL;
}

/* ---- what the thread tells ---- */

static void tell(struct line_index *ix)
{
    (void)pthread_cond_broadcast(&ix->changed);
    (void)pthread_mutex_unlock(&ix->lock);
    if (ix->options.progress) {
        ix->options.progress(ix->options.arg);
    }
}

void line_index_publish_tail(struct line_index *ix, const struct index_rows *rows)
{
    (void)pthread_mutex_lock(&ix->lock);
    ix->tail = rows;
    ix->tail_chunk = rows->chunk;
    if (rows->chunk.rows > 0) {
        ix->indexed_sequence = rows->chunk.last_sequence;
    }
    tell(ix);
}

static size_t chunk_count(const struct line_index *ix)
{
    return ix->chunks.len / sizeof(struct index_chunk);
}

static struct index_chunk *chunk_list(const struct line_index *ix)
{
    return (struct index_chunk *)(void *)ix->chunks.ptr;
}

/* Puts chunks of one file, in their order, where they belong. */
static bool insert_chunks(struct line_index *ix, const struct index_chunk *list, size_t count)
{
    size_t n = chunk_count(ix);
    size_t at = n;
    if (count == 0) {
        return true;
    }
    buf_add(&ix->chunks, list, count * sizeof *list);
    if (ix->chunks.failed) {
        return false;
    }
    struct index_chunk *all = chunk_list(ix);
    while (at > 0 && all[at - 1].first_sequence > list[0].first_sequence) {
        at--;
    }
    memmove(all + at + count, all + at, (n - at) * sizeof *all);
    memcpy(all + at, list, count * sizeof *all);
    return true;
}

bool line_index_publish_kept_tail(struct line_index *ix, const struct index_chunk *chunk)
{
    (void)pthread_mutex_lock(&ix->lock);
    bool ok = insert_chunks(ix, chunk, chunk->rows > 0 ? 1 : 0);
    ix->tail_chunk = (struct index_chunk){0};
    ix->indexed_sequence = chunk->rows > 0 ? chunk->last_sequence : ix->indexed_sequence;
    tell(ix);
    return ok;
}

static size_t find_number(const struct buf *list, uint64_t value)
{
    const uint64_t *values = (const uint64_t *)(const void *)list->ptr;
    size_t i = 0;
    while (i < list->len / sizeof *values && values[i] < value) {
        i++;
    }
    return i;
}

static bool has_number(const struct buf *list, size_t at, uint64_t value)
{
    const uint64_t *values = (const uint64_t *)(const void *)list->ptr;
    return at < list->len / sizeof *values && values[at] == value;
}

static void drop_gap(struct line_index *ix, uint64_t file)
{
    uint64_t *values = (uint64_t *)(void *)ix->gaps.ptr;
    size_t at = find_number(&ix->gaps, file);
    if (has_number(&ix->gaps, at, file)) {
        size_t behind = ix->gaps.len / sizeof *values - at - 1;
        memmove(values + at, values + at + 1, behind * sizeof *values);
        ix->gaps.len -= sizeof *values;
    }
}

bool line_index_publish_file(struct line_index *ix, uint64_t file, const struct buf *chunks)
{
    const struct index_chunk *list = (const struct index_chunk *)(const void *)chunks->ptr;
    size_t count = chunks->len / sizeof *list;
    (void)pthread_mutex_lock(&ix->lock);
    bool ok = insert_chunks(ix, list, count);
    if (count > 0 && list[count - 1].last_sequence > ix->indexed_sequence) {
        ix->indexed_sequence = list[count - 1].last_sequence;
    }
    drop_gap(ix, file);
    tell(ix);
    return ok;
}

void line_index_unpublish_file(struct line_index *ix, uint64_t file)
{
    size_t kept = 0;
    (void)pthread_mutex_lock(&ix->lock);
    struct index_chunk *all = chunk_list(ix);
    for (size_t i = 0; i < chunk_count(ix); i++) {
        if (all[i].file != file) {
            all[kept++] = all[i];
        }
    }
    ix->chunks.len = kept * sizeof *all;
    tell(ix);
}

bool line_index_add_gap(struct line_index *ix, uint64_t file)
{
    (void)pthread_mutex_lock(&ix->lock);
    size_t at = find_number(&ix->gaps, file);
    if (!has_number(&ix->gaps, at, file)) {
        buf_add_u64(&ix->gaps, file);
        uint64_t *values = (uint64_t *)(void *)ix->gaps.ptr;
        size_t behind = ix->gaps.failed ? 0 : ix->gaps.len / sizeof *values - at - 1;
        memmove(values + at + 1, values + at, behind * sizeof *values);
        if (!ix->gaps.failed) {
            values[at] = file;
        }
    }
    bool ok = !ix->gaps.failed;
    (void)pthread_mutex_unlock(&ix->lock);
    return ok;
}

void line_index_remove_gap(struct line_index *ix, uint64_t file)
{
    (void)pthread_mutex_lock(&ix->lock);
    drop_gap(ix, file);
    tell(ix);
}

static void drop_unread(struct line_index *ix, uint64_t file)
{
    struct index_unread *all = (struct index_unread *)(void *)ix->unread.ptr;
    size_t kept = 0;
    for (size_t i = 0; i < ix->unread.len / sizeof *all; i++) {
        if (all[i].file != file) {
            all[kept++] = all[i];
        }
    }
    ix->unread.len = kept * sizeof *all;
}

bool line_index_give_up_file(struct line_index *ix, const struct index_unread *unread)
{
    (void)pthread_mutex_lock(&ix->lock);
    drop_unread(ix, unread->file);
    buf_add(&ix->unread, unread, sizeof *unread);
    bool ok = !ix->unread.failed;
    if (ok) {
        drop_gap(ix, unread->file);
    }
    tell(ix);
    return ok;
}

void line_index_forget_unread(struct line_index *ix, uint64_t file)
{
    (void)pthread_mutex_lock(&ix->lock);
    drop_unread(ix, file);
    (void)pthread_mutex_unlock(&ix->lock);
}

bool line_index_is_stopping(struct line_index *ix)
{
    (void)pthread_mutex_lock(&ix->lock);
    bool is_stopping = ix->is_stopping;
    (void)pthread_mutex_unlock(&ix->lock);
    return is_stopping;
}

/* ---- open and close ---- */

int line_index_open(const struct line_index_options *options, struct line_index **ret,
                    struct error *err)
{
    struct line_index *ix = calloc(1, sizeof *ix);
    if (!ix) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    ix->options = *options;
    (void)pthread_mutex_init(&ix->lock, NULL);
    (void)pthread_cond_init(&ix->woken, NULL);
    (void)pthread_cond_init(&ix->changed, NULL);
    buf_init(&ix->chunks, LIST_MAX_BYTES);
    buf_init(&ix->gaps, LIST_MAX_BYTES);
    buf_init(&ix->refreshes, LIST_MAX_BYTES);
    buf_init(&ix->unread, LIST_MAX_BYTES);
    ix->dir = strdup(options->dir);
    ix->dir_fd = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = errno;
    ix->has_thread = ix->dir && ix->dir_fd != -1 && pthread_create(&ix->thread, NULL, run, ix) == 0;
    if (!ix->has_thread) {
        line_index_close(ix);
        return error_set_errno(err, STATUS_UNAVAILABLE, number, "index the audit log in '%s'",
                               options->dir);
    }
    *ret = ix;
    return 0;
}

void line_index_close(struct line_index *ix)
{
    if (!ix) {
        return;
    }
    if (ix->has_thread) {
        (void)pthread_mutex_lock(&ix->lock);
        ix->is_stopping = true;
        (void)pthread_cond_broadcast(&ix->woken);
        (void)pthread_cond_broadcast(&ix->changed);
        (void)pthread_mutex_unlock(&ix->lock);
        (void)pthread_join(ix->thread, NULL);
    }
    index_db_close(ix->db);
    buf_free(&ix->chunks);
    buf_free(&ix->gaps);
    buf_free(&ix->refreshes);
    buf_free(&ix->unread);
    fd_close(&ix->dir_fd);
    free(ix->dir);
    (void)pthread_cond_destroy(&ix->woken);
    (void)pthread_cond_destroy(&ix->changed);
    (void)pthread_mutex_destroy(&ix->lock);
    free(ix);
}

int line_index_dir(const struct line_index *ix)
{
    return ix->dir_fd;
}

void line_index_wake(struct line_index *ix)
{
    (void)pthread_mutex_lock(&ix->lock);
    ix->is_awake = true;
    (void)pthread_cond_signal(&ix->woken);
    (void)pthread_mutex_unlock(&ix->lock);
}

void line_index_refresh(struct line_index *ix, uint64_t file)
{
    (void)pthread_mutex_lock(&ix->lock);
    buf_add_u64(&ix->refreshes, file);
    ix->is_awake = true;
    (void)pthread_cond_signal(&ix->woken);
    (void)pthread_mutex_unlock(&ix->lock);
}

/* ---- waiting ---- */

void line_index_state(struct line_index *ix, struct line_index_state *ret)
{
    (void)pthread_mutex_lock(&ix->lock);
    *ret = (struct line_index_state){
        .indexed_sequence = ix->indexed_sequence,
        .is_building = !ix->is_ready || ix->gaps.len > 0,
        .has_failed = ix->failure.status != 0,
        .unread_files = ix->unread.len / sizeof(struct index_unread),
    };
    (void)snprintf(ret->failure, sizeof ret->failure, "%.250s", ix->failure.text);
    struct index_db *db = ix->db;
    (void)pthread_mutex_unlock(&ix->lock);
    ret->bytes = db ? index_db_bytes(db) : 0;
}

static bool has_sequence(const struct line_index *ix, uint64_t sequence)
{
    return ix->is_ready && ix->indexed_sequence >= sequence;
}

static bool is_built(const struct line_index *ix, uint64_t ignored)
{
    (void)ignored;
    return ix->is_ready && ix->gaps.len == 0;
}

static bool await(struct line_index *ix, bool (*is_so)(const struct line_index *, uint64_t),
                  uint64_t value, unsigned timeout_ms)
{
    struct timespec until;
    int rc = 0;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)timeout_ms * 1000000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_mutex_lock(&ix->lock);
    while (!is_so(ix, value) && ix->failure.status == 0 && !ix->is_stopping && rc == 0) {
        rc = pthread_cond_timedwait(&ix->changed, &ix->lock, &until);
    }
    bool ok = is_so(ix, value);
    (void)pthread_mutex_unlock(&ix->lock);
    return ok;
}

bool line_index_await(struct line_index *ix, uint64_t sequence, unsigned timeout_ms)
{
    return await(ix, has_sequence, sequence, timeout_ms);
}

bool line_index_await_built(struct line_index *ix, unsigned timeout_ms)
{
    return await(ix, is_built, 0, timeout_ms);
}

/* ---- reading ---- */

uint64_t line_index_hash(const struct line_index *ix, struct str text)
{
    return index_db_hash(ix->db, text);
}

void line_index_hash_fields(const struct line_index *ix, const struct line_fields *fields,
                            uint64_t ret[INDEX_COLUMN_COUNT])
{
    index_rows_hash(ix->db, fields, ret);
}

static int copy_lists(const struct line_index *ix, struct index_snapshot *ret, struct error *err)
{
    bool has_tail = ix->tail && ix->tail_chunk.rows > 0;
    size_t n = chunk_count(ix);
    ret->chunks = malloc((n + 1) * sizeof *ret->chunks);
    ret->gaps = malloc(ix->gaps.len + 1);
    ret->unread = malloc(ix->unread.len + 1);
    if (!ret->chunks || !ret->gaps || !ret->unread) {
        index_snapshot_free(ret);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (n > 0) {
        memcpy(ret->chunks, ix->chunks.ptr, ix->chunks.len);
    }
    if (ix->gaps.len > 0) {
        memcpy(ret->gaps, ix->gaps.ptr, ix->gaps.len);
    }
    if (ix->unread.len > 0) {
        memcpy(ret->unread, ix->unread.ptr, ix->unread.len);
    }
    if (has_tail) {
        ret->chunks[n] = ix->tail_chunk;
    }
    ret->chunk_count = n + has_tail;
    ret->gap_count = ix->gaps.len / sizeof *ret->gaps;
    ret->unread_count = ix->unread.len / sizeof *ret->unread;
    index_unread_place(ret);
    return 0;
}

int line_index_snapshot(struct line_index *ix, struct index_snapshot *ret, struct error *err)
{
    (void)pthread_mutex_lock(&ix->lock);
    int rc;
    *ret = (struct index_snapshot){.indexed_sequence = ix->indexed_sequence,
                                   .generation = ix->generation};
    if (ix->failure.status) {
        rc = error_set(err, STATUS_UNAVAILABLE,
                       "The index of the audit log cannot be kept: %.300s; it is tried again "
                       "every %d seconds, and `cordium-gateway audit` reads the log without it",
                       ix->failure.text, RETRY_SECONDS);
    } else if (!ix->is_ready) {
        rc = error_set(err, STATUS_UNAVAILABLE,
                       "The index of the audit log is being opened; try again in a moment");
    } else {
        rc = copy_lists(ix, ret, err);
    }
    (void)pthread_mutex_unlock(&ix->lock);
    return rc;
}

void index_snapshot_free(struct index_snapshot *s)
{
    free(s->chunks);
    free(s->gaps);
    free(s->unread);
    s->chunks = NULL;
    s->gaps = NULL;
    s->unread = NULL;
    s->unread_count = 0;
}

/* From the chunk that is being filled. True when it is that one. */
static bool read_tail(struct line_index *ix, const struct index_chunk *chunk,
                      enum index_column column, struct buf *bytes)
{
    (void)pthread_mutex_lock(&ix->lock);
    bool is_tail = ix->tail && ix->tail_chunk.id == chunk->id;
    if (is_tail) {
        index_cell_write_plain(ix->tail->columns[column], chunk->rows, bytes);
    }
    (void)pthread_mutex_unlock(&ix->lock);
    return is_tail;
}

static int read_kept(struct line_index *ix, const struct index_snapshot *s,
                     const struct index_chunk *chunk, enum index_column column, struct buf *bytes,
                     struct error *err)
{
    int rc = index_db_read_cell(ix->db, chunk->id, column, bytes, err);
    (void)pthread_mutex_lock(&ix->lock);
    if (rc && (ix->generation != s->generation || is_damage(rc))) {
        ix->is_damaged = ix->is_damaged || is_damage(rc);
        ix->is_awake = true;
        (void)pthread_cond_signal(&ix->woken);
        rc = error_set(err, STATUS_UNAVAILABLE,
                       "The index of the audit log is being made anew; try again later");
    }
    (void)pthread_mutex_unlock(&ix->lock);
    return rc;
}

int line_index_read(struct line_index *ix, const struct index_snapshot *s,
                    const struct index_chunk *chunk, enum index_column column, struct buf *bytes,
                    struct index_cell *ret, struct error *err)
{
    buf_clear(bytes);
    bool is_tail = read_tail(ix, chunk, column, bytes);
    int rc = is_tail ? 0 : read_kept(ix, s, chunk, column, bytes, err);
    if (rc) {
        return rc;
    }
    if (bytes->failed) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (index_cell_read(buf_str(bytes), chunk->rows, ret)) {
        return 0;
    }
    (void)pthread_mutex_lock(&ix->lock);
    ix->is_damaged = true;
    ix->is_awake = true;
    (void)pthread_cond_signal(&ix->woken);
    (void)pthread_mutex_unlock(&ix->lock);
    return error_set(err, STATUS_UNAVAILABLE,
                     "The index of the audit log is damaged, and being made anew; try again later");
}
