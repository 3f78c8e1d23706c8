#include "gateway/authorize/apply_kind.h"

#include "api/core.pb-c.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

#define DEFAULT_USER_POLICY "allow-all"

static int check_policy(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    return policy_store_check_policy(g->policies, (const Core__Policy *)message, err);
}

static int complete_policy(struct gateway *g, ProtobufCMessage *message,
                           const ProtobufCMessage *existing, struct arena *arena,
                           struct store_index *ret_index, struct error *err)
{
    (void)existing;
    return policy_complete(g->store, (Core__Policy *)message, arena, ret_index, err);
}

static int check_group(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    return name_check_label("Group", resource_name(message), err);
}

static int complete_group(struct gateway *g, ProtobufCMessage *message,
                          const ProtobufCMessage *existing, struct arena *arena,
                          struct store_index *ret_index, struct error *err)
{
    (void)g;
    (void)message;
    (void)existing;
    (void)arena;
    (void)err;
    *ret_index = (struct store_index){0};
    return 0;
}

static int check_user(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    const Core__User *user = (const Core__User *)message;
    int rc = name_check_label("User", resource_name(message), err);
    if (rc) {
        return rc;
    }
    if (!user->spec || user->spec->type == CORE__USER__SPEC__TYPE__TYPE_UNKNOWN) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "User '%s': spec.type is unset; write HUMAN or WORKLOAD",
                         resource_name(message));
    }
    return 0;
}

/* A new user may do what no policy denies, unless the file says what is attached to him. */
static int attach_default(Core__User *user, struct arena *arena, struct error *err)
{
    Core__User__Spec__Authorization *a =
        CODEC_NEW(arena, Core__User__Spec__Authorization, core__user__spec__authorization);
    char **names = arena_calloc(arena, 1, sizeof *names);
    char *name = arena_strdup(arena, DEFAULT_USER_POLICY);
    if (!a || !names || !name) {
        return resource_no_memory(err);
    }
    names[0] = name;
    a->policies = names;
    a->n_policies = 1;
    user->spec->authorization = a;
    return 0;
}

static int complete_user(struct gateway *g, ProtobufCMessage *message,
                         const ProtobufCMessage *existing, struct arena *arena,
                         struct store_index *ret_index, struct error *err)
{
    Core__User *user = (Core__User *)message;
    *ret_index = (struct store_index){0};
    for (size_t i = 0; i < user->spec->n_groups; i++) {
        ProtobufCMessage *group;
        int rc =
            store_get_by_name(g->store, STORE_GROUP, user->spec->groups[i], arena, &group, err);
        if (rc == -STATUS_NOT_FOUND) {
            return error_set(
                err, STATUS_FAILED_PRECONDITION,
                "User '%s': spec.groups[%zu]: Group '%.128s' does not exist; create it "
                "first or put it in the same file",
                resource_name(message), i, user->spec->groups[i]);
        }
        if (rc) {
            return rc;
        }
    }
    bool is_default = !existing && !user->spec->authorization;
    return is_default ? attach_default(user, arena, err) : 0;
}

static int check_credential(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    const Core__Credential *c = (const Core__Credential *)message;
    int rc = name_check_label("Credential", resource_name(message), err);
    if (rc) {
        return rc;
    }
    if (!c->spec || !c->spec->user[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Credential '%s': spec.user is unset; name the user that it is for",
                         resource_name(message));
    }
    if (c->spec->type == CORE__CREDENTIAL__SPEC__TYPE__TYPE_UNKNOWN) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Credential '%s': spec.type is unset; write AUTH_TOKEN, OAUTH2 or "
                         "ACCESS_TOKEN",
                         resource_name(message));
    }
    return 0;
}

static int complete_credential(struct gateway *g, ProtobufCMessage *message,
                               const ProtobufCMessage *existing, struct arena *arena,
                               struct store_index *ret_index, struct error *err)
{
    Core__Credential *c = (Core__Credential *)message;
    const Core__Credential *old = (const Core__Credential *)existing;
    ProtobufCMessage *user;
    int rc = store_get_by_name(g->store, STORE_USER, c->spec->user, arena, &user, err);
    if (rc == -STATUS_NOT_FOUND) {
        return error_set(
            err, STATUS_FAILED_PRECONDITION,
            "Credential '%s': spec.user: User '%.128s' does not exist; create it first "
            "or put it in the same file",
            resource_name(message), c->spec->user);
    }
    if (rc) {
        return rc;
    }
    if (old && old->spec && strcmp(old->spec->user, c->spec->user) != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Credential '%s': spec.user cannot change; make a new credential",
                         resource_name(message));
    }
    if (!c->status) {
        c->status = CODEC_NEW(arena, Core__Credential__Status, core__credential__status);
    }
    Meta__ObjectReference *ref = resource_ref(user, arena);
    const char *uid = resource_uid(user);
    if (!c->status || !ref) {
        return resource_no_memory(err);
    }
    c->status->user_ref = ref;
    *ret_index = (struct store_index){.owner_uid = uid};
    return 0;
}

static int check_cluster_config(struct gateway *g, const ProtobufCMessage *message,
                                struct error *err)
{
    (void)g;
    const Core__ClusterConfig *c = (const Core__ClusterConfig *)message;
    return c->spec ? 0 : error_set(err, STATUS_INVALID_ARGUMENT, "ClusterConfig: spec is unset");
}

static int complete_cluster_config(struct gateway *g, ProtobufCMessage *message,
                                   const ProtobufCMessage *existing, struct arena *arena,
                                   struct store_index *ret_index, struct error *err)
{
    (void)g;
    (void)message;
    (void)existing;
    (void)arena;
    (void)err;
    *ret_index = (struct store_index){0};
    return 0;
}

static const struct apply_kind kinds[] = {
    {STORE_POLICY, "Policy", 0, check_policy, complete_policy},
    {STORE_GROUP, "Group", 1, check_group, complete_group},
    {STORE_USER, "User", 2, check_user, complete_user},
    {STORE_CREDENTIAL, "Credential", 3, check_credential, complete_credential},
    {STORE_CLUSTER_CONFIG, "ClusterConfig", 4, check_cluster_config, complete_cluster_config},
};

const struct apply_kind *apply_kind_find(struct str api_version, struct str kind, struct error *err)
{
    static const char allowed[] = "Policy, Group, User, Credential and ClusterConfig";
    if (api_version.len > 0 && !str_is(api_version, "core/v1")) {
        (void)error_set(err, STATUS_INVALID_ARGUMENT,
                        "apiVersion '%.*s' is not applied here, only core/v1 is; resources of "
                        "cordium/v1 have their own commands",
                        STR_ARG(api_version));
        return NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (str_is(kind, kinds[i].kind)) {
            return &kinds[i];
        }
    }
    if (kind.len == 0) {
        (void)error_set(err, STATUS_INVALID_ARGUMENT,
                        "the document has no 'kind'; it may be one of %s", allowed);
    } else {
        (void)error_set(err, STATUS_INVALID_ARGUMENT,
                        "kind '%.*s' is not applied here; the kinds are %s", STR_ARG(kind),
                        allowed);
    }
    return NULL;
}
