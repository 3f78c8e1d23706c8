#ifndef EXECUTOR_STEPS_STORAGE_H
#define EXECUTOR_STEPS_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/steps/block_device.h"
#include "policy/base/status.h"

/* Storages (the writable files of a workspace, or of a build) and images, in one file system that
 * can limit each of them. On disk every file has the owner that it has inside (0 to 65535): mounts
 * are idmapped to a sandbox's range of host ids. Names on disk are made here from ids; nothing
 * inside a storage or image is ever followed by name from outside but `out/rootfs`, which is
 * opened beneath it with no symbolic link allowed.
 *
 *   POOL/storages/ID/{workspace,home,tmp,var-tmp,upper,work}   of a workspace
 *   POOL/storages/ID/{out,home,tmp,var-tmp}                    of a build, which sees it all as
 * /build POOL/snapshots/ID                                          the same, read-only
 *   POOL/images/DIGEST/out/rootfs                              a build's storage, renamed
 *   POOL/trash/N                                               emptied by the reaper */

enum storage_backend_kind {
    STORAGE_PROJECT_QUOTA = 1,
    STORAGE_BTRFS_SIMPLE_QUOTA = 2,
    STORAGE_FILE_IMAGE = 3,
};

struct storage_id {
    uint8_t bytes[16];
};

struct image_id {
    uint8_t bytes[32];
};

struct storage_host;
struct storage; /* one that a sandbox uses now */

struct storage_config {
    const char *state_dir;
    enum storage_backend_kind backend; /* 0 = the best that works here */
    uint64_t pool_bytes;               /* of a loop pool, when one must be made; sparse */
};

/* Opens or makes the pool. The caller has a mount namespace of its own, in which the pool is
 * mounted at STATE_DIR/pool. FAILED_PRECONDITION names what each backend lacks. */
int storage_host_open(const struct storage_config *config, struct storage_host **ret,
                      struct error *err);
void storage_host_close(struct storage_host *host); /* NULL is fine */
enum storage_backend_kind storage_host_backend(const struct storage_host *host);
const char *storage_host_backend_name(const struct storage_host *host);

/* The block device that storages and images lie on. 0 or -errno. */
int storage_host_device(const struct storage_host *host, struct block_device *ret);

/* What the backends that come before it lack; empty when it is the first, or was asked for. */
const char *storage_host_rejected(const struct storage_host *host);

/* O_PATH-free directory fds for the reaper: trash and images. They stay ours. */
int storage_host_trash_fd(const struct storage_host *host);
int storage_host_images_fd(const struct storage_host *host);

struct storage_request {
    struct storage_id id;
    struct storage_id from; /* a snapshot; all zero = begin empty */
    uint64_t disk_bytes;
    uint64_t inodes; /* 0 = by disk_bytes; else FAILED_PRECONDITION unless they are counted */
    uint32_t uid;    /* inside; owner of workspace and home */
    uint32_t gid;
    bool is_build;
    bool is_ephemeral; /* removed at the next start if a crash left it */
};

/* Opens a storage, or makes it when it is absent. NOT_FOUND: `from` does not exist;
 * FAILED_PRECONDITION: another sandbox uses it. */
int storage_open(struct storage_host *host, const struct storage_request *request,
                 struct storage **ret, struct error *err);
bool storage_was_made(const struct storage *storage);
int storage_directory(const struct storage *storage); /* an fd of it, which stays the storage's */

struct storage_usage {
    uint64_t bytes;
    uint64_t limit_bytes;
    uint64_t inodes; /* both 0 where inodes are not counted */
    uint64_t limit_inodes;
};
int storage_read_usage(const struct storage *storage, struct storage_usage *ret);

/* A detached mount of the storage, idmapped by userns_fd: nosuid, nodev. The caller closes it. */
int storage_mount(const struct storage *storage, int userns_fd, int *ret, struct error *err);

/* Ends the use of a storage; removes it when told, or when it is ephemeral. NULL is fine. */
void storage_close(struct storage *storage, bool remove);

int storage_delete(struct storage_host *host, const struct storage_id *id, struct error *err);
int storage_snapshot(struct storage_host *host, const struct storage_id *from,
                     const struct storage_id *to, struct error *err);

/* Whether copies take long here. Then storage_snapshot(), and storage_open() of what does not exist
 * yet with a `from`, are not to be called: the copy is made first, by a child. */
bool storage_copies_slowly(const struct storage_host *host);
bool storage_exists(const struct storage_host *host, const struct storage_id *id,
                    bool is_ephemeral);

/* A copy in the making; both its ends are in use until it ends. */
struct storage_copy;
enum storage_copy_kind {
    STORAGE_COPY_TO_SNAPSHOT,  /* of a storage */
    STORAGE_COPY_TO_STORAGE,   /* of a snapshot */
    STORAGE_COPY_TO_EPHEMERAL, /* of a snapshot */
};
int storage_copy_begin(struct storage_host *host, const struct storage_id *from,
                       const struct storage_id *to, enum storage_copy_kind kind,
                       struct storage_copy **ret, int *ret_pidfd, struct error *err);

/* When the pidfd says that the child has ended: puts the copy in place, or removes what there is of
 * it. The copy is freed; the pidfd is the caller's. */
int storage_copy_end(struct storage_copy *copy, struct error *err);

/* Makes the storage's out/rootfs an image. The storage is closed and gone then, also on failure. */
int storage_commit(struct storage *storage, const struct image_id *image, uint64_t *ret_bytes,
                   struct error *err);
int storage_image_mount(struct storage_host *host, const struct image_id *image, int userns_fd,
                        int *ret, struct error *err);
bool storage_image_exists(struct storage_host *host, const struct image_id *image);
int storage_image_delete(struct storage_host *host, const struct image_id *image,
                         struct error *err);

/* Calls `visit` for each id (16 bytes, or 32 for images). */
int storage_list(struct storage_host *host, bool images,
                 void (*visit)(void *context, const uint8_t *id), void *context);

/* Makes a storage ahead of need when there are fewer than `want`. True when it made one. */
bool storage_pool_fill(struct storage_host *host, unsigned want);

#endif
