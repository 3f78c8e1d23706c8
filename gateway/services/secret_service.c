#include "gateway/services/secret_service.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/limits.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/space_listing.h"
#include "gateway/state/resource.h"

enum { SECRET_BYTES_MAX = 1500 };

static void show(ProtobufCMessage *item)
{
    ((Cordium__Secret *)item)->data = NULL;
}

static void reply_shown(struct request *r, const ProtobufCMessage *secret)
{
    /* Shallow: only the top message changes, and the data is not copied about. */
    Cordium__Secret shown = *(const Cordium__Secret *)secret;
    shown.data = NULL;
    request_reply(r, &shown.base);
}

static int check_data(const Cordium__Secret__Data *data, struct error *err)
{
    size_t len = 0;
    if (data && data->type_case == CORDIUM__SECRET__DATA__TYPE_VALUE) {
        len = strlen(data->value);
    } else if (data && data->type_case == CORDIUM__SECRET__DATA__TYPE_VALUE_BYTES) {
        len = data->value_bytes.len;
    } else {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The data of the Secret is unset or of another form: give value or "
                         "valueBytes");
    }
    if (len < 1 || len > SECRET_BYTES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The data of the Secret is %zu bytes long: 1 to %d are allowed", len,
                         SECRET_BYTES_MAX);
    }
    return 0;
}

int secret_create_resolve(struct request *r, struct error *err)
{
    const Cordium__Secret *asked = (const Cordium__Secret *)r->message;
    const char *full = NULL;
    int status =
        access_space_of_name(r, "Secret", asked->metadata ? asked->metadata->name : "", &full, err);
    r->touched.template_ = NULL;
    if (!status) {
        status = access_require_role(r, SPACE_ROLE_ADMIN, "create Secrets in it", err);
    }
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_SECRET, full, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__Secret *secret = (Cordium__Secret *)made;
    Cordium__Secret__Status *st =
        CODEC_NEW(&r->arena, Cordium__Secret__Status, cordium__secret__status);
    if (!st) {
        return resource_no_memory(err);
    }
    secret->status = st;
    st->space_ref = resource_ref(&r->touched.space->base, &r->arena);
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    r->touched.target = made;
    return st->space_ref && st->user_ref ? check_data(secret->data, err) : resource_no_memory(err);
}

static int create_secret(struct request *r, struct error *err)
{
    const Cordium__Secret *secret = (const Cordium__Secret *)r->touched.target;
    int status = access_store_default(r, err);
    if (!status) {
        struct store_filter in_space = {.space_uid = r->touched.space->metadata->uid};
        status = resource_check_quota(r, STORE_SECRET, &in_space, QUOTA_SECRETS_PER_SPACE,
                                      "The Space", err);
    }
    struct store_index index = {.space_uid = secret->status->space_ref->uid,
                                .owner_uid = secret->status->user_ref->uid};
    return status ? status
                  : store_insert(r->gateway->store, STORE_SECRET, &secret->base, &index, err);
}

void secret_create_handle(struct request *r)
{
    struct error err = {0};
    if (create_secret(r, &err)) {
        request_fail(r, &err);
        return;
    }
    reply_shown(r, r->touched.target);
}

int secret_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    ProtobufCMessage *found = NULL;
    resource_options(r->message, &uid, &name);
    int status = access_in_space(r, STORE_SECRET, uid, name, &found, err);
    return status ? status : access_require_role(r, SPACE_ROLE_ADMIN, "use its Secrets", err);
}

void secret_get_handle(struct request *r)
{
    reply_shown(r, r->touched.target);
}

void secret_delete_handle(struct request *r)
{
    struct error err = {0};
    if (store_delete(r->gateway->store, STORE_SECRET, resource_uid(r->touched.target), &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply_empty(r);
}

int secret_list_resolve(struct request *r, struct error *err)
{
    const Cordium__ListSecretOptions *options = (const Cordium__ListSecretOptions *)r->message;
    int status = space_listing_resolve(r, options->space_ref, err);
    r->touched.template_ = NULL;
    return status;
}

void secret_list_handle(struct request *r)
{
    const Cordium__ListSecretOptions *options = (const Cordium__ListSecretOptions *)r->message;
    space_listing_reply(r, STORE_SECRET, options->common, show);
}
