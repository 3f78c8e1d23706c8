#include "gateway/identity/credential.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum { CREDENTIAL_ID_LEN = 16 };

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for a credential");
}

int credential_store(struct gateway *g, const Core__Credential *credential, bool is_new,
                     struct error *err)
{
    struct store_index index = {.owner_uid = credential->status->user_ref->uid};
    return is_new ? store_insert(g->store, STORE_CREDENTIAL, &credential->base, &index, err)
                  : store_update(g->store, STORE_CREDENTIAL, &credential->base, &index, NULL, err);
}

/* A copy to change, with a status and a client id. */
static int copy_for_change(struct gateway *g, const Core__Credential *credential,
                           struct arena *arena, Core__Credential **ret, struct error *err)
{
    Core__Credential *next = CODEC_COPY(arena, Core__Credential, credential);
    char *id = arena_alloc(arena, CREDENTIAL_ID_LEN + 1);
    if (!next || !id) {
        return no_memory(err);
    }
    if (!next->status || !next->status->user_ref) {
        return error_set(err, STATUS_INTERNAL, "The Credential '%s' has no user",
                         credential->metadata->name);
    }
    if (!next->status->id[0]) {
        int status = token_random_label(CREDENTIAL_ID_LEN, id, err);
        if (status) {
            return status;
        }
        next->status->id = id;
    }
    *ret = next;
    return resource_stamp_update(&next->base, gateway_wall_ns(g), arena, err);
}

static enum token_kind secret_kind(const Core__Credential *credential)
{
    return credential->spec->type == CORE__CREDENTIAL__SPEC__TYPE__OAUTH2 ? TOKEN_CLIENT_SECRET
                                                                          : TOKEN_AUTHENTICATION;
}

int credential_rotate(struct gateway *g, const Core__Credential *credential, struct arena *arena,
                      Core__Credential **ret_next, struct secret *ret_secret, struct error *err)
{
    Core__Credential *next = NULL;
    char *token_id = arena_alloc(arena, RESOURCE_UUID_BYTES);
    int status = token_id ? copy_for_change(g, credential, arena, &next, err) : no_memory(err);
    if (!status) {
        status = resource_uuid_v4(token_id, err);
    }
    if (status) {
        return status;
    }
    next->status->token_id = token_id;
    next->status->total_rotations++;
    next->status->last_rotation_at = resource_timestamp(gateway_wall_ns(g), arena);
    status =
        next->status->last_rotation_at ? credential_store(g, next, false, err) : no_memory(err);
    if (!status) {
        status = store_token_delete_subject(g->store, next->metadata->uid, UINT32_MAX, err);
    }
    enum token_kind kind = secret_kind(credential);
    struct store_token token = {
        .kind =
            kind == TOKEN_CLIENT_SECRET ? STORE_TOKEN_CLIENT_SECRET : STORE_TOKEN_AUTHENTICATION,
        .subject_uid = next->metadata->uid,
        .generation = next->status->total_rotations,
    };
    if (!status) {
        status = token_generate(kind, ret_secret, token.hash, err);
    }
    if (!status) {
        status = store_token_insert(g->store, &token, err);
    }
    *ret_next = next;
    return status;
}

static int refuse(struct error *err, const char *why)
{
    return error_set(err, STATUS_UNAUTHENTICATED, "%s", why);
}

static int check_is_alive(struct gateway *g, const Core__Credential *c, struct error *err)
{
    const Core__Credential__Spec *spec = c->spec;
    if (spec->is_disabled || (c->status && c->status->is_locked)) {
        return refuse(err, "The Credential is disabled or locked: ask an administrator");
    }
    if (spec->expires_at && resource_timestamp_ns(spec->expires_at) <= gateway_wall_ns(g)) {
        return refuse(err, "The Credential has expired: ask an administrator for a new one");
    }
    if (spec->max_authentications > 0 && c->status &&
        c->status->total_authentications >= spec->max_authentications) {
        return refuse(err, "The Credential was used as often as it may be: ask an administrator "
                           "for a new one");
    }
    return 0;
}

static int find_subject(struct gateway *g, enum token_kind kind, struct str secret,
                        struct arena *arena, Core__Credential **ret, struct error *err)
{
    static const char unknown[] = "The token is unknown: it was mistyped, replaced or revoked";
    uint8_t digest[TOKEN_DIGEST_BYTES];
    if (!token_digest(kind, secret, digest)) {
        return refuse(err, unknown);
    }
    struct store_token token;
    struct error cause = {0};
    int status = store_token_get(g->store, digest, arena, &token, &cause);
    enum store_token_kind wanted =
        kind == TOKEN_CLIENT_SECRET ? STORE_TOKEN_CLIENT_SECRET : STORE_TOKEN_AUTHENTICATION;
    if (!status && (token.kind != wanted || !token_digest_equal(token.hash, digest))) {
        return refuse(err, unknown);
    }
    ProtobufCMessage *found = NULL;
    if (!status) {
        status =
            store_get_by_uid(g->store, STORE_CREDENTIAL, token.subject_uid, arena, &found, &cause);
    }
    if (status) {
        return cause.status == STATUS_NOT_FOUND ? refuse(err, unknown)
                                                : error_set(err, cause.status, "%s", cause.text);
    }
    *ret = (Core__Credential *)found;
    return 0;
}

int credential_open(struct gateway *g, enum token_kind kind, struct str secret, struct arena *arena,
                    Core__Credential **ret, Core__User **ret_user, struct error *err)
{
    Core__Credential *credential = NULL;
    int status = find_subject(g, kind, secret, arena, &credential, err);
    if (!status && (!credential->status || secret_kind(credential) != kind)) {
        status = refuse(err, "The Credential is of another type");
    }
    if (!status) {
        status = check_is_alive(g, credential, err);
    }
    if (status) {
        return status;
    }
    Core__User *user = NULL;
    struct error cause = {0};
    if (session_user(g, credential->status->user_ref, arena, &user, &cause)) {
        return cause.status == STATUS_NOT_FOUND ? refuse(err, "The User of the Credential is gone")
                                                : error_set(err, cause.status, "%s", cause.text);
    }
    if (user->spec->is_disabled || (user->status && user->status->is_locked)) {
        return refuse(err, "The User is disabled or locked: ask an administrator");
    }
    *ret = credential;
    *ret_user = user;
    return 0;
}

int credential_count_use(struct gateway *g, const Core__Credential *credential, struct arena *arena,
                         bool *ret_is_removed, struct error *err)
{
    Core__Credential *next = NULL;
    int status = copy_for_change(g, credential, arena, &next, err);
    if (status) {
        return status;
    }
    next->status->total_authentications++;
    bool is_used_up = next->spec->max_authentications > 0 &&
                      next->status->total_authentications >= next->spec->max_authentications;
    *ret_is_removed = is_used_up && next->spec->auto_delete;
    if (*ret_is_removed) {
        status = store_token_delete_subject(g->store, next->metadata->uid, UINT32_MAX, err);
        return status ? status : store_delete(g->store, STORE_CREDENTIAL, next->metadata->uid, err);
    }
    return credential_store(g, next, false, err);
}
