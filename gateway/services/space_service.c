#include "gateway/services/space_service.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/limits.h"
#include "gateway/services/names.h"
#include "gateway/services/ownership.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

static bool is_organization(const Cordium__Space *space)
{
    return space->status->type == CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION;
}

int space_create_resolve(struct request *r, struct error *err)
{
    const Cordium__Space *asked = (const Cordium__Space *)r->message;
    const char *name = NULL;
    bool organization = false;
    int status = name_complete_space(asked->metadata ? asked->metadata->name : "",
                                     access_user_name(r), &r->arena, &name, &organization, err);
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_SPACE, name, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__Space *space = (Cordium__Space *)made;
    Cordium__Space__Status *st =
        CODEC_NEW(&r->arena, Cordium__Space__Status, cordium__space__status);
    if (!st) {
        return resource_no_memory(err);
    }
    st->type = organization ? CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION
                            : CORDIUM__SPACE__STATUS__TYPE__USER;
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    space->status = st;
    r->touched.space = space;
    r->touched.target = made;
    return st->user_ref ? spec_validate_space(space->spec, organization, err)
                        : resource_no_memory(err);
}

static int create_space(struct request *r, Cordium__Membership **ret_owner, struct error *err)
{
    Cordium__Space *space = r->touched.space;
    struct store_filter own = {.owner_uid = access_user_uid(r)};
    int status = resource_check_quota(r, STORE_SPACE, &own, QUOTA_SPACES_PER_USER, "The User", err);
    if (!status && is_organization(space)) {
        status = ownership_check(r, r->actor.user, space, err);
    }
    Cordium__Template *template_ = NULL;
    if (!status) {
        status = access_plan_space(r, space, ret_owner, &template_, err);
    }
    return status ? status : access_insert_space(r, space, *ret_owner, template_, err);
}

void space_create_handle(struct request *r)
{
    struct error err = {0};
    Cordium__Membership *owner = NULL;
    if (create_space(r, &owner, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, NULL, &owner->base);
    request_reply(r, &r->touched.space->base);
}

int space_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    resource_options(r->message, &uid, &name);
    int status = access_space(r, uid, name, err);
    if (r->touched.space) {
        r->touched.target = &r->touched.space->base;
    }
    return status;
}

void space_get_handle(struct request *r)
{
    struct error err = {0};
    if (access_store_default(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &r->touched.space->base);
}

int space_update_resolve(struct request *r, struct error *err)
{
    const Cordium__Space *asked = (const Cordium__Space *)r->message;
    const Meta__Metadata *metadata = asked->metadata;
    int status =
        access_space(r, metadata ? metadata->uid : "", metadata ? metadata->name : "", err);
    if (r->touched.space) {
        r->touched.target = &r->touched.space->base;
    }
    return status ? status : access_require_role(r, SPACE_ROLE_OWNER, "update the Space", err);
}

/* Spaces of one kind are told apart in lists by their type. */
static struct store_index index_of(const Cordium__Space *space)
{
    return (struct store_index){.owner_uid = space->status->user_ref->uid,
                                .state = (int)space->status->type};
}

static int update_space(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    const ProtobufCMessage *stored = &r->touched.space->base;
    int status = access_store_default(r, err);
    if (!status) {
        status = resource_reread(r, STORE_SPACE, &stored, err);
    }
    if (!status) {
        status = resource_make_update(r, STORE_SPACE, stored, &next, err);
    }
    if (!status) {
        const Cordium__Space *space = (const Cordium__Space *)next;
        status = spec_validate_space(space->spec, is_organization(space), err);
    }
    if (status) {
        return status;
    }
    struct store_index index = index_of(r->touched.space);
    return resource_write(r, STORE_SPACE, stored, next, &index, ret, err);
}

void space_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_space(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, result);
}

/* A build that runs would write into a Template that is gone. */
static int check_no_build(struct request *r, const char *space_uid, struct error *err)
{
    struct store_filter filter = {.space_uid = space_uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    int status = store_list_all(r->gateway->store, STORE_TEMPLATE, &filter, &r->arena, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        const Cordium__Template *t = (const Cordium__Template *)list.items[i];
        const Cordium__Template__Status__BuildInfo *info = t->status ? t->status->build_info : NULL;
        if (info && info->current_running_build_id[0]) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "The Template '%s' is being built: cancel its build first",
                               t->metadata->name);
        }
    }
    return status;
}

static int forget_builds(struct gateway *g, const struct store_filter *in_space,
                         struct arena *arena, struct build_snapshots *snapshots, struct error *err)
{
    struct store_list list;
    int status = store_list_all(g->store, STORE_TEMPLATE, in_space, arena, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        status = build_snapshot_forget(g, (const Cordium__Template *)list.items[i], arena,
                                       snapshots, err);
    }
    return status;
}

