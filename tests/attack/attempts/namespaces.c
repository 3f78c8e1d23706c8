/* Namespaces, mounts and control groups: the doors to what only an administrator may do. */
#include "tests/attack/attempts/attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DETACH = 2, PATH_BYTES = 512 };

/* sys/mount.h clashes with linux/mount.h. */
static int mount_at(const char *source, const char *path, const char *type, const char *data)
{
    return attempt_result(syscall(SYS_mount, source, path, type, 0L, data));
}

static int try_unshare_user(const char *argument)
{
    (void)argument;
    return attempt_result(unshare(CLONE_NEWUSER));
}

static int try_unshare_user_and_net(const char *argument)
{
    (void)argument;
    return attempt_result(unshare(CLONE_NEWUSER | CLONE_NEWNET));
}

static int try_unshare_mounts(const char *argument)
{
    (void)argument;
    return attempt_result(unshare(CLONE_NEWNS));
}

static int try_clone_user(const char *argument)
{
    (void)argument;
    long pid = syscall(SYS_clone, (unsigned long)CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        _exit(0);
    }
    return attempt_result(pid);
}

static int try_clone3_user(const char *argument)
{
    (void)argument;
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        _exit(0);
    }
    return attempt_result(pid);
}

static int try_setns(const char *argument)
{
    (void)argument;
    int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    return fd == -1 ? -errno : attempt_result(setns(fd, 0));
}

static int try_mount_tmpfs(const char *argument)
{
    (void)argument;
    const char *folder = attempt_make_folder();
    return folder ? mount_at("none", folder, "tmpfs", "size=4k") : -errno;
}

static int try_fsopen(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(SYS_fsopen, "tmpfs", 0));
}

static int try_open_tree(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE));
}

static int try_remount(const char *argument)
{
    (void)argument;
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    return attempt_result(
        syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof attr));
}

static int try_unmask(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(SYS_umount2, "/proc/kallsyms", DETACH));
}

static int try_chroot(const char *argument)
{
    (void)argument;
    return attempt_result(chroot("/"));
}

/* A procfs without the masks of the one that is there. */
static int try_mount_proc(const char *argument)
{
    (void)argument;
    if (unshare(CLONE_NEWNS) == -1) {
        (void)unshare(CLONE_NEWUSER | CLONE_NEWNS);
    }
    const char *folder = attempt_make_folder();
    return folder ? mount_at("proc", folder, "proc", NULL) : -errno;
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd == -1) {
        return -errno;
    }
    int r = write(fd, text, strlen(text)) == -1 ? -errno : 0;
    (void)close(fd);
    return r;
}

/* Mounts a hierarchy and sets its release_agent. -errno of the step that was refused. */
static int set_release_agent(const char *options)
{
    char path[PATH_BYTES];
    const char *folder = attempt_make_folder();
    int r = folder ? mount_at("none", folder, "cgroup", options) : -errno;
    if (r < 0) {
        attempt_note("mount %s %s; ", options, strerrorname_np(-r));
        return r;
    }
    (void)snprintf(path, sizeof path, "%s/release_agent", folder);
    r = write_text(path, "/nonexistent");
    attempt_note("%s of %s %s; ", "release_agent", options, r < 0 ? strerrorname_np(-r) : "SET");
    if (r < 0) {
        (void)snprintf(path, sizeof path, "%s/group-of-an-attack", folder);
        int made = mkdir(path, 0755) == -1 ? -errno : rmdir(path);
        attempt_note("mkdir %s; ", made < 0 ? strerrorname_np(-made) : "DONE");
        r = made == 0 ? 0 : r;
    }
    (void)syscall(SYS_umount2, folder, DETACH);
    (void)rmdir(folder);
    return r;
}

static int try_release_agent(const char *argument)
{
    static const char *const hierarchies[] = {"memory", "pids",    "freezer", "devices",
                                              "cpuset", "cpuacct", "blkio",   NULL};
    (void)argument;
    if (unshare(CLONE_NEWNS) == -1 && unshare(CLONE_NEWUSER | CLONE_NEWNS) == -1) {
        attempt_note("unshare %s; ", strerrorname_np(errno));
    }
    /* A hierarchy of our own is nobody else's: outside of a sandbox this is where it stops. */
    int r = set_release_agent("none,name=attempt");
    if (r < 0) {
        (void)unshare(CLONE_NEWCGROUP);
    }
    for (size_t i = 0; r < 0 && hierarchies[i]; i++) {
        r = set_release_agent(hierarchies[i]);
    }
    return r;
}

static int copy_program(const char *target, mode_t mode)
{
    char piece[65536];
    ssize_t n;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (from == -1 || to == -1) {
        return -errno;
    }
    while ((n = read(from, piece, sizeof piece)) > 0) {
        if (write(to, piece, (size_t)n) != n) {
            return -EIO;
        }
    }
    int r = fchmod(to, mode) == -1 ? -errno : 0;
    (void)close(from);
    (void)close(to);
    return r;
}

