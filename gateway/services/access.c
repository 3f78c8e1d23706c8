#include "gateway/services/access.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

const char *access_user_name(const struct request *r)
{
    return r->actor.user->metadata->name;
}

const char *access_user_uid(const struct request *r)
{
    return r->actor.user->metadata->uid;
}

enum space_role access_role_of(const Cordium__Membership *membership)
{
    if (!membership || !membership->spec) {
        return 0;
    }
    switch ((int)membership->spec->role) {
    case CORDIUM__MEMBERSHIP__SPEC__ROLE__OWNER:
        return SPACE_ROLE_OWNER;
    case CORDIUM__MEMBERSHIP__SPEC__ROLE__ADMIN:
        return SPACE_ROLE_ADMIN;
    case CORDIUM__MEMBERSHIP__SPEC__ROLE__USER:
        return SPACE_ROLE_USER;
    default:
        return 0;
    }
}

static const char *role_name(enum space_role role)
{
    switch (role) {
    case SPACE_ROLE_OWNER:
        return "OWNER";
    case SPACE_ROLE_ADMIN:
        return "ADMIN";
    case SPACE_ROLE_USER:
        return "USER";
    }
    return "no member";
}

int access_require_role(const struct request *r, enum space_role role, const char *what,
                        struct error *err)
{
    enum space_role has = access_role_of(r->touched.membership);
    if (has >= role) {
        return 0;
    }
    return error_set(err, STATUS_PERMISSION_DENIED,
                     "The User '%s' is %s of the Space '%s': the role %s is needed to %s",
                     access_user_name(r), role_name(has), r->touched.space->metadata->name,
                     role_name(role), what);
}

int access_membership(struct request *r, const char *space_uid, const char *user_uid,
                      Cordium__Membership **ret, struct error *err)
{
    struct store_filter filter = {.space_uid = space_uid, .owner_uid = user_uid};
    struct store_list list;
    int status =
        store_list_all(r->gateway->store, STORE_MEMBERSHIP, &filter, &r->arena, &list, err);
    if (status) {
        return status;
    }
    if (list.count == 0) {
        return error_set(err, STATUS_NOT_FOUND, "The User is no member of the Space");
    }
    *ret = (Cordium__Membership *)list.items[0];
    return 0;
}

int access_make_membership(struct request *r, const Core__User *user, const Cordium__Space *space,
                           Cordium__Membership__Spec__Role role, Cordium__Membership **ret,
                           struct error *err)
{
    Cordium__Membership *m = CODEC_NEW(&r->arena, Cordium__Membership, cordium__membership);
    Cordium__Membership__Spec *spec =
        CODEC_NEW(&r->arena, Cordium__Membership__Spec, cordium__membership__spec);
    Cordium__Membership__Status *st =
        CODEC_NEW(&r->arena, Cordium__Membership__Status, cordium__membership__status);
    Cordium__Membership__Status__UserInfo *info = CODEC_NEW(
        &r->arena, Cordium__Membership__Status__UserInfo, cordium__membership__status__user_info);
    const char *name =
        arena_printf(&r->arena, "%s.%s", user->metadata->name, space->metadata->name);
    if (!m || !spec || !st || !info || !name) {
        return resource_no_memory(err);
    }
    m->spec = spec;
    m->status = st;
    int status =
        resource_stamp_new(&m->base, STORE_MEMBERSHIP, name, r->started_at_ns, &r->arena, err);
    if (status) {
        return status;
    }
    spec->role = role;
    st->user_ref = resource_ref(&user->base, &r->arena);
    st->space_ref = resource_ref(&space->base, &r->arena);
    st->user_info = info;
    info->display_name = user->metadata->display_name;
    info->pic_url = user->metadata->pic_url;
    *ret = m;
    return st->user_ref && st->space_ref ? 0 : resource_no_memory(err);
}

static int plan_template(struct request *r, Cordium__Space *space, Cordium__Template **ret,
                         struct error *err)
{
    Cordium__Template *t = CODEC_NEW(&r->arena, Cordium__Template, cordium__template);
    Cordium__Template__Spec *spec =
        CODEC_NEW(&r->arena, Cordium__Template__Spec, cordium__template__spec);
    Cordium__Template__Status *st =
        CODEC_NEW(&r->arena, Cordium__Template__Status, cordium__template__status);
    const char *name = arena_printf(&r->arena, NAME_DEFAULT_TEMPLATE ".%s", space->metadata->name);
    if (!t || !spec || !st || !name) {
        return resource_no_memory(err);
    }
    t->spec = spec;
    t->status = st;
    int status =
        resource_stamp_new(&t->base, STORE_TEMPLATE, name, r->started_at_ns, &r->arena, err);
    if (status) {
        return status;
    }
    st->space_ref = resource_ref(&space->base, &r->arena);
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    *ret = t;
    return st->space_ref && st->user_ref ? 0 : resource_no_memory(err);
}

