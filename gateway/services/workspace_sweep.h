#ifndef SERVICES_WORKSPACE_SWEEP_H
#define SERVICES_WORKSPACE_SWEEP_H

#include "gateway/gateway.h"

/* Removes what nothing refers to any more: storages and snapshots whose workspace or build is gone,
 * and images that no workspace, no ready build and no live run has and that are not the newest of
 * their source, or are older than IMAGE_UNUSED_KEEP_SECONDS. The executor refuses what is in
 * use, so that a sweep can never take anything from under somebody. */

enum { IMAGE_UNUSED_KEEP_SECONDS = 7 * 24 * 3600 };

/* After a build: the image before it may be free now. */
void workspace_sweep_images(struct gateway *g);

/* After the executor came: both. */
void workspace_sweep_all(struct gateway *g);

#endif
