#include "gateway/audit/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/audit/hex.h"
#include "gateway/identity/token.h"

enum {
    HASH_HEX_SIZE = 2 * TOKEN_DIGEST_BYTES + 1,
    INLINE_SYNC_MAX_NS = 1000000,
    INLINE_ROUNDS_MAX = 4,
};

#define ZERO_HASH "0000000000000000000000000000000000000000000000000000000000000000"

/* The end of the chain. */
struct chain {
    uint64_t sequence;
    char hash[HASH_HEX_SIZE];
};

struct waiter {
    void (*done)(void *arg, int status);
    void *arg;
};

/* Lines that go to the disk together, and who waits for them. */
struct group {
    struct buf lines;
    struct waiter *waiters;
    size_t waiter_count;
    size_t waiter_room;
    struct chain end;  /* after its last line */
    uint64_t first_ns; /* when its first line came; 0 while it is empty */
};

struct audit_log {
    uv_loop_t *loop;
    int fd;
    char *path;
    struct group filling;      /* changed by the loop's thread only */
    struct group writing;      /* read by the worker while is_busy */
    struct chain written;      /* what the file ends with */
    uint64_t durable_sequence; /* of the last line that fdatasync has seen */
    uint64_t unsynced_ns;      /* when the first line after it was accepted */
    struct audit_observer observer;
    int64_t written_bytes;
    uv_work_t work;
    uv_timer_t sync_timer; /* runs while is_unsynced */
    uv_prepare_t prepare;  /* active while something waits to be written by the loop itself */
    unsigned open_handles;
    uint64_t sync_ns; /* what fdatasync takes, as a moving average */
    bool is_busy;
    bool is_closing;
    bool is_unsynced;    /* the file holds lines that fdatasync has not seen */
    bool sync_is_due;    /* and they have waited long enough */
    bool is_sync_wanted; /* by the group being written */
    bool is_broken;      /* fdatasync failed: what the disk holds is unknown until a restart */
    int write_errno;     /* the worker's findings */
    const char *failed_step;
};

static void hash_line(const void *line, size_t len, char ret[HASH_HEX_SIZE])
{
    uint8_t digest[TOKEN_DIGEST_BYTES];
    token_sha256(str_make(line, len), digest);
    hex_encode(digest, sizeof digest, ret);
}

static void group_init(struct group *g)
{
    *g = (struct group){0};
    buf_init(&g->lines, AUDIT_PENDING_MAX_BYTES);
}

static void group_free(struct group *g)
{
    buf_free(&g->lines);
    free(g->waiters);
}

static bool group_add_waiter(struct group *g, void (*done)(void *, int), void *arg)
{
    if (g->waiter_count == g->waiter_room) {
        size_t room = g->waiter_room ? g->waiter_room * 2 : 16;
        struct waiter *waiters =
            room > AUDIT_WAITERS_MAX ? NULL : realloc(g->waiters, room * sizeof *waiters);
        if (!waiters) {
            return false;
        }
        g->waiters = waiters;
        g->waiter_room = room;
    }
    g->waiters[g->waiter_count++] = (struct waiter){done, arg};
    return true;
}

/* Appends the line to the group with its place in the chain. The record is an object: its first
 * member follows ours. */
static bool group_add_line(struct group *g, struct str record)
{
    size_t start = g->lines.len;
    uint64_t sequence = g->end.sequence + 1;
    buf_printf(&g->lines, "{\"sequence\":%" PRIu64 ",\"prev\":\"%s\"%s", sequence, g->end.hash,
               record.len > 2 ? "," : "");
    buf_add(&g->lines, record.ptr + 1, record.len - 1);
    buf_add_u8(&g->lines, '\n');
    if (g->lines.failed) {
        /* Earlier lines of the group are complete: they stay, this one goes. */
        g->lines.len = start;
        g->lines.failed = false;
        return false;
    }
    hash_line(g->lines.ptr + start, g->lines.len - start - 1, g->end.hash);
    g->end.sequence = sequence;
    g->first_ns = start == 0 ? uv_hrtime() : g->first_ns;
    return true;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, p, n);
        if (written == -1 && errno == EINTR) {
            continue;
        }
        if (written == -1) {
            return errno;
        }
        p += written;
        n -= (size_t)written;
    }
    return 0;
}

