#ifndef EXECUTOR_IMAGE_ROOTFS_H
#define EXECUTOR_IMAGE_ROOTFS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Work on the files of an image that is hostile: every path is resolved by openat2 with the
 * image's root as the root (RESOLVE_IN_ROOT), so that no symbolic link leads out of it. */

enum { ROOTFS_DEPTH_MAX = 256, ROOTFS_FILE_MAX = 1 << 20, ROOTFS_PATH_MAX = 4096 };

/* Makes what a workspace's read-only root needs: mount points that are real directories and real
 * files, all by paths without symbolic links, since the executor mounts on them so.
 * FAILED_PRECONDITION names a path that cannot be one ("the image's /etc is not a directory"). */
int rootfs_make_mount_points(int root_fd, struct error *err);

/* Removes device nodes, wherever they are (a workspace has its own /dev), and what the build's own
 * mounts left; adds up what the files take. RESOURCE_EXHAUSTED when directories are nested deeper
 * than ROOTFS_DEPTH_MAX. */
int rootfs_sweep(int root_fd, uint64_t *ret_bytes, uint64_t *ret_files, struct error *err);

/* Opens within the root, following its own links. fd or -errno. Never blocks. */
int rootfs_open(int root_fd, const char *path, int flags);

bool rootfs_is_executable(int root_fd, const char *path);

/* The whole of a regular file of at most ROOTFS_FILE_MAX bytes. 0, or -errno; -EFBIG, -EINVAL
 * when it is no regular file. */
int rootfs_read_file(int root_fd, const char *path, struct arena *arena, struct str *ret);

/* Replaces or makes DIRECTORY/NAME, whatever was there but a directory; never writes through a
 * link. A regular file keeps its mode and owner; else they are `mode` and root. 0 or -errno. */
int rootfs_replace_file(int root_fd, const char *directory, const char *name, struct str content,
                        mode_t mode);

/* Makes a directory and its parents, following the root's own links for the parents. The directory
 * itself becomes uid:gid's, the parents made here root's. ret_path gets its path with every link
 * resolved ("/var/home/u" for "/home/u"). 0 or -errno. */
int rootfs_make_home(int root_fd, const char *path, uid_t uid, gid_t gid,
                     char ret_path[ROOTFS_PATH_MAX]);

#endif
