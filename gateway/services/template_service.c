#include "gateway/services/template_service.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/build_snapshot.h"
#include "gateway/services/limits.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/space_listing.h"
#include "gateway/services/spec_references.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

/* The rules that need the store, and the reference to the git provider. */
static int check_spec(struct request *r, Cordium__Template *t, struct error *err)
{
    Cordium__ClusterConfig *cluster = NULL;
    int status = spec_validate_template(t->spec, err);
    if (!status) {
        status = access_cluster_config(r, &cluster, err);
    }
    if (!status) {
        const struct limit_sources sources = {
            .workspace = t->spec->limit, .space = r->touched.space, .cluster = cluster};
        status = limit_check_asked(&sources, err);
    }
    if (!status) {
        status = spec_check_secrets(r, &t->spec->base, err);
    }
    if (!status) {
        status = spec_check_volumes(r, t->spec->runtime, err);
    }
    t->status->git_provider_ref = NULL;
    if (status || !t->spec->git_provider[0]) {
        return status;
    }
    const char *name = t->spec->git_provider;
    const char *full = strchr(name, '.') ? name
                                         : arena_printf(&r->arena, "%s.%s", name,
                                                        r->touched.space->metadata->name);
    if (!full) {
        return resource_no_memory(err);
    }
    if (strcmp(name_parent(full), r->touched.space->metadata->name) != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.gitProvider: '%s' is not in the Space '%s'", name,
                         r->touched.space->metadata->name);
    }
    ProtobufCMessage *provider = NULL;
    status =
        store_get_by_name(r->gateway->store, STORE_GIT_PROVIDER, full, &r->arena, &provider, err);
    if (status) {
        return status;
    }
    t->status->git_provider_ref = resource_ref(provider, &r->arena);
    return t->status->git_provider_ref ? 0 : resource_no_memory(err);
}

static struct store_index index_of(const Cordium__Template *t)
{
    return (struct store_index){.space_uid = t->status->space_ref->uid,
                                .owner_uid = t->status->user_ref->uid};
}

int template_create_resolve(struct request *r, struct error *err)
{
    const Cordium__Template *asked = (const Cordium__Template *)r->message;
    const char *name = asked->metadata ? asked->metadata->name : "";
    const char *full = NULL;
    int status = access_space_of_name(r, "Template", name, &full, err);
    r->touched.template_ = NULL;
    if (!status) {
        status = access_require_role(r, SPACE_ROLE_ADMIN, "create Templates in it", err);
    }
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_TEMPLATE, full, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__Template *t = (Cordium__Template *)made;
    Cordium__Template__Status *st =
        CODEC_NEW(&r->arena, Cordium__Template__Status, cordium__template__status);
    if (!st) {
        return resource_no_memory(err);
    }
    t->status = st;
    st->space_ref = resource_ref(&r->touched.space->base, &r->arena);
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    r->touched.target = made;
    return st->space_ref && st->user_ref ? check_spec(r, t, err) : resource_no_memory(err);
}

static int create_template(struct request *r, struct error *err)
{
    const Cordium__Template *t = (const Cordium__Template *)r->touched.target;
    int status = access_store_default(r, err);
    if (!status) {
        struct store_filter in_space = {.space_uid = r->touched.space->metadata->uid};
        status = resource_check_quota(r, STORE_TEMPLATE, &in_space, QUOTA_TEMPLATES_PER_SPACE,
                                      "The Space", err);
    }
    if (status) {
        return status;
    }
    struct store_index index = index_of(t);
    struct error cause = {0};
    status = store_insert(r->gateway->store, STORE_TEMPLATE, &t->base, &index, &cause);
    if (status == -STATUS_ALREADY_EXISTS) {
        /* The original's code for it. */
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The Template '%s' exists already: choose another name or update it",
                         t->metadata->name);
    }
    return status ? error_set(err, cause.status, "%s", cause.text) : 0;
}

