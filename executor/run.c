#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/init/protocol.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"

/* One command in a sandbox: started by init, accounted for and killed through its own cgroup. How
 * it ended is told from the kernel's facts, never from an exit code. */

#define KILL_AGAIN_NS (UINT64_C(2) * 1000 * 1000)
#define KILL_TIMEOUT_NS (UINT64_C(20) * 1000 * 1000 * 1000) /* told as an error, and as over */

enum { RUNS_PER_SANDBOX_MAX = 2048, PTMX_MAJOR = 5, PTMX_MINOR = 2 };

struct run *run_find(struct executor *ex, uint64_t id)
{
    struct run *run = ex->runs[id % TABLE_SIZE];
    while (run && run->id != id) {
        run = run->next_in_table;
    }
    return run;
}

static void dying_add(struct run *run, uint64_t now)
{
    struct run **at = &run->sandbox->ex->dying_first;
    while (*at) {
        at = &(*at)->next_dying;
    }
    *at = run;
    run->next_dying = NULL;
    run->is_dying = true;
    run->kill_again_ns = now + KILL_AGAIN_NS;
}

static void dying_remove(struct run *run)
{
    struct run **at = &run->sandbox->ex->dying_first;
    while (run->is_dying && *at) {
        if (*at == run) {
            *at = run->next_dying;
            run->is_dying = false;
        } else {
            at = &(*at)->next_dying;
        }
    }
}

static void terminal_expect(struct run *run)
{
    run->terminal_is_due = true;
    if (run->sandbox->terminals_due++ == 0) {
        sandbox_accept_descriptors(run->sandbox, true);
    }
}

static void terminal_came(struct run *run)
{
    if (run->terminal_is_due) {
        run->terminal_is_due = false;
        if (--run->sandbox->terminals_due == 0) {
            sandbox_accept_descriptors(run->sandbox, false);
        }
    }
}

static void run_free(struct run *run)
{
    struct run **at = &run->sandbox->runs;
    while (*at && *at != run) {
        at = &(*at)->next_of_sandbox;
    }
    if (*at) {
        *at = run->next_of_sandbox;
        run->sandbox->run_count--;
    }
    at = &run->sandbox->ex->runs[run->id % TABLE_SIZE];
    while (*at && *at != run) {
        at = &(*at)->next_in_table;
    }
    if (*at) {
        *at = run->next_in_table;
    }
    dying_remove(run);
    terminal_came(run);
    cgroup_run_release(run->cgroup);
    fd_close(&run->terminal);
    free(run);
}

/* Descriptors of the program: pipes, sockets, files and character devices; a directory or a block
 * device would be a door. */
static bool fds_are_fine(const struct channel_fds *fds)
{
    for (size_t i = 0; i < fds->count; i++) {
        struct stat st;
        int flags = fcntl(fds->fds[i], F_GETFL);
        if (flags == -1 || (flags & O_PATH) || fstat(fds->fds[i], &st) == -1 ||
            !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISREG(st.st_mode) ||
              S_ISCHR(st.st_mode))) {
            return false;
        }
    }
    return true;
}