int space_delete_with_content(struct gateway *g, const char *space_uid, struct arena *arena,
                              struct build_snapshots *snapshots, struct error *err)
{
    static const enum store_kind kinds[] = {STORE_MEMBERSHIP, STORE_TEMPLATE, STORE_SECRET,
                                            STORE_GIT_PROVIDER};
    struct store_filter filter = {.space_uid = space_uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    int status = forget_builds(g, &filter, arena, snapshots, err);
    for (size_t i = 0; !status && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        status = store_delete_all(g->store, kinds[i], &filter, NULL, err);
    }
    return status ? status : store_delete(g->store, STORE_SPACE, space_uid, err);
}

static int delete_space(struct request *r, struct buf *diff, struct error *err)
{
    struct store *store = r->gateway->store;
    const char *uid = r->touched.space->metadata->uid;
    struct build_snapshots snapshots = {NULL};
    int status = access_require_role(r, SPACE_ROLE_OWNER, "delete the Space", err);
    if (!status) {
        status = check_no_build(r, uid, err);
    }
    if (!status) {
        status = store_begin(store, err);
    }
    if (status) {
        return status;
    }
    struct store_filter members = {.space_uid = uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    status = change_diff_add_deleted(r, diff, STORE_MEMBERSHIP, &members, err);
    if (!status) {
        status = space_delete_with_content(r->gateway, uid, &r->arena, &snapshots, err);
    }
    status = store_end(store, status, err);
    if (status) {
        return status;
    }
    build_snapshots_delete(r->gateway, &snapshots);
    return 0;
}

void space_delete_handle(struct request *r)
{
    struct error err = {0};
    struct buf diff;
    change_diff_begin(&diff);
    if (delete_space(r, &diff, &err)) {
        buf_free(&diff);
        request_fail(r, &err);
        return;
    }
    change_diff_end(r, &diff);
    request_reply_empty(r);
}

/* The Spaces behind a page of the actor's memberships. One that went away meanwhile is left out. */
static int spaces_of_members(struct request *r, struct store_list *list, struct error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const Cordium__Membership *m = (const Cordium__Membership *)list->items[i];
        ProtobufCMessage *space = NULL;
        struct error cause = {0};
        int status = store_get_by_uid(r->gateway->store, STORE_SPACE, m->status->space_ref->uid,
                                      &r->arena, &space, &cause);
        if (!status) {
            list->items[kept++] = space;
        } else if (cause.status != STATUS_NOT_FOUND) {
            return error_set(err, cause.status, "%s", cause.text);
        }
    }
    list->count = kept;
    return 0;
}

void space_list_handle(struct request *r)
{
    const Cordium__ListSpaceOptions *options = (const Cordium__ListSpaceOptions *)r->message;
    struct store_filter filter = {.owner_uid = access_user_uid(r)};
    if (options->type == CORDIUM__SPACE__STATUS__TYPE__USER ||
        options->type == CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION) {
        filter.states = UINT64_C(1) << (unsigned)options->type;
    }
    if (options->mode != CORDIUM__LIST_SPACE_OPTIONS__MODE__MODE_MEMBER) {
        resource_list_reply(r, STORE_SPACE, &filter, options->common, NULL);
        return;
    }
    /* A membership's index carries its Space's type, and its name ends in the Space's. */
    struct store_page page;
    struct store_list list;
    struct error err = {0};
    resource_page_from(options->common, &page);
    if (store_list(r->gateway->store, STORE_MEMBERSHIP, &filter, &page, &r->arena, &list, &err) ||
        spaces_of_members(r, &list, &err)) {
        request_fail(r, &err);
        return;
    }
    resource_list_reply_items(r, STORE_SPACE, &list, &page);
}

int space_leave_resolve(struct request *r, struct error *err)
{
    const Cordium__LeaveSpaceRequest *asked = (const Cordium__LeaveSpaceRequest *)r->message;
    int status = access_space_by_ref(r, asked->space_ref, err);
    if (r->touched.space) {
        r->touched.target = &r->touched.space->base;
    }
    return status;
}

void space_leave_handle(struct request *r)
{
    const Cordium__Space *space = r->touched.space;
    if (strcmp(space->status->user_ref->uid, access_user_uid(r)) == 0) {
        request_fail_with(r, STATUS_PERMISSION_DENIED,
                          "The creator of the Space '%s' cannot leave it: delete the Space instead",
                          space->metadata->name);
        return;
    }
    struct error err = {0};
    if (store_delete(r->gateway->store, STORE_MEMBERSHIP, r->touched.membership->metadata->uid,
                     &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, &r->touched.membership->base, NULL);
    request_reply_empty(r);
}
