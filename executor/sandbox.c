#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/init/protocol.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "executor/steps/build_network.h"
#include "executor/steps/overlay.h"

/* The life of one sandbox: starting, running, ending, gone. It owns every resource of its own, and
 * sandbox_finish() is the one place that gives them back. */

enum {
    START_TIMEOUT_S = 20,
    TMPFS_BYTES_MIN = 1 << 20,
    REPORTS_PER_ROUND = 64,
    CONTROL_SEND_BYTES = 4 << 20, /* orders to init that wait: 512 starts of 8 KiB */
};

static unsigned table_slot(const struct executor_uuid *id)
{
    return (id->bytes[0] | (unsigned)id->bytes[1] << 8) % TABLE_SIZE;
}

struct sandbox *sandbox_find(struct executor *ex, const struct executor_uuid *id)
{
    struct sandbox *s = ex->sandboxes[table_slot(id)];
    while (s && memcmp(&s->id, id, sizeof *id) != 0) {
        s = s->next_in_table;
    }
    return s;
}

struct sandbox *sandbox_by_serial(struct executor *ex, const struct launcher *l, uint32_t serial)
{
    for (unsigned i = 0; ex->unlaunched_count > 0 && i < TABLE_SIZE; i++) {
        for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
            if (s->launcher == l && s->serial == serial) {
                return s;
            }
        }
    }
    return NULL;
}

static void table_remove(struct sandbox *s)
{
    struct sandbox **at = &s->ex->sandboxes[table_slot(&s->id)];
    while (*at && *at != s) {
        at = &(*at)->next_in_table;
    }
    if (*at) {
        *at = s->next_in_table;
        s->ex->sandbox_count--;
    }
}

static void mark(struct sandbox *s, enum sandbox_time time)
{
    s->times_ns[time] = clock_now_ns();
}

static void trace_steps(const struct init_message *ready)
{
    static const char *const names[] = {
#define STEP(function, name) name,
#include "executor/init/setup_steps.def"
    };
    struct buf line;
    buf_init(&line, 2048);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        buf_printf(&line, "%s%s %u", i ? ", " : "", names[i], ready->step_us[i]);
    }
    log_info("steps us: %.*s", STR_ARG(buf_str(&line)));
    buf_free(&line);
}

static void trace(const struct sandbox *s)
{
    const uint64_t *t = s->times_ns;
    log_info("start us: namespaces %llu, storage %llu, root %llu, cgroup %llu, sent %llu, "
             "forked %llu, ready %llu, total %llu",
             (unsigned long long)(t[TIME_NAMESPACES] - t[TIME_ASKED]) / 1000,
             (unsigned long long)(t[TIME_STORAGE] - t[TIME_NAMESPACES]) / 1000,
             (unsigned long long)(t[TIME_ROOT] - t[TIME_STORAGE]) / 1000,
             (unsigned long long)(t[TIME_CGROUP] - t[TIME_ROOT]) / 1000,
             (unsigned long long)(t[TIME_SENT] - t[TIME_CGROUP]) / 1000,
             (unsigned long long)(t[TIME_FORKED] - t[TIME_SENT]) / 1000,
             (unsigned long long)(t[TIME_READY] - t[TIME_FORKED]) / 1000,
             (unsigned long long)(t[TIME_READY] - t[TIME_ASKED]) / 1000);
}

static void tell_gone(struct sandbox *s)
{
    struct buf body;
    buf_init(&body, 1024);
    buf_add(&body, s->id.bytes, sizeof s->id.bytes);
    buf_add_u32(&body, s->gone_reason);
    buf_add_counted(&body, str_from(s->gone_text));
    event_broadcast(s->ex, MESSAGE_SANDBOX_GONE, &body);
    buf_free(&body);
}

static void answer_committer(struct sandbox *s)
{
    struct error err;
    struct image_id image;
    uint64_t bytes = 0;
    memcpy(image.bytes, s->commit_image.bytes, sizeof image.bytes);
    int r = storage_commit(s->storage, &image, &bytes, &err);
    s->storage = NULL;
    if (r < 0) {
        reply_error(s->committer, &err);
    } else {
        struct buf out;
        buf_init(&out, 16);
        buf_add_u64(&out, bytes);
        reply_ok(s->committer, &out, -1);
        buf_free(&out);
    }
}

