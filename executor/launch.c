#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/init/protocol.h"
#include "executor/proc/fd.h"
#include "executor/proc/log.h"

/* Our side of the launchers: start them, send orders, take the answers. */

enum { HELLO_TIMEOUT_MS = 10000, SEND_TIMEOUT_MS = 1000, TMPFS_SHARE = 2 };

void launcher_find(const struct config *config, char *ret, size_t size)
{
    if (config->launcher_path[0] != '\0') {
        (void)snprintf(ret, size, "%s", config->launcher_path);
        return;
    }
    ssize_t n = readlink("/proc/self/exe", ret, size - 32);
    ret[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(ret, '/');
    size_t used = slash ? (size_t)(slash - ret) : 0;
    (void)snprintf(ret + used, size - used, "/cordium-launcher");
}

/* In the child: descriptors 3 and 4 as the launcher wants them, nothing else but stdio. */
static _Noreturn void exec_launcher(const char *path, char *const *argv, int socket, int filter)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10);
    int high_filter = fcntl(filter, F_DUPFD_CLOEXEC, 10);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* If the executor is spared when the host's memory is short, sandboxes are not: written with
     * CAP_SYS_RESOURCE, this is also the least that their processes can give themselves. */
    (void)fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0");
    if (dup2(null_fd, 0) == -1 || dup2(null_fd, 1) == -1 || dup2(null_fd, 2) == -1 ||
        dup2(high_socket, 3) == -1 || dup2(high_filter, 4) == -1 || close_range(5, ~0U, 0) == -1) {
        _exit(126);
    }
    char *const env[] = {NULL};
    (void)execve(path, argv, env);
    _exit(127);
}

static int wait_for_hello(int fd, const char *path, struct error *err)
{
    struct {
        struct launch_reply reply;
        char step[64];
    } hello = {0};
    struct channel_fds fds;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n = poll(&p, 1, HELLO_TIMEOUT_MS) == 1
                    ? channel_recv(fd, &hello, sizeof hello - 1, &fds)
                    : -ETIMEDOUT;
    if (n < (ssize_t)sizeof hello.reply) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "launcher '%s' does not run: install it beside the executor, or set "
                         "launcher_path",
                         path);
    }
    channel_fds_close(&fds);
    if (hello.reply.pid != 1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, hello.reply.error_number,
                               "launcher cannot %s", hello.step);
    }
    return 0;
}

static void launcher_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct launcher *l = (struct launcher *)source;
    (void)events;
    for (;;) {
        struct launch_reply reply;
        struct channel_fds fds;
        ssize_t n = channel_recv(l->source.fd, &reply, sizeof reply, &fds);
        if (n == -EAGAIN) {
            return;
        }
        if (n != (ssize_t)sizeof reply) {
            /* It has no reason to end; with half an executor we do not go on. */
            log_error("a launcher ended unexpectedly: stopping");
            channel_fds_close(&fds);
            executor_unwatch(ex, &l->source);
            ex->is_stopping = true;
            return;
        }
        int pidfd = channel_fds_take(&fds, 0);
        channel_fds_close(&fds);
        if (holder_pool_answer(l, reply.serial, &pidfd)) {
            continue;
        }
        struct sandbox *s = sandbox_by_serial(ex, l, reply.serial);
        if (s && (reply.pid == 0 || pidfd >= 0)) {
            sandbox_launched(s, reply.pid, fd_take(&pidfd), reply.error_number);
        }
        fd_close(&pidfd);
    }
}

/* /etc/hosts of builds: what the config says, and the host's own loopback (of which a build sees
 * the ports that the config lists) under a name. False when it does not fit. */
static bool make_hosts(const struct executor *ex, char *ret, size_t size)
{
    char service[INET_ADDRSTRLEN] = "";
    if (ex->network) {
        struct in_addr in = {.s_addr = htonl(network_service_address(ex->network))};
        (void)inet_ntop(AF_INET, &in, service, sizeof service);
    }
    int n = snprintf(ret, size, "%s%s%s%s", ex->config->build_hosts,
                     ex->config->build_hosts[0] ? "\n" : "", service,
                     service[0] ? "\thost.cordium.internal\n" : "");
    for (char *c = strchr(ret, ','); c; c = strchr(c, ',')) {
        *c = '\n';
    }
    return n >= 0 && (size_t)n < size;
}

