/* What the store knows of each kind of resource. */
#include <assert.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "api/ext.pb-c.h"
#include "gateway/state/store.h"

static const struct store_kind_info kinds[STORE_KIND_COUNT] = {
#define CORDIUM(kind, prefix)                                                                      \
    {                                                                                              \
        "cordium/v1", kind, "cordium.v1." kind, &cordium__##prefix##__descriptor                   \
    }
#define CORE(kind, prefix)                                                                         \
    {                                                                                              \
        "core/v1", kind, "core.v1." kind, &core__##prefix##__descriptor                            \
    }
    [STORE_SPACE] = CORDIUM("Space", space),
    [STORE_TEMPLATE] = CORDIUM("Template", template),
    [STORE_WORKSPACE] = CORDIUM("Workspace", workspace),
    [STORE_MEMBERSHIP] = CORDIUM("Membership", membership),
    [STORE_SECRET] = CORDIUM("Secret", secret),
    [STORE_USER_SECRET] = CORDIUM("UserSecret", user_secret),
    [STORE_GIT_PROVIDER] = CORDIUM("GitProvider", git_provider),
    [STORE_SNAPSHOT] = CORDIUM("WorkspaceSnapshot", workspace_snapshot),
    [STORE_VOLUME] = CORDIUM("Volume", volume),
    [STORE_USER_CONFIG] = CORDIUM("UserConfig", user_config),
    [STORE_REGION] = CORDIUM("Region", region),
    [STORE_CORDIUM_CONFIG] = CORDIUM("ClusterConfig", cluster_config),
    [STORE_USER] = CORE("User", user),
    [STORE_GROUP] = CORE("Group", group),
    [STORE_CREDENTIAL] = CORE("Credential", credential),
    [STORE_SESSION] = CORE("Session", session),
    [STORE_POLICY] = CORE("Policy", policy),
    [STORE_CLUSTER_CONFIG] = CORE("ClusterConfig", cluster_config),
    [STORE_RUN] = {"cordium.ext/v1", "Run", "cordium.ext.v1.Run", &ext__run_result__descriptor},
#undef CORDIUM
#undef CORE
};

const struct store_kind_info *store_kind_info(enum store_kind kind)
{
    assert(kind > 0 && kind < STORE_KIND_COUNT);
    return &kinds[kind];
}

enum store_kind store_kind_from(struct str api_version, struct str kind)
{
    for (unsigned i = 1; i < STORE_KIND_COUNT; i++) {
        if (str_is(api_version, kinds[i].api_version) && str_is(kind, kinds[i].kind)) {
            return (enum store_kind)i;
        }
    }
    return (enum store_kind)0;
}
