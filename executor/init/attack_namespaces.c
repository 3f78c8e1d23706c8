#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/nsfs.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "executor/init/attack.h"
#include "executor/proc/fd.h"

/* sys/mount.h clashes with linux/mount.h. */
enum { BIND = 4096, REMOUNT = 32, DETACH = 2 };

static const char *const namespace_names[] = SELF_TEST_NAMESPACE_NAMES;

static bool is_own(struct attack *a, enum self_test_namespace kind)
{
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", namespace_names[kind]);
    if (stat(path, &st) == -1) {
        return attack_broke(a, "%s cannot be read: %s", path, strerror(errno));
    }
    return st.st_ino != a->order->namespaces[kind] ||
           attack_broke(a, "the %s namespace is the host's", namespace_names[kind]);
}

static bool maps_own_ids(struct attack *a, const char *path)
{
    char map[256];
    unsigned inside = 1, outside = 0, count = 0;
    if (fd_read_file(AT_FDCWD, path, map, sizeof map) < 0 ||
        sscanf(map, "%u %u %u", &inside, &outside, &count) != 3) {
        return attack_broke(a, "%s cannot be read", path);
    }
    return (inside == 0 && outside == a->order->uid_base && count == 65536 &&
            strchr(map, '\n') == strrchr(map, '\n')) ||
           attack_broke(a, "%s maps %u to %u of the host", path, inside, outside);
}

/* Opened, never written to. */
bool attack_user_namespace(struct attack *a)
{
    static const char *const of_host_root[] = {
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/suid_dumpable", "/proc/sysrq-trigger"};
    if (!maps_own_ids(a, "/proc/self/uid_map") || !maps_own_ids(a, "/proc/self/gid_map")) {
        return false;
    }
    for (size_t i = 0; i < sizeof of_host_root / sizeof *of_host_root; i++) {
        AUTO_FD int fd = open(of_host_root[i], O_WRONLY | O_CLOEXEC);
        if (fd != -1) {
            return attack_broke(a, "%s can be opened for writing", of_host_root[i]);
        }
    }
    AUTO_FD int kmsg = open("/proc/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    AUTO_FD int kcore = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
    return (kmsg == -1 && kcore == -1) || attack_broke(a, "/proc/kmsg or kcore can be opened");
}

bool attack_nested_user_namespaces(struct attack *a)
{
    uint64_t max = 1;
    if (fd_read_file_u64(AT_FDCWD, "/proc/sys/user/max_user_namespaces", &max) < 0 || max != 0) {
        return attack_broke(a, "max_user_namespaces is not 0 but %llu", (unsigned long long)max);
    }
    return unshare(CLONE_NEWUSER) == -1 || attack_broke(a, "unshare(CLONE_NEWUSER) succeeded");
}

/* Who owns a namespace has power over it. The owner can be opened only by those inside of it. */
bool attack_namespace_owner(struct attack *a)
{
    for (size_t i = 0; i < SELF_TEST_NAMESPACES; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s", namespace_names[i]);
        AUTO_FD int ns = open(path, O_RDONLY | O_CLOEXEC);
        AUTO_FD int owner = ns == -1 ? -1 : ioctl(ns, NS_GET_USERNS);
        if (ns == -1 || owner != -1 || errno != EPERM) {
            return attack_broke(a, "the %s namespace is owned from inside", namespace_names[i]);
        }
    }
    return true;
}

static long try_mount(const char *source, const char *target, const char *type, unsigned long flags)
{
    return syscall(SYS_mount, source, target, type, flags, NULL);
}

bool attack_mounts(struct attack *a)
{
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (try_mount("none", "/tmp", "tmpfs", 0) == 0) {
        return attack_broke(a, "a tmpfs was mounted on /tmp");
    }
    if (try_mount("/proc", "/tmp", NULL, BIND) == 0) {
        return attack_broke(a, "/proc was bound to /tmp");
    }
    if (try_mount(NULL, "/", NULL, REMOUNT | BIND) == 0 ||
        syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &writable, sizeof writable) == 0) {
        return attack_broke(a, "/ was made writable");
    }
    if (syscall(SYS_umount2, "/proc/kallsyms", DETACH) == 0 ||
        syscall(SYS_umount2, "/tmp", DETACH) == 0) {
        return attack_broke(a, "a mount was taken away");
    }
    AUTO_FD int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    AUTO_FD int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | O_CLOEXEC);
    return (fs == -1 && tree == -1) || attack_broke(a, "fsopen() or open_tree() succeeded");
}

