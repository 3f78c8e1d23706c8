#include "gateway/audit/audit_upkeep.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/log.h"
#include "gateway/auditfile/segment_pack.h"
#include "gateway/auditfile/segment_writer.h"
#include "gateway/auditfile/tombstone.h"

enum {
    LIST_ARENA_MAX_BYTES = 256 << 20,
    RECORD_MAX_BYTES = 4096,
    DAY_SECONDS = 86400,
    SETTING_SIZE = 64,
};

enum upkeep_job { JOB_LOOK, JOB_REMOVE };

struct audit_upkeep {
    uv_loop_t *loop;
    struct audit_log *log;
    int dir_fd;
    const struct audit_log_options *options;
    uv_timer_t timer;
    uv_work_t work;
    bool is_busy;  /* a job runs, or a tombstone is being written */
    bool is_awake; /* something came up meanwhile */
    bool has_told; /* of the failure that goes on */
    atomic_bool stop;
    void (*closed)(void *arg);
    void *closed_arg;

    /* The job's, and what it found. */
    enum upkeep_job job;
    int64_t now_seconds;
    struct segment doomed; /* the file to delete; name "" for none */
    struct tombstone_file tombstone;
    char setting[SETTING_SIZE];
    int status;
    struct error err;
};

static int64_t wall_ns(const struct audit_upkeep *u)
{
    return u->options->wall_ns ? u->options->wall_ns(u->options->arg)
                               : (int64_t)time(NULL) * 1000000000;
}

/* ---- in the worker pool ---- */

/* Whether the oldest finished file has to go, and by which setting. */
static bool is_doomed(struct audit_upkeep *u, const struct segment *oldest, uint64_t total_bytes)
{
    const struct audit_log_options *o = u->options;
    if (o->retention_days > 0 &&
        oldest->modified_seconds < u->now_seconds - (int64_t)o->retention_days * DAY_SECONDS) {
        (void)snprintf(u->setting, sizeof u->setting, "audit.retentionDays=%u", o->retention_days);
        return true;
    }
    if (o->retention_bytes > 0 && total_bytes > o->retention_bytes) {
        (void)snprintf(u->setting, sizeof u->setting, "audit.retentionMebibytes=%u",
                       (unsigned)(o->retention_bytes >> 20));
        return true;
    }
    return false;
}

static int pack_all(struct audit_upkeep *u, const struct segment *list, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (!list[i].is_active && !list[i].is_compressed) {
            rc = segment_pack(u->dir_fd, &list[i], &u->stop, &u->err);
        }
    }
    return rc;
}

static int choose_doomed(struct audit_upkeep *u, const struct segment *list, size_t count)
{
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        total_bytes += list[i].bytes;
    }
    if (count == 0 || list[0].is_active || !is_doomed(u, &list[0], total_bytes)) {
        return 0;
    }
    int rc = segment_summarize(u->dir_fd, &list[0], &u->stop, &u->tombstone, &u->err);
    if (rc == 0) {
        u->doomed = list[0];
        u->tombstone.name = u->doomed.name;
        u->tombstone.setting = u->setting;
    }
    return rc;
}

static int look(struct audit_upkeep *u)
{
    struct arena arena;
    struct segment *list;
    size_t count;
    arena_init(&arena, LIST_ARENA_MAX_BYTES);
    segment_writer_clean(u->dir_fd);
    int rc = segment_list(u->dir_fd, &arena, &list, &count, &u->err);
    rc = rc ? rc : pack_all(u, list, count);
    /* Also when there was no room to compress: the oldest may make some. */
    int packed =
        rc == -STATUS_CANCELLED ? rc : segment_list(u->dir_fd, &arena, &list, &count, &u->err);
    int chosen = packed ? packed : choose_doomed(u, list, count);
    arena_free(&arena);
    return chosen ? chosen : rc;
}

static int remove_doomed(struct audit_upkeep *u)
{
    int rc = segment_remove(u->dir_fd, &u->doomed, &u->err);
    (void)fsync(u->dir_fd); /* else it is deleted again, by another tombstone */
    return rc;
}

