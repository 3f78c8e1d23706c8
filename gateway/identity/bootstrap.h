#ifndef IDENTITY_BOOTSTRAP_H
#define IDENTITY_BOOTSTRAP_H

#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/token.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* `cordium-gateway init`: what a new store begins with, all of it or nothing: the system policies,
 * both ClusterConfigs, the region, the first administrator (HUMAN, "admin") and a credential for
 * him, whose one authentication token is in *ret_token; it is kept nowhere else. Of g, only store
 * and config are used.
 *
 * FAILED_PRECONDITION: the store was set up before. */
int bootstrap_store(struct gateway *g, struct secret *ret_token, struct error *err);

/* True when bootstrap_store() was run on this store. */
int bootstrap_is_done(struct gateway *g, bool *ret, struct error *err);

/* At each start: the configured region exists, and expired sessions go. FAILED_PRECONDITION with
 * the remedy when the store is empty. */
int bootstrap_check(struct gateway *g, struct error *err);

/* A new authentication token for the credential "admin", the earlier one being lost:
 * `cordium-gateway admin-token`. */
int bootstrap_admin_token(struct gateway *g, struct secret *ret_token, struct error *err);

#define BOOTSTRAP_ADMIN_NAME "admin"

#endif
