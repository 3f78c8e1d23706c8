#include "gateway/services/membership_service.h"

#include <string.h>
#include <strings.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/limits.h"
#include "gateway/services/names.h"
#include "gateway/services/ownership.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

enum { EMAIL_MAX = 256 };

/* What the server keeps for itself is not shown. */
static void show(ProtobufCMessage *item)
{
    Cordium__Membership *m = (Cordium__Membership *)item;
    if (m->status) {
        m->status->n_git_provider_state_map = 0;
        m->status->git_provider_state_map = NULL;
    }
}

static const Cordium__Membership *target_of(const struct request *r)
{
    return (const Cordium__Membership *)r->touched.target;
}

static void reply_shown(struct request *r, const ProtobufCMessage *message)
{
    ProtobufCMessage *copy = codec_copy(message, &r->arena);
    if (!copy) {
        request_fail_memory(r);
        return;
    }
    show(copy);
    request_reply(r, copy);
}

int membership_create_resolve(struct request *r, struct error *err)
{
    const Cordium__CreateMembershipRequest *asked =
        (const Cordium__CreateMembershipRequest *)r->message;
    int status = access_space_by_ref(r, asked->space_ref, err);
    if (r->touched.space) {
        r->touched.target = &r->touched.space->base;
    }
    return status;
}

static int find_by_email(struct request *r, const char *email, Core__User **ret, struct error *err)
{
    struct store_list users;
    struct store_filter all = {0};
    int status = store_list_all(r->gateway->store, STORE_USER, &all, &r->arena, &users, err);
    for (size_t i = 0; !status && i < users.count; i++) {
        Core__User *user = (Core__User *)users.items[i];
        if (user->spec && user->spec->email[0] && strcasecmp(user->spec->email, email) == 0) {
            *ret = user;
            return 0;
        }
    }
    return status ? status
                  : error_set(err, STATUS_NOT_FOUND, "No User has the email '%.100s'", email);
}

static int find_user(struct request *r, Core__User **ret, struct error *err)
{
    const Cordium__CreateMembershipRequest *asked =
        (const Cordium__CreateMembershipRequest *)r->message;
    if (asked->user_type_case == CORDIUM__CREATE_MEMBERSHIP_REQUEST__USER_TYPE_EMAIL &&
        asked->email[0] && strlen(asked->email) <= EMAIL_MAX) {
        return find_by_email(r, asked->email, ret, err);
    }
    if (asked->user_type_case != CORDIUM__CREATE_MEMBERSHIP_REQUEST__USER_TYPE_USER_REF ||
        !resource_ref_is_set(asked->user_ref)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "No User is named: give userRef (name or uid) or email");
    }
    ProtobufCMessage *user = NULL;
    int status = resource_find(r->gateway->store, STORE_USER, asked->user_ref->uid,
                               asked->user_ref->name, &r->arena, &user, err);
    if (!status) {
        *ret = (Core__User *)user;
    }
    return status;
}

/* What the actor must be to give or take that role. */
static int check_grant(struct request *r, Cordium__Membership__Spec__Role role,
                       const Core__User *user, struct error *err)
{
    if (role != CORDIUM__MEMBERSHIP__SPEC__ROLE__OWNER) {
        return access_require_role(r, SPACE_ROLE_ADMIN, "manage its members", err);
    }
    int status = access_require_role(r, SPACE_ROLE_OWNER, "manage its owners", err);
    return status || !user ? status : ownership_check(r, user, r->touched.space, err);
}

static int check_new_member(struct request *r, const Core__User *user, struct error *err)
{
    const Cordium__Space *space = r->touched.space;
    if (space->status->type != CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The Space '%s' belongs to one User and has no other members: use an "
                         "organization Space (NAME.cordium)",
                         space->metadata->name);
    }
    Cordium__Membership *present = NULL;
    struct error cause = {0};
    int status = access_membership(r, space->metadata->uid, user->metadata->uid, &present, &cause);
    if (!status) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The User '%s' is a member of the Space '%s' already",
                         user->metadata->name, space->metadata->name);
    }
    if (cause.status != STATUS_NOT_FOUND) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    struct store_filter members = {.space_uid = space->metadata->uid};
    return resource_check_quota(r, STORE_MEMBERSHIP, &members, QUOTA_MEMBERSHIPS_PER_SPACE,
                                "The Space", err);
}