int access_plan_space(struct request *r, Cordium__Space *space, Cordium__Membership **ret_owner,
                      Cordium__Template **ret_template, struct error *err)
{
    int status = access_make_membership(r, r->actor.user, space,
                                        CORDIUM__MEMBERSHIP__SPEC__ROLE__OWNER, ret_owner, err);
    return status ? status : plan_template(r, space, ret_template, err);
}

/* The default Space as it will be. */
static int plan_default(struct request *r, const char *name, struct error *err)
{
    Cordium__Space *space = CODEC_NEW(&r->arena, Cordium__Space, cordium__space);
    Cordium__Space__Spec *spec = CODEC_NEW(&r->arena, Cordium__Space__Spec, cordium__space__spec);
    Cordium__Space__Status *st =
        CODEC_NEW(&r->arena, Cordium__Space__Status, cordium__space__status);
    if (!space || !spec || !st) {
        return resource_no_memory(err);
    }
    space->spec = spec;
    space->status = st;
    int status =
        resource_stamp_new(&space->base, STORE_SPACE, name, r->started_at_ns, &r->arena, err);
    if (status) {
        return status;
    }
    st->type = CORDIUM__SPACE__STATUS__TYPE__USER;
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    if (!st->user_ref) {
        return resource_no_memory(err);
    }
    r->touched.space = space;
    return access_plan_space(r, space, &r->touched.membership, &r->touched.template_, err);
}

static bool is_default_space(const struct request *r, const char *full_name)
{
    size_t n = sizeof(NAME_DEFAULT_SPACE) - 1;
    return strncmp(full_name, NAME_DEFAULT_SPACE ".", n + 1) == 0 &&
           strcmp(full_name + n + 1, access_user_name(r)) == 0;
}

/* The actor's membership of r->touched.space. */
static int join_membership(struct request *r, struct error *err)
{
    struct error cause = {0};
    const Cordium__Space *space = r->touched.space;
    if (!access_membership(r, space->metadata->uid, access_user_uid(r), &r->touched.membership,
                           &cause)) {
        return 0;
    }
    if (cause.status != STATUS_NOT_FOUND) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    return error_set(
        err, STATUS_PERMISSION_DENIED,
        "The User '%s' is no member of the Space '%s': its owner or an admin of it can "
        "add a Membership",
        access_user_name(r), space->metadata->name);
}

int access_space(struct request *r, const char *uid, const char *name, struct error *err)
{
    const char *full = "";
    if (!uid || !uid[0]) {
        int status = name_find_space(name, access_user_name(r), &r->arena, &full, err);
        if (status) {
            return status;
        }
    }
    ProtobufCMessage *space = NULL;
    struct error cause = {0};
    int status =
        resource_find(r->gateway->store, STORE_SPACE, uid, full, &r->arena, &space, &cause);
    if (status == -STATUS_NOT_FOUND && is_default_space(r, full)) {
        return plan_default(r, full, err);
    }
    if (status) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    r->touched.space = (Cordium__Space *)space;
    return join_membership(r, err);
}

int access_space_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err)
{
    if (!resource_ref_is_set(ref)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spaceRef is unset: give the name or uid of a Space");
    }
    return access_space(r, ref->uid, ref->name, err);
}

int access_default_space(struct request *r, struct error *err)
{
    return access_space(r, NULL, NAME_DEFAULT_SPACE, err);
}

int access_space_of_name(struct request *r, const char *kind, const char *name,
                         const char **ret_full, struct error *err)
{
    const char *full = NULL;
    int status = name_complete_in_space(kind, name, access_user_name(r), &r->arena, &full, err);
    if (status) {
        return status;
    }
    *ret_full = full;
    return access_space(r, NULL, name_parent(full), err);
}

/* status.space_ref or status.user_ref, which not every resource has. */
static const Meta__ObjectReference *status_ref(const ProtobufCMessage *resource, const char *field)
{
    const ProtobufCMessage *status = resource_status(resource);
    if (!status) {
        return NULL;
    }
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(status->descriptor, field);
    return f ? *(const Meta__ObjectReference *const *)((const char *)status + f->offset) : NULL;
}

static void set_target(struct request *r, enum store_kind kind, ProtobufCMessage *message)
{
    r->touched.target = message;
    if (kind == STORE_TEMPLATE) {
        r->touched.template_ = (Cordium__Template *)message;
    }
}

/* By uid: the thing first, then its Space. */
static int find_by_uid(struct request *r, enum store_kind kind, const char *uid,
                       ProtobufCMessage **ret, struct error *err)
{
    int status = resource_find(r->gateway->store, kind, uid, "", &r->arena, ret, err);
    if (status) {
        return status;
    }
    const Meta__ObjectReference *space = status_ref(*ret, "space_ref");
    status = access_space(r, space ? space->uid : "", space ? space->name : "", err);
    if (!status) {
        set_target(r, kind, *ret);
    }
    return status;
}

