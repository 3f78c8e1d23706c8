#include "executor/steps/overlay.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"

/* Before Linux 6.13 overlay takes layers by path only; /proc/self/fd is one of ours. */
static int mount_by_path(int lower, int upper, int work)
{
    char paths[3][32];
    (void)snprintf(paths[0], sizeof paths[0], "/proc/self/fd/%d", lower);
    (void)snprintf(paths[1], sizeof paths[1], "/proc/self/fd/%d", upper);
    (void)snprintf(paths[2], sizeof paths[2], "/proc/self/fd/%d", work);
    const struct mounts_option options[] = {
        {"lowerdir", paths[0], -1}, {"upperdir", paths[1], -1}, {"workdir", paths[2], -1}};
    return mounts_new("overlay", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

int overlay_mount(int lower, int storage, int *ret, struct error *err)
{
    AUTO_FD int upper = fd_open_beneath(storage, "upper", O_PATH | O_DIRECTORY);
    AUTO_FD int work = fd_open_beneath(storage, "work", O_PATH | O_DIRECTORY);
    if (upper < 0 || work < 0) {
        return error_set_errno(err, STATUS_INTERNAL, upper < 0 ? -upper : -work,
                               "open upper and work of a storage");
    }
    const struct mounts_option options[] = {
        {"lowerdir+", NULL, lower}, {"upperdir", NULL, upper}, {"workdir", NULL, work}};
    int fd = mounts_new("overlay", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0) {
        fd = mount_by_path(lower, upper, work);
    }
    if (fd < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -fd, "mount an overlay root");
    }
    *ret = fd;
    return 0;
}
