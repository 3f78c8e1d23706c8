#include "gateway/services/user_service.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/session.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/admin_target.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/identity_rules.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/space_service.h"
#include "gateway/state/resource.h"

int core_admin_resolve(struct request *r, struct error *err)
{
    return admin_require(r, err);
}

static int make_target(struct request *r, enum store_kind kind, struct error *err)
{
    int status = admin_require(r, err);
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, kind, resource_name(r->message), &made, err);
    }
    r->touched.target = made;
    return status;
}

/* Users */

int user_create_resolve(struct request *r, struct error *err)
{
    int status = make_target(r, STORE_USER, err);
    if (status) {
        return status;
    }
    Core__User *user = (Core__User *)r->touched.target;
    user->status = CODEC_NEW(&r->arena, Core__User__Status, core__user__status);
    if (!user->status) {
        return resource_no_memory(err);
    }
    status = user_attach_default(user, &r->arena, err);
    return status ? status : user_validate(r->gateway, user, NULL, &r->arena, err);
}

static void insert_target(struct request *r, enum store_kind kind)
{
    struct error err = {0};
    if (store_insert(r->gateway->store, kind, r->touched.target, &(struct store_index){0}, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, NULL, r->touched.target);
    request_reply(r, r->touched.target);
}

void user_create_handle(struct request *r)
{
    insert_target(r, STORE_USER);
}

int user_named_resolve(struct request *r, struct error *err)
{
    return admin_target_by_options(r, STORE_USER, err);
}

void user_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

int user_update_resolve(struct request *r, struct error *err)
{
    return admin_target_by_metadata(r, STORE_USER, err);
}

static bool is_self(const struct request *r)
{
    return strcmp(resource_uid(r->touched.target), access_user_uid(r)) == 0;
}

/* Nobody locks himself out: somebody must be left who can mend it. */
static int check_not_locked_out(struct request *r, const Core__User *next, struct error *err)
{
    struct actor after = r->actor;
    after.user = next;
    if (is_self(r) && (next->spec->is_disabled || !actor_is_admin(&after))) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "An administrator cannot disable himself or detach his own policy '%s': "
                         "let another one do it",
                         ADMIN_POLICY_NAME);
    }
    return 0;
}

static int update_user(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = resource_reread(r, STORE_USER, &r->touched.target, err);
    const Core__User *stored = (const Core__User *)r->touched.target;
    if (!status) {
        status = resource_make_update(r, STORE_USER, &stored->base, &next, err);
    }
    if (!status) {
        status = user_validate(r->gateway, (const Core__User *)next, stored, &r->arena, err);
    }
    if (!status) {
        status = check_not_locked_out(r, (const Core__User *)next, err);
    }
    return status ? status
                  : resource_write(r, STORE_USER, &stored->base, next, &(struct store_index){0},
                                   ret, err);
}

void user_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_user(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    request_reply(r, result);
}

