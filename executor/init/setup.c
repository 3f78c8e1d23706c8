#include "executor/init/setup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "executor/init/landlock.h"
#include "executor/init/privileges.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"

enum { MNT_DETACH_FLAG = 2 }; /* sys/mount.h clashes with linux/mount.h */

#define SLICE_NS (UINT64_C(5) * 1000 * 1000)

/* Of the 3,072 that the kernel gives to all instances of devpts but the host's. */
#define PTYS_MAX "64"

/* Everything here up to enter_user_namespace() runs as host root, but inside new namespaces and
 * with no other process there; it follows no symbolic link of the image, and each mount is made
 * from a descriptor onto a descriptor. */

static int join_cgroups(struct setup *s)
{
    for (uint32_t i = 0; i < s->request->attach_count; i++) {
        if (write(s->attach[i], "0", 1) != 1) {
            return -errno;
        }
        fd_close(&s->attach[i]);
    }
    return 0;
}

/* After the groups are joined: they are the root of what the sandbox sees. */
static int unshare_cgroup_namespace(struct setup *s)
{
    (void)s;
    return unshare(CLONE_NEWCGROUP) == -1 ? -errno : 0;
}

static int enter_network_namespace(struct setup *s)
{
    int r = setns(s->netns, CLONE_NEWNET) == -1 ? -errno : 0;
    fd_close(&s->netns);
    return r;
}

static int attach_root(struct setup *s)
{
    if (s->request->flags & LAUNCH_BUILD) {
        s->root = mounts_clone(AT_FDCWD, "/build", AT_RECURSIVE);
        if (s->root < 0) {
            return s->root;
        }
    }
    return mounts_attach_at(s->root, AT_FDCWD, "/root");
}

/* Attaches a subtree `source` of the launcher's own template on `target` beneath the root. */
static int bind_at(struct setup *s, const char *source, const char *target, uint64_t flags)
{
    s->target = target;
    AUTO_FD int at = fd_open_beneath(s->root, target, O_PATH | flags);
    if (at < 0) {
        return at;
    }
    /* A source is one name in a mount of ours; but what a build left in its storage may be a link.
     */
    AUTO_FD int tree = mounts_clone(AT_FDCWD, source, AT_SYMLINK_NOFOLLOW);
    return tree < 0 ? tree : mounts_attach(tree, at);
}

static int mount_dev(struct setup *s)
{
    int r = bind_at(s, "/dev", "dev", O_DIRECTORY);
    if (r < 0) {
        return r;
    }
    char gid[16];
    (void)snprintf(gid, sizeof gid, "%u", s->request->uid_base + 5);
    const struct mounts_option options[] = {
        {"ptmxmode", "0666", -1}, {"mode", "0620", -1}, {"gid", gid, -1}, {"max", PTYS_MAX, -1}};
    AUTO_FD int pts = mounts_new("devpts", options, 4, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (pts < 0) {
        return pts;
    }
    AUTO_FD int at = fd_open_beneath(s->root, "dev/pts", O_PATH | O_DIRECTORY);
    return at < 0 ? at : mounts_attach(pts, at);
}

static int write_new_file(int dir_fd, const char *name, const char *text)
{
    AUTO_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd == -1) {
        return -errno;
    }
    size_t n = strlen(text);
    return write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
}

/* One tmpfs for all that is memory: /dev/shm, /run, and the files of /etc that are this sandbox's.
 */
static int fill_tmpfs(struct setup *s, int fd)
{
    const struct launch_request *q = s->request;
    char hosts[256];
    char name[80];
    if (mkdirat(fd, "shm", 01777) == -1 || fchmodat(fd, "shm", 01777, 0) == -1 ||
        mkdirat(fd, "run", 0755) == -1 ||
        fchownat(fd, "run", q->uid_base, q->uid_base, AT_SYMLINK_NOFOLLOW) == -1 ||
        mkdirat(fd, "etc", 0755) == -1) {
        return -errno;
    }
    if (strcmp(q->hostname, "cordium") == 0) {
        return 0; /* the template's files do */
    }
    (void)snprintf(name, sizeof name, "%s\n", q->hostname);
    (void)snprintf(hosts, sizeof hosts,
                   "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.1.1\t%s\n",
                   q->hostname);
    int r = write_new_file(fd, "etc/hostname", name);
    return r < 0 ? r : write_new_file(fd, "etc/hosts", hosts);
}