/* Answers everybody, then gives the resources back: nobody waits for that. */
static void sandbox_finish(struct sandbox *s)
{
    struct executor *ex = s->ex;
    while (s->runs) {
        run_lost(s->runs);
    }
    if (s->state == SANDBOX_STARTING) {
        ex->starting_count--;
    }
    if (!s->is_launched) {
        ex->unlaunched_count--;
    }
    table_remove(s);
    denials_tell(s);
    if (s->committer) {
        answer_committer(s);
    }
    if (s->created.connection) {
        struct error err;
        (void)error_set(&err, STATUS_INTERNAL, "the sandbox did not start: %s", s->gone_text);
        reply_error(&s->created, &err);
    } else if (s->gone_reason != 0) {
        tell_gone(s);
    }
    while (s->destroyers) {
        struct asker *asker = s->destroyers;
        s->destroyers = asker->next;
        reply_ok(asker, NULL, -1);
        free(asker);
    }
    free(s->committer);
    executor_unwatch(ex, &s->control);
    executor_unwatch(ex, &s->process);
    cgroup_release(s->cgroup);
    network_release(s->link);
    storage_close(s->storage, s->remove_storage);
    if (s->has_range) {
        ns_pool_give_range(ex->namespaces, s->range, s->is_build);
    }
    ex->pools_are_full = false;
    if (s->gone_reason == EXECUTOR_GONE_COMMITTED ||
        storage_host_backend(ex->storages) != STORAGE_BTRFS_SIMPLE_QUOTA) {
        executor_wake_reaper(ex); /* the kernel itself frees a btrfs subvolume later */
    }
    executor_free_later(ex, &s->control);
}

static void kill_init(struct sandbox *s)
{
    if (s->process.fd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, s->process.fd, SIGKILL, NULL, 0);
    }
}

void sandbox_end(struct sandbox *s, enum executor_gone_reason reason, const char *text)
{
    if (s->state == SANDBOX_ENDING) {
        return;
    }
    if (s->state == SANDBOX_STARTING) {
        s->ex->starting_count--;
    }
    s->state = SANDBOX_ENDING;
    s->gone_reason = reason;
    if (s->gone_text[0] == '\0') {
        (void)snprintf(s->gone_text, sizeof s->gone_text, "%s", text);
    }
    for (struct run *run = s->runs; run; run = run->next_of_sandbox) {
        if (!run->was_killed && !run->has_ended) {
            run->was_killed = true;
            run->kill_reason = EXECUTOR_KILL_SANDBOX_END;
        }
    }
    cpu_share_hurry(s);
    kill_init(s); /* or as soon as the launcher has told its pidfd */
}

static void control_handle(struct executor *ex, struct source *source, uint32_t events);

/* Init is dead, and with it, in its pid namespace, everything else. */
static void process_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct sandbox *s = (struct sandbox *)((char *)source - offsetof(struct sandbox, process));
    siginfo_t info = {0};
    (void)events;
    if (s->process.fd < 0) {
        return; /* finished earlier in this round of events */
    }
    if (waitid((idtype_t)P_PIDFD, (id_t)s->process.fd, &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid == 0) {
        return;
    }
    control_handle(ex, &s->control, 0); /* what it still had to say */
    if (s->state != SANDBOX_ENDING) {
        struct cgroup_usage usage;
        cgroup_read_usage(s->cgroup, &usage);
        bool oom = info.si_code == CLD_KILLED && info.si_status == SIGKILL && usage.oom_kills > 0;
        sandbox_end(s, oom ? EXECUTOR_GONE_OOM : EXECUTOR_GONE_INIT_DIED,
                    oom ? "its first process was killed for memory" : "its first process ended");
    }
    sandbox_finish(s);
}

void sandbox_accept_descriptors(struct sandbox *s, bool on)
{
    enum { PASS_RIGHTS = 83 }; /* SO_PASSRIGHTS; older headers lack it */
    const int value = on;
    /* Closing what was sent would block as long as its sender likes: a TCP socket may linger. */
    (void)setsockopt(s->control.fd, SOL_SOCKET, PASS_RIGHTS, &value, sizeof value);
}

/* What the gateway will accept() on, if init tells the truth. */
static bool is_unix_listener(int fd)
{
    int domain = 0;
    int listens = 0;
    socklen_t size = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 1;
}

