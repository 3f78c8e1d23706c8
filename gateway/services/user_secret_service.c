/* UserSecrets; declared in secret_service.h. */
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/identity/ssh_key.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/limits.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/secret_service.h"
#include "gateway/state/resource.h"

enum { USER_SECRET_BYTES_MAX = 8192 };

static void show(ProtobufCMessage *item)
{
    ((Cordium__UserSecret *)item)->data = NULL;
}

static void reply_shown(struct request *r, const ProtobufCMessage *secret)
{
    Cordium__UserSecret shown = *(const Cordium__UserSecret *)secret;
    shown.data = NULL;
    request_reply(r, &shown.base);
}

static int check_size(size_t len, struct error *err)
{
    if (len < 1 || len > USER_SECRET_BYTES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The data of the UserSecret is %zu bytes long: 1 to %d are allowed", len,
                         USER_SECRET_BYTES_MAX);
    }
    return 0;
}

static int check_data(const Cordium__UserSecret__Data *data, struct error *err)
{
    switch (data ? (int)data->type_case : 0) {
    case CORDIUM__USER_SECRET__DATA__TYPE_VALUE:
        return check_size(strlen(data->value), err);
    case CORDIUM__USER_SECRET__DATA__TYPE_VALUE_BYTES:
        return check_size(data->value_bytes.len, err);
    case CORDIUM__USER_SECRET__DATA__TYPE_ATTRS:
        return check_size(protobuf_c_message_get_packed_size(&data->attrs->base), err);
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The data of the UserSecret is unset: give value, valueBytes or attrs");
    }
}

/* The server makes the key: its private half is the data, its public half is in the status. */
static int make_ssh_key(struct request *r, Cordium__UserSecret *secret, struct error *err)
{
    if (secret->data && secret->data->type_case != CORDIUM__USER_SECRET__DATA__TYPE__NOT_SET) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "A UserSecret of type SSH_KEY takes no data: its key is made here");
    }
    const char *label = name_first_label(secret->metadata->name, &r->arena);
    const char *comment = label ? arena_printf(&r->arena, "%s@cordium", label) : NULL;
    Cordium__UserSecret__Data *data =
        CODEC_NEW(&r->arena, Cordium__UserSecret__Data, cordium__user_secret__data);
    Cordium__UserSecret__Status__SSHKey *key = CODEC_NEW(
        &r->arena, Cordium__UserSecret__Status__SSHKey, cordium__user_secret__status__sshkey);
    if (!comment || !data || !key) {
        return resource_no_memory(err);
    }
    char *private_key = NULL;
    int status = ssh_key_generate(comment, &r->arena, &private_key, &key->public_key, err);
    if (status) {
        return status;
    }
    data->type_case = CORDIUM__USER_SECRET__DATA__TYPE_VALUE;
    data->value = private_key;
    secret->data = data;
    secret->status->details_case = CORDIUM__USER_SECRET__STATUS__DETAILS_SSH_KEY;
    secret->status->ssh_key = key;
    return 0;
}

int user_secret_create_resolve(struct request *r, struct error *err)
{
    const Cordium__UserSecret *asked = (const Cordium__UserSecret *)r->message;
    const char *full = NULL;
    int status = name_complete_of_user("UserSecret", asked->metadata ? asked->metadata->name : "",
                                       access_user_name(r), &r->arena, &full, err);
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_USER_SECRET, full, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__UserSecret *secret = (Cordium__UserSecret *)made;
    Cordium__UserSecret__Status *st =
        CODEC_NEW(&r->arena, Cordium__UserSecret__Status, cordium__user_secret__status);
    if (!st) {
        return resource_no_memory(err);
    }
    secret->status = st;
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    r->touched.target = made;
    if (!st->user_ref) {
        return resource_no_memory(err);
    }
    switch ((int)secret->spec->type) {
    case CORDIUM__USER_SECRET__SPEC__TYPE__DEFAULT:
        return check_data(secret->data, err);
    case CORDIUM__USER_SECRET__SPEC__TYPE__SSH_KEY:
        return make_ssh_key(r, secret, err);
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT, "spec.type is %d: write DEFAULT or SSH_KEY",
                         (int)secret->spec->type);
    }
}