int launcher_start(struct executor *ex, struct launcher *launcher, bool is_build,
                   const char *resolvers, struct error *err)
{
    struct seccomp_program program;
    int pair[2];
    char path[4096];
    int r = seccomp_program_build(is_build, &program, err);
    if (r < 0) {
        return r;
    }
    AUTO_FD int filter =
        fd_sealed_memfd("cordium-filter", program.code, program.length * sizeof *program.code);
    if (filter < 0 || channel_pair(pair, false) < 0) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no descriptors for a launcher");
    }
    AUTO_FD int theirs = pair[1];
    launcher_find(ex->config, path, sizeof path);
    char hosts[4096];
    if (!make_hosts(ex, hosts, sizeof hosts)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "build_hosts is longer than %zu bytes",
                         sizeof hosts);
    }
    const char *argv[] = {path,
                          is_build ? "build" : "workspace",
                          ex->config->tools_dir,
                          ex->config->build_root,
                          resolvers,
                          hosts,
                          NULL};
    launcher->pid = fork();
    if (launcher->pid == 0) {
        exec_launcher(path, (char *const *)argv, theirs, filter);
    }
    launcher->source = (struct source){.fd = pair[0], .handle = launcher_handle};
    if (launcher->pid == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "fork a launcher");
    }
    fd_close(&theirs);
    r = wait_for_hello(launcher->source.fd, path, err);
    if (r == 0 && (fcntl(launcher->source.fd, F_SETFL, O_NONBLOCK) == -1 ||
                   executor_watch(ex, &launcher->source, EPOLLIN) < 0)) {
        r = error_set(err, STATUS_RESOURCE_EXHAUSTED, "cannot watch a launcher");
    }
    return r;
}

int launcher_send(struct sandbox *s, const struct sandbox_spec *spec, int control, int userns,
                  int netns, int storage, int root, struct error *err)
{
    int attach[CGROUP_ATTACH_MAX];
    int fds[CHANNEL_FDS_MAX];
    size_t count = 0;
    if (!s->was_held) {
        fds[count++] = control; /* a holder has it already */
    }
    fds[count++] = userns;
    fds[count++] = netns;
    fds[count++] = storage;
    struct launch_request q = {
        .serial = s->serial,
        .uid = spec->uid,
        .gid = spec->gid,
        .uid_base = ns_pool_uid_base(s->ex->namespaces, s->range),
        .capabilities = spec->is_build ? UINT64_MAX : spec->capabilities,
        .tmpfs_bytes = spec->limits.shm_bytes ? spec->limits.shm_bytes
                                              : spec->limits.memory_bytes / TMPFS_SHARE,
    };
    q.flags = (spec->is_build ? LAUNCH_BUILD : 0u) |
              (storage_was_made(s->storage) && !spec->is_build ? LAUNCH_FILL_HOME : 0u) |
              (spec->want_proxy_socket ? LAUNCH_PROXY_SOCKET : 0u) |
              (s->link ? LAUNCH_RESOLVERS : 0u);
    (void)snprintf(q.hostname, sizeof q.hostname, "%s", spec->hostname);
    (void)snprintf(q.home, sizeof q.home, "%s", spec->home);
    if (!spec->is_build) {
        fds[count++] = root;
    }
    q.attach_count = (uint32_t)cgroup_attach_fds(s->cgroup, attach);
    for (uint32_t i = 0; i < q.attach_count; i++) {
        fds[count++] = attach[i];
    }
    const struct iovec part = {&q, sizeof q};
    int to = s->was_held ? s->control.fd : s->launcher->source.fd;
    int r = channel_send(to, &part, 1, fds, count);
    if (r == -EAGAIN) {
        struct pollfd p = {.fd = to, .events = POLLOUT};
        (void)poll(&p, 1, SEND_TIMEOUT_MS);
        r = channel_send(to, &part, 1, fds, count);
    }
    return r < 0 ? error_set_errno(err, STATUS_UNAVAILABLE, -r, "the launcher takes no order") : 0;
}
