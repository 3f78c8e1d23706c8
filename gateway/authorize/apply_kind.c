#include "gateway/authorize/apply_kind.h"

#include "api/core.pb-c.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/identity_rules.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

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

static int check_spec(const ProtobufCMessage *message, struct error *err)
{
    const char *kind = message->descriptor->short_name;
    return resource_spec(message)
               ? 0
               : error_set(err, STATUS_INVALID_ARGUMENT, "%s '%s': spec is unset", kind,
                           resource_name(message));
}

static int check_group(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    int rc = name_check_label("Group", resource_name(message), err);
    return rc ? rc : check_spec(message, err);
}

static int complete_group(struct gateway *g, ProtobufCMessage *message,
                          const ProtobufCMessage *existing, struct arena *arena,
                          struct store_index *ret_index, struct error *err)
{
    (void)existing;
    (void)arena;
    *ret_index = (struct store_index){0};
    int rc = group_validate(g, (const Core__Group *)message, err);
    return rc ? error_wrap(err, "Group '%s'", resource_name(message)) : 0;
}

static int check_user(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    int rc = name_check_label("User", resource_name(message), err);
    return rc ? rc : check_spec(message, err);
}

static int complete_user(struct gateway *g, ProtobufCMessage *message,
                         const ProtobufCMessage *existing, struct arena *arena,
                         struct store_index *ret_index, struct error *err)
{
    Core__User *user = (Core__User *)message;
    *ret_index = (struct store_index){0};
    int rc = 0;
    if (!existing) {
        user->status = CODEC_NEW(arena, Core__User__Status, core__user__status);
        rc = user->status ? user_attach_default(user, arena, err) : resource_no_memory(err);
    }
    rc = rc ? rc : user_validate(g, user, (const Core__User *)existing, arena, err);
    return rc ? error_wrap(err, "User '%s'", resource_name(message)) : 0;
}

static int check_credential(struct gateway *g, const ProtobufCMessage *message, struct error *err)
{
    (void)g;
    int rc = name_check_label("Credential", resource_name(message), err);
    return rc ? rc : check_spec(message, err);
}

static int complete_credential(struct gateway *g, ProtobufCMessage *message,
                               const ProtobufCMessage *existing, struct arena *arena,
                               struct store_index *ret_index, struct error *err)
{
    Core__Credential *c = (Core__Credential *)message;
    Core__User *user = NULL;
    int rc = credential_validate(g, c, (const Core__Credential *)existing, arena, &user, err);
    if (rc) {
        return error_wrap(err, "Credential '%s'", resource_name(message));
    }
    if (!c->status) {
        c->status = CODEC_NEW(arena, Core__Credential__Status, core__credential__status);
    }
    if (!existing && c->status) {
        c->status->user_ref = resource_ref(&user->base, arena);
    }
    if (!c->status || !c->status->user_ref) {
        return resource_no_memory(err);
    }
    *ret_index = (struct store_index){.owner_uid = resource_uid(&user->base)};
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
