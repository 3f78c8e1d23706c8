#include "executor/image/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum mount_point_kind { DIRECTORY, REGULAR, ANYTHING /* what is there stays */ };

static const struct {
    const char *path;
    mode_t mode;
    enum mount_point_kind kind;
} MOUNT_POINTS[] = {
    {"dev", 0755, DIRECTORY},        {"proc", 0555, DIRECTORY},
    {"sys", 0555, DIRECTORY},        {"run", 0755, DIRECTORY},
    {"tmp", 01777, DIRECTORY},       {"var", 0755, DIRECTORY},
    {"var/tmp", 01777, DIRECTORY},   {"etc", 0755, DIRECTORY},
    {"opt", 0755, DIRECTORY},        {"opt/cordium", 0755, DIRECTORY},
    {"home", 0755, ANYTHING},        {"root", 0700, ANYTHING},
    {"workspace", 0755, DIRECTORY},  {"etc/hosts", 0644, REGULAR},
    {"etc/hostname", 0644, REGULAR}, {"etc/resolv.conf", 0644, REGULAR},
};

/* Directories that hold the image's own files: a link in their place is refused, not replaced. */
static const char *const HOLDERS[] = {"var", "etc", "opt"};

/* Left in the image by the mounts of build steps. */
static const char *const BUILD_LEFTOVERS[] = {"run/.containerenv", "run/cordium-build"};

static int in_root(int root_fd, const char *path, uint64_t flags)
{
    /* openat2(2) refuses O_NONBLOCK together with O_PATH, which never blocks. */
    struct open_how how = {.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd = -1;

    /* EAGAIN: something moved while ".." was resolved (man 2 openat2). */
    for (int i = 0; i < 32; i++) {
        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
        if (fd != -1 || errno != EAGAIN) {
            break;
        }
    }
    return fd == -1 ? -errno : (int)fd;
}

int rootfs_open(int root_fd, const char *path, int flags)
{
    return in_root(root_fd, path, (uint64_t)flags);
}

static bool is_holder(const char *path)
{
    for (size_t i = 0; i < sizeof(HOLDERS) / sizeof(HOLDERS[0]); i++) {
        if (strcmp(path, HOLDERS[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Opens the parent, which earlier rows of the table made a real directory. */
static int open_parent(int root_fd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    char parent[64];

    *ret_name = slash ? slash + 1 : path;
    if (!slash) {
        return fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
    }
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    return fd_open_beneath(root_fd, parent, O_RDONLY | O_DIRECTORY);
}

static int make_directory(int parent_fd, const char *name, mode_t mode, bool is_replaceable)
{
    struct stat st;

    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return 0;
        }
        if (!is_replaceable) {
            return -ENOTDIR;
        }
        if (unlinkat(parent_fd, name, 0) == -1) {
            return -errno;
        }
    }
    /* The umask is 0 (main), so the mode is what it says. */
    return mkdirat(parent_fd, name, mode) == -1 ? -errno : 0;
}

static int make_file(int parent_fd, const char *name, mode_t mode)
{
    struct stat st;

    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(st.st_mode)) {
            return 0;
        }
        int r = fd_remove_tree(parent_fd, name);
        if (r < 0) {
            return r;
        }
    }
    int fd = openat(parent_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd == -1) {
        return -errno;
    }
    close(fd);
    return 0;
}

/* /var/run leads to /run, where the workspace's sockets are. */
static int make_var_run(int root_fd)
{
    char target[16] = "";
    AUTO_FD int var = fd_open_beneath(root_fd, "var", O_RDONLY | O_DIRECTORY);

    if (var < 0) {
        return var;
    }
    ssize_t n = readlinkat(var, "run", target, sizeof(target) - 1);
    if (n > 0 && (strcmp(target, "/run") == 0 || strcmp(target, "../run") == 0)) {
        return 0;
    }
    int r = fd_remove_tree(var, "run");
    if (r < 0 && r != -ENOENT) {
        return r;
    }
    return symlinkat("/run", var, "run") == -1 ? -errno : 0;
}

int rootfs_make_mount_points(int root_fd, struct error *err)
{
    for (size_t i = 0; i < sizeof(MOUNT_POINTS) / sizeof(MOUNT_POINTS[0]); i++) {
        const char *path = MOUNT_POINTS[i].path;
        const char *name;
        AUTO_FD int parent = open_parent(root_fd, path, &name);
        int r = parent;
        if (r >= 0 && MOUNT_POINTS[i].kind == ANYTHING) {
            r = mkdirat(parent, name, MOUNT_POINTS[i].mode) == -1 && errno != EEXIST ? -errno : 0;
        } else if (r >= 0) {
            r = MOUNT_POINTS[i].kind == DIRECTORY
                    ? make_directory(parent, name, MOUNT_POINTS[i].mode, !is_holder(path))
                    : make_file(parent, name, MOUNT_POINTS[i].mode);
        }
        if (r == -ENOTDIR) {
            return error_set(err, STATUS_FAILED_PRECONDITION,
                             "the image's /%s is not a directory; make it one in the Dockerfile",
                             path);
        }
        if (r < 0) {
            return error_set_errno(err, STATUS_INTERNAL, -r, "make the mount point /%s", path);
        }
    }
    int r = make_var_run(root_fd);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "make the link /var/run");
    }
    if (fchmod(root_fd, 0755) == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "set the mode of the image's root");
    }
    return 0;
}