static struct store_index index_of(const struct request *r)
{
    return (struct store_index){.owner_uid = access_user_uid(r)};
}

void user_secret_create_handle(struct request *r)
{
    struct error err = {0};
    struct store_filter own = {.owner_uid = access_user_uid(r)};
    struct store_index index = index_of(r);
    if (resource_check_quota(r, STORE_USER_SECRET, &own, QUOTA_USER_SECRETS_PER_USER, "The User",
                             &err) ||
        store_insert(r->gateway->store, STORE_USER_SECRET, r->touched.target, &index, &err)) {
        request_fail(r, &err);
        return;
    }
    reply_shown(r, r->touched.target);
}

int user_secret_named_resolve(struct request *r, struct error *err)
{
    const char *uid = NULL;
    const char *name = NULL;
    ProtobufCMessage *found = NULL;
    resource_options(r->message, &uid, &name);
    return access_of_user(r, STORE_USER_SECRET, uid, name, &found, err);
}

void user_secret_get_handle(struct request *r)
{
    reply_shown(r, r->touched.target);
}

void user_secret_delete_handle(struct request *r)
{
    struct error err = {0};
    const Meta__Metadata *metadata = resource_metadata(r->touched.target);
    if (metadata->is_system) {
        request_fail_with(r, STATUS_PERMISSION_DENIED,
                          "The UserSecret '%s' belongs to the system and stays", metadata->name);
        return;
    }
    if (store_delete(r->gateway->store, STORE_USER_SECRET, metadata->uid, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply_empty(r);
}

int user_secret_update_resolve(struct request *r, struct error *err)
{
    const Cordium__UserSecret *asked = (const Cordium__UserSecret *)r->message;
    const Meta__Metadata *metadata = asked->metadata;
    ProtobufCMessage *found = NULL;
    return access_of_user(r, STORE_USER_SECRET, metadata ? metadata->uid : "",
                          metadata ? metadata->name : "", &found, err);
}

/* Data that is not sent stays as it is; a key's never changes. */
static int update_user_secret(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    const Cordium__UserSecret *asked = (const Cordium__UserSecret *)r->message;
    ProtobufCMessage *made = NULL;
    int status = resource_reread(r, STORE_USER_SECRET, &r->touched.target, err);
    const Cordium__UserSecret *stored = (const Cordium__UserSecret *)r->touched.target;
    if (!status) {
        status = resource_make_update(r, STORE_USER_SECRET, &stored->base, &made, err);
    }
    if (status) {
        return status;
    }
    Cordium__UserSecret *next = (Cordium__UserSecret *)made;
    if (next->spec->type != stored->spec->type) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "spec.type of a UserSecret cannot change");
    }
    bool has_data =
        asked->data && asked->data->type_case != CORDIUM__USER_SECRET__DATA__TYPE__NOT_SET;
    if (has_data && stored->spec->type == CORDIUM__USER_SECRET__SPEC__TYPE__SSH_KEY) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The key of an SSH_KEY cannot be replaced");
    }
    if (has_data) {
        status = check_data(asked->data, err);
        next->data = CODEC_COPY(&r->arena, Cordium__UserSecret__Data, asked->data);
        if (!status && !next->data) {
            status = resource_no_memory(err);
        }
    }
    struct store_index index = index_of(r);
    return status ? status
                  : resource_write(r, STORE_USER_SECRET, &stored->base, made, &index, ret, err);
}

void user_secret_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_user_secret(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    reply_shown(r, result);
}

void user_secret_list_handle(struct request *r)
{
    const Cordium__ListUserSecretOptions *options =
        (const Cordium__ListUserSecretOptions *)r->message;
    struct store_filter own = {.owner_uid = access_user_uid(r)};
    resource_list_reply(r, STORE_USER_SECRET, &own, options->common, show);
}
