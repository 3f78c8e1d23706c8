#ifndef EXECUTOR_STEPS_STORAGE_BACKEND_H
#define EXECUTOR_STEPS_STORAGE_BACKEND_H

#include <stdint.h>

#include "executor/steps/storage.h"
#include "policy/base/status.h"

/* One way to limit the disk of a directory. A unit is a directory `name` beneath parent_fd (or a
 * file that is mounted). All calls return 0 or -errno unless they take an err. */
struct storage_backend {
    enum storage_backend_kind kind;
    const char *name;

    /* Makes the pool's file system ready below pool_path; *ret_fd is its root. */
    int (*open_pool)(const struct storage_config *config, const char *pool_path, int *ret_fd,
                     struct error *err);
    /* The block device that the units' files lie on. */
    int (*device)(int pool_fd, struct block_device *ret);
    /* Takes part of the pool's mount away again; may be NULL. */
    void (*close_pool)(const char *pool_path);
    int (*make)(int parent_fd, const char *name, uint64_t bytes); /* the limit that will follow */
    int (*open)(int parent_fd, const char *name, int *ret_fd);
    /* After the last use of an opened unit; may be NULL. */
    void (*close)(int parent_fd, const char *name);
    int (*limit)(int parent_fd, const char *name, int unit_fd, uint64_t bytes, uint64_t inodes);
    int (*usage)(int unit_fd, struct storage_usage *ret);
    int (*copy)(int from_parent, const char *from, int to_parent, const char *to, bool read_only);
    /* Moves a unit; NULL = rename. */
    int (*remove)(int parent_fd, const char *name, int trash_fd, unsigned trash_number);
    bool limits_inodes;       /* to the number that limit() was given */
    bool has_spares;          /* making units ahead of need is worth it */
    bool copies_at_rest_only; /* a unit in use cannot be copied safely */
};

extern const struct storage_backend storage_backend_btrfs;
extern const struct storage_backend storage_backend_project;
extern const struct storage_backend storage_backend_image;

/* Attaches a file to a free loop device that frees itself. fd of the device or -errno; its path in
 * ret_path. */
int storage_loop_attach(int file_fd, char *ret_path, size_t size);

/* Runs a program of the host (mkfs) with these arguments and waits. 0 or -errno (-ENOEXEC when it
 * failed). */
int storage_run_program(const char *const *argv);

/* Moves a plain directory into the trash, for the reaper. */
int storage_move_to_trash(int parent_fd, const char *name, int trash_fd, unsigned trash_number);

#endif
