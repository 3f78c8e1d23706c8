#include "gateway/audit/audit_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_file.h"
#include "gateway/audit/audit_group.h"
#include "gateway/audit/audit_recovery.h"
#include "gateway/audit/audit_upkeep.h"

enum {
    INLINE_SYNC_MAX_NS = 1000000,
    INLINE_ROUNDS_MAX = 4,
    OWN_RECORD_MAX_BYTES = 4096,
    DAY_SECONDS = 86400,
};

struct audit_log {
    uv_loop_t *loop;
    struct audit_log_options options;
    char *dir;
    struct hasher *hasher;
    struct audit_file file;        /* the worker's while is_busy */
    struct audit_group filling;    /* changed by the loop's thread only */
    struct audit_group writing;    /* read by the worker while is_busy */
    struct audit_position written; /* what the file ends with */
    uint64_t durable_sequence;     /* of the last line that fdatasync has seen */
    uint64_t unsynced_ns;          /* when the first line after it was accepted */
    struct audit_observer observers[AUDIT_OBSERVERS_MAX];
    size_t observer_count;
    struct audit_open_list open;
    struct audit_upkeep *upkeep;
    uv_work_t work;
    uv_timer_t sync_timer;       /* runs while is_unsynced */
    uv_timer_t checkpoint_timer; /* runs while lines have no checkpoint behind them */
    uv_prepare_t prepare;        /* active while something waits to be written by the loop itself */
    unsigned open_handles;
    uint64_t sync_ns; /* what fdatasync takes, as a moving average */
    uint64_t rotation_not_before_ms;
    bool is_busy;
    bool is_closing;
    bool is_unsynced;        /* the file holds lines that fdatasync has not seen */
    bool sync_is_due;        /* and they have waited long enough */
    bool is_sync_wanted;     /* by the group being written */
    bool rotation_is_wanted; /* by audit_log_rotate() */
    int told_errno;          /* of the failure that goes on; 0: none does */

    struct audit_write result;
};