/* In the worker pool. A write that failed halfway (a full disk) is taken back, so that the file
 * ends with whole lines; a failed fdatasync may have lost pages, and nothing is known then. */
static void write_group(uv_work_t *work)
{
    struct audit_log *log = work->data;
    log->failed_step = "write";
    log->write_errno = write_all(log->fd, log->writing.lines.ptr, log->writing.lines.len);
    if (log->write_errno) {
        if (ftruncate(log->fd, log->written_bytes) == -1) {
            log->is_broken = true;
        }
        return;
    }
    uint64_t began_ns = uv_hrtime();
    if (log->is_sync_wanted && fdatasync(log->fd) == -1) {
        log->write_errno = errno;
        log->failed_step = "fdatasync";
        log->is_broken = true;
    }
    if (log->is_sync_wanted) {
        log->sync_ns = (log->sync_ns * 7 + (uv_hrtime() - began_ns)) / 8;
    }
}

static void notify(struct group *g, int status)
{
    for (size_t i = 0; i < g->waiter_count; i++) {
        g->waiters[i].done(g->waiters[i].arg, status);
    }
    g->waiter_count = 0;
}

static void audit_log_free(struct audit_log *log)
{
    group_free(&log->filling);
    group_free(&log->writing);
    if (log->fd != -1) {
        (void)close(log->fd);
    }
    free(log->path);
    free(log);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct audit_log *log = handle->data;
    if (--log->open_handles == 0) {
        audit_log_free(log);
    }
}

static void after_group(uv_work_t *work, int status);

static void take_group(struct audit_log *log)
{
    struct group empty = log->writing;
    log->writing = log->filling;
    buf_clear(&empty.lines);
    empty.first_ns = 0;
    empty.waiter_count = 0;
    empty.end = log->writing.end;
    log->filling = empty;
    log->work.data = log;
    log->is_busy = true;
    log->is_sync_wanted = log->sync_is_due || log->writing.waiter_count > 0;
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

/* Before the loop waits: what came in this round of it goes to the disk together. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct audit_log *log = prepare->data;
    for (int i = 0; i < INLINE_ROUNDS_MAX && has_work(log); i++) {
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

static void go_on(struct audit_log *log)
{
    if (log->is_closing && log->is_unsynced && !log->is_broken) {
        log->sync_is_due = true;
    }
    if (has_work(log)) {
        schedule(log);
    } else if (log->is_closing) {
        uv_close((uv_handle_t *)&log->sync_timer, on_handle_closed);
        uv_close((uv_handle_t *)&log->prepare, on_handle_closed);
    }
}

static void report_failure(struct audit_log *log)
{
    log_error("audit log %s: %s: %s; nothing is done until it can be written%s", log->path,
              log->failed_step, strerror(log->write_errno),
              log->is_broken ? " and the gateway was restarted" : "");
}

static void observe(struct audit_log *log, const struct group *done, bool is_synced)
{
    if (log->observer.written && done->lines.len > 0) {
        log->observer.written(log->observer.arg, buf_str(&done->lines));
    }
    if (is_synced) {
        log->durable_sequence = log->written.sequence;
        log->unsynced_ns = 0;
        if (log->observer.durable) {
            log->observer.durable(log->observer.arg);
        }
    } else if (log->unsynced_ns == 0) {
        log->unsynced_ns = done->first_ns;
    }
}

static void after_group(uv_work_t *work, int status)
{
    struct audit_log *log = work->data;
    struct group done = log->writing;
    log->writing = (struct group){0};
    bool has_failed = log->write_errno || status;
    if (!has_failed) {
        log->written = done.end;
        log->written_bytes += (int64_t)done.lines.len;
        plan_sync(log, log->is_sync_wanted);
        observe(log, &done, log->is_sync_wanted);
        notify(&done, 0);
    } else {
        /* The lines that came meanwhile build on the lost ones: they fail with them. */
        struct group lost = log->filling;
        report_failure(log);
        group_init(&log->filling);
        log->filling.end = log->written;
        plan_sync(log, !log->is_unsynced || log->is_broken || log->is_closing);
        notify(&done, -STATUS_UNAVAILABLE);
        notify(&lost, -STATUS_UNAVAILABLE);
        group_free(&lost);
    }
    buf_clear(&done.lines);
    done.first_ns = 0;
    log->writing = done;
    log->is_busy = false;
    go_on(log);
}