bool attack_mount_namespace(struct attack *a)
{
    struct stat st;
    return is_own(a, SELF_TEST_NS_MNT) &&
           ((stat("/proc/self/ns/mnt", &st) == 0 && st.st_ino != a->order->launcher_mnt) ||
            attack_broke(a, "the mount namespace is the launcher's"));
}

/* Signal 0 is sent to nobody, and tells whether anybody could be signalled. */
bool attack_pid_namespace(struct attack *a)
{
    if (!is_own(a, SELF_TEST_NS_PID)) {
        return false;
    }
    if (getppid() != 1) {
        return attack_broke(a, "process %d started it, not 1", getppid());
    }
    return (kill(-1, 0) == -1 && errno == ESRCH) ||
           attack_broke(a, "other processes are within reach");
}

static bool has_only_loopback(struct attack *a)
{
    char text[4096];
    if (fd_read_file(AT_FDCWD, "/proc/self/net/dev", text, sizeof text) < 0) {
        return attack_broke(a, "/proc/self/net/dev cannot be read");
    }
    /* Two lines of heads, then one for each interface. */
    const char *line = strchr(text, '\n');
    line = line ? strchr(line + 1, '\n') : NULL;
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        char name[32] = "";
        (void)sscanf(line + 1, " %31[^: ]", name);
        if (strcmp(name, "lo") != 0) {
            return attack_broke(a, "there is an interface '%s'", name);
        }
    }
    return true;
}

/* Connecting UDP looks up a route and sends nothing. */
static bool has_no_route(struct attack *a)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(9),
                                   .sin_addr.s_addr = htonl(0xc0000201)}; /* 192.0.2.1 */
    AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd == -1 || connect(fd, (const struct sockaddr *)&to, sizeof to) == -1 ||
           attack_broke(a, "there is a route to the outside");
}

/* Abstract names belong to the network namespace: this one is listened at on the host. */
static bool cannot_reach_listener(struct attack *a)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strnlen(a->order->socket_name, sizeof a->order->socket_name - 1);
    memcpy(to.sun_path + 1, a->order->socket_name, n);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return (fd != -1 && connect(fd, (const struct sockaddr *)&to, size) == -1 &&
            errno == ECONNREFUSED) ||
           attack_broke(a, "an abstract socket of the host is within reach");
}

bool attack_network_namespace(struct attack *a)
{
    return is_own(a, SELF_TEST_NS_NET) && has_only_loopback(a) && has_no_route(a) &&
           cannot_reach_listener(a);
}

bool attack_ipc_namespace(struct attack *a)
{
    if (!is_own(a, SELF_TEST_NS_IPC)) {
        return false;
    }
    const void *at = shmat(a->order->shm_id, NULL, SHM_RDONLY);
    return at == (void *)-1 || attack_broke(a, "shared memory of the host was attached");
}

bool attack_uts_namespace(struct attack *a)
{
    struct utsname name;
    if (!is_own(a, SELF_TEST_NS_UTS)) {
        return false;
    }
    if (uname(&name) == -1 ||
        strncmp(name.nodename, a->order->hostname, sizeof a->order->hostname) != 0) {
        return attack_broke(a, "the host name is '%.48s'", name.nodename);
    }
    return sethostname(name.nodename, strlen(name.nodename)) == -1 ||
           attack_broke(a, "sethostname() succeeded");
}

bool attack_cgroup_namespace(struct attack *a)
{
    return is_own(a, SELF_TEST_NS_CGROUP);
}
