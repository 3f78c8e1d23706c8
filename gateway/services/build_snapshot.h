#ifndef SERVICES_BUILD_SNAPSHOT_H
#define SERVICES_BUILD_SNAPSHOT_H

#include "api/cordium.pb-c.h"
#include "executor/client/executor_client.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

struct gateway;

/* What ready builds of templates leave: a note in the store (build/TEMPLATE-UID/BUILD-ID) and,
 * when there was something to run, a snapshot of the storage. The note goes in the transaction that
 * makes it useless, the snapshot after its commit: a rollback must still find it, and one that a
 * crash leaves is found by the sweep of storages. */

/* Snapshots to be deleted after a commit; entries live in the arena. Begins as {NULL}. */
struct build_snapshots {
    struct build_snapshot *first;
};

/* Within the caller's transaction: forgets the template's ready build, if there is one, and adds
 * its snapshot to the list. */
int build_snapshot_forget(struct gateway *g, const Cordium__Template *t, struct arena *arena,
                          struct build_snapshots *list, struct error *err);

/* Adds one by its uid. RESOURCE_EXHAUSTED: the arena is full. */
int build_snapshots_add(struct build_snapshots *list, const char *uid, struct arena *arena,
                        struct error *err);

/* After the commit. Without an executor the next sweep does it. */
void build_snapshots_delete(struct gateway *g, const struct build_snapshots *list);

/* Asks the executor to delete a storage; zero is none. */
void build_storage_delete(struct gateway *g, const struct executor_uuid *storage);

#endif
