#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/init/attack.h"
#include "executor/init/privileges.h"
#include "executor/proc/fd.h"

bool attack_no_new_privs(struct attack *a)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || attack_broke(a, "it is not set");
}

static uint64_t read_bounding_set(void)
{
    uint64_t set = 0;
    for (unsigned long cap = 0; cap < 64; cap++) {
        int r = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        set |= r == 1 ? UINT64_C(1) << cap : 0;
    }
    return set;
}

bool attack_capabilities(struct attack *a)
{
    uint64_t allowed = a->order->attacker == SELF_TEST_ROOT ? a->order->capabilities : 0;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    if (privileges_get(&header, have) < 0) {
        return attack_broke(a, "capget() failed");
    }
    uint64_t permitted = have[0].permitted | (uint64_t)have[1].permitted << 32;
    uint64_t inheritable = have[0].inheritable | (uint64_t)have[1].inheritable << 32;
    uint64_t bounding = read_bounding_set();
    if ((permitted | inheritable) & ~allowed) {
        return attack_broke(a, "it has capabilities 0x%llx", (unsigned long long)permitted);
    }
    if (bounding & ~allowed) {
        return attack_broke(a, "its bounding set is 0x%llx", (unsigned long long)bounding);
    }
    return privileges_set(permitted | UINT64_C(1) << CAP_SYS_ADMIN) < 0 ||
           allowed & UINT64_C(1) << CAP_SYS_ADMIN || attack_broke(a, "it took CAP_SYS_ADMIN");
}

/* Mostly the filter answers for it; where there is none, the host's keyring must not. */
bool attack_session_keyring(struct attack *a)
{
    long serial = syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3 /* session */, 0);
    return serial == -1 || a->order->keyring <= 0 || serial != a->order->keyring ||
           attack_broke(a, "its session keyring is the executor's");
}

/* What the filter answers differs from what the kernel would: arguments are such that it, asked,
 * would do nothing and give another error. */
static const struct {
    long number;
    long args[4];
    int error_number;
    const char *name;
} refused_calls[] = {
    {SYS_io_uring_setup, {0}, ENOSYS, "io_uring_setup"},
    {SYS_clone3, {0}, ENOSYS, "clone3"},
    {SYS_unshare, {0}, EPERM, "unshare"},
    {SYS_setns, {-1}, EPERM, "setns"},
    {SYS_mount, {1, 1, 1}, EPERM, "mount"},
    {SYS_umount2, {1}, EPERM, "umount2"},
    {SYS_keyctl, {-1}, EPERM, "keyctl"},
    {SYS_add_key, {1, 1}, EPERM, "add_key"},
    {SYS_ptrace, {-1}, EPERM, "ptrace"},
    {SYS_userfaultfd, {-1}, EPERM, "userfaultfd"},
    {SYS_kcmp, {-1, -1}, EPERM, "kcmp"},
    {SYS_process_vm_readv, {-1}, EPERM, "process_vm_readv"},
    {SYS_pidfd_getfd, {-1, -1}, EPERM, "pidfd_getfd"},
    {SYS_personality, {0x0400000 /* READ_IMPLIES_EXEC */}, EPERM, "personality"},
    {SYS_fcntl, {-1, F_SETLEASE}, EPERM, "a lease"},
    {SYS_ioctl, {-1, TIOCSTI}, EPERM, "TIOCSTI"},
    {SYS_ioctl, {-1, 0x541c /* TIOCLINUX */}, EPERM, "TIOCLINUX"},
    {SYS_ioctl, {-1, TIOCSETD}, EPERM, "TIOCSETD"},
    {SYS_ioctl, {-1, 0x5000940e /* BTRFS_IOC_SUBVOL_CREATE */}, EPERM, "a btrfs subvolume"},
    {SYS_ioctl, {-1, 0x401c5820 /* FS_IOC_FSSETXATTR */}, EPERM, "a project id"},
    {SYS_setsockopt, {-1, SOL_TCP, TCP_ULP}, ENOENT, "TCP_ULP"},
    {SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE}, EPROTONOSUPPORT, "UDP-Lite"},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_GENERIC}, EPROTONOSUPPORT, "generic netlink"},
    {SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}, EAFNOSUPPORT, "AF_ALG"},
    {SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, EAFNOSUPPORT, "AF_VSOCK"},
    {SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EAFNOSUPPORT, "AF_PACKET"},
    {SYS_bpf, {0}, EPERM, "bpf"},
    {SYS_perf_event_open, {0}, EPERM, "perf_event_open"},
    {SYS_init_module, {0}, EPERM, "init_module"},
    {SYS_kexec_load, {0, 0, 0, -1}, EPERM, "kexec_load"},
    {SYS_open_by_handle_at, {-1}, EPERM, "open_by_handle_at"},
};

/* Any way of dying will do: a kernel without the other architecture's calls faults. */
static bool other_architecture_kills(struct attack *a)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        long result = 20; /* getpid() of i386 */
        __asm__ volatile("int $0x80" : "+a"(result)::"memory", "r8", "r9", "r10", "r11");
        _exit(0);
    }
    while (child > 0 && waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    return (child > 0 && WIFSIGNALED(status)) || attack_broke(a, "int 0x80 was answered");
}

bool attack_system_call_filter(struct attack *a)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER) {
        return attack_broke(a, "there is none");
    }
    for (size_t i = 0; i < sizeof refused_calls / sizeof *refused_calls; i++) {
        const long *args = refused_calls[i].args;
        long r = syscall(refused_calls[i].number, args[0], args[1], args[2], args[3]);
        if (r != -1 || errno != refused_calls[i].error_number) {
            return attack_broke(a, "%s is not refused by it", refused_calls[i].name);
        }
    }
    return other_architecture_kills(a);
}

bool attack_descriptors(struct attack *a)
{
    struct rlimit nofile;
    if (getrlimit(RLIMIT_NOFILE, &nofile) == -1) {
        return attack_broke(a, "RLIMIT_NOFILE cannot be read");
    }
    for (int fd = STDERR_FILENO + 1; fd < (int)nofile.rlim_cur; fd++) {
        if (fcntl(fd, F_GETFD) != -1) {
            return attack_broke(a, "descriptor %d is open", fd);
        }
    }
    return true;
}

/* Whoever could read pid 1 would have its descriptors, the executor's socket among them. */
bool attack_first_process(struct attack *a)
{
    static const char *const files[] = {"/proc/1/environ", "/proc/1/mem", "/proc/1/maps",
                                        "/proc/1/auxv"};
    static const char *const links[] = {"/proc/1/exe", "/proc/1/root", "/proc/1/cwd"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        AUTO_FD int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        if (fd != -1) {
            return attack_broke(a, "%s can be opened", files[i]);
        }
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        char target[64];
        if (readlink(links[i], target, sizeof target) != -1) {
            return attack_broke(a, "%s can be followed", links[i]);
        }
    }
    DIR *fds = opendir("/proc/1/fd");
    if (fds) {
        (void)closedir(fds);
        return attack_broke(a, "/proc/1/fd can be listed");
    }
    return true;
}
