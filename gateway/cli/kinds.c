#include "gateway/cli/kinds.h"

#include <stdio.h>
#include <strings.h>

#include "gateway/cli/cli.h"

#define NAME                                                                                       \
    {                                                                                              \
        "Name", "metadata.name"                                                                    \
    }
#define CREATED                                                                                    \
    {                                                                                              \
        "Created", "metadata.created_at"                                                           \
    }

static const struct kind kinds[] = {
    {"Space",
     "Spaces",
     CORDIUM_MAIN,
     {"spaces", "spc"},
     {NAME, CREATED, {"Type", "status.type"}, {"Owner", "status.user_ref.name"}},
     NULL},
    {"Template",
     "Templates",
     CORDIUM_MAIN,
     {"templates", "tmpl"},
     {NAME,
      CREATED,
      {"Space", "status.space_ref.name"},
      {"Ready Build", "status.build_info.current_ready_build_id"},
      {"Running Build", "status.build_info.current_running_build_id"}},
     NULL},
    {"Workspace",
     "Workspaces",
     CORDIUM_MAIN,
     {"workspaces", "ws"},
     {NAME,
      CREATED,
      {"Template", "status.template_ref.name"},
      {"Space", "status.space_ref.name"},
      {"State", "status.state"},
      {"Last Started", "status.last_initialized_at"}},
     NULL},
    {"Membership",
     "Memberships",
     CORDIUM_MAIN,
     {"memberships", "mem"},
     {NAME,
      CREATED,
      {"Space", "status.space_ref.name"},
      {"User", "status.user_ref.name"},
      {"Role", "spec.role"}},
     NULL},
    {"Secret",
     "Secrets",
     CORDIUM_MAIN,
     {"secrets", "sec"},
     {NAME, CREATED, {"Space", "status.space_ref.name"}},
     NULL},
    {"UserSecret",
     "UserSecrets",
     CORDIUM_MAIN,
     {"usersecrets", "usec"},
     {NAME, CREATED, {"Type", "spec.type"}},
     NULL},
    {"Volume",
     "Volumes",
     CORDIUM_MAIN,
     {"volumes", "vol"},
     {NAME, CREATED, {"Space", "status.space_ref.name"}, {"State", "status.state"}},
     NULL},
    {"WorkspaceSnapshot",
     "WorkspaceSnapshots",
     CORDIUM_MAIN,
     {"snapshot", "snapshots", "snap"},
     {NAME, CREATED, {"Workspace", "status.workspace_ref.name"}, {"State", "status.state"}},
     NULL},
    {"GitProvider",
     "GitProviders",
     CORDIUM_MAIN,
     {"gitproviders", "git"},
     {NAME, CREATED, {"Space", "status.space_ref.name"}},
     NULL},
    {"Region", "Regions", CORDIUM_MAIN, {"regions"}, {NAME, CREATED}, NULL},
    {"User",
     "Users",
     CORE_MAIN,
     {"users", "usr"},
     {NAME,
      CREATED,
      {"Type", "spec.type"},
      {"Email", "spec.email"},
      {"Disabled", "spec.is_disabled"}},
     NULL},
    {"Group", "Groups", CORE_MAIN, {"groups", "grp"}, {NAME, CREATED}, NULL},
    {"Credential",
     "Credentials",
     CORE_MAIN,
     {"credentials", "cred"},
     {NAME, CREATED, {"Type", "spec.type"}, {"User", "spec.user"}},
     NULL},
    {"Session",
     "Sessions",
     CORE_MAIN,
     {"sessions", "sess"},
     {NAME,
      CREATED,
      {"User", "status.user_ref.name"},
      {"Type", "status.type"},
      {"State", "spec.state"},
      {"Expires", "spec.expires_at"}},
     NULL},
    {"Policy",
     "Policies",
     CORE_MAIN,
     {"policies", "pol"},
     {NAME, CREATED, {"Disabled", "spec.is_disabled"}},
     NULL},
    {"ClusterConfig", "ClusterConfigs", CORE_MAIN, {"cc"}, {NAME}, "GetClusterConfig"},
};

const struct kind *kind_find(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct kind *k = &kinds[i];
        if (strcasecmp(word, k->name) == 0) {
            return k;
        }
        for (size_t a = 0; a < KIND_ALIASES_MAX && k->aliases[a]; a++) {
            if (strcasecmp(word, k->aliases[a]) == 0) {
                return k;
            }
        }
    }
    return NULL;
}

const struct schema_method *kind_method(const struct kind *kind, const char *verb)
{
    char path[256];
    int n = snprintf(path, sizeof path, "%s%s%s", kind->service, verb, kind->name);
    return n > 0 && (size_t)n < sizeof path ? schema_method_find(str_from(path)) : NULL;
}

void kind_print_all(void)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        printf("  %-20s", kinds[i].name);
        for (size_t a = 0; a < KIND_ALIASES_MAX && kinds[i].aliases[a]; a++) {
            printf("%s%s", a ? ", " : " ", kinds[i].aliases[a]);
        }
        putchar('\n');
    }
}
