#include "executor/steps/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/proc/fd.h"

int mounts_set_attributes(int mount_fd, unsigned flags, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes};
    return syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | flags, &attr, sizeof attr) == -1
               ? -errno
               : 0;
}

int mounts_clone_idmapped(int fd, int userns_fd, uint64_t attributes)
{
    AUTO_FD int clone =
        (int)syscall(SYS_open_tree, fd, "", OPEN_TREE_CLONE | O_CLOEXEC | (unsigned)AT_EMPTY_PATH);
    if (clone == -1) {
        return -errno;
    }
    struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
    if (userns_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint32_t)userns_fd;
    }
    if (syscall(SYS_mount_setattr, clone, "", AT_EMPTY_PATH, &attr, sizeof attr) == -1) {
        return -errno;
    }
    return fd_take(&clone);
}

int mounts_clone(int dir_fd, const char *path, unsigned flags)
{
    long fd = syscall(SYS_open_tree, dir_fd, path, OPEN_TREE_CLONE | O_CLOEXEC | flags);
    return fd == -1 ? -errno : (int)fd;
}

int mounts_attach(int mount_fd, int target_fd)
{
    return syscall(SYS_move_mount, mount_fd, "", target_fd, "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == -1
               ? -errno
               : 0;
}

int mounts_attach_at(int mount_fd, int dir_fd, const char *path)
{
    return syscall(SYS_move_mount, mount_fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH) == -1
               ? -errno
               : 0;
}

int mounts_new(const char *type, const struct mounts_option *options, unsigned count,
               uint64_t attributes)
{
    AUTO_FD int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
    if (fs == -1) {
        return -errno;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct mounts_option *o = &options[i];
        unsigned command = o->value     ? FSCONFIG_SET_STRING
                           : o->fd >= 0 ? FSCONFIG_SET_FD
                                        : FSCONFIG_SET_FLAG;
        if (syscall(SYS_fsconfig, fs, command, o->name, o->value,
                    command == FSCONFIG_SET_FD ? o->fd : 0) == -1) {
            return -errno;
        }
    }
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == -1) {
        return -errno;
    }
    long fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
    return fd == -1 ? -errno : (int)fd;
}
