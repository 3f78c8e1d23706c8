/* Prints, one fact a line, what a program in a workspace can see and do. Static, so that it runs in
 * any image. Nothing here is sorted by chance: two runs print the same lines. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/btrfs.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *outcome(long result)
{
    return result >= 0 ? "ALLOWED" : strerrorname_np(errno);
}

static void print_matching(const char *path, const char *const *keys)
{
    char line[512];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        for (size_t i = 0; keys[i]; i++) {
            if (strncmp(line, keys[i], strlen(keys[i])) == 0) {
                printf("status: %s", line);
            }
        }
    }
    if (f) {
        fclose(f);
    }
}

static void print_identity(void)
{
    static const char *const keys[] = {
        "CapInh:",     "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "Seccomp:",
        "NoNewPrivs:", "Uid:",    "Gid:",    "Groups:", NULL};
    char text[256] = "";
    struct utsname u;
    print_matching("/proc/self/status", keys);
    static const char *const maps[] = {"uid_map", "gid_map"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        unsigned long a = 0, b = 0, c = 0;
        (void)snprintf(path, sizeof path, "/proc/self/%s", maps[i]);
        FILE *f = fopen(path, "re");
        if (f && fscanf(f, "%lu %lu %lu", &a, &b, &c) == 3) {
            printf("%s: %lu %lu %lu\n", maps[i], a, b, c);
        }
        if (f) {
            fclose(f);
        }
    }
    if (uname(&u) == 0) {
        printf("hostname: %s\n", u.nodename);
    }
    printf("cwd: %s\n", getcwd(text, sizeof text) ? text : "none");
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_sorted(const char *label, char **lines, size_t n)
{
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 0; i < n; i++) {
        printf("%s: %s\n", label, lines[i]);
        free(lines[i]);
    }
}

enum { LINES_MAX = 512 };

static void print_mounts(void)
{
    char line[2048];
    char *lines[LINES_MAX];
    size_t n = 0;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    while (f && n < LINES_MAX && fgets(line, sizeof line, f)) {
        char point[512], options[256], optional[256], type[64];
        const char *dash = strstr(line, " - ");
        if (!dash ||
            sscanf(line, "%*d %*d %*s %*s %511s %255s %255s", point, options, optional) < 2 ||
            sscanf(dash, " - %63s", type) != 1) {
            continue;
        }
        /* "shared:" or "master:" would be a way for mounts to pass the wall. */
        const char *propagates =
            strstr(line, "shared:") || strstr(line, "master:") ? " PROPAGATES" : "";
        char *keep = NULL;
        if (asprintf(&keep, "%s %s %s%s", point, type, options, propagates) >= 0) {
            lines[n++] = keep;
        }
    }
    if (f) {
        fclose(f);
    }
    print_sorted("mount", lines, n);
}

static void print_folder(const char *label, const char *path)
{
    char *lines[LINES_MAX];
    size_t n = 0;
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && n < LINES_MAX && (e = readdir(d))) {
        struct stat st;
        char what[64] = "";
        if (e->d_name[0] == '.') {
            continue;
        }
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            (void)snprintf(what, sizeof what, " %o", (unsigned)st.st_mode);
        }
        char *keep = NULL;
        if (asprintf(&keep, "%s%s", e->d_name, what) >= 0) {
            lines[n++] = keep;
        }
    }
    if (d) {
        closedir(d);
    }
    print_sorted(label, lines, n);
}

static void print_fds(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) != -1) {
            struct stat st;
            (void)fstat(fd, &st);
            printf("fd: %d %s\n", fd,
                   S_ISFIFO(st.st_mode)  ? "pipe"
                   : S_ISCHR(st.st_mode) ? "device"
                                         : "other");
        }
    }
}

static void print_environment(char **env)
{
    char *lines[LINES_MAX];
    size_t n = 0;
    for (char **e = env; *e && n < LINES_MAX; e++) {
        lines[n++] = strndup(*e, strcspn(*e, "="));
    }
    print_sorted("env", lines, n);
}