/* UNKNOWN means USER. */
static int role_asked(int asked, Cordium__Membership__Spec__Role *ret, struct error *err)
{
    if (asked == CORDIUM__CREATE_MEMBERSHIP_REQUEST__ROLE__UNKNOWN) {
        asked = CORDIUM__CREATE_MEMBERSHIP_REQUEST__ROLE__USER;
    }
    if (asked < CORDIUM__CREATE_MEMBERSHIP_REQUEST__ROLE__OWNER ||
        asked > CORDIUM__CREATE_MEMBERSHIP_REQUEST__ROLE__USER) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The role %d does not exist: write OWNER, ADMIN or USER", asked);
    }
    *ret = (Cordium__Membership__Spec__Role)asked;
    return 0;
}

static struct store_index index_of(const struct request *r, const Cordium__Membership *m)
{
    return (struct store_index){.space_uid = m->status->space_ref->uid,
                                .owner_uid = m->status->user_ref->uid,
                                .state = (int)r->touched.space->status->type};
}

static int create_membership(struct request *r, Cordium__Membership **ret, struct error *err)
{
    const Cordium__CreateMembershipRequest *asked =
        (const Cordium__CreateMembershipRequest *)r->message;
    Cordium__Membership__Spec__Role role = CORDIUM__MEMBERSHIP__SPEC__ROLE__UNKNOWN;
    Core__User *user = NULL;
    int status = role_asked((int)asked->role, &role, err);
    if (!status) {
        status = check_grant(r, role, NULL, err);
    }
    if (!status) {
        status = find_user(r, &user, err);
    }
    if (!status) {
        status = check_grant(r, role, user, err);
    }
    if (!status) {
        status = check_new_member(r, user, err);
    }
    if (!status) {
        status = access_make_membership(r, user, r->touched.space, role, ret, err);
    }
    if (status) {
        return status;
    }
    struct store_index index = index_of(r, *ret);
    return store_insert(r->gateway->store, STORE_MEMBERSHIP, &(*ret)->base, &index, err);
}

void membership_create_handle(struct request *r)
{
    struct error err = {0};
    Cordium__Membership *made = NULL;
    if (create_membership(r, &made, &err)) {
        request_fail(r, &err);
        return;
    }
    r->touched.target = &made->base;
    change_outcome_set_resource(r, NULL, &made->base);
    request_reply(r, &made->base);
}

/* By uid, or by the full name USER.SPACE.PARENT; the actor must be a member of that Space. */
static int resolve_one(struct request *r, const char *uid, const char *name, struct error *err)
{
    if (!uid[0]) {
        int status = name_check_dotted("Membership", name, 3, err);
        if (!status && !strchr(name_parent(name), '.')) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "Invalid Membership name '%s': write USER.SPACE.PARENT", name);
        }
        if (!status) {
            status = access_space(r, NULL, name_parent(name), err);
        }
        if (status) {
            return status;
        }
    }
    ProtobufCMessage *found = NULL;
    int status =
        resource_find(r->gateway->store, STORE_MEMBERSHIP, uid, name, &r->arena, &found, err);
    if (status) {
        return status;
    }
    const Cordium__Membership *m = (const Cordium__Membership *)found;
    r->touched.target = found;
    return uid[0] ? access_space(r, m->status->space_ref->uid, "", err) : 0;
}

int membership_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    resource_options(r->message, &uid, &name);
    return resolve_one(r, uid, name, err);
}

void membership_get_handle(struct request *r)
{
    reply_shown(r, r->touched.target);
}

/* The creator of the Space stays its owner. */
static int check_not_creator(const struct request *r, struct error *err)
{
    const char *creator = r->touched.space->status->user_ref->uid;
    if (strcmp(target_of(r)->status->user_ref->uid, creator) == 0) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The Membership of the creator of the Space '%s' cannot be changed",
                         r->touched.space->metadata->name);
    }
    return 0;
}

static bool is_own(const struct request *r)
{
    return strcmp(target_of(r)->status->user_ref->uid, access_user_uid(r)) == 0;
}