/* As another user, through a set-user-id program: 0 when that gains anything. */
static int become_root_by(const char *program)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        /* Who cannot become another user already is one, or root without any right. */
        if (syscall(SYS_setresgid, 1, 1, 1) == 0) {
            (void)!syscall(SYS_setresuid, 1, 1, 1);
        }
        (void)execl(program, program, "effective-uid", NULL);
        _exit(126);
    }
    (void)waitpid(child, &status, 0);
    attempt_note("exit code %d; ", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* A set-user-id file comes up from the lower layer of an overlay that is the attacker's own. */
static int try_overlay_suid(const char *argument)
{
    (void)argument;
    char path[PATH_BYTES];
    char options[2 * PATH_BYTES];
    if (unshare(CLONE_NEWNS) == -1 && unshare(CLONE_NEWUSER | CLONE_NEWNS) == -1) {
        attempt_note("unshare %s; ", strerrorname_np(errno));
    }
    (void)syscall(SYS_mount, "none", "/", NULL, 1L << 18 | 16384, NULL); /* private */
    const char *folder = attempt_make_folder();
    int r = folder ? mount_at("none", folder, "tmpfs", "mode=0755") : -errno;
    if (r < 0) {
        return r;
    }
    if (chdir(folder) == -1 || mkdir("low", 0755) == -1 || mkdir("up", 0755) == -1 ||
        mkdir("work", 0755) == -1 || mkdir("all", 0755) == -1) {
        return -errno;
    }
    (void)snprintf(options, sizeof options,
                   "lowerdir=%s/low,upperdir=%s/up,workdir=%s/work,userxattr", folder, folder,
                   folder);
    (void)snprintf(path, sizeof path, "%s/all", folder);
    r = copy_program("low/suid", 04755);
    r = r < 0 ? r : mount_at("none", path, "overlay", options);
    if (r < 0) {
        return r;
    }
    if (utimensat(AT_FDCWD, "all/suid", NULL, 0) == -1) { /* copies it up */
        return -errno;
    }
    (void)snprintf(path, sizeof path, "%s/up/suid", folder);
    return become_root_by(path);
}

static int try_suid_program(const char *argument)
{
    return become_root_by(argument);
}

/* More than five extents: what went wrong once was how the host's ids came out of them. */
static int map_extents(pid_t child, const char *file)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/%s", child, file);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%d %d 1\n", i, i);
    }
    return write_text(path, text);
}

static int try_nested_id_map(const char *argument)
{
    (void)argument;
    int ready[2], mapped[2];
    char byte = 0;
    if (pipe(ready) == -1 || pipe(mapped) == -1) {
        return -errno;
    }
    pid_t child = fork();
    if (child == 0) {
        int r = unshare(CLONE_NEWUSER) == -1 ? errno : 0;
        byte = (char)r;
        (void)!write(ready[1], &byte, 1);
        (void)!read(mapped[0], &byte, 1);
        /* Root's alone on the host. */
        r = r ? r : open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC) == -1 ? errno : 0;
        _exit(r);
    }
    (void)!read(ready[0], &byte, 1);
    int r = byte ? -byte : map_extents(child, "uid_map");
    attempt_note("map of six extents: %s; ", r < 0 ? strerrorname_np(-r) : "written");
    (void)!write(mapped[1], "x", 1);
    int status = 0;
    (void)waitpid(child, &status, 0);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

static int count_lines_with(const char *path, const char *const *words)
{
    char line[2048];
    int count = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        for (size_t i = 0; words[i]; i++) {
            if (strstr(line, words[i])) {
                count++;
                attempt_note("%.100s; ", line);
                break;
            }
        }
    }
    if (f) {
        (void)fclose(f);
    }
    return count;
}

static int try_find_propagation(const char *argument)
{
    static const char *const words[] = {" shared:", " master:", NULL};
    (void)argument;
    return count_lines_with("/proc/self/mountinfo", words) > 0 ? 0 : -ENOENT;
}

static int try_find_mount(const char *argument)
{
    const char *const words[] = {argument, NULL};
    return count_lines_with("/proc/self/mountinfo", words) > 0 ? 0 : -ENOENT;
}

const struct attempt namespace_attempts[] = {
    {"unshare-user", try_unshare_user},
    {"unshare-user-and-net", try_unshare_user_and_net},
    {"unshare-mounts", try_unshare_mounts},
    {"clone-user", try_clone_user},
    {"clone3-user", try_clone3_user},
    {"setns", try_setns},
    {"mount-tmpfs", try_mount_tmpfs},
    {"mount-proc", try_mount_proc},
    {"fsopen", try_fsopen},
    {"open-tree", try_open_tree},
    {"remount-root", try_remount},
    {"unmask", try_unmask},
    {"chroot", try_chroot},
    {"release-agent", try_release_agent},
    {"overlay-suid", try_overlay_suid},
    {"suid-program", try_suid_program},
    {"nested-id-map", try_nested_id_map},
    {"find-propagation", try_find_propagation},
    {"find-mount", try_find_mount},
    {NULL, NULL},
};
