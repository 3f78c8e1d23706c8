#include "executor/steps/storage_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/proc/fd.h"

/* Linux 6.7; btrfs-progs of Debian 12 has no option for it. */
enum {
    QUOTA_CTL_ENABLE_SIMPLE = 4,
    SEARCH_BYTES = 16384,
    LOOP_DEVICES_MAX = 1024,
    DETACH_TRIES = 200,
    DETACH_PAUSE_US = 50000
};

static int enable_simple_quota(int fd, struct error *err)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = QUOTA_CTL_ENABLE_SIMPLE};
    if (ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "btrfs simple quota (needs Linux 6.7)");
    }
    return 0;
}

static int make_pool_file(const char *file, uint64_t bytes, struct error *err)
{
    AUTO_FD int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd == -1 && errno == EEXIST) {
        return 0;
    }
    if (fd == -1 || ftruncate(fd, (off_t)bytes) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "make pool file '%s'", file);
    }
    const char *const argv[] = {"mkfs.btrfs", "-q", "-f", "-m", "single", file, NULL};
    int r = storage_run_program(argv);
    if (r < 0) {
        (void)unlink(file);
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r,
                               "mkfs.btrfs (remedy: install btrfs-progs)");
    }
    return 0;
}

/* Two loop devices over one file are two btrfs devices with one identity: the mount of a killed
 * predecessor must be gone before ours. */
static bool is_attached(const struct stat *file)
{
    for (int i = 0; i < LOOP_DEVICES_MAX; i++) {
        char path[64];
        struct loop_info64 info;
        (void)snprintf(path, sizeof path, "/dev/loop%d", i);
        AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd == -1 && errno == ENOENT) {
            return false;
        }
        if (fd != -1 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file->st_ino &&
            info.lo_device == file->st_dev) {
            return true;
        }
    }
    return false;
}

static int wait_until_detached(int file_fd)
{
    struct stat st;
    if (fstat(file_fd, &st) == -1) {
        return -errno;
    }
    for (int i = 0; i < DETACH_TRIES; i++) {
        if (!is_attached(&st)) {
            return 0;
        }
        (void)usleep(DETACH_PAUSE_US);
    }
    return -EBUSY;
}

static int btrfs_open_pool(const struct storage_config *config, const char *pool_path, int *ret_fd,
                           struct error *err)
{
    char file[4096];
    char loop[64];
    (void)snprintf(file, sizeof file, "%s/pool.btrfs", config->state_dir);
    int r = make_pool_file(file, config->pool_bytes, err);
    if (r < 0) {
        return r;
    }
    AUTO_FD int file_fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    r = file_fd == -1 ? -errno : wait_until_detached(file_fd);
    AUTO_FD int loop_fd = r < 0 ? r : storage_loop_attach(file_fd, loop, sizeof loop);
    if (loop_fd < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -loop_fd,
                               "attach '%s' to a loop device (remedy: modprobe loop)", file);
    }
    if (mount(loop, pool_path, "btrfs", MS_NOSUID | MS_NODEV | MS_NOATIME, "") == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "mount btrfs pool '%s'",
                               file);
    }
    AUTO_FD int fd = open(pool_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = fd == -1 ? error_set_errno(err, STATUS_INTERNAL, errno, "open '%s'", pool_path)
                 : enable_simple_quota(fd, err);
    if (r < 0) {
        (void)umount2(pool_path, MNT_DETACH);
        return r;
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

static int btrfs_device(int pool_fd, struct block_device *ret)
{
    struct btrfs_ioctl_dev_info_args info = {.devid = 1}; /* mkfs was given one */
    struct stat st;
    if (ioctl(pool_fd, BTRFS_IOC_DEV_INFO, &info) == -1) {
        return -errno;
    }
    info.path[sizeof info.path - 1] = '\0';
    if (stat((const char *)info.path, &st) == -1 || !S_ISBLK(st.st_mode)) {
        return -ENODEV;
    }
    *ret = (struct block_device){.major = major(st.st_rdev), .minor = minor(st.st_rdev)};
    return 0;
}

static void btrfs_close_pool(const char *pool_path)
{
    (void)umount2(pool_path, MNT_DETACH);
}

static int btrfs_make(int parent_fd, const char *name, uint64_t bytes)
{
    (void)bytes;
    struct btrfs_ioctl_vol_args args = {0};
    (void)snprintf(args.name, sizeof args.name, "%s", name);
    return ioctl(parent_fd, BTRFS_IOC_SUBVOL_CREATE, &args) == -1 ? -errno : 0;
}

static int btrfs_open(int parent_fd, const char *name, int *ret_fd)
{
    int fd = fd_open_beneath(parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return fd;
    }
    *ret_fd = fd;
    return 0;
}

static int btrfs_limit(int parent_fd, const char *name, int unit_fd, uint64_t bytes,
                       uint64_t inodes)
{
    (void)parent_fd;
    (void)name;
    (void)inodes; /* btrfs counts none; metadata counts as bytes */
    struct btrfs_ioctl_qgroup_limit_args args = {
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes},
    };
    return ioctl(unit_fd, BTRFS_IOC_QGROUP_LIMIT, &args) == -1 ? -errno : 0;
}

static int subvolume_id(int fd, uint64_t *ret)
{
    struct btrfs_ioctl_ino_lookup_args args = {.objectid = BTRFS_FIRST_FREE_OBJECTID};
    if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) == -1) {
        return -errno;
    }
    *ret = args.treeid;
    return 0;
}

