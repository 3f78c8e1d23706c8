#include "executor/init/template.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"

enum { PRIVATE_RECURSIVE = 1 << 18 | 16384, DETACH = 2 };

struct work {
    const struct template_config *config;
    int root;  /* the tmpfs, detached until the end */
    int tools; /* clones of host directories, taken before we leave */
    int usr;
    int ssl;
    int alternatives;
    int containers;
};

static int leave_host_mounts(struct work *w)
{
    (void)w;
    if (unshare(CLONE_NEWNS) == -1 ||
        syscall(SYS_mount, "", "/", NULL, PRIVATE_RECURSIVE, NULL) == -1) {
        return -errno;
    }
    return 0;
}

/* A read-only clone of a directory of the host; absent ones are left out unless needed. */
static int clone_host(const char *base, const char *path, bool is_needed, int *ret)
{
    char full[4096];
    int n = snprintf(full, sizeof full, "%s%s", strcmp(base, "/") == 0 ? "" : base, path);
    if (n < 0 || (size_t)n >= sizeof full) {
        return -ENAMETOOLONG;
    }
    int fd = mounts_clone(AT_FDCWD, full, 0);
    if (fd < 0) {
        return is_needed ? fd : 0;
    }
    *ret = fd;
    return mounts_set_attributes(fd, 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int clone_host_directories(struct work *w)
{
    int r = 0;
    if (w->config->tools_dir[0] != '\0') {
        r = clone_host("/", w->config->tools_dir, true, &w->tools);
    }
    if (!w->config->is_build) {
        return r;
    }
    const char *base = w->config->build_root;
    r = r < 0 ? r : clone_host(base, "/usr", true, &w->usr);
    r = r < 0 ? r : clone_host(base, "/etc/ssl", false, &w->ssl);
    r = r < 0 ? r : clone_host(base, "/etc/alternatives", false, &w->alternatives);
    return r < 0 ? r : clone_host(base, "/etc/containers", false, &w->containers);
}

static int write_file(int dir_fd, const char *path, const char *text)
{
    AUTO_FD int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd == -1) {
        return -errno;
    }
    size_t n = strlen(text);
    return write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
}

static int make_directories(int dir_fd, const char *const *names)
{
    for (size_t i = 0; names[i]; i++) {
        if (mkdirat(dir_fd, names[i], 0755) == -1) {
            return -errno;
        }
    }
    return 0;
}

static int make_root(struct work *w)
{
    static const char *const names[] = {"root", "storage", "tmpfs", "empty", "dev",
                                        "etc",  "tools",   "build", NULL};
    char hosts[8192];
    const struct mounts_option options[] = {{"mode", "0755", -1}, {"size", "4m", -1}};
    w->root = mounts_new("tmpfs", options, 2, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (w->root < 0) {
        return w->root;
    }
    int n = snprintf(hosts, sizeof hosts,
                     "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.1.1\tcordium\n%s",
                     w->config->is_build ? w->config->build_hosts : "");
    if (n < 0 || (size_t)n >= sizeof hosts) {
        return -E2BIG;
    }
    int r = make_directories(w->root, names);
    r = r < 0 ? r : write_file(w->root, "etc/hosts", hosts);
    r = r < 0 ? r : write_file(w->root, "etc/hostname", "cordium\n");
    r = r < 0 ? r : write_file(w->root, "etc/resolv.conf", w->config->resolvers);
    return r < 0 ? r : write_file(w->root, "etc/resolv.none", "# this workspace has no network\n");
}

static int make_devices(int dir_fd)
{
    static const struct {
        const char *name;
        unsigned major;
        unsigned minor;
    } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"},
                                           {"pts/ptmx", "ptmx"}};
    static const char *const directories[] = {"pts", "shm", NULL};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        if (mknodat(dir_fd, nodes[i].name, S_IFCHR | 0666,
                    makedev(nodes[i].major, nodes[i].minor)) == -1 ||
            fchmodat(dir_fd, nodes[i].name, 0666, 0) == -1) {
            return -errno;
        }
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (symlinkat(links[i][0], dir_fd, links[i][1]) == -1) {
            return -errno;
        }
    }
    return make_directories(dir_fd, directories);
}