/* Inodes with several names, each to be counted once: an open hash table, 0 = free. When memory is
 * short a file counts more than once. */
struct inodes {
    uint64_t *slots;
    size_t size; /* 0 or a power of 2 */
    size_t used;
};

static bool inodes_put(struct inodes *s, uint64_t inode)
{
    for (size_t i = (size_t)(inode * 0x9e3779b97f4a7c15U) & (s->size - 1);;
         i = (i + 1) & (s->size - 1)) {
        if (s->slots[i] == inode) {
            return false;
        }
        if (s->slots[i] == 0) {
            s->slots[i] = inode;
            s->used++;
            return true;
        }
    }
}

/* True when it was not there. */
static bool inodes_add(struct inodes *s, uint64_t inode)
{
    if (s->used * 2 >= s->size) {
        struct inodes larger = {.size = s->size ? s->size * 2 : 4096};
        larger.slots = calloc(larger.size, sizeof(*larger.slots));
        if (!larger.slots) {
            return true;
        }
        for (size_t i = 0; i < s->size; i++) {
            if (s->slots[i] != 0) {
                (void)inodes_put(&larger, s->slots[i]);
            }
        }
        free(s->slots);
        *s = larger;
    }
    return inodes_put(s, inode);
}

struct sweep {
    struct inodes seen;
    uint64_t bytes;
    uint64_t files;
    struct error *err;
};

static int sweep_directory(struct sweep *s, int fd, unsigned depth);

static int sweep_entry(struct sweep *s, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        return errno == ENOENT ? 0 : error_set_errno(s->err, STATUS_INTERNAL, errno, "stat");
    }
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
        return unlinkat(dir_fd, name, 0) == 0
                   ? 0
                   : error_set_errno(s->err, STATUS_INTERNAL, errno, "remove a device node");
    }
    s->files++;
    if (S_ISDIR(st.st_mode) || st.st_nlink == 1 || inodes_add(&s->seen, st.st_ino)) {
        s->bytes += (uint64_t)st.st_blocks * 512;
    }
    if (!S_ISDIR(st.st_mode)) {
        return 0;
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1) {
        return error_set_errno(s->err, STATUS_INTERNAL, errno, "open a directory of the image");
    }
    return sweep_directory(s, fd, depth + 1);
}

/* Takes the fd. */
static int sweep_directory(struct sweep *s, int fd, unsigned depth)
{
    int r = 0;

    DIR *dir = depth < ROOTFS_DEPTH_MAX ? fdopendir(fd) : NULL;
    if (!dir) {
        close(fd);
        return error_set(s->err, STATUS_RESOURCE_EXHAUSTED,
                         "the image has directories nested deeper than %d, or memory is short",
                         ROOTFS_DEPTH_MAX);
    }
    for (struct dirent *d = readdir(dir); d && r == 0; d = readdir(dir)) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            r = sweep_entry(s, dirfd(dir), d->d_name, depth);
        }
    }
    (void)closedir(dir);
    return r;
}

int rootfs_sweep(int root_fd, uint64_t *ret_bytes, uint64_t *ret_files, struct error *err)
{
    struct sweep s = {.err = err};

    for (size_t i = 0; i < sizeof(BUILD_LEFTOVERS) / sizeof(BUILD_LEFTOVERS[0]); i++) {
        const char *name;
        AUTO_FD int parent = open_parent(root_fd, BUILD_LEFTOVERS[i], &name);
        int r = parent < 0 ? parent : fd_remove_tree(parent, name);
        if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP) {
            return error_set_errno(err, STATUS_INTERNAL, -r, "remove /%s", BUILD_LEFTOVERS[i]);
        }
    }
    int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "open the image's root");
    }
    int r = sweep_directory(&s, fd, 0);
    free(s.seen.slots);
    if (r < 0) {
        return r;
    }
    *ret_bytes = s.bytes;
    *ret_files = s.files;
    return 0;
}

