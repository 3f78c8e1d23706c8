#ifndef SERVICES_LIMITS_H
#define SERVICES_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "api/ext.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* How much of the machine a workspace may use, and how many of each thing a user may have. */

/* Quotas that no ClusterConfig changes; those of the ClusterConfig are read by limit_quota_*(). */
enum {
    QUOTA_SPACES_PER_USER = 150,
    QUOTA_TEMPLATES_PER_SPACE = 1000,
    QUOTA_SECRETS_PER_SPACE = 1000,
    QUOTA_USER_SECRETS_PER_USER = 1000,
    QUOTA_GIT_PROVIDERS_PER_SPACE = 100,
    QUOTA_MEMBERSHIPS_PER_SPACE = 2000,
    QUOTA_WORKSPACES_PER_USER = 1000,
    QUOTA_ACTIVE_WORKSPACES_PER_USER = 128,
    QUOTA_SNAPSHOTS_PER_USER = 100,
};

/* What the effective limit is made of; each may be NULL. */
struct limit_sources {
    const Cordium__Workspace__Spec__Limit *workspace;
    const Cordium__Workspace__Spec__Limit *template_;
    const Cordium__Space *space;
    const Cordium__ClusterConfig *cluster;
    bool is_build;
};

struct limit_values {
    uint32_t cpu_millicores;
    uint32_t memory_megabytes;
    uint32_t storage_megabytes;
};

/* The limit in force, all three dimensions set: the workspace's, else the template's, else the
 * default of the space (organization spaces only), else the cluster's default for that kind of
 * space, else 2000 m / 6000 MB / 20000 MB; then cut to the space's and the cluster's maximum. A
 * dimension that is missing at one level comes from the next. A build takes the cluster's
 * build_limit, else the built-in numbers, cut to the cluster's maximum. */
struct limit_values limit_effective(const struct limit_sources *sources);

/* Who set one number of struct limit_values, which lies at `offset` and is `value` in the end:
 * CALLER for one that `sources->workspace` asks for, HOST for one that limit_effective() does not
 * give by itself, else the first level without which it would be another. */
Ext__RunResult__Source limit_source_of(const struct limit_sources *sources, size_t offset,
                                       uint32_t value);

/* "CALLER", "TEMPLATE", "SPACE" … */
const char *limit_source_name(Ext__RunResult__Source source);

/* A workspace or template may not ask for more than its space's or the cluster's maximum:
 * INVALID_ARGUMENT, naming the dimension, the maximum and who sets it. `sources->workspace` is what
 * is asked. Only what comes from defaults, or was stored before a maximum was lowered, is cut
 * (limit_effective()). */
int limit_check_asked(const struct limit_sources *sources, struct error *err);

/* The numbers of a message, 0 where there is none. */
struct limit_values limit_values_of(const Cordium__Workspace__Spec__Limit *limit);

/* As a message for Workspace.status.limit; NULL when the arena is full. */
Cordium__Workspace__Spec__Limit *limit_to_message(struct limit_values values, struct arena *arena);

/* INVALID_ARGUMENT when a number is over what any machine has: 1,000,000 m CPU, 10,000,000 MB
 * memory and storage. `field` is the path for the text ("spec.limit"). */
int limit_validate(const Cordium__Workspace__Spec__Limit *limit, const char *field,
                   struct error *err);

/* Quotas of workspaces: the ClusterConfig's number, else `fallback` (0: the built-in number). */
uint32_t limit_quota_workspaces(const Cordium__ClusterConfig *cluster, uint32_t fallback);
uint32_t limit_quota_active_workspaces(const Cordium__ClusterConfig *cluster, uint32_t fallback);
uint32_t limit_quota_snapshots(const Cordium__ClusterConfig *cluster);

#endif