static int check_user_is_free(struct request *r, const char *uid, struct error *err)
{
    if (is_self(r)) {
        return error_set(err, STATUS_PERMISSION_DENIED, "An administrator cannot delete himself");
    }
    struct store_filter own = {.owner_uid = uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    uint32_t count = 0;
    int status = store_count(r->gateway->store, STORE_WORKSPACE, &own, &count, err);
    if (!status && count > 0) {
        status =
            error_set(err, STATUS_FAILED_PRECONDITION,
                      "The User '%s' has %u Workspaces: they must be deleted first; or disable "
                      "the User (spec.isDisabled)",
                      resource_name(r->touched.target), count);
    }
    return status;
}

/* His own Spaces go; organization Spaces that he made stay with their other members. */
static int delete_user_spaces(struct request *r, const char *uid, struct build_snapshots *snapshots,
                              struct error *err)
{
    struct store_filter filter = {.owner_uid = uid,
                                  .states = UINT64_C(1) << CORDIUM__SPACE__STATUS__TYPE__USER,
                                  .hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list spaces;
    int status = store_list_all(r->gateway->store, STORE_SPACE, &filter, &r->arena, &spaces, err);
    for (size_t i = 0; !status && i < spaces.count; i++) {
        status = space_delete_with_content(r->gateway, resource_uid(spaces.items[i]), &r->arena,
                                           snapshots, err);
    }
    return status;
}

/* Credentials with their tokens, sessions with theirs, and what is only the user's. */
static int delete_belongings(struct request *r, const char *uid, struct build_snapshots *snapshots,
                             struct error *err)
{
    struct store *store = r->gateway->store;
    struct store_filter own = {.owner_uid = uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list credentials;
    int status = store_list_all(store, STORE_CREDENTIAL, &own, &r->arena, &credentials, err);
    for (size_t i = 0; !status && i < credentials.count; i++) {
        status =
            store_token_delete_subject(store, resource_uid(credentials.items[i]), UINT32_MAX, err);
    }
    if (!status) {
        status = delete_user_spaces(r, uid, snapshots, err);
    }
    if (!status) {
        status = session_delete_all(r->gateway, uid, NULL, &r->arena, err);
    }
    static const enum store_kind kinds[] = {STORE_CREDENTIAL, STORE_MEMBERSHIP, STORE_USER_SECRET,
                                            STORE_USER_CONFIG};
    for (size_t i = 0; !status && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        status = store_delete_all(store, kinds[i], &own, NULL, err);
    }
    return status ? status : store_delete(store, STORE_USER, uid, err);
}

/* All that said what he may do. */
static int tell_authority(struct request *r, const char *uid, struct buf *diff, struct error *err)
{
    struct store_filter own = {.owner_uid = uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    static const enum store_kind kinds[] = {STORE_MEMBERSHIP, STORE_CREDENTIAL, STORE_SESSION};
    int status = 0;
    change_diff_add(r, diff, r->touched.target, NULL);
    for (size_t i = 0; !status && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        status = change_diff_add_deleted(r, diff, kinds[i], &own, err);
    }
    return status;
}

static int delete_user(struct request *r, struct buf *diff, struct error *err)
{
    struct store *store = r->gateway->store;
    const char *uid = resource_uid(r->touched.target);
    struct build_snapshots snapshots = {NULL};
    int status = resource_reread(r, STORE_USER, &r->touched.target, err);
    if (!status) {
        status = check_user_is_free(r, uid, err);
    }
    if (!status) {
        status = store_begin(store, err);
    }
    if (status) {
        return status;
    }
    status = tell_authority(r, uid, diff, err);
    if (!status) {
        status = delete_belongings(r, uid, &snapshots, err);
    }
    status = store_end(store, status, err);
    if (status) {
        return status;
    }
    build_snapshots_delete(r->gateway, &snapshots);
    return 0;
}

void user_delete_handle(struct request *r)
{
    struct error err = {0};
    struct buf diff;
    change_diff_begin(&diff);
    if (delete_user(r, &diff, &err)) {
        buf_free(&diff);
        request_fail(r, &err);
        return;
    }
    change_diff_end(r, &diff);
    request_reply_empty(r);
}

void user_list_handle(struct request *r)
{
    const Core__ListUserOptions *options = (const Core__ListUserOptions *)r->message;
    resource_list_reply(r, STORE_USER, &(struct store_filter){0}, options->common, NULL);
}

/* Groups */

int group_create_resolve(struct request *r, struct error *err)
{
    int status = make_target(r, STORE_GROUP, err);
    if (status) {
        return status;
    }
    Core__Group *group = (Core__Group *)r->touched.target;
    group->status = CODEC_NEW(&r->arena, Core__Group__Status, core__group__status);
    return group->status ? group_validate(r->gateway, group, err) : resource_no_memory(err);
}

void group_create_handle(struct request *r)
{
    insert_target(r, STORE_GROUP);
}

int group_named_resolve(struct request *r, struct error *err)
{
    return admin_target_by_options(r, STORE_GROUP, err);
}

void group_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

int group_update_resolve(struct request *r, struct error *err)
{
    return admin_target_by_metadata(r, STORE_GROUP, err);
}

void group_update_handle(struct request *r)
{
    struct error err = {0};
    ProtobufCMessage *next = NULL;
    const ProtobufCMessage *result = NULL;
    if (resource_reread(r, STORE_GROUP, &r->touched.target, &err) ||
        resource_make_update(r, STORE_GROUP, r->touched.target, &next, &err) ||
        group_validate(r->gateway, (const Core__Group *)next, &err) ||
        resource_write(r, STORE_GROUP, r->touched.target, next, &(struct store_index){0}, &result,
                       &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    request_reply(r, result);
}

/* A group that users are in would vanish from their decisions without a trace. */
static int check_group_is_free(struct request *r, struct error *err)
{
    const char *name = resource_name(r->touched.target);
    struct store_list users;
    int status = store_list_all(r->gateway->store, STORE_USER, &(struct store_filter){0}, &r->arena,
                                &users, err);
    for (size_t i = 0; !status && i < users.count; i++) {
        const Core__User *user = (const Core__User *)users.items[i];
        for (size_t j = 0; !status && user->spec && j < user->spec->n_groups; j++) {
            if (strcmp(user->spec->groups[j], name) == 0) {
                status = error_set(err, STATUS_FAILED_PRECONDITION,
                                   "The User '%s' is in the Group '%s': take him out first",
                                   user->metadata->name, name);
            }
        }
    }
    return status;
}

void group_delete_handle(struct request *r)
{
    struct error err = {0};
    if (resource_reread(r, STORE_GROUP, &r->touched.target, &err) || check_group_is_free(r, &err) ||
        store_delete(r->gateway->store, STORE_GROUP, resource_uid(r->touched.target), &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, NULL);
    request_reply_empty(r);
}

void group_list_handle(struct request *r)
{
    const Core__ListGroupOptions *options = (const Core__ListGroupOptions *)r->message;
    resource_list_reply(r, STORE_GROUP, &(struct store_filter){0}, options->common, NULL);
}