bool rootfs_is_executable(int root_fd, const char *path)
{
    struct stat st;
    AUTO_FD int fd = in_root(root_fd, path, O_PATH);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
}

int rootfs_read_file(int root_fd, const char *path, struct arena *arena, struct str *ret)
{
    struct stat st;
    AUTO_FD int fd = in_root(root_fd, path, O_RDONLY | O_NOCTTY);

    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        return -EINVAL;
    }
    if (st.st_size > ROOTFS_FILE_MAX) {
        return -EFBIG;
    }
    char *text = arena_alloc(arena, (size_t)st.st_size + 1);
    if (!text) {
        return -ENOMEM;
    }
    size_t length = 0;
    while (length < (size_t)st.st_size) {
        ssize_t n = read(fd, text + length, (size_t)st.st_size - length);
        if (n == -1 && errno != EINTR) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        length += n > 0 ? (size_t)n : 0;
    }
    *ret = (struct str){text, length};
    return 0;
}

int rootfs_replace_file(int root_fd, const char *directory, const char *name, struct str content,
                        mode_t mode)
{
    char temporary[64];
    AUTO_FD int dir = fd_open_beneath(root_fd, directory, O_RDONLY | O_DIRECTORY);

    if (dir < 0) {
        return dir;
    }
    struct stat old;
    bool was_file = fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode);
    (void)snprintf(temporary, sizeof(temporary), ".%s.cordium", name);
    (void)unlinkat(dir, temporary, 0); /* of a run that was cut short */
    AUTO_FD int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd == -1) {
        return -errno;
    }
    if (was_file &&
        (fchown(fd, old.st_uid, old.st_gid) == -1 || fchmod(fd, old.st_mode & 07777) == -1)) {
        return -errno;
    }
    while (content.len > 0) {
        ssize_t n = write(fd, content.ptr, content.len);
        if (n == -1 && errno != EINTR) {
            return -errno;
        }
        content.ptr += n > 0 ? n : 0;
        content.len -= n > 0 ? (size_t)n : 0;
    }
    return renameat(dir, temporary, dir, name) == -1 ? -errno : 0;
}

/* Opens or makes one directory of a path; its parents are there. */
static int make_step(int root_fd, const char *path, mode_t mode)
{
    const char *slash = strrchr(path, '/');
    char parent[ROOTFS_PATH_MAX];

    int fd = in_root(root_fd, path, O_RDONLY | O_DIRECTORY);
    if (fd != -ENOENT) {
        return fd;
    }
    (void)snprintf(parent, sizeof(parent), "/%.*s", (int)(slash - path), path);
    AUTO_FD int parent_fd = in_root(root_fd, parent, O_RDONLY | O_DIRECTORY);
    if (parent_fd < 0) {
        return parent_fd;
    }
    /* EEXIST: a link that leads nowhere. */
    if (mkdirat(parent_fd, slash + 1, mode) == -1) {
        return -errno;
    }
    return openat(parent_fd, slash + 1, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The path of fd inside the root, by procfs. */
static int path_in_root(int root_fd, int fd, char ret[ROOTFS_PATH_MAX])
{
    char link[64], root[ROOTFS_PATH_MAX], path[ROOTFS_PATH_MAX];

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", root_fd);
    ssize_t root_length = readlink(link, root, sizeof(root) - 1);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (root_length == -1 || length == -1) {
        return -errno;
    }
    root[root_length] = 0;
    path[length] = 0;
    if (length <= root_length || strncmp(path, root, (size_t)root_length) != 0 ||
        path[root_length] != '/') {
        return -EXDEV;
    }
    memcpy(ret, path + root_length, (size_t)(length - root_length) + 1);
    return 0;
}

int rootfs_make_home(int root_fd, const char *path, uid_t uid, gid_t gid,
                     char ret_path[ROOTFS_PATH_MAX])
{
    char prefix[ROOTFS_PATH_MAX];
    AUTO_FD int fd = -EINVAL;
    size_t length = strlen(path);

    if (path[0] != '/' || length < 2 || length >= sizeof(prefix)) {
        return -EINVAL;
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) {
            continue;
        }
        (void)snprintf(prefix, sizeof(prefix), "%.*s", (int)i, path);
        if (fd >= 0) {
            close(fd);
        }
        fd = make_step(root_fd, prefix, 0755);
        if (fd < 0) {
            return fd;
        }
    }
    if (fchown(fd, uid, gid) == -1) {
        return -errno;
    }
    return path_in_root(root_fd, fd, ret_path);
}
