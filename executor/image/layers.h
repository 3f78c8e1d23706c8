#ifndef EXECUTOR_IMAGE_LAYERS_H
#define EXECUTOR_IMAGE_LAYERS_H

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The layers of an image as containers/storage keeps them for overlay: one directory each, on one
 * file system. A flat tree is made of them by hard links, so that no file is copied and none counts
 * twice towards a disk limit. */

enum { LAYERS_MAX = 512, LAYERS_DEPTH_MAX = 256 };

struct layers {
    const char *directories[LAYERS_MAX]; /* from the top down; paths inside work/storage */
    size_t count;
};

/* Finds the layers beneath a container that `buildah mount` mounted there, at
 * STORAGE/overlay/ID/merged. FAILED_PRECONDITION when this is no such storage. */
int layers_find(const char *storage, const char *mounted, struct arena *arena, struct layers *ret,
                struct error *err);

/* Merges them in the empty directory out_fd as overlayfs shows them: whiteouts and opaque
 * directories hide what is below (kernel documentation, filesystems/overlayfs). Must be one mount
 * with the layers. INTERNAL, with the errno's text, at the first thing that cannot be linked; what
 * is in out_fd then is of no use. */
int layers_link(const struct layers *layers, int out_fd, struct error *err);

#endif