static int mount_tmpfs(struct setup *s)
{
    char size[32];
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)s->request->tmpfs_bytes);
    const struct mounts_option options[] = {
        {"size", size, -1}, {"nr_inodes", "65536", -1}, {"mode", "0755", -1}};
    AUTO_FD int fd = mounts_new("tmpfs", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0) {
        return fd;
    }
    int r = fill_tmpfs(s, fd);
    r = r < 0 ? r : mounts_attach_at(fd, AT_FDCWD, "/tmpfs");
    r = r < 0 ? r : bind_at(s, "/tmpfs/shm", "dev/shm", O_DIRECTORY);
    r = r < 0 ? r : bind_at(s, "/tmpfs/run", "run", O_DIRECTORY);
    if (r < 0) {
        return r;
    }
    /* Usually a link to /run; in small images sometimes a directory of its own. */
    r = bind_at(s, "/tmpfs/run", "var/run", O_DIRECTORY);
    return r == -ELOOP || r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int mount_storage(struct setup *s)
{
    const char *home = s->request->home + 1; /* "/home/x" beneath the root */
    int r = mounts_attach_at(s->storage, AT_FDCWD, "/storage");
    if (r < 0) {
        return r;
    }
    if (s->request->flags & LAUNCH_BUILD) {
        AUTO_FD int at = fd_open_beneath(s->root, "build", O_PATH | O_DIRECTORY);
        AUTO_FD int tree = mounts_clone(AT_FDCWD, "/storage", 0);
        r = at < 0 ? at : tree < 0 ? tree : mounts_attach(tree, at);
    } else {
        if (s->request->flags & LAUNCH_FILL_HOME) {
            s->home_source = fd_open_beneath(s->root, home, O_RDONLY | O_DIRECTORY);
        }
        r = bind_at(s, "/storage/workspace", "workspace", O_DIRECTORY);
        r = r < 0 ? r : bind_at(s, "/storage/home", home, O_DIRECTORY);
    }
    r = r < 0 ? r : bind_at(s, "/storage/tmp", "tmp", O_DIRECTORY);
    r = r < 0 ? r : bind_at(s, "/storage/var-tmp", "var/tmp", O_DIRECTORY);
    fd_close(&s->storage);
    return r;
}

/* Files that say something about the host or what others do on it, or that a kernel bug would make
 * worth having. What only root may read (kmsg, kcore, timer_list) or write (/proc/sys,
 * sysrq-trigger) is refused by ownership alone: no uid in here is the host's root. */
static const char *const masked_files[] = {"proc/kallsyms", "proc/keys",     "proc/config.gz",
                                           "proc/cmdline",  "proc/modules",  "proc/interrupts",
                                           "proc/locks",    "proc/diskstats"};
static const char *const masked_directories[] = {"proc/acpi", "proc/scsi", "proc/bus", "proc/fs",
                                                 "proc/irq"};

static int mount_proc(struct setup *s)
{
    AUTO_FD int fd =
        mounts_new("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (fd < 0) {
        return fd;
    }
    AUTO_FD int at = fd_open_beneath(s->root, "proc", O_PATH | O_DIRECTORY);
    int r = at < 0 ? at : mounts_attach(fd, at);
    if (r == 0) {
        s->oom_score = fd_open_beneath(s->root, "proc/1/oom_score_adj", O_WRONLY);
        r = s->oom_score < 0 ? s->oom_score : 0;
    }
    for (size_t i = 0; r == 0 && i < sizeof masked_files / sizeof *masked_files; i++) {
        r = bind_at(s, "/dev/null", masked_files[i], 0);
        r = r == -ENOENT ? 0 : r;
    }
    for (size_t i = 0; r == 0 && i < sizeof masked_directories / sizeof *masked_directories; i++) {
        r = bind_at(s, "/empty", masked_directories[i], O_DIRECTORY);
        r = r == -ENOENT ? 0 : r;
    }
    return r;
}

