/* The launcher with one layer missing: linked to the objects of the real one, whose system calls
 * come by here. The real program has no switch for that. Which layer, by its name in
 * self_test.def, is the last folder of the path that it is started by: .../NAME/cordium-launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXTRA_FD = 200 };

long __real_syscall(long number, ...);
int __real_prctl(int option, ...);
int __real_clone(int (*fn)(void *), void *stack, int flags, void *argument, ...);
int __real_setns(int fd, int kind);
int __real_unshare(int flags);
int __real_sethostname(const char *name, size_t size);
int __real_setrlimit(int resource, const struct rlimit *limit);
int __real_fd_open_beneath(int dir_fd, const char *path, uint64_t flags);
int __real_mounts_clone(int dir_fd, const char *path, unsigned flags);

long __wrap_syscall(long number, ...);
int __wrap_prctl(int option, ...);
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *argument, ...);
int __wrap_setns(int fd, int kind);
int __wrap_unshare(int flags);
int __wrap_sethostname(const char *name, size_t size);
int __wrap_setrlimit(int resource, const struct rlimit *limit);
int __wrap_fd_open_beneath(int dir_fd, const char *path, uint64_t flags);
int __wrap_mounts_clone(int dir_fd, const char *path, unsigned flags);

static char missing[64];

__attribute__((constructor)) static void read_missing(int argc, char **argv)
{
    char path[4096];
    (void)argc;
    (void)snprintf(path, sizeof path, "%s", argv[0]);
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
        slash = strrchr(path, '/');
        (void)snprintf(missing, sizeof missing, "%.63s", slash ? slash + 1 : "");
    }
}

static bool is_missing(const char *layer)
{
    return strcmp(missing, layer) == 0;
}

static uint64_t namespaces_left_out(void)
{
    return is_missing("mount_namespace") ? CLONE_NEWNS
           : is_missing("pid_namespace") ? CLONE_NEWPID
           : is_missing("ipc_namespace") ? CLONE_NEWIPC
           : is_missing("uts_namespace") ? CLONE_NEWUTS
                                         : 0;
}

static bool keeps_capabilities(void)
{
    return is_missing("capabilities") || is_missing("mounts");
}

/* The layers that the filter hides need it away, too. */
static bool has_no_filter(void)
{
    return is_missing("system_call_filter") || is_missing("session_keyring") ||
           is_missing("no_new_privs") || is_missing("mounts");
}

long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(ap, long);
    }
    va_end(ap);
    if ((number == SYS_seccomp && has_no_filter()) ||
        (number == SYS_keyctl && is_missing("session_keyring")) ||
        (number == SYS_capset && keeps_capabilities())) {
        return 0;
    }
    if (number == SYS_landlock_restrict_self && is_missing("landlock")) {
        return 0;
    }
    if (number == SYS_clone3 && a[0] != 0) {
        struct clone_args *args = (struct clone_args *)a[0];
        args->flags &= ~namespaces_left_out();
    }
    long r = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_capset && is_missing("user_namespace")) {
        return 0; /* it asks for more than the launcher kept of the host's */
    }
    if (number == SYS_close_range && is_missing("descriptors")) {
        (void)dup2(STDIN_FILENO, EXTRA_FD);
    }
    return r;
}

int __wrap_prctl(int option, ...)
{
    unsigned long a[4];
    va_list ap;
    va_start(ap, option);
    for (int i = 0; i < 4; i++) {
        a[i] = va_arg(ap, unsigned long);
    }
    va_end(ap);
    if ((option == PR_SET_NO_NEW_PRIVS && is_missing("no_new_privs")) ||
        (option == PR_CAPBSET_DROP && keeps_capabilities())) {
        return 0;
    }
    if (option == PR_SET_DUMPABLE && is_missing("first_process")) {
        a[0] = 1;
    }
    return __real_prctl(option, a[0], a[1], a[2], a[3]);
}

/* A child that shares our memory makes it undumpable by its change of ids. */
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *argument, ...)
{
    int pid = __real_clone(fn, stack, flags, argument);
    if (is_missing("first_process")) {
        (void)__real_prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
    return pid;
}

int __wrap_setns(int fd, int kind)
{
    if ((kind == CLONE_NEWUSER && is_missing("user_namespace")) ||
        (kind == CLONE_NEWNET && is_missing("network_namespace"))) {
        return 0;
    }
    int r = __real_setns(fd, kind);
    /* What is made now belongs to the sandbox's own user namespace. */
    if (r == 0 && kind == CLONE_NEWUSER && is_missing("namespace_owner")) {
        r = __real_unshare(CLONE_NEWIPC);
    }
    if (r == 0 && kind == CLONE_NEWUSER && is_missing("mounts")) {
        r = __real_unshare(CLONE_NEWNS);
    }
    return r;
}

int __wrap_unshare(int flags)
{
    return flags == CLONE_NEWCGROUP && is_missing("cgroup_namespace") ? 0 : __real_unshare(flags);
}

/* The host keeps its name. */
int __wrap_sethostname(const char *name, size_t size)
{
    return is_missing("uts_namespace") ? 0 : __real_sethostname(name, size);
}

int __wrap_setrlimit(int resource, const struct rlimit *limit)
{
    return resource == RLIMIT_CORE && is_missing("core_limit") ? 0
                                                               : __real_setrlimit(resource, limit);
}

/* The host's pid 1 keeps its score. */
int __wrap_fd_open_beneath(int dir_fd, const char *path, uint64_t flags)
{
    return is_missing("pid_namespace") && strcmp(path, "proc/1/oom_score_adj") == 0
               ? open("/dev/null", O_WRONLY | O_CLOEXEC)
               : __real_fd_open_beneath(dir_fd, path, flags);
}

int __wrap_mounts_clone(int dir_fd, const char *path, unsigned flags)
{
    return is_missing("proc_masks") && strcmp(path, "/dev/null") == 0
               ? -ENOENT
               : __real_mounts_clone(dir_fd, path, flags);
}