int audit_log_append(struct audit_log *log, const struct buf *record,
                     void (*done)(void *arg, int status), void *arg)
{
    struct str s = buf_str(record);
    if (record->failed || s.len < 2 || s.ptr[0] != '{' || s.ptr[s.len - 1] != '}' ||
        s.len > AUDIT_LINE_MAX_BYTES || memchr(s.ptr, '\n', s.len)) {
        return -STATUS_INTERNAL;
    }
    if (log->is_broken || log->is_closing) {
        return -STATUS_UNAVAILABLE;
    }
    struct chain before = log->filling.end;
    size_t start = log->filling.lines.len;
    if (!group_add_line(&log->filling, s)) {
        return -STATUS_UNAVAILABLE;
    }
    if (done && !group_add_waiter(&log->filling, done, arg)) {
        log->filling.lines.len = start;
        log->filling.end = before;
        return -STATUS_UNAVAILABLE;
    }
    schedule(log);
    return 0;
}

uint64_t audit_log_sequence(const struct audit_log *log)
{
    return log->filling.end.sequence;
}

void audit_log_set_observer(struct audit_log *log, const struct audit_observer *observer)
{
    log->observer = *observer;
}

struct audit_lag audit_log_lag(const struct audit_log *log)
{
    const uint64_t since_ns[] = {log->unsynced_ns, log->writing.first_ns, log->filling.first_ns};
    struct audit_lag lag = {.lines = log->filling.end.sequence - log->durable_sequence};
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
    log->is_closing = true;
    if (!log->is_busy) {
        go_on(log);
    }
}

/* Reads the last AUDIT_LINE_MAX_BYTES or less of the file. */
static int read_tail(int fd, int64_t size, struct buf *ret, struct error *err)
{
    int64_t want = size < AUDIT_LINE_MAX_BYTES + 4096 ? size : AUDIT_LINE_MAX_BYTES + 4096;
    buf_init(ret, AUDIT_LINE_MAX_BYTES + 4096);
    uint8_t *p = buf_reserve(ret, (size_t)want);
    if (want > 0 && !p) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Audit log: out of memory");
    }
    while (ret->len < (size_t)want) {
        ssize_t n = pread(fd, ret->ptr + ret->len, (size_t)want - ret->len,
                          size - want + (int64_t)ret->len);
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, STATUS_INTERNAL, n == 0 ? EIO : errno, "read its end");
        }
        ret->len += (size_t)n;
    }
    return 0;
}

static bool parse_sequence(struct str line, uint64_t *ret)
{
    struct str prefix = STR("{\"sequence\":");
    if (!str_starts_with(line, prefix)) {
        return false;
    }
    uint64_t n = 0;
    size_t i = prefix.len;
    for (; i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9'; i++) {
        if (n > UINT64_MAX / 10 - 1) {
            return false;
        }
        n = n * 10 + (uint64_t)(line.ptr[i] - '0');
    }
    *ret = n;
    return i > prefix.len && i < line.len && line.ptr[i] == ',';
}

/* The last whole line before `end`, which is the offset of a newline. */
static struct str last_line(const struct buf *tail, size_t end)
{
    size_t start = end;
    while (start > 0 && tail->ptr[start - 1] != '\n') {
        start--;
    }
    return str_make(tail->ptr + start, end - start);
}

/* Finds the end of the chain. A last line without newline was being written when the machine or the
 * process died: nobody was told that it is there. It is ended, and counts in the chain as the text
 * that it is; *ret_is_torn asks for the gap record. */