/* The root of a build: the host's programs read-only, and an /etc of its own. */
static int fill_build_root(struct work *w)
{
    static const char *const names[] = {"build/usr",
                                        "build/etc",
                                        "build/etc/ssl",
                                        "build/etc/alternatives",
                                        "build/etc/containers",
                                        "build/dev",
                                        "build/proc",
                                        "build/sys",
                                        "build/tmp",
                                        "build/var",
                                        "build/var/tmp",
                                        "build/run",
                                        "build/build",
                                        "build/opt",
                                        "build/opt/cordium",
                                        "build/root",
                                        NULL};
    static const char *const links[][2] = {{"usr/bin", "build/bin"},
                                           {"usr/sbin", "build/sbin"},
                                           {"usr/lib", "build/lib"},
                                           {"usr/lib64", "build/lib64"},
                                           {"../run", "build/var/run"}};
    int r = make_directories(w->root, names);
    for (size_t i = 0; r == 0 && i < sizeof links / sizeof *links; i++) {
        r = symlinkat(links[i][0], w->root, links[i][1]) == -1 ? -errno : 0;
    }
    r = r < 0 ? r
              : write_file(w->root, "build/etc/passwd",
                           "root:x:0:0:root:/build/home:/bin/sh\n"
                           "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    r = r < 0 ? r : write_file(w->root, "build/etc/group", "root:x:0:\nnogroup:x:65534:\n");
    r = r < 0 ? r : write_file(w->root, "build/etc/nsswitch.conf", "hosts: files dns\n");
    r = r < 0 ? r : write_file(w->root, "build/etc/hosts", "");
    r = r < 0 ? r : write_file(w->root, "build/etc/hostname", "");
    return r < 0 ? r : write_file(w->root, "build/etc/resolv.conf", "");
}

static int attach_if(int mount_fd, int dir_fd, const char *path)
{
    return mount_fd >= 0 ? mounts_attach_at(mount_fd, dir_fd, path) : 0;
}

static int enter_root(struct work *w)
{
    int r = mounts_attach_at(w->root, AT_FDCWD, "/tmp");
    if (r < 0) {
        return r;
    }
    const struct mounts_option options[] = {{"mode", "0755", -1}, {"size", "64k", -1}};
    AUTO_FD int dev = mounts_new("tmpfs", options, 2, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    r = dev < 0 ? dev : make_devices(dev);
    r = r < 0 ? r : mounts_set_attributes(dev, 0, MOUNT_ATTR_RDONLY);
    r = r < 0 ? r : mounts_attach_at(dev, w->root, "dev");
    r = r < 0 ? r : attach_if(w->tools, w->root, "tools");
    if (w->config->is_build) {
        r = r < 0 ? r : fill_build_root(w);
        /* A mount of its own, so that it can be cloned as a whole and be a new root. */
        AUTO_FD int build = r < 0 ? -1 : mounts_clone(w->root, "build", 0);
        r = r < 0 ? r : build < 0 ? build : mounts_set_attributes(build, 0, MOUNT_ATTR_RDONLY);
        r = r < 0 ? r : mounts_attach_at(build, w->root, "build");
        r = r < 0 ? r : attach_if(w->usr, build, "usr");
        r = r < 0 ? r : attach_if(w->ssl, build, "etc/ssl");
        r = r < 0 ? r : attach_if(w->alternatives, build, "etc/alternatives");
        r = r < 0 ? r : attach_if(w->containers, build, "etc/containers");
    }
    if (r < 0) {
        return r;
    }
    if (fchdir(w->root) == -1 || syscall(SYS_pivot_root, ".", ".") == -1 ||
        syscall(SYS_umount2, ".", DETACH) == -1 || chdir("/") == -1) {
        return -errno;
    }
    return mounts_set_attributes(w->root, 0, MOUNT_ATTR_RDONLY);
}

int template_enter(const struct template_config *config, const char **ret_step)
{
    struct work w = {config, -1, -1, -1, -1, -1, -1};
    static const struct {
        const char *name;
        int (*run)(struct work *w);
    } steps[] = {
        {"leave the host's mounts", leave_host_mounts},
        {"clone tools_dir and build_root", clone_host_directories},
        {"make the template's root", make_root},
        {"enter the template", enter_root},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof steps / sizeof *steps; i++) {
        *ret_step = steps[i].name;
        r = steps[i].run(&w);
    }
    fd_close(&w.root);
    fd_close(&w.tools);
    fd_close(&w.usr);
    fd_close(&w.ssl);
    fd_close(&w.alternatives);
    fd_close(&w.containers);
    return r;
}