int access_in_space(struct request *r, enum store_kind kind, const char *uid, const char *name,
                    ProtobufCMessage **ret, struct error *err)
{
    if (uid && uid[0]) {
        return find_by_uid(r, kind, uid, ret, err);
    }
    const char *full = NULL;
    int status = access_space_of_name(r, store_kind_info(kind)->kind, name, &full, err);
    if (status) {
        return status;
    }
    /* The Space was planned just now: its Template exists as a plan, and nothing else does. */
    const Cordium__Template *planned = r->touched.template_;
    if (kind == STORE_TEMPLATE && planned && strcmp(planned->metadata->name, full) == 0) {
        *ret = &r->touched.template_->base;
        r->touched.target = *ret;
        return 0;
    }
    r->touched.template_ = NULL;
    status = resource_find(r->gateway->store, kind, "", full, &r->arena, ret, err);
    if (!status) {
        set_target(r, kind, *ret);
    }
    return status;
}

int access_of_user(struct request *r, enum store_kind kind, const char *uid, const char *name,
                   ProtobufCMessage **ret, struct error *err)
{
    const char *full = "";
    const char *kind_name = store_kind_info(kind)->kind;
    if (!uid || !uid[0]) {
        int status =
            name_complete_of_user(kind_name, name, access_user_name(r), &r->arena, &full, err);
        if (status) {
            return status;
        }
    }
    int status = resource_find(r->gateway->store, kind, uid, full, &r->arena, ret, err);
    if (status) {
        return status;
    }
    const Meta__ObjectReference *owner = status_ref(*ret, "user_ref");
    if (!owner || strcmp(owner->uid, access_user_uid(r)) != 0) {
        return error_set(err, STATUS_PERMISSION_DENIED, "The %s belongs to another User",
                         kind_name);
    }
    r->touched.target = *ret;
    return 0;
}

int access_template_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err)
{
    ProtobufCMessage *template_ = NULL;
    if (!resource_ref_is_set(ref)) {
        return access_in_space(r, STORE_TEMPLATE, NULL, NAME_DEFAULT_TEMPLATE, &template_, err);
    }
    return access_in_space(r, STORE_TEMPLATE, ref->uid, ref->name, &template_, err);
}

static int insert_all(struct request *r, const Cordium__Space *space,
                      const Cordium__Membership *owner, const Cordium__Template *template_,
                      struct error *err)
{
    struct store *store = r->gateway->store;
    const char *user_uid = access_user_uid(r);
    int type = (int)space->status->type;
    struct store_index of_space = {.owner_uid = user_uid, .state = type};
    struct store_index within = {.space_uid = space->metadata->uid, .owner_uid = user_uid};
    struct store_index of_member = within;
    of_member.state = type;
    int status = store_insert(store, STORE_SPACE, &space->base, &of_space, err);
    if (!status) {
        status = store_insert(store, STORE_MEMBERSHIP, &owner->base, &of_member, err);
    }
    return status ? status : store_insert(store, STORE_TEMPLATE, &template_->base, &within, err);
}

int access_insert_space(struct request *r, const Cordium__Space *space,
                        const Cordium__Membership *owner, const Cordium__Template *template_,
                        struct error *err)
{
    struct store *store = r->gateway->store;
    int status = store_begin(store, err);
    if (status) {
        return status;
    }
    status = insert_all(r, space, owner, template_, err);
    return store_end(store, status, err);
}

int access_store_default(struct request *r, struct error *err)
{
    Cordium__Space *space = r->touched.space;
    if (!space || !is_default_space(r, space->metadata->name)) {
        return 0;
    }
    ProtobufCMessage *stored = NULL;
    struct error cause = {0};
    int status = store_get_by_uid(r->gateway->store, STORE_SPACE, space->metadata->uid, &r->arena,
                                  &stored, &cause);
    if (status != -STATUS_NOT_FOUND) {
        return status ? error_set(err, cause.status, "%s", cause.text) : 0;
    }
    Cordium__Membership *owner = NULL;
    Cordium__Template *template_ = NULL;
    status = access_plan_space(r, space, &owner, &template_, err);
    if (status) {
        return status;
    }
    /* What a decision was made about is what gets stored. */
    owner = r->touched.membership ? r->touched.membership : owner;
    template_ = r->touched.template_ ? r->touched.template_ : template_;
    r->touched.template_ = template_;
    return access_insert_space(r, space, owner, template_, err);
}

int access_cluster_config(struct request *r, Cordium__ClusterConfig **ret, struct error *err)
{
    struct store_list list;
    int status = store_list_all(r->gateway->store, STORE_CORDIUM_CONFIG, &(struct store_filter){0},
                                &r->arena, &list, err);
    if (status) {
        return status;
    }
    if (list.count == 0) {
        return error_set(err, STATUS_INTERNAL,
                         "The store has no ClusterConfig: run 'cordium-gateway init'");
    }
    *ret = (Cordium__ClusterConfig *)list.items[0];
    return 0;
}
