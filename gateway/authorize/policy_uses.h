#ifndef AUTHORIZE_POLICY_USES_H
#define AUTHORIZE_POLICY_USES_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Who needs a policy that is about to be deleted: users, groups, sessions, credentials and the
 * ClusterConfig that have it attached, and policies that are its children. Read once, so that many
 * policies can be deleted for the price of one look at the store. */

struct policy_use {
    const char *policy_name; /* the one that is needed */
    enum store_kind kind;    /* of the holder */
    const char *holder_name;
    bool is_over; /* the holder was deleted since */
};

struct policy_uses {
    struct arena *arena;
    struct policy_use *items; /* by policy, then as they were found */
    size_t count;
    size_t room;
};

/* Reads what the store holds now. Everything lives in the arena. RESOURCE_EXHAUSTED, or the
 * store's errors. */
int policy_uses_read(struct policy_uses *uses, struct store *store, struct arena *arena,
                     struct error *err);

/* Refuses with FAILED_PRECONDITION, naming a holder, while there is one. */
int policy_uses_check_none(const struct policy_uses *uses, const char *policy_name,
                           struct error *err);

/* A policy was deleted: it needs its parent no longer. */
void policy_uses_forget(struct policy_uses *uses, const char *policy_name);

#endif
