#include "executor/init/run_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/client/executor_client.h"
#include "executor/init/privileges.h"
#include "executor/proc/fd.h"

enum { STACK_BYTES = 64 * 1024 };

static int fail(struct run_child *child, enum executor_run_stage stage, int error_number)
{
    child->stage = (uint32_t)stage;
    child->error_number = error_number;
    return 127;
}

/* glibc's own wrappers would signal other threads; there are none, and memory is shared. */
static int set_ids(uint32_t uid, uint32_t gid)
{
    if (syscall(SYS_setgroups, 0, NULL) == -1 || syscall(SYS_setresgid, gid, gid, gid) == -1 ||
        syscall(SYS_setresuid, uid, uid, uid) == -1) {
        return -errno;
    }
    return 0;
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++) {
        (void)sigaction(i, &action, NULL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int set_stdio(const struct run_child *child)
{
    for (int i = 0; i < 3; i++) {
        if (dup2(child->fds[i], i) == -1) {
            return -errno;
        }
    }
    if ((child->start->flags & INIT_RUN_TTY) && ioctl(0, TIOCSCTTY, 0) == -1) {
        return -errno;
    }
    return 0;
}

static const char *find_path(char *const *env)
{
    for (size_t i = 0; env[i]; i++) {
        if (strncmp(env[i], "PATH=", 5) == 0) {
            return env[i] + 5;
        }
    }
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* execve(2) through PATH, as execvpe(3) without its shell fallback. Returns errno. */
static int exec_in_path(char *const *argv, char *const *env)
{
    char path[LAUNCH_PATH_MAX + 256];
    int error_number = ENOENT;
    if (strchr(argv[0], '/') || argv[0][0] == '\0') {
        (void)execve(argv[0], argv, env);
        return errno;
    }
    for (const char *at = find_path(env); at; at = *at == ':' ? at + 1 : NULL) {
        size_t n = strcspn(at, ":");
        if (n < LAUNCH_PATH_MAX) {
            int used = snprintf(path, sizeof path, "%.*s%s%s", (int)n, at, n ? "/" : "./", argv[0]);
            if (used > 0 && (size_t)used < sizeof path) {
                (void)execve(path, argv, env);
                if (errno != ENOENT && errno != ENOTDIR) {
                    error_number = errno;
                }
                if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
                    return errno;
                }
            }
        }
        at += n;
    }
    return error_number;
}

static int child_main(void *argument)
{
    struct run_child *child = argument;
    const struct init_start *start = child->start;
    for (uint32_t i = 0; i < start->attach_count; i++) {
        if (write(child->attach[i], "0", 1) != 1) {
            return fail(child, EXECUTOR_STAGE_FORK, errno);
        }
    }
    reset_signals();
    (void)setsid();
    int r = set_stdio(child);
    if (r < 0) {
        return fail(child, EXECUTOR_STAGE_TERMINAL, -r);
    }
    r = privileges_bound_run(start->uid, start->capabilities);
    r = r < 0 ? r : set_ids(start->uid, start->gid);
    r = r < 0 ? r : privileges_drop_for_run(start->uid, start->capabilities);
    if (r < 0) {
        return fail(child, EXECUTOR_STAGE_IDENTITY, -r);
    }
    if (syscall(SYS_close_range, 3, ~0U, 0) == -1) {
        return fail(child, EXECUTOR_STAGE_IDENTITY, errno);
    }
    if (chdir(start->cwd) == -1) {
        return fail(child, EXECUTOR_STAGE_CWD, errno);
    }
    return fail(child, EXECUTOR_STAGE_EXEC, exec_in_path(child->argv, child->env));
}

/* clone(2) that shares our memory and stops us until the child runs a program or ends: no page
 * table is copied. */
static pid_t clone_child(int (*fn)(void *), void *argument)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        return -1;
    }
    pid_t pid = clone(fn, (char *)stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
    int saved = errno;
    (void)munmap(stack, STACK_BYTES);
    errno = saved;
    return pid;
}

pid_t run_child_start(struct run_child *child)
{
    child->stage = EXECUTOR_STAGE_RAN;
    pid_t pid = clone_child(child_main, child);
    if (pid == -1) {
        (void)fail(child, EXECUTOR_STAGE_FORK, errno);
        return 0;
    }
    if (child->stage != EXECUTOR_STAGE_RAN) {
        while (waitpid(pid, NULL, 0) == -1 && errno == EINTR) {
        }
    }
    return pid;
}

struct call {
    uint32_t uid;
    uint32_t gid;
    void (*fn)(void *argument);
    void *argument;
};

static int call_main(void *argument)
{
    const struct call *call = argument;
    if (set_ids(call->uid, call->gid) < 0 || privileges_set(0) < 0) {
        return 1;
    }
    call->fn(call->argument);
    return 0;
}

int run_child_call(uint32_t uid, uint32_t gid, void (*fn)(void *argument), void *argument)
{
    struct call call = {uid, gid, fn, argument};
    pid_t pid = clone_child(call_main, &call);
    if (pid == -1) {
        return -errno;
    }
    int status;
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

int run_child_open_terminal(const struct init_start *start, int *ret_master, int *ret_slave)
{
    /* The slave's owner is whoever opens the master. */
    (void)syscall(SYS_setfsuid, start->uid);
    AUTO_FD int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    int saved = errno;
    (void)syscall(SYS_setfsuid, 0);
    if (master == -1) {
        return -saved;
    }
    int unlock = 0;
    struct winsize size = {.ws_col = start->columns, .ws_row = start->rows};
    if (ioctl(master, TIOCSPTLCK, &unlock) == -1 || ioctl(master, TIOCSWINSZ, &size) == -1) {
        return -errno;
    }
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave == -1) {
        return -errno;
    }
    *ret_master = fd_take(&master);
    *ret_slave = slave;
    return 0;
}