static void handle_ready(struct sandbox *s, const struct init_message *m, struct channel_fds *fds)
{
    if (s->state != SANDBOX_STARTING || fds->count != (s->wants_proxy ? 1u : 0u) ||
        (s->wants_proxy && !is_unix_listener(fds->fds[0]))) {
        sandbox_end(s, EXECUTOR_GONE_PROTOCOL, "init spoke out of turn");
        return;
    }
    s->state = SANDBOX_RUNNING;
    sandbox_accept_descriptors(s, false);
    s->ex->starting_count--;
    mark(s, TIME_READY);
    struct buf out;
    buf_init(&out, 16);
    buf_add_u32(&out, ns_pool_uid_base(s->ex->namespaces, s->range));
    buf_add_u32(&out, storage_was_made(s->storage));
    reply_ok(&s->created, &out, s->wants_proxy ? fds->fds[0] : -1);
    buf_free(&out);
    if (s->ex->config->trace) {
        trace(s);
        trace_steps(m);
    }
}

static struct run *run_of_sandbox(struct sandbox *s, uint64_t id)
{
    struct run *run = run_find(s->ex, id);
    return run && run->sandbox == s ? run : NULL;
}

/* Init is inside the sandbox: nothing it says is believed beyond the state it may be said in. */
static void handle_report(struct sandbox *s, const struct init_message *m, struct channel_fds *fds)
{
    struct run *run;
    switch (m->type) {
    case INIT_READY:
        handle_ready(s, m, fds);
        return;
    case INIT_FAILED:
        if (s->state == SANDBOX_STARTING) {
            (void)snprintf(s->gone_text, sizeof s->gone_text, "%.79s: %s", m->text,
                           strerror(m->error_number));
            log_warning("sandbox start failed: %s", s->gone_text);
        }
        sandbox_end(s, EXECUTOR_GONE_INIT_DIED, "it did not start");
        return;
    case INIT_STARTED:
        run = run_of_sandbox(s, m->run);
        if (run && run->terminal_is_due && !run->has_ended && fds->count == 1) {
            run_started(run, fds->fds[0]);
            return;
        }
        break;
    case INIT_EXITED:
        run = run_of_sandbox(s, m->run);
        if (run && !run->has_ended && fds->count == 0 && m->stage < EXECUTOR_STAGE_LOST) {
            run_exited(run, m->stage, m->error_number, m->wait_status);
            return;
        }
        break;
    default:
        break;
    }
    sandbox_end(s, EXECUTOR_GONE_PROTOCOL, "init spoke out of turn");
}

static void control_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct sandbox *s = (struct sandbox *)source;
    (void)events;
    for (int i = 0; i < REPORTS_PER_ROUND; i++) {
        struct init_message m;
        struct channel_fds fds;
        ssize_t n = channel_recv(s->control.fd, &m, sizeof m, &fds);
        if (n == -EAGAIN) {
            return;
        }
        if (n != (ssize_t)sizeof m) {
            channel_fds_close(&fds);
            /* Closed, or garbage: either way init is over. Its pidfd tells the rest. */
            struct epoll_event none = {0};
            (void)epoll_ctl(ex->poll_fd, EPOLL_CTL_MOD, s->control.fd, &none);
            (void)epoll_ctl(ex->poll_fd, EPOLL_CTL_DEL, s->control.fd, NULL);
            if (n != 0 || s->state == SANDBOX_RUNNING) {
                kill_init(s);
            }
            return;
        }
        if (m.type == INIT_FAILED) {
            m.text[sizeof m.text - 1] = '\0';
        }
        handle_report(s, &m, &fds);
        channel_fds_close(&fds);
    }
}

void sandbox_launched(struct sandbox *s, pid_t pid, int pidfd, int error_number)
{
    mark(s, TIME_FORKED);
    s->is_launched = true;
    s->ex->unlaunched_count--;
    if (pid == 0) {
        (void)snprintf(s->gone_text, sizeof s->gone_text, "fork: %s", strerror(error_number));
        sandbox_end(s, EXECUTOR_GONE_INIT_DIED, "it did not start");
        sandbox_finish(s);
        return;
    }
    s->process = (struct source){.fd = pidfd, .handle = process_handle};
    if (executor_watch(s->ex, &s->process, EPOLLIN) < 0) {
        sandbox_end(s, EXECUTOR_GONE_INIT_DIED, "no memory to watch it");
    }
    if (s->state == SANDBOX_ENDING) {
        kill_init(s);
    }
}