static void print_sockets(void)
{
    static const struct {
        const char *name;
        int family, type, protocol;
    } all[] = {
        {"UNIX", AF_UNIX, SOCK_STREAM, 0},
        {"INET", AF_INET, SOCK_STREAM, 0},
        {"INET6", AF_INET6, SOCK_STREAM, 0},
        {"INET raw", AF_INET, SOCK_RAW, IPPROTO_ICMP},
        {"INET sctp", AF_INET, SOCK_STREAM, IPPROTO_SCTP},
        {"INET mptcp", AF_INET, SOCK_STREAM, IPPROTO_MPTCP},
        {"INET udplite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE},
        {"PACKET", AF_PACKET, SOCK_RAW, 0},
        {"NETLINK route", AF_NETLINK, SOCK_RAW, 0},
        {"NETLINK xfrm", AF_NETLINK, SOCK_RAW, 6},
        {"NETLINK netfilter", AF_NETLINK, SOCK_RAW, 12},
        {"NETLINK audit", AF_NETLINK, SOCK_RAW, 9},
        {"ALG", AF_ALG, SOCK_SEQPACKET, 0},
        {"KEY", AF_KEY, SOCK_RAW, 2},
        {"RXRPC", AF_RXRPC, SOCK_DGRAM, AF_INET},
        {"VSOCK", AF_VSOCK, SOCK_STREAM, 0},
        {"XDP", AF_XDP, SOCK_RAW, 0},
        {"BLUETOOTH", AF_BLUETOOTH, SOCK_RAW, 0},
        {"CAN", AF_CAN, SOCK_RAW, 1},
        {"TIPC", AF_TIPC, SOCK_STREAM, 0},
        {"SMC", AF_SMC, SOCK_STREAM, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int fd = socket(all[i].family, all[i].type | SOCK_CLOEXEC, all[i].protocol);
        printf("socket %s: %s\n", all[i].name, outcome(fd));
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* Calls with arguments that do no harm where they are allowed. */
static void print_calls(void)
{
    static const struct {
        const char *name;
        long number, a, b, c, d, e;
    } all[] = {
        {"mount", SYS_mount, 0, 0, 0, 0, 0},
        {"umount2", SYS_umount2, 0, 0, 0, 0, 0},
        {"pivot_root", SYS_pivot_root, 0, 0, 0, 0, 0},
        {"fsopen", SYS_fsopen, 0, 0, 0, 0, 0},
        {"open_tree", SYS_open_tree, -1, 0, 0, 0, 0},
        {"move_mount", SYS_move_mount, -1, 0, -1, 0, 0},
        {"mount_setattr", SYS_mount_setattr, -1, 0, 0, 0, 0},
        {"chroot", SYS_chroot, 0, 0, 0, 0, 0},
        {"unshare user", SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0},
        {"unshare mount", SYS_unshare, CLONE_NEWNS, 0, 0, 0, 0},
        {"unshare net", SYS_unshare, CLONE_NEWNET, 0, 0, 0, 0},
        {"setns", SYS_setns, -1, 0, 0, 0, 0},
        {"clone3", SYS_clone3, 0, 0, 0, 0, 0},
        {"bpf", SYS_bpf, 0, 0, 0, 0, 0},
        {"perf_event_open", SYS_perf_event_open, 0, 0, -1, -1, 0},
        {"userfaultfd", SYS_userfaultfd, 1, 0, 0, 0, 0},
        {"io_uring_setup", SYS_io_uring_setup, 0, 0, 0, 0, 0},
        {"keyctl", SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0, 0, 0},
        {"add_key", SYS_add_key, 0, 0, 0, 0, -3},
        {"request_key", SYS_request_key, 0, 0, 0, 0, 0},
        {"kexec_load", SYS_kexec_load, 0, 0, 0, 0, 0},
        {"init_module", SYS_init_module, 0, 0, 0, 0, 0},
        {"open_by_handle_at", SYS_open_by_handle_at, -1, 0, 0, 0, 0},
        {"name_to_handle_at", SYS_name_to_handle_at, -1, 0, 0, 0, 0},
        {"process_vm_readv", SYS_process_vm_readv, 1, 0, 0, 0, 0},
        {"ptrace pid 1", SYS_ptrace, PTRACE_ATTACH, 1, 0, 0, 0},
        {"kcmp", SYS_kcmp, 1, 1, 0, 0, 0},
        {"pidfd_getfd", SYS_pidfd_getfd, -1, 0, 0, 0, 0},
        {"settimeofday", SYS_settimeofday, 0, 0, 0, 0, 0},
        {"clock_settime", SYS_clock_settime, 0, 0, 0, 0, 0},
        {"swapon", SYS_swapon, 0, 0, 0, 0, 0},
        {"reboot", SYS_reboot, 0, 0, 0, 0, 0},
        {"syslog", SYS_syslog, 3, 0, 0, 0, 0},
        {"acct", SYS_acct, 0, 0, 0, 0, 0},
        {"quotactl", SYS_quotactl, 0, 0, 0, 0, 0},
        {"iopl", SYS_iopl, 3, 0, 0, 0, 0},
        {"fanotify_init", SYS_fanotify_init, 0, 0, 0, 0, 0},
        {"personality", SYS_personality, 0x0040000, 0, 0, 0, 0},
        {"lease on a file", SYS_fcntl, -1, F_SETLEASE, F_WRLCK, 0, 0},
        {"btrfs subvolume", SYS_ioctl, -1, BTRFS_IOC_SUBVOL_CREATE, 0, 0, 0},
        {"line discipline", SYS_ioctl, -1, TIOCSETD, 0, 0, 0},
        {"TCP ULP", SYS_setsockopt, -1, SOL_TCP, TCP_ULP, 0, 0},
        {"unknown call", 999, 0, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            long r = syscall(all[i].number, all[i].a, all[i].b, all[i].c, all[i].d, all[i].e);
            printf("call %s: %s\n", all[i].name, outcome(r));
            fflush(stdout);
            _exit(0);
        }
        int status = 0;
        (void)waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) {
            printf("call %s: KILLED %d\n", all[i].name, WTERMSIG(status));
        }
    }
}

static void print_files(void)
{
    static const char *const readable[] = {
        "/proc/kallsyms",
        "/proc/keys",
        "/proc/config.gz",
        "/proc/timer_list",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/sysrq-trigger",
        "/proc/1/environ",
        "/proc/1/exe",
        "/proc/sched_debug",
        "/proc/interrupts",
        "/proc/diskstats",
        "/proc/iomem",
        "/sys",
        "/sys/firmware",
        "/sys/kernel/debug",
        "/dev/kmsg",
        "/dev/mem",
        "/dev/fuse",
        "/dev/kvm",
        "/dev/net/tun",
        "/etc/shadow",
        "/proc/sys/kernel/core_pattern",
    };
    static const char *const writable[] = {
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/swappiness",
        "/proc/sysrq-trigger",
        "/proc/self/oom_score_adj",
        "/proc/self/attr/current",
        "/proc/sys/user/max_user_namespaces",
        "/dev/full",
        "/etc/passwd",
        "/bin/sh",
    };
    for (size_t i = 0; i < sizeof readable / sizeof readable[0]; i++) {
        int fd = open(readable[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char byte;
        long n = fd < 0 ? -1 : read(fd, &byte, 1);
        bool is_folder = fd >= 0 && n < 0 && errno == EISDIR;
        printf("read %s: %s\n", readable[i], is_folder ? "FOLDER" : n == 0 ? "EMPTY" : outcome(n));
        if (fd >= 0) {
            close(fd);
        }
    }
    for (size_t i = 0; i < sizeof writable / sizeof writable[0]; i++) {
        int fd = open(writable[i], O_WRONLY | O_CLOEXEC);
        printf("write %s: %s\n", writable[i], outcome(fd));
        if (fd >= 0) {
            close(fd);
        }
    }
}

static void print_network(void)
{
    static const char *const all[] = {"127.0.0.1", "169.254.169.254", "10.0.0.1", "192.0.2.1",
                                      "8.8.8.8"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
        struct timeval limit = {2, 0};
        (void)inet_pton(AF_INET, all[i], &to.sin_addr);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        printf("connect %s: %s\n", all[i], outcome(connect(fd, (struct sockaddr *)&to, sizeof to)));
        close(fd);
    }
}

static void print_limits(void)
{
    static const struct {
        const char *name;
        int which;
    } all[] = {{"core", RLIMIT_CORE},       {"nofile", RLIMIT_NOFILE},
               {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE},
               {"rtprio", RLIMIT_RTPRIO},   {"nice", RLIMIT_NICE}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rlimit r = {0, 0};
        (void)getrlimit((__rlimit_resource_t)all[i].which, &r);
        printf("limit %s: %llu %llu\n", all[i].name, (unsigned long long)r.rlim_cur,
               (unsigned long long)r.rlim_max);
    }
}

static void print_processes(void)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    long highest = 0;
    while (d && (e = readdir(d))) {
        long pid = strtol(e->d_name, NULL, 10);
        highest = pid > highest ? pid : highest;
    }
    if (d) {
        closedir(d);
    }
    printf("processes: %s\n", highest < 1000 ? "own pid namespace" : "MANY");
    printf("kill pid 1: %s\n", outcome(kill(1, 0)));
    printf("ioctl TIOCSTI: %s\n", outcome(ioctl(0, TIOCSTI, "x")));
    printf("ioctl TIOCLINUX: %s\n", outcome(ioctl(0, TIOCLINUX, "x")));
}

int main(int argc, char **argv, char **env)
{
    (void)argc;
    (void)argv;
    print_identity();
    print_mounts();
    print_folder("dev", "/dev");
    print_fds();
    print_environment(env);
    print_sockets();
    print_calls();
    print_files();
    print_network();
    print_limits();
    print_processes();
    return 0;
}