static int find_chain_end(struct audit_log *log, const struct buf *tail, bool *ret_is_torn,
                          struct error *err)
{
    size_t end = tail->len;
    *ret_is_torn = tail->ptr[end - 1] != '\n';
    struct str torn = STR_NONE;
    if (*ret_is_torn) {
        torn = last_line(tail, end);
        end -= torn.len;
    }
    struct str line = end > 0 ? last_line(tail, end - 1) : STR_NONE;
    uint64_t sequence = 0;
    if (end > 0 && !parse_sequence(line, &sequence)) {
        return error_set(err, STATUS_DATA_LOSS,
                         "the last line is not one of ours; move the file away and look at who "
                         "wrote to it");
    }
    if (*ret_is_torn) {
        /* As if it were a line: the chain goes over it, and the numbers leave its place free. */
        line = torn;
        sequence++;
        if (write_all(log->fd, (const uint8_t *)"\n", 1)) {
            return error_set_errno(err, STATUS_UNAVAILABLE, errno, "end the torn last line");
        }
        log->written_bytes++;
    }
    log->written.sequence = sequence;
    hash_line(line.ptr, line.len, log->written.hash);
    return 0;
}

static int resume(struct audit_log *log, bool *ret_is_torn, struct error *err)
{
    struct stat st;
    *ret_is_torn = false;
    if (fstat(log->fd, &st) == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "stat");
    }
    log->written_bytes = st.st_size;
    (void)snprintf(log->written.hash, sizeof log->written.hash, "%s", ZERO_HASH);
    if (st.st_size == 0) {
        return 0;
    }
    struct buf tail;
    int rc = read_tail(log->fd, st.st_size, &tail, err);
    rc = rc ? rc : find_chain_end(log, &tail, ret_is_torn, err);
    buf_free(&tail);
    return rc;
}

static int open_file(struct audit_log *log, const char *dir, struct error *err)
{
    if (mkdir(dir, 0700) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "make the folder %s", dir);
    }
    log->fd = open(log->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log->fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open");
    }
    if (flock(log->fd, LOCK_EX | LOCK_NB) == -1) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "another process writes to it; stop that one first");
    }
    /* The name must survive a power cut as the lines do. */
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = dir_fd == -1 || fsync(dir_fd) == -1 ? errno : 0;
    if (dir_fd != -1) {
        (void)close(dir_fd);
    }
    return rc ? error_set_errno(err, STATUS_FAILED_PRECONDITION, rc, "sync the folder") : 0;
}

static void append_gap(struct audit_log *log)
{
    struct buf record;
    buf_init(&record, 4096);
    audit_record_gap(&record);
    (void)audit_log_append(log, &record, NULL, NULL);
    buf_free(&record);
}

int audit_log_open(struct uv_loop_s *loop, const char *dir, struct audit_log **ret,
                   struct error *err)
{
    struct audit_log *log = calloc(1, sizeof *log);
    size_t path_size = strlen(dir) + sizeof "/audit.jsonl";
    char *path = malloc(path_size);
    if (!log || !path) {
        free(log);
        free(path);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Audit log: out of memory");
    }
    (void)snprintf(path, path_size, "%s/audit.jsonl", dir);
    log->loop = loop;
    log->fd = -1;
    log->path = path;
    group_init(&log->filling);
    group_init(&log->writing);
    bool is_torn;
    int rc = open_file(log, dir, err);
    rc = rc ? rc : resume(log, &is_torn, err);
    if (rc) {
        rc = error_wrap(err, "Audit log %s", path);
        audit_log_free(log);
        return rc;
    }
    (void)uv_timer_init(loop, &log->sync_timer);
    log->sync_timer.data = log;
    (void)uv_prepare_init(loop, &log->prepare);
    log->prepare.data = log;
    log->open_handles = 2;
    log->filling.end = log->written;
    log->durable_sequence = log->written.sequence;
    if (is_torn) {
        append_gap(log);
    }
    *ret = log;
    return 0;
}
