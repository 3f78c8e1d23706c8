/* cordium-executor: the privileged daemon. This file opens everything in order, refuses to serve
 * when a layer cannot be put in force, and runs the loop. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/doctor.h"
#include "executor/executor.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "executor/reaper.h"
#include "executor/self_check.h"
#include "executor/self_test.h"
#include "executor/steps/storage_backend.h"

enum {
    CONFIG_ARENA_BYTES = 1 << 20,
    STARTING_CHECK_MS = 1000,
    FILL_AFTER_MS = 20,    /* of silence */
    FILL_LOW_AFTER_MS = 1, /* when half of what was ready is used up */
    LOCK_TRIES = 20,
    STOP_TIMEOUT_S = 10,
    LOCK_PAUSE_US = 50000
};

static int make_directories(const char *path, mode_t mode, struct error *err)
{
    char copy[4096];
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = strchr(copy + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) {
            *slash = '\0';
        }
        if (mkdir(copy, slash ? 0755 : mode) == -1 && errno != EEXIST) {
            return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                                   "mkdir '%s' (remedy: set state_dir and runtime_dir to places "
                                   "that can be written)",
                                   copy);
        }
        if (!slash) {
            return 0;
        }
        *slash = '/';
    }
}

/* One executor per state directory. A crashed one's lock is gone with it. */
static int take_lock(struct executor *ex, struct error *err)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/lock", ex->config->state_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open '%s'", path);
    }
    ex->lock_fd = fd;
    bool is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0;
    for (int i = 0; !is_ours && i < LOCK_TRIES; i++) {
        /* A predecessor that was killed may need a moment to be gone. */
        (void)usleep(LOCK_PAUSE_US);
        is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0;
    }
    if (!is_ours) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "another executor serves '%s': stop it first, or give this one a "
                         "state_dir of its own",
                         ex->config->state_dir);
    }
    return 0;
}

/* The pool is mounted where nobody but us sees it, and goes with us. */
static int leave_host_mounts(struct error *err)
{
    if (unshare(CLONE_NEWNS) == -1 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "leave the host's mount namespace (needs CAP_SYS_ADMIN)");
    }
    return 0;
}

/* Nothing of whoever started us is in the keyring that our children begin with. */
static int leave_host_keyring(struct executor *ex, struct error *err)
{
    long serial = syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
    if (serial == -1 && errno != ENOSYS) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "join a session keyring of our own (remedy: raise "
                               "kernel.keys.root_maxkeys)");
    }
    ex->keyring = serial == -1 ? 0 : serial;
    return 0;
}

static int parse_range(const char *text, struct network_config *ret, struct error *err)
{
    char address[32];
    unsigned prefix;
    struct in_addr in;
    if (text[0] == '\0') {
        return 0;
    }
    if (sscanf(text, "%31[0-9.]/%u", address, &prefix) != 2 || prefix > 32 ||
        inet_pton(AF_INET, address, &in) != 1) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "network_range '%s' is no CIDR", text);
    }
    ret->range = ntohl(in.s_addr);
    ret->range_prefix_length = (uint8_t)prefix;
    return 0;
}

static int open_network(struct executor *ex, char *resolvers, size_t size, struct error *err)
{
    struct network_config config = {.instance = ex->config->instance};
    resolvers[0] = '\0';
    if (!ex->config->network) {
        return 0;
    }
    int r = parse_range(ex->config->network_range, &config, err);
    if (r < 0) {
        return r;
    }
    config.resolver_count = network_read_resolvers(ex->config->resolv_conf, config.resolvers);
    r = network_open(&config, &ex->network, err);
    if (r < 0) {
        return error_wrap(err, "network (remedy also: network = false)");
    }
    size_t used = 0;
    for (size_t i = 0; i < config.resolver_count; i++) {
        struct in_addr in = {.s_addr = htonl(config.resolvers[i])};
        char address[INET_ADDRSTRLEN];
        (void)inet_ntop(AF_INET, &in, address, sizeof address);
        used += (size_t)snprintf(resolvers + used, size - used, "nameserver %s\n", address);
    }
    return 0;
}