static int attach_network(struct sandbox *s, const struct sandbox_spec *spec, int netns,
                          struct error *err)
{
    struct executor *ex = s->ex;
    if (!spec->has_network) {
        return 0;
    }
    if (!ex->network) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "this executor has no network: see its log for the reason");
    }
    struct build_network build;
    const struct network_policy *policy = &spec->network;
    if (spec->is_build_network) {
        policy = build_network_policy(&build, ex->config);
    }
    if (!network_policy_needs_link(policy)) {
        return 0;
    }
    return network_attach(ex->network, netns, policy, &s->link, err);
}

static int open_storage(struct sandbox *s, const struct sandbox_spec *spec, struct error *err)
{
    struct storage_request request = {
        .disk_bytes = spec->limits.disk_bytes,
        .inodes = spec->limits.inodes,
        .uid = spec->uid,
        .gid = spec->gid,
        .is_build = spec->is_build,
        .is_ephemeral = spec->is_ephemeral,
    };
    memcpy(request.id.bytes, spec->storage.bytes, sizeof request.id.bytes);
    memcpy(request.from.bytes, spec->storage_from.bytes, sizeof request.from.bytes);
    return storage_open(s->ex->storages, &request, &s->storage, err);
}

static int make_root(struct sandbox *s, const struct sandbox_spec *spec, int userns, int *ret,
                     struct error *err)
{
    struct executor *ex = s->ex;
    struct image_id image;
    if (spec->is_build) {
        return 0;
    }
    memcpy(image.bytes, spec->image.bytes, sizeof image.bytes);
    AUTO_FD int lower = -1;
    int r = storage_image_mount(ex->storages, &image, userns, &lower, err);
    if (r < 0 || spec->root_read_only) {
        *ret = fd_take(&lower);
        return r;
    }
    AUTO_FD int overlay_userns = -1;
    AUTO_FD int upper = -1;
    r = ns_pool_overlay_userns(ex->namespaces, s->range, &overlay_userns, err);
    r = r < 0 ? r : storage_mount(s->storage, overlay_userns, &upper, err);
    return r < 0 ? r : overlay_mount(lower, upper, ret, err);
}

/* Everything that a sandbox is made of, in order; what was made hangs from s. */
static int make_parts(struct sandbox *s, const struct sandbox_spec *spec, int control,
                      struct error *err)
{
    struct executor *ex = s->ex;
    int userns = -1;
    AUTO_FD int netns = -1;
    AUTO_FD int storage_fd = -1;
    AUTO_FD int root = -1;
    const struct cgroup_limits limits = {
        .memory_bytes = spec->limits.memory_bytes,
        .pids = spec->limits.pids + 1, /* init is one, and not the user's */
        .cpu_millicores = spec->limits.cpu_millicores,
    };
    int r = ns_pool_take_range(ex->namespaces, &s->range, err);
    if (r < 0) {
        return r;
    }
    s->has_range = true;
    r = ns_pool_userns(ex->namespaces, s->range, spec->is_build, &userns, err);
    r = r < 0 ? r : ns_pool_netns(ex->namespaces, &netns, err);
    r = r < 0 ? r : attach_network(s, spec, netns, err);
    mark(s, TIME_NAMESPACES);
    r = r < 0 ? r : open_storage(s, spec, err);
    r = r < 0 ? r : storage_mount(s->storage, userns, &storage_fd, err);
    mark(s, TIME_STORAGE);
    r = r < 0 ? r : make_root(s, spec, userns, &root, err);
    mark(s, TIME_ROOT);
    r = r < 0 ? r : cgroup_acquire(ex->cgroups, &limits, &s->cgroup, err);
    mark(s, TIME_CGROUP);
    r = r < 0 ? r : launcher_send(s, spec, control, userns, netns, storage_fd, root, err);
    mark(s, TIME_SENT);
    return r;
}