void template_create_handle(struct request *r)
{
    struct error err = {0};
    if (create_template(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, r->touched.target);
}

int template_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    ProtobufCMessage *found = NULL;
    resource_options(r->message, &uid, &name);
    return access_in_space(r, STORE_TEMPLATE, uid, name, &found, err);
}

void template_get_handle(struct request *r)
{
    struct error err = {0};
    if (access_store_default(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, r->touched.target);
}

/* The template and what its ready build left, or neither. */
static int delete_with_build(struct request *r, const Cordium__Template *t, struct error *err)
{
    struct store *store = r->gateway->store;
    struct build_snapshots snapshots = {NULL};
    int status = store_begin(store, err);
    if (status) {
        return status;
    }
    status = build_snapshot_forget(r->gateway, t, &r->arena, &snapshots, err);
    if (!status) {
        status = store_delete(store, STORE_TEMPLATE, t->metadata->uid, err);
    }
    status = store_end(store, status, err);
    if (status) {
        return status;
    }
    build_snapshots_delete(r->gateway, &snapshots);
    return 0;
}

/* ADMIN may delete what he made, OWNER all. */
static int delete_template(struct request *r, struct error *err)
{
    int status = access_store_default(r, err);
    if (!status) {
        status = resource_reread(r, STORE_TEMPLATE, &r->touched.target, err);
    }
    if (status) {
        return status;
    }
    const Cordium__Template *t = (const Cordium__Template *)r->touched.target;
    bool is_creator = strcmp(t->status->user_ref->uid, access_user_uid(r)) == 0;
    status = access_require_role(r, is_creator ? SPACE_ROLE_ADMIN : SPACE_ROLE_OWNER,
                                 "delete this Template", err);
    if (status) {
        return status;
    }
    if (strncmp(t->metadata->name, NAME_DEFAULT_TEMPLATE ".", sizeof(NAME_DEFAULT_TEMPLATE)) == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The Template '%s' is the default of its Space and stays: update it",
                         t->metadata->name);
    }
    const Cordium__Template__Status__BuildInfo *info = t->status->build_info;
    if (info && info->current_running_build_id[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The Template '%s' is being built: cancel its build first",
                         t->metadata->name);
    }
    return delete_with_build(r, t, err);
}

void template_delete_handle(struct request *r)
{
    struct error err = {0};
    if (delete_template(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply_empty(r);
}

int template_update_resolve(struct request *r, struct error *err)
{
    const Cordium__Template *asked = (const Cordium__Template *)r->message;
    const Meta__Metadata *metadata = asked->metadata;
    ProtobufCMessage *found = NULL;
    int status = access_in_space(r, STORE_TEMPLATE, metadata ? metadata->uid : "",
                                 metadata ? metadata->name : "", &found, err);
    return status ? status : access_require_role(r, SPACE_ROLE_ADMIN, "update its Templates", err);
}

static int update_template(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = access_store_default(r, err);
    if (!status) {
        status = resource_reread(r, STORE_TEMPLATE, &r->touched.target, err);
    }
    if (!status) {
        status = resource_make_update(r, STORE_TEMPLATE, r->touched.target, &next, err);
    }
    if (!status) {
        status = check_spec(r, (Cordium__Template *)next, err);
    }
    if (status) {
        return status;
    }
    struct store_index index = index_of((const Cordium__Template *)next);
    return resource_write(r, STORE_TEMPLATE, r->touched.target, next, &index, ret, err);
}

void template_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_template(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, result);
}

int template_list_resolve(struct request *r, struct error *err)
{
    const Cordium__ListTemplateOptions *options = (const Cordium__ListTemplateOptions *)r->message;
    int status = space_listing_resolve(r, options->space_ref, err);
    r->touched.template_ = NULL;
    return status;
}

void template_list_handle(struct request *r)
{
    const Cordium__ListTemplateOptions *options = (const Cordium__ListTemplateOptions *)r->message;
    space_listing_reply(r, STORE_TEMPLATE, options->common, NULL);
}