static int send_start(const struct run *run, const struct run_spec *spec,
                      const struct channel_fds *stdio)
{
    const struct sandbox *s = run->sandbox;
    AUTO_FD int args = -1;
    int fds[CHANNEL_FDS_MAX];
    int attach[CGROUP_ATTACH_MAX];
    size_t count = 0;
    struct init_start m = {
        .type = INIT_START,
        .flags = spec->flags & EXECUTOR_RUN_TTY ? INIT_RUN_TTY : 0u,
        .run = run->id,
        .capabilities = s->is_build ? UINT64_MAX : s->capabilities,
        .uid = spec->uid,
        .gid = spec->gid,
        .columns = spec->columns,
        .rows = spec->rows,
        .argc = spec->argc,
        .env_count = spec->env_count,
        .args_bytes = (uint32_t)spec->args.len,
        .args_in_memfd = spec->args.len > INIT_ARGS_INLINE_MAX,
    };
    const char *cwd = spec->cwd[0] ? spec->cwd : s->home;
    memcpy(m.cwd, cwd, strnlen(cwd, sizeof m.cwd - 1));
    if (m.args_in_memfd) {
        args = fd_sealed_memfd("cordium-args", spec->args.ptr, spec->args.len);
        if (args < 0) {
            return args;
        }
        fds[count++] = args;
    }
    m.attach_count = (uint32_t)cgroup_run_attach_fds(run->cgroup, attach);
    for (uint32_t i = 0; i < m.attach_count; i++) {
        fds[count++] = attach[i];
    }
    for (size_t i = 0; i < stdio->count; i++) {
        fds[count++] = stdio->fds[i];
    }
    const struct iovec parts[] = {
        {&m, sizeof m},
        {(void *)spec->args.ptr, m.args_in_memfd ? 0 : spec->args.len},
    };
    return channel_send(s->control.fd, parts, 2, fds, count);
}

static int run_make(struct sandbox *s, const struct run_spec *spec, const struct channel_fds *fds,
                    struct run **ret, struct error *err)
{
    struct executor *ex = s->ex;
    if (s->run_count >= RUNS_PER_SANDBOX_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "%u runs in one sandbox", s->run_count);
    }
    if (!fds_are_fine(fds)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "a run's descriptors must be pipes, sockets or files");
    }
    if (executor_check_descriptors(ex, err) < 0) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    struct run *run = calloc(1, sizeof *run);
    if (!run) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a run");
    }
    run->id = ++ex->next_run;
    run->sandbox = s;
    run->terminal = -1;
    run->is_tty = spec->flags & EXECUTOR_RUN_TTY;
    run->kills_tree = spec->flags & EXECUTOR_RUN_KILL_TREE_ON_EXIT;
    run->begin_ns = clock_now_ns();
    if (run->is_tty) {
        terminal_expect(run);
    }
    run->next_of_sandbox = s->runs;
    s->runs = run;
    s->run_count++;
    run->next_in_table = ex->runs[run->id % TABLE_SIZE];
    ex->runs[run->id % TABLE_SIZE] = run;
    const struct cgroup_limits limits = {.memory_bytes = spec->memory_bytes, .pids = spec->pids};
    int r = cgroup_run_acquire(s->cgroup, &limits, &run->cgroup, err);
    if (r == 0) {
        run->sandbox_oom_kills_before = cgroup_read_oom_kills(s->cgroup);
        int sent = send_start(run, spec, fds);
        if (sent == -EAGAIN) {
            r = error_set(err, STATUS_RESOURCE_EXHAUSTED, "the sandbox starts too many runs");
        } else if (sent < 0) {
            r = error_set_errno(err, STATUS_UNAVAILABLE, -sent, "the sandbox takes no order");
        }
    }
    if (r < 0) {
        run_free(run);
        return r;
    }
    *ret = run;
    return 0;
}

static void answer_started(struct run *run, struct asker *to, int master)
{
    struct buf out;
    buf_init(&out, 8);
    buf_add_u64(&out, run->id);
    reply_ok(to, &out, master);
    buf_free(&out);
}

void run_start(struct sandbox *s, const struct run_spec *spec, struct channel_fds *fds,
               struct asker asker)
{
    struct error err;
    struct run *run = NULL;
    if (run_make(s, spec, fds, &run, &err) < 0) {
        reply_error(&asker, &err);
        return;
    }
    cpu_share_expect(s);
    /* The gateway waits for the end of these; ours would keep them open. */
    channel_fds_close(fds);
    if (run->is_tty) {
        run->started = asker;
    } else {
        answer_started(run, &asker, -1);
    }
}