/* The tree of quotas knows of what was written when the kernel commits, half a minute later
 * perhaps. What is held in memory for the limit's sake (Documentation/ABI/testing/sysfs-fs-btrfs)
 * has what waits in the page cache, too. False where sysfs tells nothing of it. */
static bool usage_now(int unit_fd, uint64_t id, uint64_t *ret)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    char uuid[2 * sizeof info.fsid + 1];
    char path[96];
    uint64_t referenced;
    uint64_t reserved;
    if (ioctl(unit_fd, BTRFS_IOC_FS_INFO, &info) == -1) {
        return false;
    }
    for (size_t i = 0; i < sizeof info.fsid; i++) {
        (void)snprintf(uuid + 2 * i, 3, "%02x", info.fsid[i]);
    }
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%.8s-%.4s-%.4s-%.4s-%s/qgroups/0_%" PRIu64,
                   uuid, uuid + 8, uuid + 12, uuid + 16, uuid + 20, id);
    AUTO_FD int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir == -1 || fd_read_file_u64(dir, "referenced", &referenced) < 0 ||
        fd_read_file_u64(dir, "rsv_data", &reserved) < 0) {
        return false;
    }
    *ret = referenced + reserved;
    return true;
}

static int usage_at_commit(int unit_fd, uint64_t id, struct storage_usage *ret)
{
    _Alignas(8) uint8_t memory[sizeof(struct btrfs_ioctl_search_args_v2) + SEARCH_BYTES];
    struct btrfs_ioctl_search_args_v2 *search = (struct btrfs_ioctl_search_args_v2 *)memory;
    const uint8_t *found = memory + sizeof *search;
    *search = (struct btrfs_ioctl_search_args_v2){
        .key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                .min_type = BTRFS_QGROUP_INFO_KEY,
                .max_type = BTRFS_QGROUP_LIMIT_KEY,
                .min_offset = id,
                .max_offset = id,
                .max_transid = UINT64_MAX,
                .nr_items = 16},
        .buf_size = SEARCH_BYTES,
    };
    if (ioctl(unit_fd, BTRFS_IOC_TREE_SEARCH_V2, search) == -1) {
        return -errno;
    }
    *ret = (struct storage_usage){0};
    size_t at = 0;
    for (uint32_t i = 0; i < search->key.nr_items; i++) {
        struct btrfs_ioctl_search_header header;
        memcpy(&header, found + at, sizeof header);
        at += sizeof header;
        if (header.offset == id && header.type == BTRFS_QGROUP_INFO_KEY) {
            struct btrfs_qgroup_info_item info;
            memcpy(&info, found + at, sizeof info);
            ret->bytes = info.rfer;
        } else if (header.offset == id && header.type == BTRFS_QGROUP_LIMIT_KEY) {
            struct btrfs_qgroup_limit_item limit;
            memcpy(&limit, found + at, sizeof limit);
            ret->limit_bytes = limit.max_rfer;
        }
        at += header.len;
    }
    return 0;
}

static int btrfs_usage(int unit_fd, struct storage_usage *ret)
{
    uint64_t id = 0;
    int r = subvolume_id(unit_fd, &id);
    r = r < 0 ? r : usage_at_commit(unit_fd, id, ret);
    if (r == 0) {
        (void)usage_now(unit_fd, id, &ret->bytes);
    }
    return r;
}

static int btrfs_copy(int from_parent, const char *from, int to_parent, const char *to,
                      bool read_only)
{
    AUTO_FD int source = fd_open_beneath(from_parent, from, O_RDONLY | O_DIRECTORY);
    if (source < 0) {
        return source;
    }
    struct btrfs_ioctl_vol_args_v2 args = {
        .fd = source,
        .flags = read_only ? BTRFS_SUBVOL_RDONLY : 0,
    };
    (void)snprintf(args.name, sizeof args.name, "%s", to);
    return ioctl(to_parent, BTRFS_IOC_SNAP_CREATE_V2, &args) == -1 ? -errno : 0;
}

/* The kernel frees the space later. A subvolume with others in it (the filter lets nobody make
 * those) cannot go as a whole: the reaper takes it apart. */
static int btrfs_remove(int parent_fd, const char *name, int trash_fd, unsigned trash_number)
{
    struct btrfs_ioctl_vol_args args = {0};
    (void)snprintf(args.name, sizeof args.name, "%s", name);
    if (ioctl(parent_fd, BTRFS_IOC_SNAP_DESTROY, &args) == 0) {
        return 0;
    }
    return errno == ENOTEMPTY ? storage_move_to_trash(parent_fd, name, trash_fd, trash_number)
                              : -errno;
}

const struct storage_backend storage_backend_btrfs = {
    .kind = STORAGE_BTRFS_SIMPLE_QUOTA,
    .name = "btrfs simple quota",
    .open_pool = btrfs_open_pool,
    .device = btrfs_device,
    .close_pool = btrfs_close_pool,
    .make = btrfs_make,
    .open = btrfs_open,
    .limit = btrfs_limit,
    .usage = btrfs_usage,
    .copy = btrfs_copy,
    .remove = btrfs_remove,
    .has_spares = true,
};
