/* The launcher: the small, static, single-threaded process that forks sandboxes. It stands in a
 * mount namespace of its own that holds nothing but the template of a sandbox, and has no
 * descriptor but the executor's socket, so that what a child copies is small and known.
 *
 *   cordium-launcher workspace|build CONFIG...   (started by the executor alone: fd 3 is its
 * socket, fd 4 a memfd with the seccomp program)
 *   /cordium-self-test              (in the sandbox of the executor's self-test: attacks it) */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/init/init.h"
#include "executor/init/privileges.h"
#include "executor/init/self_test.h"
#include "executor/init/setup.h"
#include "executor/init/template.h"
#include "executor/ipc/channel.h"
#include "executor/proc/fd.h"

enum { SOCKET_FD = 3, FILTER_FD = 4, FIXED_FDS = 3 };

static _Noreturn void child_main(struct setup *s)
{
    const char *step = "";
    int r = setup_run(s, &step);
    if (r < 0) {
        init_report_failure(s, step, -r);
        _exit(1);
    }
    init_main(s);
    _exit(0);
}

/* All but the control socket, from `first` on. */
static bool take_fds(const struct launch_request *q, const struct channel_fds *fds, size_t first,
                     struct setup *s)
{
    size_t roots = q->flags & LAUNCH_BUILD ? 0 : 1;
    if (q->attach_count > LAUNCH_ATTACH_MAX ||
        fds->count != first + FIXED_FDS + roots + q->attach_count) {
        return false;
    }
    const int *at = fds->fds + first;
    s->userns = at[0];
    s->netns = at[1];
    s->storage = at[2];
    s->root = roots ? at[3] : -1;
    for (uint32_t i = 0; i < q->attach_count; i++) {
        s->attach[i] = at[FIXED_FDS + roots + i];
    }
    return true;
}

/* Waits for the order that makes this process the first of a sandbox. */
static _Noreturn void hold_main(struct setup *s)
{
    struct launch_request request;
    struct channel_fds fds;
    struct pollfd p = {.fd = s->control, .events = POLLIN};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* The end of the launcher must show to the executor, whoever still holds. */
    (void)close(SOCKET_FD);
    ssize_t n;
    do {
        (void)poll(&p, 1, -1);
        n = channel_recv(s->control, &request, sizeof request, &fds);
    } while (n == -EAGAIN);
    if (n == 0) {
        _exit(0); /* not needed any more */
    }
    s->request = &request;
    if (n != (ssize_t)sizeof request || !take_fds(&request, &fds, 0, s)) {
        init_report_failure(s, "read the order", EBADMSG);
        _exit(1);
    }
    child_main(s);
}

/* The new process is the executor's child, not ours: it is waited for there. */
static pid_t fork_sandbox(struct setup *s, int *ret_pidfd)
{
    struct clone_args args = {
        .flags =
            CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0 && s->request->flags & LAUNCH_HOLD) {
        hold_main(s);
    } else if (pid == 0) {
        child_main(s);
    }
    return pid;
}

static void launch(const struct launch_request *q, struct channel_fds *fds,
                   const struct sock_fprog *filter)
{
    struct setup s = {
        .request = q,
        .filter = filter,
        .root = -1,
        .listener = -1,
        .oom_score = -1,
        .home_source = -1,
    };
    struct launch_reply reply = {.serial = q->serial};
    AUTO_FD int pidfd = -1;
    bool is_hold = q->flags & LAUNCH_HOLD;
    if (is_hold ? fds->count != 1 : !take_fds(q, fds, 1, &s)) {
        reply.error_number = EBADMSG;
    } else {
        s.control = fds->fds[0];
        reply.pid = fork_sandbox(&s, &pidfd);
        if (reply.pid == -1) {
            reply.pid = 0;
            reply.error_number = errno;
        }
    }
    const struct iovec part = {&reply, sizeof reply};
    (void)channel_send(SOCKET_FD, &part, 1, &pidfd, pidfd >= 0 ? 1 : 0);
}

static int read_filter(struct sock_fprog *ret)
{
    struct stat st;
    if (fstat(FILTER_FD, &st) == -1 || st.st_size <= 0 || st.st_size > 65536 ||
        st.st_size % (off_t)sizeof(struct sock_filter) != 0) {
        return -EINVAL;
    }
    size_t size = (size_t)st.st_size;
    struct sock_filter *code = malloc(size);
    if (!code || pread(FILTER_FD, code, size, 0) != (ssize_t)size) {
        free(code);
        return -EIO;
    }
    ret->len = (unsigned short)(size / sizeof *code);
    ret->filter = code;
    (void)close(FILTER_FD);
    return 0;
}

/* Every sandbox can read its pid 1's command line: it must not tell the host's paths. */
static void hide_arguments(int argc, char **argv)
{
    static const char name[] = "cordium-init";
    for (int i = 0; i < argc; i++) {
        memset(argv[i], 0, strlen(argv[i]));
    }
    memcpy(argv[0], name, sizeof name);
    (void)prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* What making a sandbox takes until it is in its own user namespace; not modules, raw I/O, devices,
 * other people's processes or the host's network. */
static int drop_capabilities(void)
{
    static const unsigned needed[] = {CAP_CHOWN,      CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
                                      CAP_FOWNER,     CAP_FSETID,       CAP_SETGID,
                                      CAP_SETUID,     CAP_SETPCAP,      CAP_SYS_ADMIN,
                                      CAP_SYS_CHROOT, CAP_SYS_RESOURCE};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    uint64_t keep = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        keep |= UINT64_C(1) << needed[i];
    }
    int r = privileges_get(&header, have);
    if (r < 0) {
        return r;
    }
    keep &= have[0].permitted | (uint64_t)have[1].permitted << 32;
    r = privileges_limit_bounding(UINT64_MAX, keep);
    return r < 0 ? r : privileges_set(keep);
}

int main(int argc, char **argv)
{
    struct sock_fprog filter;
    struct launch_request request;
    const char *step = "read the filter";
    if (argc == 1 && strcmp(argv[0], SELF_TEST_PROGRAM) == 0) {
        return self_test_attack();
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    int r = argc == 6 && strlen(argv[0]) >= 12 ? read_filter(&filter) : -EINVAL;
    r = r < 0 ? r
              : template_enter(&(struct template_config){.is_build = strcmp(argv[1], "build") == 0,
                                                         .tools_dir = argv[2],
                                                         .build_root = argv[3],
                                                         .resolvers = argv[4],
                                                         .build_hosts = argv[5]},
                               &step);
    if (r == 0) {
        step = "drop capabilities";
        r = drop_capabilities();
    }
    struct launch_reply hello = {.serial = 0, .pid = r < 0 ? 0 : 1, .error_number = -r};
    struct iovec parts[] = {{&hello, sizeof hello}, {(void *)step, strlen(step)}};
    if (channel_send(SOCKET_FD, parts, 2, NULL, 0) < 0 || r < 0) {
        return 1;
    }
    hide_arguments(argc, argv);
    for (;;) {
        struct channel_fds fds;
        ssize_t n = channel_recv(SOCKET_FD, &request, sizeof request, &fds);
        if (n == 0) {
            return 0; /* the executor is gone */
        }
        if (n == (ssize_t)sizeof request) {
            launch(&request, &fds, &filter);
        }
        channel_fds_close(&fds);
    }
}
