#include "executor/steps/storage_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"

/* An ext4 file system in a sparse file for each unit: works wherever loop devices do, counts bytes
 * and inodes exactly, and costs half a millisecond more. The unit is a directory NAME, on which
 * NAME/../.NAME.img is mounted while it is in use. */

enum { NAME_BYTES = 96, UMOUNT_DETACH = 2 };

/* EXT4_IOC_RESIZE_FS of the kernel's fs/ext4/ext4.h: to this many blocks, while mounted. */
#define EXT4_RESIZE _IOW('f', 16, uint64_t)

static void image_name(char *ret, const char *name)
{
    (void)snprintf(ret, NAME_BYTES, "%s/data.img", name);
}

static int image_open_pool(const struct storage_config *config, const char *pool_path, int *ret_fd,
                           struct error *err)
{
    (void)config;
    AUTO_FD int fd = open(pool_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    const char *const probe[] = {"mkfs.ext4", "-V", NULL};
    int r = fd == -1 ? -errno : storage_run_program(probe);
    if (r == 0 && access("/dev/loop-control", R_OK | W_OK) == -1) {
        r = -errno;
    }
    if (r < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r,
                               "an ext4 image per workspace needs mkfs.ext4 and /dev/loop-control");
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

static int image_make(int parent_fd, const char *name, uint64_t bytes)
{
    char path[NAME_BYTES];
    image_name(path, name);
    if (mkdirat(parent_fd, name, 0700) == -1) {
        return -errno;
    }
    AUTO_FD int dir = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (dir < 0 || mkdirat(dir, "root", 0755) == -1) {
        return dir < 0 ? dir : -errno;
    }
    AUTO_FD int fd = openat(dir, "data.img", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd == -1 || ftruncate(fd, (off_t)bytes) == -1) {
        return -errno;
    }
    char file[64];
    (void)snprintf(file, sizeof file, "/proc/%d/fd/%d", getpid(), fd);
    const char *const argv[] = {"mkfs.ext4",
                                "-q",
                                "-F",
                                "-O",
                                "^has_journal",
                                "-m",
                                "0",
                                "-E",
                                "lazy_itable_init=1,nodiscard",
                                file,
                                NULL};
    return storage_run_program(argv);
}

static int mount_image(int dir, const char *loop)
{
    const struct mounts_option options[] = {{"source", loop, -1}};
    AUTO_FD int fd = mounts_new("ext4", options, 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0) {
        return fd;
    }
    return mounts_attach_at(fd, dir, "root");
}

static int image_open(int parent_fd, const char *name, int *ret_fd)
{
    char loop[64];
    AUTO_FD int dir = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (dir < 0) {
        return dir;
    }
    AUTO_FD int root = fd_open_beneath(dir, "root", O_RDONLY | O_DIRECTORY);
    struct stat a, b;
    if (root < 0 || fstat(dir, &a) == -1 || fstat(root, &b) == -1) {
        return root < 0 ? root : -errno;
    }
    if (a.st_dev == b.st_dev) { /* not mounted yet */
        AUTO_FD int file = openat(dir, "data.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        AUTO_FD int device = file == -1 ? -errno : storage_loop_attach(file, loop, sizeof loop);
        int r = device < 0 ? device : mount_image(dir, loop);
        if (r < 0) {
            return r;
        }
        fd_close(&root);
        root = fd_open_beneath(dir, "root", O_RDONLY | O_DIRECTORY);
        (void)unlinkat(root, "lost+found", AT_REMOVEDIR);
    }
    *ret_fd = fd_take(&root);
    return root < 0 && *ret_fd < 0 ? *ret_fd : 0;
}

static void image_close(int parent_fd, const char *name)
{
    char path[128];
    AUTO_FD int dir = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/root", dir);
    if (dir >= 0) {
        (void)syscall(SYS_umount2, path, UMOUNT_DETACH);
    }
}

/* Grows the file and the file system in it (the kernel wants CAP_SYS_RESOURCE for that); it never
 * shrinks. */
static int image_limit(int parent_fd, const char *name, int unit_fd, uint64_t bytes,
                       uint64_t inodes)
{
    struct statfs now;
    (void)inodes; /* by mkfs's ratio: one for 16 KiB */
    if (fstatfs(unit_fd, &now) == -1) {
        return -errno;
    }
    AUTO_FD int dir = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    AUTO_FD int file = dir < 0 ? dir : openat(dir, "data.img", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (file < 0 || fstat(file, &st) == -1) {
        return -errno;
    }
    if ((uint64_t)st.st_size >= bytes) {
        return 0;
    }
    if (ftruncate(file, (off_t)bytes) == -1) {
        return -errno;
    }
    struct stat root;
    char device[64];
    if (fstat(unit_fd, &root) == -1) {
        return -errno;
    }
    (void)snprintf(device, sizeof device, "/dev/loop%u", minor(root.st_dev));
    AUTO_FD int loop = open(device, O_RDWR | O_CLOEXEC);
    uint64_t blocks = bytes / (uint64_t)now.f_bsize;
    if (loop == -1 || ioctl(loop, LOOP_SET_CAPACITY) == -1 ||
        ioctl(unit_fd, EXT4_RESIZE, &blocks) == -1) {
        return -errno;
    }
    return 0;
}

static int image_usage(int unit_fd, struct storage_usage *ret)
{
    struct statfs now;
    if (fstatfs(unit_fd, &now) == -1) {
        return -errno;
    }
    *ret = (struct storage_usage){
        .bytes = (now.f_blocks - now.f_bfree) * (uint64_t)now.f_bsize,
        .limit_bytes = now.f_blocks * (uint64_t)now.f_bsize,
        .inodes = now.f_files - now.f_ffree,
        .limit_inodes = now.f_files,
    };
    return 0;
}

static int image_copy(int from_parent, const char *from, int to_parent, const char *to,
                      bool read_only)
{
    char source[64];
    char target[64];
    (void)read_only;
    AUTO_FD int from_dir = fd_open_beneath(from_parent, from, O_RDONLY | O_DIRECTORY);
    if (from_dir < 0) {
        return from_dir;
    }
    if (mkdirat(to_parent, to, 0700) == -1) {
        return -errno;
    }
    AUTO_FD int to_dir = fd_open_beneath(to_parent, to, O_RDONLY | O_DIRECTORY);
    if (to_dir < 0 || mkdirat(to_dir, "root", 0755) == -1) {
        return to_dir < 0 ? to_dir : -errno;
    }
    (void)snprintf(source, sizeof source, "/proc/%d/fd/%d/data.img", getpid(), from_dir);
    (void)snprintf(target, sizeof target, "/proc/%d/fd/%d/data.img", getpid(), to_dir);
    const char *const argv[] = {"cp", "--sparse=always", "--reflink=auto", source, target, NULL};
    return storage_run_program(argv);
}

/* A loop device for each unit. */
static int image_device(int pool_fd, struct block_device *ret)
{
    (void)pool_fd;
    *ret = (struct block_device){.major = LOOP_MAJOR, .any_minor = true};
    return 0;
}

const struct storage_backend storage_backend_image = {
    .kind = STORAGE_FILE_IMAGE,
    .name = "ext4 image per workspace",
    .open_pool = image_open_pool,
    .device = image_device,
    .make = image_make,
    .open = image_open,
    .close = image_close,
    .limit = image_limit,
    .usage = image_usage,
    .copy = image_copy,
    .remove = storage_move_to_trash,
    .copies_at_rest_only = true,
};