void run_started(struct run *run, int master)
{
    struct stat st;
    /* It comes from inside: it must be what we asked for before anybody reads or resizes it. */
    if (fstat(master, &st) == -1 || !S_ISCHR(st.st_mode) || major(st.st_rdev) != PTMX_MAJOR ||
        minor(st.st_rdev) != PTMX_MINOR || fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK) == -1) {
        sandbox_end(run->sandbox, EXECUTOR_GONE_PROTOCOL, "init sent something else than a pty");
        return;
    }
    terminal_came(run);
    run->terminal = fcntl(master, F_DUPFD_CLOEXEC, 3);
    answer_started(run, &run->started, master);
}

static uint32_t clamp_u32(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void add_usage(struct buf *body, const struct cgroup_usage *usage, uint64_t wall_ns)
{
    buf_add_u64(body, usage->cpu_user_us);
    buf_add_u64(body, usage->cpu_system_us);
    buf_add_u64(body, usage->memory_peak_bytes);
    buf_add_u64(body, wall_ns);
    buf_add_u32(body, usage->pids_peak);
    buf_add_u32(body, 0);
    buf_add_u64(body, usage->io.read_bytes);
    buf_add_u64(body, usage->io.write_bytes);
    buf_add_u64(body, usage->io.reads);
    buf_add_u64(body, usage->io.writes);
}

/* Tells the gateway how it ended; nothing of it is left. */
static void run_finish(struct run *run)
{
    struct sandbox *s = run->sandbox;
    uint32_t stage = run->stage;
    int wait_status = run->wait_status;
    struct cgroup_usage usage = {0};
    uint64_t sandbox_oom_kills = 0;
    if (run->cgroup) {
        cgroup_run_read_usage(run->cgroup, &usage);
        sandbox_oom_kills = cgroup_read_oom_kills(s->cgroup);
    }
    bool by_sigkill = (stage == EXECUTOR_STAGE_RAN || stage == EXECUTOR_STAGE_LOST) &&
                      WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
    if (stage == EXECUTOR_STAGE_LOST && run->was_killed) {
        stage = EXECUTOR_STAGE_RAN; /* it went with its sandbox, as we wanted */
    }
    bool by_oom = by_sigkill && (run->was_killed ? run->main_was_oom_victim
                                                 : run_is_oom_victim(run, usage.oom_kills));
    uint32_t flags = (run->was_killed && by_sigkill && !by_oom ? MESSAGE_RUN_KILLED_BY_US : 0u) |
                     (by_oom ? MESSAGE_RUN_MAIN_OOM_KILLED : 0u) |
                     (usage.has_memory_peak ? MESSAGE_RUN_HAS_MEMORY_PEAK : 0u) |
                     (usage.has_pids_peak ? MESSAGE_RUN_HAS_PIDS_PEAK : 0u) |
                     (usage.has_io ? MESSAGE_RUN_HAS_IO : 0u);
    struct buf body;
    buf_init(&body, 256);
    buf_add_u64(&body, run->id);
    buf_add(&body, s->id.bytes, sizeof s->id.bytes);
    buf_add_u32(&body, stage);
    buf_add_u32(&body, (uint32_t)run->error_number);
    buf_add_u32(&body, stage == EXECUTOR_STAGE_RAN ? (uint32_t)wait_status : 0);
    buf_add_u32(&body, flags);
    buf_add_u32(&body, run->kill_reason);
    buf_add_u32(&body, clamp_u32(usage.oom_kills));
    buf_add_u32(&body, clamp_u32(sandbox_oom_kills - run->sandbox_oom_kills_before));
    buf_add_u32(&body, clamp_u32(usage.pids_denied));
    add_usage(&body, &usage, run->end_ns - run->begin_ns);
    if (run->started.connection) {
        answer_started(run, &run->started, -1);
    }
    event_broadcast(s->ex, MESSAGE_RUN_EXITED, &body);
    buf_free(&body);
    run_free(run);
}

static void answer_killers(struct run *run, int r)
{
    while (run->killers) {
        struct asker *asker = run->killers;
        run->killers = asker->next;
        if (r < 0) {
            struct error err;
            (void)error_set_errno(&err, STATUS_INTERNAL, -r, "kill a run's processes");
            reply_error(asker, &err);
        } else {
            reply_ok(asker, NULL, -1);
        }
        free(asker);
    }
}

/* One round of ending the tree. A sandbox decides how long its processes take to die, so that we
 * come again rather than wait. An empty group is no proof before init told of the end: its order to
 * start the program may still be on the way, and the program would join the group afterwards. */
static void run_kill_round(struct run *run)
{
    uint64_t now = clock_now_ns();
    cpu_share_hurry(run->sandbox); /* to die takes CPU, too */
    int r = run->cgroup ? cgroup_run_kill(run->cgroup) : 0;
    dying_remove(run);
    if (run->dying_since_ns == 0) {
        run->dying_since_ns = now;
    }
    if (r == 0 && !run->has_ended) {
        r = 1;
    }
    if (r == 1 && now - run->dying_since_ns < KILL_TIMEOUT_NS) {
        dying_add(run, now);
        return;
    }
    run->dying_since_ns = 0;
    answer_killers(run, r == 1 ? -ETIMEDOUT : r);
    if (run->has_ended) {
        run_finish(run);
    }
}

int runs_keep_killing(struct executor *ex)
{
    struct run *run = ex->dying_first;
    if (!run) {
        return -1;
    }
    if (run->kill_again_ns <= clock_now_ns()) {
        run_kill_round(run); /* one of them, and then whoever waits comes first */
        return 0;
    }
    return 1;
}

void run_kill(struct run *run, uint32_t reason, struct asker asker)
{
    struct asker *killer = calloc(1, sizeof *killer);
    if (!killer) {
        struct error err;
        (void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to kill a run");
        reply_error(&asker, &err);
        return;
    }
    *killer = asker;
    killer->next = run->killers;
    run->killers = killer;
    if (!run->was_killed && !run->has_ended) {
        run->was_killed = true;
        run->kill_reason = reason;
        run->main_was_oom_victim = run_is_oom_victim(run, cgroup_run_read_oom_kills(run->cgroup));
    }
    if (!run->is_dying) {
        run_kill_round(run);
    }
}

int run_signal(struct run *run, int signal_number, bool whole_group, struct error *err)
{
    const struct init_signal m = {
        .type = INIT_SIGNAL,
        .signal_number = signal_number,
        .run = run->id,
        .whole_group = whole_group,
    };
    const struct iovec part = {(void *)&m, sizeof m};
    int r = channel_send(run->sandbox->control.fd, &part, 1, NULL, 0);
    return r < 0 ? error_set_errno(err, STATUS_UNAVAILABLE, -r, "the sandbox takes no signal") : 0;
}

int run_resize(struct run *run, uint16_t columns, uint16_t rows, struct error *err)
{
    const struct winsize size = {.ws_col = columns, .ws_row = rows};
    if (run->terminal < 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "the run has no terminal");
    }
    return ioctl(run->terminal, TIOCSWINSZ, &size) == -1
               ? error_set_errno(err, STATUS_INTERNAL, errno, "resize a terminal")
               : 0;
}

void run_exited(struct run *run, uint32_t stage, int error_number, int wait_status)
{
    run->has_ended = true;
    run->end_ns = clock_now_ns();
    run->stage = stage;
    run->error_number = error_number;
    run->wait_status = wait_status;
    if (run->is_dying || run->kills_tree) {
        run_kill_round(run); /* the end of its tree comes first */
    } else {
        run_finish(run);
    }
}

void run_lost(struct run *run)
{
    if (!run->has_ended) {
        run->stage = EXECUTOR_STAGE_LOST;
        run->wait_status = SIGKILL;
        run->end_ns = clock_now_ns();
    }
    answer_killers(run, 0);
    run_finish(run);
}