/* sysfs of the new network namespace, read-only: buildah's chroot isolation binds it. */
static int mount_sys(struct setup *s)
{
    if (!(s->request->flags & LAUNCH_BUILD)) {
        return 0;
    }
    AUTO_FD int fd =
        mounts_new("sysfs", NULL, 0,
                   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
    if (fd < 0) {
        return fd;
    }
    AUTO_FD int at = fd_open_beneath(s->root, "sys", O_PATH | O_DIRECTORY);
    return at < 0 ? at : mounts_attach(fd, at);
}

static int mount_etc(struct setup *s)
{
    /* The template's /etc/hosts of builds has the names that the config gives them. */
    bool is_build = s->request->flags & LAUNCH_BUILD;
    bool is_plain = strcmp(s->request->hostname, "cordium") == 0;
    const struct {
        const char *source;
        const char *target;
    } files[] = {
        {is_plain || is_build ? "/etc/hosts" : "/tmpfs/etc/hosts", "etc/hosts"},
        {is_plain ? "/etc/hostname" : "/tmpfs/etc/hostname", "etc/hostname"},
        {s->request->flags & LAUNCH_RESOLVERS ? "/etc/resolv.conf" : "/etc/resolv.none",
         "etc/resolv.conf"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int r = bind_at(s, files[i].source, files[i].target, 0);
        /* An image without the file, or with a link there, keeps what it has. */
        if (r < 0 && r != -ENOENT && r != -ELOOP && r != -ENOTDIR) {
            return r;
        }
    }
    int r = bind_at(s, "/tools", "opt/cordium", O_DIRECTORY);
    return r == -ENOENT || r == -ELOOP || r == -ENOTDIR ? 0 : r;
}

static int change_root(struct setup *s)
{
    if (fchdir(s->root) == -1 || syscall(SYS_pivot_root, ".", ".") == -1 ||
        syscall(SYS_umount2, ".", MNT_DETACH_FLAG) == -1 || chdir("/") == -1) {
        return -errno;
    }
    fd_close(&s->root);
    return 0;
}

static int name_host(struct setup *s)
{
    return sethostname(s->request->hostname, strlen(s->request->hostname)) == -1 ? -errno : 0;
}

/* /run is our own tmpfs and nothing else runs yet, so that no name here can be somebody's trap. */
static int make_proxy_socket(struct setup *s)
{
    static const char path[] = "/run/octelium-proxy.sock";
    if (!(s->request->flags & LAUNCH_PROXY_SOCKET)) {
        return 0;
    }
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path, path, sizeof path);
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1 || bind(fd, (const struct sockaddr *)&addr, sizeof addr) == -1 ||
        chmod(path, 0600) == -1 ||
        chown(path, s->request->uid_base + s->request->uid,
              s->request->uid_base + s->request->gid) == -1 ||
        listen(fd, 128) == -1) {
        return -errno;
    }
    s->listener = fd_take(&fd);
    return 0;
}

static int set_limits(struct setup *s)
{
    (void)s;
    struct rlimit nofile;
    if (getrlimit(RLIMIT_NOFILE, &nofile) == -1) {
        return -errno;
    }
    rlim_t hard = nofile.rlim_max < 65536 ? nofile.rlim_max : 65536;
    nofile = (struct rlimit){hard < 1024 ? hard : 1024, hard};
    /* 0 keeps no core from a core_pattern that is a program, which would run on the host with what
     * a sandbox fills it with; 1 does (fs/coredump.c), and is too little for a file. */
    const struct rlimit no_core = {1, 1};
    const struct rlimit stack = {8u << 20, RLIM_INFINITY};
    const struct rlimit locked = {8u << 20, 8u << 20};
    if (setrlimit(RLIMIT_NOFILE, &nofile) == -1 || setrlimit(RLIMIT_CORE, &no_core) == -1 ||
        setrlimit(RLIMIT_MEMLOCK, &locked) == -1) {
        return -errno;
    }
    (void)setrlimit(RLIMIT_STACK, &stack); /* raising a lowered hard limit needs a capability */
    (void)umask(0022);
    return 0;
}

