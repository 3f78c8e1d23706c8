#include "executor/steps/overlay.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"

enum { DETACH = 2 }; /* MNT_DETACH; sys/mount.h clashes with linux/mount.h */

/* /proc/self/fd is a path to whatever a descriptor is. */
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

static void detach(int mount_fd)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", mount_fd);
    (void)syscall(SYS_umount2, path, DETACH);
}

/* Older kernels (seen on 6.1 and 6.12) take layers by path only, and only of mounts that stand in
 * the caller's mount namespace. So both stand on top of "/" for this moment: it needs no
 * directory, nobody's look-ups go through the top of "/" (they begin below it), the namespace is
 * the executor's own, and overlay keeps private clones of what it was given. */
static int mount_attached(int lower, int storage, int upper, int work)
{
    int r = mounts_attach_at(lower, AT_FDCWD, "/");
    if (r < 0) {
        return r;
    }
    r = mounts_attach_at(storage, AT_FDCWD, "/");
    if (r == 0) {
        r = mount_by_path(lower, upper, work);
        detach(storage);
    }
    detach(lower);
    return r;
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
        fd = mount_attached(lower, storage, upper, work);
    }
    if (fd < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -fd, "mount an overlay root");
    }
    *ret = fd;
    return 0;
}
