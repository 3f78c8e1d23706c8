#ifndef SERVICES_OWNERSHIP_H
#define SERVICES_OWNERSHIP_H

#include "gateway/request.h"
#include "policy/base/status.h"

/* The ClusterConfig's rules for who may own an organization Space: DENY rules first, then ALLOW; no
 * match, no rule and every error deny. Conditions see ctx.user (the owner to be) and ctx.space. */

/* PERMISSION_DENIED unless `user` may own `space`. */
int ownership_check(struct request *r, const Core__User *user, Cordium__Space *space,
                    struct error *err);

/* INVALID_ARGUMENT when an expression of the rules does not compile; for writing a ClusterConfig.
 */
int ownership_validate(const Cordium__ClusterConfig__Spec *spec, struct error *err);

#endif
