#ifndef AUTHORIZE_POLICY_STORE_H
#define AUTHORIZE_POLICY_STORE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/core.pb-c.h"
#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/decide/decide.h"
#include "policy/decide/policy_set.h"

/* The policies in force: what the store holds, compiled. Requests see one whole set or the next
 * one, never a mixture.
 *
 * Whoever changes policies or the ClusterConfig does it so:
 *
 *     store_begin(); store_update(...); policy_store_prepare(ps, &next, err);
 *     store_commit(); policy_store_install(ps, next);
 *
 * and rolls back when prepare fails: what does not compile is never stored. policy_store_change()
 * has these steps in one place. */
struct policy_store;

/* Nothing is in force before the first policy_store_reload(). `store` is borrowed. */
int policy_store_new(struct store *store, struct policy_store **ret, struct error *err);
void policy_store_free(struct policy_store *ps); /* NULL is fine */

/* In strict mode input that a rule lacks denies (policy_query.is_strict). Off at first. */
void policy_store_set_strict(struct policy_store *ps, bool is_strict);
bool policy_store_is_strict(const struct policy_store *ps);

/* Who makes the next change and why ("apply"), for the history of versions. Both are copied, and
 * stand until the next version was prepared. */
void policy_store_sign(struct policy_store *ps, const char *user, const char *reason,
                       int64_t wall_ns);

/* Compiles what the store holds now and puts it in force; on failure the old set stays. */
int policy_store_reload(struct policy_store *ps, struct error *err);

/* The next set, compiled from what the store holds inside the current transaction. Checks each
 * policy, each parent, and that what the ClusterConfig attaches exists. The number of the version
 * is written to the store. */
struct policy_snapshot;
int policy_store_prepare(struct policy_store *ps, struct policy_snapshot **ret, struct error *err);

/* policy_store_check_attachments() against a set that is not in force yet. */
int policy_snapshot_check_attachments(const struct policy_store *ps,
                                      const struct policy_snapshot *snapshot,
                                      const ProtobufCMessage *resource, struct error *err);

/* Inside a transaction: from here on policy_store_check_attachments() looks at the policies that
 * the store holds now, and no longer at those in force. policy_store_unstage() ends that. */
int policy_store_stage(struct policy_store *ps, struct error *err);
void policy_store_unstage(struct policy_store *ps);

/* Puts it in force; takes it over. */
void policy_store_install(struct policy_store *ps, struct policy_snapshot *next);
void policy_snapshot_free(struct policy_snapshot *snapshot);

/* One change: `run` writes to the store, `approve` (may be NULL) looks at the set that would follow
 * and can refuse it. */
struct policy_change {
    int (*run)(void *arg, struct error *err);
    int (*approve)(void *arg, struct policy_snapshot *next, struct error *err);
    void *arg;
};

/* Runs the change inside a transaction, then prepares, asks for approval, commits and installs; all
 * of it or nothing. The status is that of the first step that failed. */
int policy_store_change(struct policy_store *ps, const struct policy_change *change,
                        struct error *err);

/* Puts a set in force for what is asked before it is put back, and gives the one before: how a
 * request is judged by a set that is only planned. */
struct policy_snapshot *policy_store_exchange(struct policy_store *ps,
                                              struct policy_snapshot *snapshot);

/* NULL before the first reload. Borrowed until the next install. */
const struct policy_set *policy_store_current(const struct policy_store *ps);
uint64_t policy_store_version(const struct policy_store *ps);

/* Never NULL after a reload: an empty one when the store has none. Borrowed likewise. */
const Core__ClusterConfig *policy_store_cluster_config(const struct policy_store *ps);

/* Compiles one policy, without looking at others: its name, its rules. */
int policy_store_check_policy(const struct policy_store *ps, const Core__Policy *policy,
                              struct error *err);

/* Fills the status of a policy that is about to be stored (the reference to its parent, when that
 * is in the store) and gives its index. */
int policy_complete(struct store *store, Core__Policy *policy, struct arena *arena,
                    struct store_index *ret_index, struct error *err);

/* Checks what a resource attaches (its spec.authorization): names exist in the set in force, inline
 * policies compile, counts are within bounds. For services that write users, groups, credentials
 * and sessions. INVALID_ARGUMENT or FAILED_PRECONDITION, naming the field. */
int policy_store_check_attachments(const struct policy_store *ps, const ProtobufCMessage *resource,
                                   struct error *err);

/* The attachment of a resource: names from its spec.authorization, its inline policies compiled
 * (kept by uid and resource version). `point` is made in the arena: "User alice". To be released.
 * INVALID_ARGUMENT: a stored inline policy does not compile; that must deny. */
int policy_store_attachment(struct policy_store *ps, const ProtobufCMessage *resource,
                            struct arena *arena, struct policy_attachment *ret, struct error *err);
void policy_store_release(struct policy_attachment *attachment); /* a zeroed one is fine */

#endif
