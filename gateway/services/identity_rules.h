#ifndef SERVICES_IDENTITY_RULES_H
#define SERVICES_IDENTITY_RULES_H

#include "api/core.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

struct gateway;

/* What must hold of users, groups and credentials before they are stored. INVALID_ARGUMENT unless
 * said; texts name the field and the remedy. `stored` is the resource in the same place, or NULL.
 */

/* Name, type, email (one user's only), groups that exist, policies that exist and compile. */
int user_validate(struct gateway *g, const Core__User *user, const Core__User *stored,
                  struct arena *arena, struct error *err);

/* Attaches "allow-all" when the user says nothing of authorization: new users may do what no policy
 * denies. */
int user_attach_default(Core__User *user, struct arena *arena, struct error *err);

int group_validate(struct gateway *g, const Core__Group *group, struct error *err);

/* Name, type, an existing user (of type WORKLOAD for OAUTH2), the same user and type as stored.
 * *ret_user is the user. NOT_FOUND when there is none. */
int credential_validate(struct gateway *g, const Core__Credential *credential,
                        const Core__Credential *stored, struct arena *arena, Core__User **ret_user,
                        struct error *err);

#define DEFAULT_POLICY_NAME "allow-all"

#endif
