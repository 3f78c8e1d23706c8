#ifndef DECIDE_BUNDLE_H
#define DECIDE_BUNDLE_H

#include <stdbool.h>

#include "policy/decide/policy_set.h"

/* What one attachment point attaches, prepared for many decisions: names looked up, rules in the
 * order in which they are asked, and indexed by conditions that must hold for them to match, so
 * that a decision asks only the rules that can. It changes no decision (see bundle_match.h for
 * why), only the time that it takes. Immutable; may be shared by threads. */
struct policy_bundle;
struct policy_attachment; /* decide.h */

/* Of what the attachment names and holds, in a named set; its point and bundle are not looked at.
 * Names are copied, sets get a reference. NULL when memory is out, which is fine: decisions are
 * then made without it. */
struct policy_bundle *policy_bundle_new(struct policy_set *set,
                                        const struct policy_attachment *attachment);
/* References may be taken and dropped by any thread. NULL is fine. */
struct policy_bundle *policy_bundle_ref(struct policy_bundle *bundle);
void policy_bundle_unref(struct policy_bundle *bundle);

/* Was it made from this set, and an attachment with the same names and inline policies? */
bool policy_bundle_serves(const struct policy_bundle *bundle, const struct policy_set *set,
                          const struct policy_attachment *attachment);

/* The set whose names it looked up. A bundle serves decisions from that set alone. */
const struct policy_set *policy_bundle_set(const struct policy_bundle *bundle);

#endif
