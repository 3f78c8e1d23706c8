#ifndef POLICYFILE_CTX_DOCUMENT_H
#define POLICYFILE_CTX_DOCUMENT_H

#include "gateway/text/tree.h"
#include "policy/base/arena.h"
#include "policy/decide/shape.h"
#include "policy/policy.h"

/* A `ctx` that a person wrote as YAML, for tests and explanations of policies. */

/* Lays `over` on `base`: maps are merged by key, everything else is replaced, and a null takes the
 * member away. Either may be NULL. NULL when memory is out or both are. */
const struct tree_node *ctx_document_merge(const struct tree_node *base,
                                           const struct tree_node *over, struct arena *arena);

/* What every request has: the API's own service and namespace. */
const struct tree_node *ctx_document_defaults(struct arena *arena);

/* The value as rules would see it: members have the kinds of `shape`, numbers of 64 bits are text,
 * and false, 0, "" and empty members are absent where they are absent in a real request.
 * INVALID_ARGUMENT, with the place, for a member that ctx does not have or of another kind. */
int ctx_document_value(const struct tree_node *tree, const struct policy_shape *shape,
                       struct arena *arena, struct policy_value *ret, struct error *err);

#endif