static struct sandbox *sandbox_new(struct executor *ex, const struct sandbox_spec *spec,
                                   bool is_held)
{
    struct sandbox *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->ex = ex;
    s->id = spec->id;
    s->control.fd = -1;
    s->process.fd = -1;
    s->is_build = spec->is_build;
    s->wants_proxy = spec->want_proxy_socket;
    s->uid = spec->uid;
    s->gid = spec->gid;
    s->capabilities = spec->capabilities;
    s->limits = spec->limits;
    (void)snprintf(s->home, sizeof s->home, "%s", spec->home);
    s->launcher = &ex->launchers[spec->is_build];
    s->serial = ++s->launcher->next_serial;
    s->was_held = is_held;
    unsigned slot = table_slot(&s->id);
    s->next_in_table = ex->sandboxes[slot];
    ex->sandboxes[slot] = s;
    ex->sandbox_count++;
    ex->starting_count++;
    ex->unlaunched_count++;
    return s;
}

static int check_room(struct executor *ex, const struct sandbox_spec *spec, struct error *err)
{
    if (sandbox_find(ex, &spec->id)) {
        return error_set(err, STATUS_ALREADY_EXISTS, "a sandbox with this id exists");
    }
    if (ex->sandbox_count >= ex->config->sandboxes_max) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "%u sandboxes are alive: raise sandboxes_max in the executor's config",
                         ex->sandbox_count);
    }
    return executor_check_descriptors(ex, err);
}

void sandbox_create(struct executor *ex, const struct sandbox_spec *spec, struct asker asker)
{
    struct error err;
    uint64_t now = clock_now_ns();
    if (check_room(ex, spec, &err) < 0) {
        reply_error(&asker, &err);
        return;
    }
    int pair[2] = {-1, -1};
    struct holder holder = {.control = -1, .pidfd = -1};
    bool is_held = holder_pool_take(&ex->launchers[spec->is_build], &holder);
    struct sandbox *s =
        is_held || channel_pair(pair, true) == 0 ? sandbox_new(ex, spec, is_held) : NULL;
    AUTO_FD int theirs = pair[1];
    if (!s) {
        fd_close(&pair[0]);
        if (is_held) {
            holder_pool_give_back(&ex->launchers[spec->is_build], &holder);
        }
        (void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory for a sandbox");
        reply_error(&asker, &err);
        return;
    }
    s->times_ns[TIME_ASKED] = now;
    s->control =
        (struct source){.fd = is_held ? holder.control : pair[0], .handle = control_handle};
    (void)channel_widen(s->control.fd, CONTROL_SEND_BYTES); /* else fewer starts may wait */
    int r = executor_watch(ex, &s->control, EPOLLIN) < 0
                ? error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to watch a sandbox")
                : make_parts(s, spec, theirs, &err);
    if (r < 0) {
        /* Nobody runs in it yet, and no order was taken. */
        if (is_held) {
            (void)epoll_ctl(ex->poll_fd, EPOLL_CTL_DEL, s->control.fd, NULL);
            s->control.fd = -1;
            holder_pool_give_back(s->launcher, &holder);
        }
        reply_error(&asker, &err);
        sandbox_finish(s);
        return;
    }
    if (is_held) {
        sandbox_launched(s, 1, holder.pidfd, 0);
    }
    s->created = asker;
    ex->pools_are_full = false;
    ex->taken_since_full++;
}

void sandbox_expire_starting(struct executor *ex)
{
    uint64_t now = clock_now_ns();
    for (unsigned i = 0; ex->starting_count > 0 && i < TABLE_SIZE; i++) {
        for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
            if (s->state == SANDBOX_STARTING &&
                now - s->times_ns[TIME_ASKED] > START_TIMEOUT_S * UINT64_C(1000000000)) {
                sandbox_end(s, EXECUTOR_GONE_INIT_DIED, "it did not start in time");
            }
        }
    }
}

void sandbox_forget_connection(struct executor *ex, const struct connection *c)
{
    for (unsigned i = 0; i < TABLE_SIZE; i++) {
        for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
            if (s->created.connection == c) {
                /* Nobody will know of it: it must not stay. */
                s->created.connection = NULL;
                sandbox_end(s, EXECUTOR_GONE_DESTROYED, "the gateway went away");
            }
            for (struct asker *a = s->destroyers; a; a = a->next) {
                a->connection = a->connection == c ? NULL : a->connection;
            }
            if (s->committer && s->committer->connection == c) {
                s->committer->connection = NULL;
            }
        }
        for (struct run *run = ex->runs[i]; run; run = run->next_in_table) {
            if (run->started.connection == c) {
                run->started.connection = NULL;
            }
            for (struct asker *a = run->killers; a; a = a->next) {
                a->connection = a->connection == c ? NULL : a->connection;
            }
        }
    }
}
