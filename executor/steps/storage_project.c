#include "executor/steps/storage_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/proc/fd.h"

/* Project quota of ext4 or xfs: each unit is a directory with a project id of its own. A process in
 * a user namespace cannot change a file's project (facts, sandbox 5), and the filter refuses the
 * call besides. */

enum { PROJECT_QUOTA = 2, PROJECT_FIRST = 0x40000000, PROJECT_TRIES = 1000, QUOTA_BLOCK = 1024 };

static int quota_call(int fd, int command, uint32_t project, void *data)
{
    /* QCMD() of the header shifts a negative int. */
    unsigned full = (unsigned)command << SUBCMDSHIFT | PROJECT_QUOTA;
    return syscall(SYS_quotactl_fd, fd, full, project, data) == -1 ? -errno : 0;
}

static int project_open_pool(const struct storage_config *config, const char *pool_path,
                             int *ret_fd, struct error *err)
{
    (void)config;
    AUTO_FD int fd = open(pool_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open '%s'", pool_path);
    }
    struct dqinfo info;
    int r = quota_call(fd, Q_GETINFO, 0, &info);
    if (r < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r,
                               "the file system of '%s' has no project quota in force (mount it "
                               "with prjquota)",
                               pool_path);
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

static int project_device(int pool_fd, struct block_device *ret)
{
    struct stat st;
    if (fstat(pool_fd, &st) == -1) {
        return -errno;
    }
    *ret = (struct block_device){.major = major(st.st_dev), .minor = minor(st.st_dev)};
    return 0;
}

/* A project id that nothing uses yet, near the inode's number. */
static int find_project(int fd, uint64_t inode, uint32_t *ret)
{
    for (uint32_t i = 0; i < PROJECT_TRIES; i++) {
        uint32_t id = PROJECT_FIRST | (uint32_t)((inode + i) & (PROJECT_FIRST - 1));
        struct dqblk quota = {0};
        int r = quota_call(fd, Q_GETQUOTA, id, &quota);
        if (r == -ENOENT || r == -ESRCH || (r == 0 && quota.dqb_curinodes == 0)) {
            *ret = id;
            return 0;
        }
        if (r < 0) {
            return r;
        }
    }
    return -EBUSY;
}

static int project_make(int parent_fd, const char *name, uint64_t bytes)
{
    (void)bytes;
    if (mkdirat(parent_fd, name, 0755) == -1) {
        return -errno;
    }
    AUTO_FD int fd = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    struct stat st;
    struct fsxattr attr;
    if (fd < 0 || fstat(fd, &st) == -1 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) == -1) {
        return fd < 0 ? fd : -errno;
    }
    int r = find_project(fd, st.st_ino, &attr.fsx_projid);
    if (r < 0) {
        return r;
    }
    attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    return ioctl(fd, FS_IOC_FSSETXATTR, &attr) == -1 ? -errno : 0;
}

static int project_open(int parent_fd, const char *name, int *ret_fd)
{
    int fd = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    *ret_fd = fd;
    return 0;
}

static int project_of(int fd, uint32_t *ret)
{
    struct fsxattr attr;
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) == -1) {
        return -errno;
    }
    *ret = attr.fsx_projid;
    return 0;
}

static int project_limit(int parent_fd, const char *name, int unit_fd, uint64_t bytes,
                         uint64_t inodes)
{
    uint32_t id = 0;
    (void)parent_fd;
    (void)name;
    int r = project_of(unit_fd, &id);
    struct dqblk quota = {
        .dqb_bhardlimit = bytes / QUOTA_BLOCK,
        .dqb_ihardlimit = inodes,
        .dqb_valid = QIF_LIMITS,
    };
    return r < 0 ? r : quota_call(unit_fd, Q_SETQUOTA, id, &quota);
}

static int project_usage(int unit_fd, struct storage_usage *ret)
{
    uint32_t id = 0;
    struct dqblk quota = {0};
    int r = project_of(unit_fd, &id);
    r = r < 0 ? r : quota_call(unit_fd, Q_GETQUOTA, id, &quota);
    if (r == 0) {
        *ret = (struct storage_usage){
            .bytes = quota.dqb_curspace,
            .limit_bytes = quota.dqb_bhardlimit * QUOTA_BLOCK,
            .inodes = quota.dqb_curinodes,
            .limit_inodes = quota.dqb_ihardlimit,
        };
    }
    return r;
}

static int project_copy(int from_parent, const char *from, int to_parent, const char *to,
                        bool read_only)
{
    char source[64];
    char target[64];
    (void)read_only;
    AUTO_FD int from_fd = fd_open_beneath(from_parent, from, O_RDONLY | O_DIRECTORY);
    if (from_fd < 0) {
        return from_fd;
    }
    int r = project_make(to_parent, to, 0);
    AUTO_FD int to_fd = r < 0 ? r : fd_open_beneath(to_parent, to, O_RDONLY | O_DIRECTORY);
    if (to_fd < 0) {
        return to_fd;
    }
    pid_t self = getpid();
    (void)snprintf(source, sizeof source, "/proc/%d/fd/%d/.", self, from_fd);
    (void)snprintf(target, sizeof target, "/proc/%d/fd/%d/", self, to_fd);
    const char *const argv[] = {"cp", "-a", "--reflink=auto", source, target, NULL};
    return storage_run_program(argv);
}

const struct storage_backend storage_backend_project = {
    .kind = STORAGE_PROJECT_QUOTA,
    .name = "project quota",
    .open_pool = project_open_pool,
    .device = project_device,
    .make = project_make,
    .open = project_open,
    .limit = project_limit,
    .usage = project_usage,
    .copy = project_copy,
    .remove = storage_move_to_trash,
    .limits_inodes = true,
    .has_spares = true,
    .copies_at_rest_only = true,
};
