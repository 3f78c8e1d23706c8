#include "gateway/services/identity_rules.h"

#include <string.h>
#include <strings.h>

#include "gateway/authorize/policy_store.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/spec_check.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum { EMAIL_MAX = 256, GROUPS_MAX = 64, ATTRS_BYTES_MAX = 20000 };

static int check_attrs(const Google__Protobuf__Struct *attrs, struct error *err)
{
    size_t size = attrs ? protobuf_c_message_get_packed_size(&attrs->base) : 0;
    if (size > ATTRS_BYTES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.attrs takes %zu bytes, the maximum is %d", size, ATTRS_BYTES_MAX);
    }
    return 0;
}

static int check_email_is_free(struct gateway *g, const Core__User *user, const Core__User *stored,
                               struct arena *arena, struct error *err)
{
    const char *email = user->spec->email;
    if (!email[0] || (stored && stored->spec && strcmp(stored->spec->email, email) == 0)) {
        return 0;
    }
    struct store_list users;
    int status =
        store_list_all(g->store, STORE_USER, &(struct store_filter){0}, arena, &users, err);
    for (size_t i = 0; !status && i < users.count; i++) {
        const Core__User *other = (const Core__User *)users.items[i];
        bool is_other = !stored || strcmp(other->metadata->uid, stored->metadata->uid) != 0;
        if (is_other && other->spec && strcasecmp(other->spec->email, email) == 0) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "spec.email: '%s' is the email of the User '%s' already", email,
                               other->metadata->name);
        }
    }
    return status;
}

static int check_groups(struct gateway *g, const Core__User__Spec *spec, struct arena *arena,
                        struct error *err)
{
    int status = spec_check_count(spec->n_groups, GROUPS_MAX, "spec.groups", err);
    for (size_t i = 0; !status && i < spec->n_groups; i++) {
        ProtobufCMessage *group = NULL;
        struct error cause = {0};
        if (!store_get_by_name(g->store, STORE_GROUP, spec->groups[i], arena, &group, &cause)) {
            continue;
        }
        status = cause.status == STATUS_NOT_FOUND
                     ? error_set(err, STATUS_INVALID_ARGUMENT,
                                 "spec.groups[%zu]: the Group '%.128s' does not exist: create it "
                                 "first",
                                 i, spec->groups[i])
                     : error_set(err, cause.status, "%s", cause.text);
    }
    return status;
}

static int check_user_spec(struct gateway *g, const Core__User *user, const Core__User *stored,
                           struct arena *arena, struct error *err)
{
    const Core__User__Spec *spec = user->spec;
    if (spec->type != CORE__USER__SPEC__TYPE__HUMAN &&
        spec->type != CORE__USER__SPEC__TYPE__WORKLOAD) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.type of the User is unset: write HUMAN or WORKLOAD");
    }
    int status = spec_check_length(spec->email, 0, EMAIL_MAX, "spec.email", err);
    if (!status && spec->email[0] && !strchr(spec->email, '@')) {
        status = spec_refuse(err, "spec.email", spec->email, "is no email address");
    }
    if (!status) {
        status = check_email_is_free(g, user, stored, arena, err);
    }
    if (!status) {
        status = check_groups(g, spec, arena, err);
    }
    return status ? status : check_attrs(spec->attrs, err);
}

int user_validate(struct gateway *g, const Core__User *user, const Core__User *stored,
                  struct arena *arena, struct error *err)
{
    const char *name = user->metadata->name;
    int status = name_check_label("User", name, err);
    if (!status && strcmp(name, NAME_ORGANIZATION) == 0) {
        status = spec_refuse(err, "metadata.name", name,
                             "is what organization Spaces end in: choose another name");
    }
    if (!status) {
        status = check_user_spec(g, user, stored, arena, err);
    }
    return status ? status : policy_store_check_attachments(g->policies, &user->base, err);
}

int user_attach_default(Core__User *user, struct arena *arena, struct error *err)
{
    if (user->spec->authorization) {
        return 0;
    }
    Core__User__Spec__Authorization *a =
        CODEC_NEW(arena, Core__User__Spec__Authorization, core__user__spec__authorization);
    char **policies = arena_calloc(arena, 1, sizeof(*policies));
    char *name = arena_strdup(arena, DEFAULT_POLICY_NAME);
    if (!a || !policies || !name) {
        return resource_no_memory(err);
    }
    policies[0] = name;
    a->policies = policies;
    a->n_policies = 1;
    user->spec->authorization = a;
    return 0;
}

int group_validate(struct gateway *g, const Core__Group *group, struct error *err)
{
    int status = name_check_label("Group", group->metadata->name, err);
    if (!status) {
        status = check_attrs(group->spec->attrs, err);
    }
    return status ? status : policy_store_check_attachments(g->policies, &group->base, err);
}

static int check_same(const Core__Credential *credential, const Core__Credential *stored,
                      struct error *err)
{
    if (strcmp(credential->spec->user, stored->spec->user) != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.user of the Credential '%s' cannot change from '%s': make a new "
                         "Credential",
                         stored->metadata->name, stored->spec->user);
    }
    if (credential->spec->type != stored->spec->type) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.type of the Credential '%s' cannot change: make a new Credential",
                         stored->metadata->name);
    }
    return 0;
}

int credential_validate(struct gateway *g, const Core__Credential *credential,
                        const Core__Credential *stored, struct arena *arena, Core__User **ret_user,
                        struct error *err)
{
    const Core__Credential__Spec *spec = credential->spec;
    int status = name_check_label("Credential", credential->metadata->name, err);
    if (!status && (spec->type < CORE__CREDENTIAL__SPEC__TYPE__AUTH_TOKEN ||
                    spec->type > CORE__CREDENTIAL__SPEC__TYPE__ACCESS_TOKEN)) {
        status = error_set(err, STATUS_INVALID_ARGUMENT,
                           "spec.type of the Credential is unset: write AUTH_TOKEN, OAUTH2 or "
                           "ACCESS_TOKEN");
    }
    if (!status && (unsigned)spec->session_type > CORE__SESSION__STATUS__TYPE__CLIENTLESS) {
        status = error_set(err, STATUS_INVALID_ARGUMENT,
                           "spec.sessionType is %d: write CLIENT or CLIENTLESS",
                           (int)spec->session_type);
    }
    if (!status && !spec->user[0]) {
        status = error_set(err, STATUS_INVALID_ARGUMENT,
                           "spec.user of the Credential is unset: name its User");
    }
    ProtobufCMessage *user = NULL;
    if (!status) {
        status = store_get_by_name(g->store, STORE_USER, spec->user, arena, &user, err);
    }
    if (!status && stored) {
        status = check_same(credential, stored, err);
    }
    if (status) {
        return status;
    }
    *ret_user = (Core__User *)user;
    if (spec->type == CORE__CREDENTIAL__SPEC__TYPE__OAUTH2 &&
        (*ret_user)->spec->type != CORE__USER__SPEC__TYPE__WORKLOAD) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.type OAUTH2 is for Users of type WORKLOAD, '%s' is HUMAN: use "
                         "AUTH_TOKEN",
                         spec->user);
    }
    return policy_store_check_attachments(g->policies, &credential->base, err);
}
