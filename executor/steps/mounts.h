#ifndef EXECUTOR_STEPS_MOUNTS_H
#define EXECUTOR_STEPS_MOUNTS_H

#include <stdint.h>

/* The mount calls that glibc 2.36 wraps badly or not at all, by descriptors only: no path from
 * outside is ever part of a mount. Each returns 0 or an fd, or -errno. */

/* A detached, private clone of the directory `fd` (opened O_RDONLY or O_PATH), with these
 * MOUNT_ATTR_* and, unless userns_fd is -1, ids mapped by that user namespace. */
int mounts_clone_idmapped(int fd, int userns_fd, uint64_t attributes);

/* A detached clone of a subtree of an attached mount. */
int mounts_clone(int dir_fd, const char *path, unsigned flags);

/* Attaches a detached mount on an opened directory or file. */
int mounts_attach(int mount_fd, int target_fd);
int mounts_attach_at(int mount_fd, int dir_fd, const char *path);

int mounts_set_attributes(int mount_fd, unsigned flags, uint64_t attributes);

struct mounts_option {
    const char *name;
    const char *value; /* NULL = a flag, or the fd below */
    int fd;            /* for options that take one */
};

/* A new, detached file system. */
int mounts_new(const char *type, const struct mounts_option *options, unsigned count,
               uint64_t attributes);

#endif