static int open_listener(struct executor *ex, struct error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int n =
        snprintf(addr.sun_path, sizeof addr.sun_path, "%s/executor.sock", ex->config->runtime_dir);
    if (n < 0 || (size_t)n >= sizeof addr.sun_path) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "runtime_dir '%s' is too long for a socket",
                         ex->config->runtime_dir);
    }
    (void)unlink(addr.sun_path);
    AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1 || bind(fd, (const struct sockaddr *)&addr, sizeof addr) == -1 ||
        chmod(addr.sun_path, 0600) == -1 ||
        chown(addr.sun_path, ex->config->gateway_uid, (gid_t)-1) == -1 || listen(fd, 8) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "listen at '%s'",
                               addr.sun_path);
    }
    ex->listener = (struct source){.fd = fd_take(&fd), .handle = connection_accept};
    return executor_watch(ex, &ex->listener, EPOLLIN) < 0
               ? error_set(err, STATUS_INTERNAL, "cannot watch the listening socket")
               : 0;
}

static void signals_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct signalfd_siginfo info;
    (void)events;
    while (read(source->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        ex->is_stopping = true;
    }
}

static int open_signals(struct executor *ex, struct error *err)
{
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    ex->signals = (struct source){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK),
                                  .handle = signals_handle};
    return ex->signals.fd == -1 || executor_watch(ex, &ex->signals, EPOLLIN) < 0
               ? error_set(err, STATUS_INTERNAL, "cannot watch for signals")
               : 0;
}

/* As many descriptors as we may have; each sandbox takes 12 to 20. */
static int raise_limits(unsigned *ret_descriptors, struct error *err)
{
    struct rlimit nofile;
    if (getrlimit(RLIMIT_NOFILE, &nofile) == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "read RLIMIT_NOFILE");
    }
    nofile.rlim_cur = nofile.rlim_max < DESCRIPTORS_MAX ? nofile.rlim_max : DESCRIPTORS_MAX;
    if (nofile.rlim_cur < DESCRIPTORS_MIN || setrlimit(RLIMIT_NOFILE, &nofile) == -1) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "RLIMIT_NOFILE allows %llu descriptors, at least %d are needed: raise it "
                         "(LimitNOFILE= of a systemd unit)",
                         (unsigned long long)nofile.rlim_cur, DESCRIPTORS_MIN);
    }
    *ret_descriptors = (unsigned)nofile.rlim_cur;
    return 0;
}

/* Not needed to serve: the figures are not told then. */
static void count_io(struct executor *ex)
{
    struct block_device device;
    int r = storage_host_device(ex->storages, &device);
    if (r < 0 || !cgroup_host_count_io(ex->cgroups, &device)) {
        log_info("block I/O of runs is not counted: %s",
                 r < 0 ? strerror(-r)
                       : "the kernel has no io (v2) or blkio (v1) controller for it");
    }
}

/* Opens everything, in an order in which leftovers of a crash go first: processes by their
 * cgroups, then mounts with them, then files. */
static int executor_open(struct executor *ex, struct error *err)
{
    char resolvers[256];
    const struct config *c = ex->config;
    const struct storage_config storage = {
        .state_dir = c->state_dir, .backend = c->quota_backend, .pool_bytes = c->pool_bytes};
    const struct ns_pool_config namespaces = {.uid_base = c->uid_base,
                                              .range_count = c->uid_ranges};
    int r = self_check_rights(err);
    r = r < 0 ? r : raise_limits(&ex->descriptors_max, err);
    r = r < 0 ? r : make_directories(c->state_dir, 0700, err);
    r = r < 0 ? r : take_lock(ex, err);
    r = r < 0 ? r : open_signals(ex, err);
    r = r < 0 ? r : leave_host_mounts(err);
    r = r < 0 ? r : leave_host_keyring(ex, err);
    r = r < 0 ? r : cgroup_host_open(c->instance, &ex->cgroups, err);
    r = r < 0 ? r : storage_host_open(&storage, &ex->storages, err);
    if (r == 0) {
        count_io(ex);
    }
    r = r < 0 ? r : ns_pool_open(&namespaces, &ex->namespaces, err);
    r = r < 0 ? r : open_network(ex, resolvers, sizeof resolvers, err);
    if (r == 0) {
        ex->reaper_fd =
            reaper_start(storage_host_trash_fd(ex->storages), storage_host_images_fd(ex->storages));
        r = ex->reaper_fd < 0 ? error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, -ex->reaper_fd,
                                                "start the reaper")
                              : 0;
    }
    r = r < 0 ? r : launcher_start(ex, &ex->launchers[0], false, resolvers, err);
    r = r < 0 ? r : launcher_start(ex, &ex->launchers[1], true, resolvers, err);
    r = r < 0 ? r : self_check(ex, err);
    r = r < 0 ? r : self_drop_capabilities(err);
    r = r < 0 ? r : self_test(ex, err);
    /* Only now: while it is empty, a --check that began before it was there would remove it. */
    r = r < 0 ? r : make_directories(c->runtime_dir, 0755, err);
    return r < 0 ? r : open_listener(ex, err);
}