static int64_t wall_ns(const struct audit_log *log)
{
    struct timespec now;
    if (log->options.wall_ns) {
        return log->options.wall_ns(log->options.arg);
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- writing a group, in the worker pool or in the loop ---- */

static void write_group(uv_work_t *work)
{
    struct audit_log *log = work->data;
    audit_file_write_group(&log->file, &log->writing, log->written.file_first_sequence,
                           log->is_sync_wanted, &log->result);
}

static void after_group(uv_work_t *work, int status);

static void take_group(struct audit_log *log)
{
    struct audit_group empty = log->writing;
    log->writing = log->filling;
    audit_group_clear(&empty, &log->writing.end);
    log->filling = empty;
    log->work.data = log;
    log->is_busy = true;
    log->is_sync_wanted =
        log->sync_is_due || log->writing.waiter_count > 0 || log->writing.has_checkpoint;
    log->sync_is_due = false;
}

static void start_group(struct audit_log *log)
{
    take_group(log);
    int rc = uv_queue_work(log->loop, &log->work, write_group, after_group);
    if (rc) {
        /* Only for a NULL function, says libuv; writing here is slower and no less safe. */
        write_group(&log->work);
        after_group(&log->work, 0);
    }
}

static bool has_work(const struct audit_log *log)
{
    return !log->is_busy && (log->filling.lines.len > 0 || log->sync_is_due);
}

/* A new file takes longer than a line. */
static bool is_quick(const struct audit_log *log)
{
    return log->sync_ns < INLINE_SYNC_MAX_NS && !log->filling.has_cut;
}

/* Before the loop waits: what came in this round of it goes to the disk together. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct audit_log *log = prepare->data;
    for (int i = 0; i < INLINE_ROUNDS_MAX && has_work(log) && is_quick(log); i++) {
        take_group(log);
        write_group(&log->work);
        after_group(&log->work, 0);
    }
    if (has_work(log)) {
        start_group(log);
    }
    (void)uv_prepare_stop(prepare);
}

/* A disk that answers at once is waited for by the loop: to wake a worker and to be woken by it
 * would take as long again. On a slow one everybody else's work goes on meanwhile. */
static void schedule(struct audit_log *log)
{
    if (!has_work(log)) {
        return;
    }
    if (log->sync_ns < INLINE_SYNC_MAX_NS) {
        (void)uv_prepare_start(&log->prepare, on_prepare);
    } else {
        start_group(log);
    }
}

static void on_sync_timer(uv_timer_t *timer)
{
    struct audit_log *log = timer->data;
    log->sync_is_due = true;
    schedule(log);
}

/* What nobody waits for shares the sync of the next line that somebody does wait for, or gets its
 * own a moment later: else that line would wait for two. */
static void plan_sync(struct audit_log *log, bool is_synced)
{
    log->is_unsynced = !is_synced;
    if (is_synced) {
        (void)uv_timer_stop(&log->sync_timer);
    } else if (!uv_is_active((uv_handle_t *)&log->sync_timer)) {
        (void)uv_timer_start(&log->sync_timer, on_sync_timer, AUDIT_SYNC_DELAY_MS, 0);
    }
}

/* ---- checkpoints ---- */

static bool append_checkpoint(struct audit_log *log, const char *reason)
{
    struct error err;
    if (audit_group_add_checkpoint(&log->filling, log->options.key, log->hasher, wall_ns(log),
                                   reason, &err) < 0) {
        log_error("audit log %s: no checkpoint: %s", log->dir, err.text);
        return false;
    }
    (void)uv_timer_stop(&log->checkpoint_timer);
    return true;
}

static bool has_unsigned(const struct audit_log *log)
{
    const struct audit_position *end = &log->filling.end;
    return end->chain.sequence > end->checkpoint_sequence;
}

static void on_checkpoint_timer(uv_timer_t *timer)
{
    struct audit_log *log = timer->data;
    if (has_unsigned(log) && !log->file.is_broken && !log->is_closing) {
        (void)append_checkpoint(log, "TIME");
        schedule(log);
    }
}

static void await_checkpoint(struct audit_log *log)
{
    if (has_unsigned(log) && !uv_is_active((uv_handle_t *)&log->checkpoint_timer)) {
        (void)uv_timer_start(&log->checkpoint_timer, on_checkpoint_timer,
                             (uint64_t)log->options.checkpoint_seconds * 1000, 0);
    }
}

/* After a line. */
static void plan_checkpoint(struct audit_log *log)
{
    const struct audit_position *end = &log->filling.end;
    if (end->chain.sequence - end->checkpoint_sequence >= log->options.checkpoint_lines) {
        (void)append_checkpoint(log, "LINES");
    }
    await_checkpoint(log);
}

/* ---- rotation ---- */

static bool rotation_is_due(const struct audit_log *log, int64_t today)
{
    const struct audit_position *end = &log->filling.end;
    if (end->file_bytes == 0 || log->filling.has_cut ||
        uv_now(log->loop) < log->rotation_not_before_ms) {
        return false;
    }
    return log->rotation_is_wanted || end->file_bytes >= log->options.rotate_bytes ||
           end->file_day != today;
}

/* Before a line. The last one of a file is a checkpoint. */
static void rotate_when_due(struct audit_log *log)
{
    int64_t today = wall_ns(log) / 1000000000 / DAY_SECONDS;
    if (rotation_is_due(log, today) && (!has_unsigned(log) || append_checkpoint(log, "ROTATION"))) {
        audit_group_cut(&log->filling);
        log->rotation_is_wanted = false;
    }
    log->filling.end.file_day = today;
}

/* It goes on in the same file: the positions behind the cut counted on a new one. */
static void stay_in_file(struct audit_log *log, struct audit_position *after_cut)
{
    uint64_t bytes = (uint64_t)log->file.bytes - after_cut->file_bytes;
    uint64_t first = log->written.file_first_sequence;
    log_error("audit log %s: it cannot be rotated: %s; it goes on in the same file", log->dir,
              strerror(log->result.rotate_errno));
    log->rotation_not_before_ms = uv_now(log->loop) + AUDIT_ROTATION_RETRY_SECONDS * 1000;
    after_cut->file_bytes += bytes;
    after_cut->file_first_sequence = first;
    if (!log->filling.has_cut) {
        log->filling.end.file_bytes += bytes;
        log->filling.end.file_first_sequence = first;
    }
}

/* ---- the end of a group ---- */

/* Once, and not for each request that is refused. */
static void report_failure(struct audit_log *log)
{
    if (log->told_errno == log->result.write_errno) {
        return;
    }
    log->told_errno = log->result.write_errno;
    log_error("audit log %s: %s: %s; nothing is done until it can be written%s", log->dir,
              log->result.failed_step, strerror(log->result.write_errno),
              log->file.is_broken ? " and the gateway was restarted" : "");
}

/* Lines of a group that were written, up to log->written. */
static void observe(struct audit_log *log, const struct audit_group *g, size_t bytes,
                    bool is_synced)
{
    if (is_synced) {
        log->durable_sequence = log->written.chain.sequence;
        log->unsynced_ns = 0;
    }
    for (size_t i = 0; i < log->observer_count; i++) {
        const struct audit_observer *o = &log->observers[i];
        if (o->written && bytes > 0) {
            o->written(o->arg, str_make(g->lines.ptr, bytes));
        }
        if (o->durable && is_synced) {
            o->durable(o->arg);
        }
    }
    if (!is_synced && log->unsynced_ns == 0) {
        log->unsynced_ns = g->first_ns;
    }
}

static void accept_group(struct audit_log *log, struct audit_group *done)
{
    if (log->result.rotate_errno) {
        stay_in_file(log, &done->end);
    }
    log->written = done->end;
    if (log->told_errno) {
        log_info("audit log %s: it is written again", log->dir);
        log->told_errno = 0;
    }
    plan_sync(log, log->is_sync_wanted);
    observe(log, done, done->lines.len, log->is_sync_wanted);
    if (done->has_checkpoint) {
        audit_open_list_note(&log->open, log->durable_sequence, audit_log_sequence(log) + 1);
    }
    if (done->has_checkpoint && log->options.on_checkpoint) {
        log->options.on_checkpoint(log->options.arg, &done->checkpoint);
    }
    audit_group_notify(done, 0, done->waiter_count, 0);
}

/* The lines that came meanwhile build on the lost ones: they fail with them. */
static void refuse_group(struct audit_log *log, struct audit_group *done)
{
    struct audit_group lost = log->filling;
    size_t kept = log->result.cut_is_written ? done->cut_waiters : 0;
    report_failure(log);
    if (log->result.cut_is_written) {
        log->written = done->cut_end;
        if (log->result.rotate_errno) {
            stay_in_file(log, &log->written);
        }
        observe(log, done, done->cut_bytes, true);
    }
    audit_group_init(&log->filling);
    log->filling.end = log->written;
    plan_sync(log, !log->is_unsynced || log->file.is_broken || log->is_closing);
    audit_group_notify(done, 0, kept, 0);
    audit_group_notify(done, kept, done->waiter_count, -STATUS_UNAVAILABLE);
    audit_group_notify(&lost, 0, lost.waiter_count, -STATUS_UNAVAILABLE);
    audit_group_free(&lost);
}

static void audit_log_free(struct audit_log *log)
{
    audit_group_free(&log->filling);
    audit_group_free(&log->writing);
    audit_file_close(&log->file);
    hasher_free(log->hasher);
    signing_key_free(log->options.key);
    free(log->dir);
    free(log);
}

static void on_part_closed(void *arg)
{
    struct audit_log *log = arg;
    if (--log->open_handles == 0) {
        audit_log_free(log);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void go_on(struct audit_log *log)
{
    if (log->is_closing && log->is_unsynced && !log->file.is_broken) {
        log->sync_is_due = true;
    }
    if (has_work(log)) {
        schedule(log);
    } else if (log->is_closing && !uv_is_closing((uv_handle_t *)&log->prepare)) {
        uv_close((uv_handle_t *)&log->sync_timer, on_handle_closed);
        uv_close((uv_handle_t *)&log->checkpoint_timer, on_handle_closed);
        uv_close((uv_handle_t *)&log->prepare, on_handle_closed);
        audit_upkeep_close(log->upkeep, on_part_closed, log);
    }
}

static void after_group(uv_work_t *work, int status)
{
    struct audit_log *log = work->data;
    struct audit_group done = log->writing;
    if (log->result.sync_ns) {
        log->sync_ns = (log->sync_ns * 7 + log->result.sync_ns) / 8;
    }
    bool is_rotated = done.has_cut && log->result.cut_is_written && !log->result.rotate_errno;
    log->writing = (struct audit_group){0};
    if (log->result.write_errno || status) {
        refuse_group(log, &done);
    } else {
        accept_group(log, &done);
    }
    audit_group_clear(&done, &log->written);
    log->writing = done;
    log->is_busy = false;
    if (is_rotated && !log->is_closing) {
        audit_upkeep_wake(log->upkeep);
    }
    if (!log->is_closing) {
        await_checkpoint(log); /* the one that was in a lost group */
    }
    go_on(log);
}

/* ---- appending ---- */

static bool is_record(const struct buf *record)
{
    struct str s = buf_str(record);
    return !record->failed && s.len >= 2 && s.ptr[0] == '{' && s.ptr[s.len - 1] == '}' &&
           s.len <= AUDIT_LINE_MAX_BYTES && !memchr(s.ptr, '\n', s.len);
}

/* All of it or nothing. */
static int append(struct audit_log *log, const struct buf *record, bool is_signed,
                  void (*done)(void *arg, int status), void *arg)
{
    struct audit_group *g = &log->filling;
    struct audit_group before = *g;
    bool is_added = audit_group_add_line(g, buf_str(record), log->hasher) &&
                    (!is_signed || append_checkpoint(log, "TOMBSTONE")) &&
                    (!done || audit_group_add_waiter(g, done, arg));
    if (!is_added) {
        g->lines.len = before.lines.len;
        g->end = before.end;
        g->has_checkpoint = before.has_checkpoint;
        g->checkpoint = before.checkpoint;
        return -STATUS_UNAVAILABLE;
    }
    plan_checkpoint(log);
    schedule(log);
    return 0;
}

static int append_record(struct audit_log *log, const struct buf *record, bool is_signed,
                         void (*done)(void *arg, int status), void *arg)
{
    if (!is_record(record)) {
        return -STATUS_INTERNAL;
    }
    if (log->file.is_broken || log->is_closing) {
        return -STATUS_UNAVAILABLE;
    }
    rotate_when_due(log);
    return append(log, record, is_signed, done, arg);
}

int audit_log_append(struct audit_log *log, const struct buf *record,
                     void (*done)(void *arg, int status), void *arg)
{
    return append_record(log, record, false, done, arg);
}

int audit_log_append_signed(struct audit_log *log, const struct buf *record,
                            void (*done)(void *arg, int status), void *arg)
{
    return append_record(log, record, true, done, arg);
}

static bool has_unwritten(const struct audit_log *log)
{
    return log->is_busy || log->filling.lines.len > 0 || log->is_unsynced;
}

int audit_log_flush(struct audit_log *log, struct error *err)
{
    uint64_t wanted = audit_log_sequence(log);
    log->result.write_errno = 0;
    while (has_unwritten(log) && log->result.write_errno == 0) {
        if (log->is_busy) {
            (void)uv_run(log->loop, UV_RUN_ONCE);
        } else {
            log->sync_is_due = true;
            take_group(log);
            write_group(&log->work);
            after_group(&log->work, 0);
        }
    }
    return log->durable_sequence >= wanted
               ? 0
               : error_set(err, STATUS_UNAVAILABLE,
                           "the audit log in '%s' cannot be written; see the message before this",
                           log->dir);
}

void audit_log_begin_open(struct audit_log *log, struct audit_open *open)
{
    audit_open_list_add(&log->open, open, audit_log_sequence(log) + 1);
}

void audit_log_end_open(struct audit_log *log, struct audit_open *open)
{
    audit_open_list_remove(&log->open, open);
}

void audit_log_settle(struct audit_log *log)
{
    log->open.hold = 0;
}

uint64_t audit_log_open_since(const struct audit_log *log)
{
    return audit_open_list_since(&log->open);
}

void audit_log_rotate(struct audit_log *log)
{
    log->rotation_is_wanted = true;
}

uint64_t audit_log_sequence(const struct audit_log *log)
{
    return log->filling.end.chain.sequence;
}

void audit_log_add_observer(struct audit_log *log, const struct audit_observer *observer)
{
    assert(log->observer_count < AUDIT_OBSERVERS_MAX);
    log->observers[log->observer_count++] = *observer;
}

struct audit_lag audit_log_lag(const struct audit_log *log)
{
    const uint64_t since_ns[] = {log->unsynced_ns, log->writing.first_ns, log->filling.first_ns};
    struct audit_lag lag = {.lines = log->filling.end.chain.sequence - log->durable_sequence};
    for (size_t i = 0; lag.oldest_ns == 0 && i < sizeof since_ns / sizeof since_ns[0]; i++) {
        lag.oldest_ns = lag.lines > 0 ? since_ns[i] : 0;
    }
    return lag;
}

void audit_log_close(struct audit_log *log)
{
    if (!log) {
        return;
    }
    if (has_unsigned(log) && !log->file.is_broken) {
        (void)append_checkpoint(log, "STOP");
    }
    log->is_closing = true;
    if (!log->is_busy) {
        go_on(log);
    }
}

/* ---- opening ---- */

/* Before any other line, and in the same file as what it is about. */
static int append_gap(struct audit_log *log, const struct gap *gap)
{
    struct buf record;
    buf_init(&record, OWN_RECORD_MAX_BYTES);
    gap_write(gap, wall_ns(log), &record);
    int rc = append(log, &record, false, NULL, NULL);
    buf_free(&record);
    return rc;
}

static void init_handles(struct audit_log *log)
{
    (void)uv_timer_init(log->loop, &log->sync_timer);
    log->sync_timer.data = log;
    (void)uv_timer_init(log->loop, &log->checkpoint_timer);
    log->checkpoint_timer.data = log;
    uv_unref((uv_handle_t *)&log->checkpoint_timer);
    (void)uv_prepare_init(log->loop, &log->prepare);
    log->prepare.data = log;
    log->open_handles = 4; /* with the upkeep */
}

/* What is there before the folder is opened; NULL without memory. */
static struct audit_log *make(struct uv_loop_s *loop, const struct audit_log_options *options)
{
    struct audit_log *log = calloc(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    log->loop = loop;
    log->options = *options;
    log->open.hold = log->open.since = options->open_since;
    log->options.key = NULL; /* the caller's until this has succeeded */
    log->file = (struct audit_file){.dir_fd = -1, .fd = -1};
    audit_group_init(&log->filling);
    audit_group_init(&log->writing);
    log->dir = strdup(options->dir);
    log->options.dir = log->dir;
    log->hasher = hasher_new();
    if (!log->dir || !log->hasher) {
        audit_log_free(log);
        return NULL;
    }
    return log;
}

static int recover(struct audit_log *log, struct audit_recovery *ret, struct error *err)
{
    int rc = audit_file_open(log->dir, &log->file, err);
    rc = rc ? rc
            : audit_recovery_run(&log->file, log->options.anchor, log->options.accept_loss, ret,
                                 err);
    log->options.anchor = NULL;
    log->written = ret->end;
    log->filling.end = ret->end;
    log->durable_sequence = ret->end.chain.sequence;
    if (rc == 0) {
        log->upkeep = audit_upkeep_new(log->loop, log, log->file.dir_fd, &log->options);
        rc = log->upkeep ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    return rc;
}

static void tell_recovery(struct audit_log *log, const struct audit_recovery *recovery)
{
    if (recovery->is_torn) {
        log_warning("audit log %s: a crash left damaged lines at its end; the log tells of them",
                    log->dir);
        (void)append_gap(log, &recovery->torn);
    }
    if (recovery->is_lost) {
        log_error("audit log %s: lines that had been recorded are missing; the log tells of it and "
                  "goes on, as the administrator ordered",
                  log->dir);
        (void)append_gap(log, &recovery->lost);
    }
    if (has_unsigned(log)) {
        (void)append_checkpoint(log, "START");
        schedule(log);
    }
}

int audit_log_open(struct uv_loop_s *loop, const struct audit_log_options *options,
                   struct audit_log **ret, struct error *err)
{
    struct audit_recovery recovery = {0};
    struct audit_log *log = make(loop, options);
    if (!log) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Audit log: out of memory");
    }
    int rc = recover(log, &recovery, err);
    if (rc) {
        rc = error_wrap(err, "Audit log %s/audit.jsonl", log->dir);
        audit_log_free(log);
        return rc;
    }
    log->options.key = options->key;
    init_handles(log);
    tell_recovery(log, &recovery);
    audit_upkeep_wake(log->upkeep);
    *ret = log;
    return 0;
}