/* What runs in here inherits a slice of CPU time that is longer than a tick of the clock, and
 * cannot shorten it (the filter). The kernel's own, 1.4 ms on two CPUs, is shorter than a tick of 4
 * ms, at which the CPU is taken away: who computes has then run past his deadline, and among many
 * such some always come before whoever wakes up, even from behind (cpu_share.c). A longer one would
 * let others be owed more. Before Linux 6.12 nothing is set. */
static int lengthen_slice(struct setup *s)
{
    (void)s;
    struct { /* sched_attr, whose header clashes with sched.h */
        uint32_t size;
        uint32_t policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime;
        uint64_t deadline;
        uint64_t period;
    } attr;
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) == -1) {
        return -errno;
    }
    attr.runtime = SLICE_NS;
    return syscall(SYS_sched_setattr, 0, &attr, 0) == -1 ? -errno : 0;
}

/* From here on the process has no power over anything outside: its namespaces, but the user
 * namespace, belong to the host. */
static int enter_user_namespace(struct setup *s)
{
    if (setns(s->userns, CLONE_NEWUSER) == -1 || syscall(SYS_setgroups, 0, NULL) == -1 ||
        syscall(SYS_setresgid, 0, 0, 0) == -1 || syscall(SYS_setresuid, 0, 0, 0) == -1) {
        return -errno;
    }
    fd_close(&s->userns);
    /* A build owns its mount namespace; what it inherits is locked. */
    if ((s->request->flags & LAUNCH_BUILD) && unshare(CLONE_NEWNS) == -1) {
        return -errno;
    }
    return 0;
}

/* A build mounts, which Landlock would refuse. */
static int restrict_paths(struct setup *s)
{
    return s->request->flags & LAUNCH_BUILD ? 0 : landlock_restrict_paths();
}

/* Moves a descriptor that stays to its place, or leaves the place empty. */
static int keep_at(int *fd, int place)
{
    if (*fd < 0) {
        return 0;
    }
    if (dup3(*fd, place, O_CLOEXEC) == -1) {
        return -errno;
    }
    *fd = place;
    return 0;
}

static int leave_host_behind(struct setup *s)
{
    enum { ABOVE = 64 };
    int *const kept[] = {&s->control, &s->listener, &s->home_source, &s->oom_score};
    const int count = sizeof kept / sizeof *kept;
    /* An anonymous session keyring, so that the host's is out of reach. */
    (void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
    for (int i = 0; i < count; i++) {
        int r = keep_at(kept[i], ABOVE + i);
        if (r < 0) {
            return r;
        }
    }
    if (syscall(SYS_close_range, INIT_CONTROL_FD, ABOVE - 1, 0) == -1 ||
        syscall(SYS_close_range, (unsigned)(ABOVE + count), ~0U, 0) == -1) {
        return -errno;
    }
    for (int i = 0; i < count; i++) {
        int r = keep_at(kept[i], INIT_CONTROL_FD + i);
        if (r < 0) {
            return r;
        }
    }
    return syscall(SYS_close_range, (unsigned)(INIT_CONTROL_FD + count), ~0U, 0) == -1 ? -errno : 0;
}

static int drop_privileges(struct setup *s)
{
    uint64_t keep = s->request->capabilities | PRIVILEGES_OF_INIT;
    int r = privileges_limit_bounding(UINT64_MAX, keep);
    r = r < 0 ? r : privileges_set(keep);
    if (r < 0) {
        return r;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, s->filter) == -1) {
        return -errno;
    }
    return 0;
}

int setup_run(struct setup *s, const char **ret_step)
{
    static const struct {
        const char *name;
        int (*run)(struct setup *s);
    } steps[] = {
#define STEP(function, name) {(name), (function)},
#include "executor/init/setup_steps.def"
    };
    static_assert(sizeof steps / sizeof *steps <= INIT_STEPS_MAX, "room in struct init_message");
    uint64_t before = clock_now_ns();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        s->target = NULL;
        int r = steps[i].run(s);
        if (r < 0) {
            *ret_step = steps[i].name;
            return r;
        }
        uint64_t now = clock_now_ns();
        s->step_us[i] = (uint32_t)((now - before) / 1000);
        before = now;
    }
    return 0;
}
