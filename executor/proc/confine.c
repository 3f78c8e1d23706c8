#include "executor/proc/confine.h"

#include <errno.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* What libuv, OpenSSL, SQLite and glibc ask for in a running server. */
static const int allowed[] = {
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(madvise),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(munmap),
    SCMP_SYS(mlock),
    SCMP_SYS(munlock),
    SCMP_SYS(msync),
    /* files below the state folder; root owns nothing that we may open for writing */
    SCMP_SYS(access),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(fallocate),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchown),
    SCMP_SYS(fcntl),
    SCMP_SYS(fdatasync),
    SCMP_SYS(flock),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(fsync),
    SCMP_SYS(ftruncate),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(lseek),
    SCMP_SYS(lstat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(pread64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwrite64),
    SCMP_SYS(pwritev),
    SCMP_SYS(read),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(readv),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(rmdir),
    SCMP_SYS(stat),
    SCMP_SYS(statfs),
    SCMP_SYS(statx),
    SCMP_SYS(umask),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(memfd_create),
    SCMP_SYS(copy_file_range),
    SCMP_SYS(utimensat),
    /* pipes, terminals (window size) and sockets */
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(bind),
    SCMP_SYS(connect),
    SCMP_SYS(getpeername),
    SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt),
    SCMP_SYS(ioctl),
    SCMP_SYS(listen),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(setsockopt),
    SCMP_SYS(shutdown),
    SCMP_SYS(socketpair),
    SCMP_SYS(splice),
    /* waiting */
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(nanosleep),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(restart_syscall),
    /* threads (libuv's pool) and their signals */
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(futex),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(gettid),
    SCMP_SYS(membarrier),
    SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_yield),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(tgkill),
    /* who and when */
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(getegid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getpgrp),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getuid),
    SCMP_SYS(prlimit64),
    SCMP_SYS(sysinfo),
    SCMP_SYS(time),
    SCMP_SYS(uname),
    SCMP_SYS(getcpu),
};

/* A server that asks for one of these is no longer ours. */
static const int fatal[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(bpf),
    SCMP_SYS(add_key),
    SCMP_SYS(keyctl),
    SCMP_SYS(request_key),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(setuid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setresgid),
    SCMP_SYS(capset),
};

int confine_require_unprivileged(const char *program, struct error *err)
{
    if (getuid() == 0 || geteuid() == 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "%s must not run as root: start it as a user of its own, for example with "
                         "`setpriv --reuid=UID --regid=GID --clear-groups`",
                         program);
    }
    if (getgid() == 0 || getegid() == 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "%s must not run in group 0: give it a group of its own", program);
    }
    static const cap_flag_t sets[] = {CAP_EFFECTIVE, CAP_PERMITTED, CAP_INHERITABLE};
    cap_t have = cap_get_proc();
    cap_t none = cap_init();
    bool holds = !have || !none;
    for (size_t i = 0; !holds && i < sizeof sets / sizeof sets[0]; i++) {
        holds = CAP_DIFFERS(cap_compare(have, none), sets[i]) != 0;
    }
    cap_free(have);
    cap_free(none);
    return holds
               ? error_set(err, STATUS_FAILED_PRECONDITION,
                           "%s must not hold capabilities: clear the inheritable and ambient sets",
                           program)
               : 0;
}

static int add_rules(scmp_filter_ctx ctx)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof allowed / sizeof allowed[0]; i++) {
        status = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
    }
    for (size_t i = 0; status == 0 && i < sizeof fatal / sizeof fatal[0]; i++) {
        status = seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
    }
    /* Threads of this process, never processes or namespaces. glibc tries clone3 first, whose flags
     * a filter cannot see, and falls back on ENOSYS, which is the default here. */
    if (status == 0) {
        status = seccomp_rule_add(
            ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | CLONE_NEWUSER, CLONE_THREAD));
    }
    if (status == 0) {
        status = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                  SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
    }
    /* Local sockets and IP, as streams: no raw, packet or kernel ones. */
    for (int family = 1; status == 0 && family <= 10; family++) {
        if (family == 1 || family == 2 || family == 10) {
            status = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
        }
    }
    return status;
}

static int load_filter(struct error *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!ctx) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int status = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    if (status == 0) {
        status = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (status == 0) {
        status = add_rules(ctx);
    }
    if (status == 0) {
        status = seccomp_load(ctx);
    }
    seccomp_release(ctx);
    return status == 0
               ? 0
               : error_set_errno(
                     err, STATUS_FAILED_PRECONDITION, -status,
                     "cannot load the seccomp filter; the kernel needs CONFIG_SECCOMP_FILTER");
}

/* The sanitizer's search for leaks at the end clones and traces this process: both are what the
 * filter is against. */
#ifdef __SANITIZE_ADDRESS__
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

int confine_server(struct error *err)
{
    const struct rlimit no_core = {0, 0};
    if (setrlimit(RLIMIT_CORE, &no_core) == -1 ||
        prctl(PR_SET_DUMPABLE, IS_SANITIZED, 0, 0, 0) == -1 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "cannot confine the process");
    }
    return IS_SANITIZED ? 0 : load_filter(err);
}
