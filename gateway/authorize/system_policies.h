#ifndef AUTHORIZE_SYSTEM_POLICIES_H
#define AUTHORIZE_SYSTEM_POLICIES_H

#include <stddef.h>

/* The policies that every store begins with and nobody can change. */

#define ADMIN_POLICY_NAME "cluster-admin"
#define ADMIN_API_POLICY_NAME "octelium-api-full-access"

struct system_policy {
    const char *name;
    const char *json; /* a Policy, without name */
};

/* NULL at the end. */
const struct system_policy *system_policy_at(size_t i);

#endif