static int delete_membership(struct request *r, struct error *err)
{
    int status = check_not_creator(r, err);
    if (!status && !is_own(r)) {
        status = check_grant(r, target_of(r)->spec->role, NULL, err);
    }
    return status ? status
                  : store_delete(r->gateway->store, STORE_MEMBERSHIP, target_of(r)->metadata->uid,
                                 err);
}

void membership_delete_handle(struct request *r)
{
    struct error err = {0};
    if (delete_membership(r, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, NULL);
    request_reply_empty(r);
}

int membership_update_resolve(struct request *r, struct error *err)
{
    const Cordium__Membership *asked = (const Cordium__Membership *)r->message;
    const Meta__Metadata *metadata = asked->metadata;
    return resolve_one(r, metadata ? metadata->uid : "", metadata ? metadata->name : "", err);
}

static int check_role_change(struct request *r, Cordium__Membership__Spec__Role role,
                             struct error *err)
{
    if (is_own(r)) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Nobody changes his own role: ask another owner or admin of the Space");
    }
    int status = check_not_creator(r, err);
    if (!status) {
        status = check_grant(r, target_of(r)->spec->role, NULL, err);
    }
    if (status || role != CORDIUM__MEMBERSHIP__SPEC__ROLE__OWNER) {
        return status;
    }
    ProtobufCMessage *user = NULL;
    status = store_get_by_uid(r->gateway->store, STORE_USER, target_of(r)->status->user_ref->uid,
                              &r->arena, &user, err);
    return status ? status : check_grant(r, role, (const Core__User *)user, err);
}

static int update_membership(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = resource_reread(r, STORE_MEMBERSHIP, &r->touched.target, err);
    if (!status) {
        status = resource_make_update(r, STORE_MEMBERSHIP, r->touched.target, &next, err);
    }
    if (status) {
        return status;
    }
    Cordium__Membership *m = (Cordium__Membership *)next;
    Cordium__Membership__Spec__Role role = CORDIUM__MEMBERSHIP__SPEC__ROLE__UNKNOWN;
    status = role_asked((int)m->spec->role, &role, err);
    if (!status && role != target_of(r)->spec->role) {
        status = check_role_change(r, role, err);
    } else if (!status) {
        status = check_grant(r, CORDIUM__MEMBERSHIP__SPEC__ROLE__USER, NULL, err);
    }
    if (status) {
        return status;
    }
    m->spec->role = role;
    struct store_index index = index_of(r, m);
    return resource_write(r, STORE_MEMBERSHIP, r->touched.target, next, &index, ret, err);
}

void membership_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_membership(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    reply_shown(r, result);
}

int membership_list_resolve(struct request *r, struct error *err)
{
    const Cordium__ListMembershipOptions *options =
        (const Cordium__ListMembershipOptions *)r->message;
    return resource_ref_is_set(options->space_ref) ? access_space_by_ref(r, options->space_ref, err)
                                                   : 0;
}

/* Without a Space: the actor's own memberships. */
void membership_list_handle(struct request *r)
{
    const Cordium__ListMembershipOptions *options =
        (const Cordium__ListMembershipOptions *)r->message;
    struct error err = {0};
    if (access_store_default(r, &err)) {
        request_fail(r, &err);
        return;
    }
    struct store_filter filter = {0};
    if (r->touched.space) {
        filter.space_uid = r->touched.space->metadata->uid;
    } else {
        filter.owner_uid = access_user_uid(r);
    }
    resource_list_reply(r, STORE_MEMBERSHIP, &filter, options->common, show);
}

int membership_of_space_resolve(struct request *r, struct error *err)
{
    const Cordium__GetSpaceMembershipRequest *asked =
        (const Cordium__GetSpaceMembershipRequest *)r->message;
    int status = access_space_by_ref(r, asked->space_ref, err);
    if (!status) {
        r->touched.target = &r->touched.membership->base;
    }
    return status;
}

void membership_of_space_handle(struct request *r)
{
    struct error err = {0};
    if (access_store_default(r, &err)) {
        request_fail(r, &err);
        return;
    }
    reply_shown(r, &r->touched.membership->base);
}