/* True while there is something left to make ahead of need. */
static bool fill_pools(struct executor *ex)
{
    unsigned want = ex->config->pool_size;
    if (ex->pools_are_full) {
        return false;
    }
    bool made = holder_pool_fill(&ex->launchers[0], want) || ns_pool_fill(ex->namespaces, want) ||
                cgroup_pool_fill(ex->cgroups, want) || storage_pool_fill(ex->storages, want);
    ex->pools_are_full = !made;
    ex->taken_since_full = made ? ex->taken_since_full : 0;
    return made;
}

/* What a new sandbox does first is what its user waits for: the pools wait longer, if they can. */
static int fill_after_ms(const struct executor *ex)
{
    return ex->taken_since_full < ex->config->pool_size / 2 ? FILL_AFTER_MS : FILL_LOW_AFTER_MS;
}

/* Of two timeouts; -1 is none. */
static int sooner(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

static void executor_loop(struct executor *ex)
{
    bool is_filling = false;
    while (!ex->is_stopping) {
        /* Pools are for the idle moments: not while a sandbox starts, which needs the same locks of
         * the kernel, and one step at a time, so that whoever waits comes first. */
        int timeout_ms = ex->starting_count > 0 ? STARTING_CHECK_MS
                         : ex->pools_are_full   ? -1
                         : is_filling           ? 0
                                                : fill_after_ms(ex);
        timeout_ms = sooner(timeout_ms, runs_keep_killing(ex));
        timeout_ms = sooner(timeout_ms, cpu_share_when_due(ex));
        timeout_ms = sooner(timeout_ms, denials_tell_when_due(ex));
        is_filling =
            executor_handle_events(ex, timeout_ms) && ex->starting_count == 0 && fill_pools(ex);
        if (ex->starting_count > 0) {
            sandbox_expire_starting(ex);
        }
    }
}

/* Ends every sandbox, and tells the gateway so while it still listens. */
static void end_sandboxes(struct executor *ex)
{
    for (unsigned i = 0; i < TABLE_SIZE; i++) {
        for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
            sandbox_end(s, EXECUTOR_GONE_EXECUTOR_STOPPED, "the executor stops");
        }
    }
    uint64_t deadline = clock_now_ns() + STOP_TIMEOUT_S * UINT64_C(1000000000);
    while (ex->sandbox_count > 0 && clock_now_ns() < deadline) {
        (void)executor_handle_events(ex, STARTING_CHECK_MS);
    }
}

static void executor_close(struct executor *ex)
{
    end_sandboxes(ex);
    copy_end_all(ex);
    while (ex->connections) {
        connection_close(ex, ex->connections);
    }
    executor_unwatch(ex, &ex->listener);
    executor_unwatch(ex, &ex->signals);
    holder_pool_close(&ex->launchers[0]);
    executor_unwatch(ex, &ex->launchers[0].source);
    executor_unwatch(ex, &ex->launchers[1].source);
    /* The groups catch whatever did not obey. */
    cgroup_host_close(ex->cgroups);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    network_close(ex->network);
    storage_host_close(ex->storages);
    ns_pool_close(ex->namespaces);
    fd_close(&ex->reaper_fd);
    executor_free_pending(ex);
}

static struct executor *executor_new(const struct config *config)
{
    struct executor *ex = calloc(1, sizeof *ex);
    if (!ex) {
        return NULL;
    }
    ex->config = config;
    ex->lock_fd = -1;
    ex->reaper_fd = -1;
    ex->listener.fd = -1;
    ex->signals.fd = -1;
    ex->launchers[0].source.fd = -1;
    ex->launchers[1].source.fd = -1;
    ex->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    return ex;
}

static void executor_free(struct executor *ex)
{
    executor_close(ex);
    fd_close(&ex->poll_fd);
    fd_close(&ex->lock_fd);
    free(ex);
}

static int serve(const struct config *config)
{
    struct error err;
    struct executor *ex = executor_new(config);
    if (!ex) {
        return 1;
    }
    int r = executor_open(ex, &err);
    if (r < 0) {
        log_error("cordium-executor does not serve: %s", err.text);
    } else {
        log_info("cordium-executor serves: cgroup %s, disk limits by %s, network %s; %d layers "
                 "held in a self-test of %llu ms",
                 cgroup_host_is_v2(ex->cgroups) ? "v2" : "v1",
                 storage_host_backend_name(ex->storages), ex->network ? "on" : "off",
                 (int)SELF_TEST_LAYERS, (unsigned long long)(ex->self_test_ns / 1000000));
        executor_loop(ex);
        log_info("cordium-executor stops");
    }
    executor_free(ex);
    return r < 0 ? 1 : 0;
}

