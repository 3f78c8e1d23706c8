#include "gateway/services/git_provider_service.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/limits.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/space_listing.h"
#include "gateway/services/spec_references.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

static int check_spec(struct request *r, const Cordium__GitProvider *p, struct error *err)
{
    int status = spec_validate_git_provider(p->spec, err);
    return status ? status : spec_check_secrets(r, &p->spec->base, err);
}

static struct store_index index_of(const ProtobufCMessage *message)
{
    const Cordium__GitProvider *p = (const Cordium__GitProvider *)message;
    return (struct store_index){.space_uid = p->status->space_ref->uid,
                                .owner_uid = p->status->user_ref->uid};
}

int git_provider_create_resolve(struct request *r, struct error *err)
{
    const Cordium__GitProvider *asked = (const Cordium__GitProvider *)r->message;
    const char *full = NULL;
    int status = access_space_of_name(r, "GitProvider",
                                      asked->metadata ? asked->metadata->name : "", &full, err);
    r->touched.template_ = NULL;
    if (!status) {
        status = access_require_role(r, SPACE_ROLE_ADMIN, "create GitProviders in it", err);
    }
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_GIT_PROVIDER, full, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__GitProvider *p = (Cordium__GitProvider *)made;
    Cordium__GitProvider__Status *st =
        CODEC_NEW(&r->arena, Cordium__GitProvider__Status, cordium__git_provider__status);
    if (!st) {
        return resource_no_memory(err);
    }
    p->status = st;
    st->space_ref = resource_ref(&r->touched.space->base, &r->arena);
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    r->touched.target = made;
    return st->space_ref && st->user_ref ? check_spec(r, p, err) : resource_no_memory(err);
}

static int create_provider(struct request *r, struct error *err)
{
    int status = access_store_default(r, err);
    if (!status) {
        struct store_filter in_space = {.space_uid = r->touched.space->metadata->uid};
        status = resource_check_quota(r, STORE_GIT_PROVIDER, &in_space,
                                      QUOTA_GIT_PROVIDERS_PER_SPACE, "The Space", err);
    }
    struct store_index index = index_of(r->touched.target);
    return status ? status
                  : store_insert(r->gateway->store, STORE_GIT_PROVIDER, r->touched.target, &index,
                                 err);
}

void git_provider_create_handle(struct request *r)
{
    struct error err = {0};
    if (create_provider(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, r->touched.target);
}

int git_provider_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    ProtobufCMessage *found = NULL;
    resource_options(r->message, &uid, &name);
    return access_in_space(r, STORE_GIT_PROVIDER, uid, name, &found, err);
}

void git_provider_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

/* A Template that names it would be left with a dangling reference. */
static int check_unused(struct request *r, struct error *err)
{
    const char *uid = resource_uid(r->touched.target);
    struct store_filter filter = {.space_uid = r->touched.space->metadata->uid};
    struct store_list list;
    int status = store_list_all(r->gateway->store, STORE_TEMPLATE, &filter, &r->arena, &list, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        const Cordium__Template *t = (const Cordium__Template *)list.items[i];
        const Meta__ObjectReference *ref = t->status ? t->status->git_provider_ref : NULL;
        if (ref && strcmp(ref->uid, uid) == 0) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "The Template '%s' names this GitProvider: change it first",
                               t->metadata->name);
        }
    }
    return status;
}

void git_provider_delete_handle(struct request *r)
{
    struct error err = {0};
    if (access_require_role(r, SPACE_ROLE_ADMIN, "delete its GitProviders", &err) ||
        check_unused(r, &err) ||
        store_delete(r->gateway->store, STORE_GIT_PROVIDER, resource_uid(r->touched.target),
                     &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply_empty(r);
}

int git_provider_update_resolve(struct request *r, struct error *err)
{
    const Cordium__GitProvider *asked = (const Cordium__GitProvider *)r->message;
    const Meta__Metadata *metadata = asked->metadata;
    ProtobufCMessage *found = NULL;
    int status = access_in_space(r, STORE_GIT_PROVIDER, metadata ? metadata->uid : "",
                                 metadata ? metadata->name : "", &found, err);
    return status ? status
                  : access_require_role(r, SPACE_ROLE_ADMIN, "update its GitProviders", err);
}

static int update_provider(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = resource_reread(r, STORE_GIT_PROVIDER, &r->touched.target, err);
    if (!status) {
        status = resource_make_update(r, STORE_GIT_PROVIDER, r->touched.target, &next, err);
    }
    if (!status) {
        status = check_spec(r, (const Cordium__GitProvider *)next, err);
    }
    if (status) {
        return status;
    }
    struct store_index index = index_of(next);
    return resource_write(r, STORE_GIT_PROVIDER, r->touched.target, next, &index, ret, err);
}

void git_provider_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_provider(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, result);
}

int git_provider_list_resolve(struct request *r, struct error *err)
{
    const Cordium__ListGitProviderOptions *options =
        (const Cordium__ListGitProviderOptions *)r->message;
    int status = space_listing_resolve(r, options->space_ref, err);
    r->touched.template_ = NULL;
    return status;
}

void git_provider_list_handle(struct request *r)
{
    const Cordium__ListGitProviderOptions *options =
        (const Cordium__ListGitProviderOptions *)r->message;
    space_listing_reply(r, STORE_GIT_PROVIDER, options->common, NULL);
}
