#ifndef DECIDE_BUNDLE_H
#define DECIDE_BUNDLE_H

#include <stddef.h>

#include "policy/base/str.h"
#include "policy/decide/policy_set.h"

/* What one attachment point attaches, prepared for many decisions: names looked up, rules in the
 * order in which they are asked, and indexed by conditions that must hold for them to match, so
 * that a decision asks only the rules that can. It changes no decision (see bundle_match.h for
 * why), only the time that it takes. Immutable; may be shared by threads. */
struct policy_bundle;

/* names as in the attachment, copied; inline_policies may be NULL. Takes a reference of each set.
 * NULL when memory is out, which is fine: decisions are then made without it. */
struct policy_bundle *policy_bundle_new(struct policy_set *set, const struct str *names,
                                        size_t name_count, struct policy_set *inline_policies);
void policy_bundle_free(struct policy_bundle *bundle); /* NULL is fine */

/* The set whose names it looked up. A bundle serves decisions from that set alone. */
const struct policy_set *policy_bundle_set(const struct policy_bundle *bundle);

#endif