static void remove_trial(const char *parent, bool was_there, const char *path)
{
    const char *const argv[] = {"rm", "-rf", "--one-file-system", path, NULL};
    (void)storage_run_program(argv);
    if (!was_there) {
        (void)rmdir(parent);
    }
}

/* Opens everything as for serving, with a name and directories of its own, so that it may run
 * beside an executor that serves, and takes it all away again. */
static int try_start(struct doctor *d, const struct config *config)
{
    enum { TRIAL_POOL_BYTES = 1 << 30 };
    char state[2100], run[2100], instance[33];
    struct config trial = *config;
    struct error err;
    bool has_state = access(config->state_dir, F_OK) == 0;
    bool has_run = access(config->runtime_dir, F_OK) == 0;
    (void)snprintf(state, sizeof state, "%s/check-%d", config->state_dir, getpid());
    (void)snprintf(run, sizeof run, "%s/check-%d", config->runtime_dir, getpid());
    (void)snprintf(instance, sizeof instance, "check-%d", getpid());
    trial.state_dir = state;
    trial.runtime_dir = run;
    trial.instance = instance;
    if (trial.pool_bytes > TRIAL_POOL_BYTES) {
        trial.pool_bytes = TRIAL_POOL_BYTES;
    }
    struct executor *ex = executor_new(&trial);
    int r = ex ? executor_open(ex, &err) : error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    if (ex) {
        doctor_print_layers(d, ex);
    }
    if (r < 0) {
        doctor_print_refusal(d, &err);
    } else {
        doctor_print_choices(d, ex);
    }
    if (ex) {
        executor_free(ex);
    }
    remove_trial(config->state_dir, has_state, state);
    remove_trial(config->runtime_dir, has_run, run);
    return r < 0 ? 1 : 0;
}

/* Anybody may ask; who is not root is told what anybody can read. */
static int check_host(const char *path, bool is_json)
{
    struct arena arena;
    struct config config;
    struct error err;
    struct doctor d;
    arena_init(&arena, CONFIG_ARENA_BYTES);
    doctor_begin(&d, stdout, is_json);
    bool has_config = config_read(path, &arena, &config, &err) == 0;
    doctor_print_host(&d, has_config ? &config : NULL);
    int status = 1;
    if (!has_config) {
        doctor_print_config_error(&d, &err);
    } else if (geteuid() != 0) {
        doctor_print_no_trial(&d);
    } else {
        status = try_start(&d, &config);
    }
    doctor_end(&d);
    arena_free(&arena);
    return status;
}

static int read_config_and_serve(const char *path)
{
    struct arena arena;
    struct config config;
    struct error err;
    arena_init(&arena, CONFIG_ARENA_BYTES);
    int r = config_read(path, &arena, &config, &err);
    if (r < 0) {
        log_error("cordium-executor: %s", err.text);
    }
    int status = r < 0 ? 1 : serve(&config);
    arena_free(&arena);
    return status;
}

static void print_usage(FILE *to)
{
    (void)fputs("Usage: cordium-executor [--check [--json]] --config FILE\n"
                "\n"
                "The privileged half of the sandbox platform. Runs as root; serves the gateway\n"
                "whose uid the config names. See executor/README.md for the config's keys.\n"
                "--check tells the state of the host, with remedies, and whether it could serve\n"
                "(exit code 0 or 1; root alone can tell); it disturbs no executor that serves.\n",
                to);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"check", no_argument, NULL, 'k'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *path = NULL;
    bool is_check = false;
    bool is_json = false;
    int c;
    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        switch (c) {
        case 'c':
            path = optarg;
            break;
        case 'k':
            is_check = true;
            break;
        case 'j':
            is_json = true;
            break;
        case 'h':
            print_usage(stdout);
            return 0;
        default:
            print_usage(stderr);
            return 2;
        }
    }
    if (!path || optind != argc || (is_json && !is_check)) {
        print_usage(stderr);
        return 2;
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)umask(0022);
    if (is_check) {
        return check_host(path, is_json);
    }
    if (geteuid() != 0) {
        log_error("cordium-executor must be started by root: it makes namespaces and mounts");
        return 1;
    }
    return read_config_and_serve(path);
}
