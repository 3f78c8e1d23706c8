#ifndef AUTHORIZE_POLICY_HISTORY_H
#define AUTHORIZE_POLICY_HISTORY_H

#include "api/ext.pb-c.h"
#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The sets of policies that were in force: policies (but for the system's) and the ClusterConfig as
 * YAML documents, so that each can be applied again. The newest POLICY_VERSIONS_KEPT are kept. */

enum { POLICY_VERSIONS_KEPT = 50 };

struct policy_history_entry {
    uint64_t version;
    int64_t created_ns; /* wall clock */
    const char *user;   /* "" for the server itself */
    const char *reason; /* "apply" … */
};

/* Records what the store holds now; within the caller's transaction. */
int policy_history_record(struct store *store, const struct policy_history_entry *entry,
                          struct error *err);

/* Does the history have it? */
bool policy_history_has(struct store *store, uint64_t version);

/* The newest first, at most `count`. */
int policy_history_list(struct store *store, uint64_t current, uint32_t count, struct arena *arena,
                        Ext__VersionList **ret, struct error *err);

/* The documents of a version. NOT_FOUND tells which are kept. */
int policy_history_text(struct store *store, uint64_t version, struct arena *arena, struct str *ret,
                        struct error *err);

#endif
