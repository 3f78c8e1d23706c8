#ifndef EXECUTOR_STEPS_OVERLAY_H
#define EXECUTOR_STEPS_OVERLAY_H

#include "policy/base/status.h"

/* A writable root: the image below, `upper` and `work` of the storage above. lower and storage are
 * detached mounts; the storage's is idmapped so that host uid 0, which makes the work files, exists
 * in it (ns_pool_overlay_userns), else the overlay would silently be read-only. */
int overlay_mount(int lower, int storage, int *ret, struct error *err);

#endif