static void run_job(uv_work_t *work)
{
    struct audit_upkeep *u = work->data;
    u->status = u->job == JOB_LOOK ? look(u) : remove_doomed(u);
}

/* ---- in the loop ---- */

static void after_job(uv_work_t *work, int status);

static void start_job(struct audit_upkeep *u, enum upkeep_job job)
{
    u->is_busy = true;
    u->job = job;
    u->status = 0;
    u->now_seconds = wall_ns(u) / 1000000000;
    u->work.data = u;
    if (job == JOB_LOOK) {
        u->is_awake = false;
        u->doomed = (struct segment){0};
    }
    if (uv_queue_work(u->loop, &u->work, run_job, after_job) < 0) {
        u->is_busy = false;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct audit_upkeep *u = handle->data;
    u->closed(u->closed_arg);
    free(u);
}

static void settle(struct audit_upkeep *u)
{
    u->is_busy = false;
    if (u->closed) {
        uv_close((uv_handle_t *)&u->timer, on_closed);
    } else if (u->is_awake) {
        start_job(u, JOB_LOOK);
    }
}

static void tell(struct audit_upkeep *u, const char *what)
{
    if (!u->has_told) {
        log_error("audit log %s: %s; it is tried again later", u->options->dir, what);
    }
    u->has_told = true;
}

static void on_tombstone(void *arg, int status)
{
    struct audit_upkeep *u = arg;
    if (status == 0 && u->options->sync_anchor) {
        status = u->options->sync_anchor(u->options->arg, &u->err);
        if (status < 0) {
            tell(u, u->err.text);
        }
    }
    if (status < 0 || u->closed) {
        settle(u);
    } else {
        start_job(u, JOB_REMOVE);
    }
}

static void append_tombstone(struct audit_upkeep *u)
{
    struct buf record;
    buf_init(&record, RECORD_MAX_BYTES);
    tombstone_write_file(&u->tombstone, wall_ns(u), &record);
    int rc = audit_log_append_signed(u->log, &record, on_tombstone, u);
    buf_free(&record);
    if (rc < 0) {
        tell(u, "a file is due to be deleted, and its tombstone cannot be written");
        settle(u);
    }
}

static void after_job(uv_work_t *work, int status)
{
    struct audit_upkeep *u = work->data;
    if (status < 0 || u->status < 0) {
        if (u->status != -STATUS_CANCELLED && status == 0) {
            tell(u, u->err.text);
        }
    } else {
        u->has_told = false;
    }
    if (u->closed || !u->doomed.name[0]) {
        settle(u);
    } else if (u->job == JOB_LOOK) {
        append_tombstone(u);
    } else {
        log_info("audit log %s: %s was deleted, by %s", u->options->dir, u->doomed.name,
                 u->setting);
        u->is_awake = u->is_awake || u->status == 0; /* there may be more */
        settle(u);
    }
}

static void on_timer(uv_timer_t *timer)
{
    audit_upkeep_wake(timer->data);
}

struct audit_upkeep *audit_upkeep_new(struct uv_loop_s *loop, struct audit_log *log, int dir_fd,
                                      const struct audit_log_options *options)
{
    struct audit_upkeep *u = calloc(1, sizeof *u);
    if (!u) {
        return NULL;
    }
    u->loop = loop;
    u->log = log;
    u->dir_fd = dir_fd;
    u->options = options;
    (void)uv_timer_init(loop, &u->timer);
    u->timer.data = u;
    (void)uv_timer_start(&u->timer, on_timer, AUDIT_UPKEEP_INTERVAL_MS, AUDIT_UPKEEP_INTERVAL_MS);
    uv_unref((uv_handle_t *)&u->timer);
    return u;
}

void audit_upkeep_wake(struct audit_upkeep *u)
{
    if (u->is_busy) {
        u->is_awake = true;
    } else if (!u->closed) {
        start_job(u, JOB_LOOK);
    }
}

void audit_upkeep_close(struct audit_upkeep *u, void (*closed)(void *arg), void *arg)
{
    atomic_store(&u->stop, true);
    u->closed = closed;
    u->closed_arg = arg;
    if (!u->is_busy) {
        settle(u);
    }
}
