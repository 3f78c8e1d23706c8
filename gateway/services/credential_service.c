#include "gateway/services/credential_service.h"

#include <string.h>

#include "gateway/authorize/policy_store.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/credential.h"
#include "gateway/identity/session.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/admin_target.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/identity_rules.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

int credential_create_resolve(struct request *r, struct error *err)
{
    int status = admin_require(r, err);
    ProtobufCMessage *made = NULL;
    if (!status) {
        status = resource_make(r, STORE_CREDENTIAL, resource_name(r->message), &made, err);
    }
    if (status) {
        return status;
    }
    r->touched.target = made;
    Core__Credential *credential = (Core__Credential *)made;
    Core__User *user = NULL;
    status = credential_validate(r->gateway, credential, NULL, &r->arena, &user, err);
    if (status) {
        return status;
    }
    char *id = arena_alloc(&r->arena, TOKEN_RANDOM_ID_MAX + 1);
    credential->status = CODEC_NEW(&r->arena, Core__Credential__Status, core__credential__status);
    if (!id || !credential->status) {
        return resource_no_memory(err);
    }
    credential->status->id = id;
    credential->status->user_ref = resource_ref(&user->base, &r->arena);
    return credential->status->user_ref ? token_random_label(16, id, err) : resource_no_memory(err);
}

void credential_create_handle(struct request *r)
{
    struct error err = {0};
    if (credential_store(r->gateway, (const Core__Credential *)r->touched.target, true, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, NULL, r->touched.target);
    request_reply(r, r->touched.target);
}

int credential_named_resolve(struct request *r, struct error *err)
{
    return admin_target_by_options(r, STORE_CREDENTIAL, err);
}

void credential_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

/* Those that the credential opened. */
static int delete_sessions(struct request *r, const char *credential_uid, struct buf *diff,
                           struct error *err)
{
    struct store_filter opened = {.template_uid = credential_uid,
                                  .hidden = STORE_HIDDEN_AND_VISIBLE};
    int status = change_diff_add_deleted(r, diff, STORE_SESSION, &opened, err);
    return status ? status : session_delete_all(r->gateway, NULL, credential_uid, &r->arena, err);
}

/* Who takes a credential away means its sessions too. */
static int delete_credential(struct request *r, struct buf *diff, struct error *err)
{
    struct store *store = r->gateway->store;
    const char *uid = resource_uid(r->touched.target);
    int status = store_begin(store, err);
    if (status) {
        return status;
    }
    status = store_token_delete_subject(store, uid, UINT32_MAX, err);
    if (!status) {
        change_diff_add(r, diff, r->touched.target, NULL);
        status = delete_sessions(r, uid, diff, err);
    }
    if (!status) {
        status = store_delete(store, STORE_CREDENTIAL, uid, err);
    }
    return store_end(r->gateway->store, status, err);
}

void credential_delete_handle(struct request *r)
{
    struct error err = {0};
    struct buf diff;
    change_diff_begin(&diff);
    if (delete_credential(r, &diff, &err)) {
        buf_free(&diff);
        request_fail(r, &err);
        return;
    }
    change_diff_end(r, &diff);
    request_reply_empty(r);
}

int credential_update_resolve(struct request *r, struct error *err)
{
    return admin_target_by_metadata(r, STORE_CREDENTIAL, err);
}

static int update_credential(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    Core__User *user = NULL;
    int status = resource_reread(r, STORE_CREDENTIAL, &r->touched.target, err);
    const Core__Credential *stored = (const Core__Credential *)r->touched.target;
    if (!status) {
        status = resource_make_update(r, STORE_CREDENTIAL, &stored->base, &next, err);
    }
    if (!status) {
        status = credential_validate(r->gateway, (const Core__Credential *)next, stored, &r->arena,
                                     &user, err);
    }
    if (status) {
        return status;
    }
    struct store_index index = {.owner_uid = user->metadata->uid};
    return resource_write(r, STORE_CREDENTIAL, &stored->base, next, &index, ret, err);
}

void credential_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_credential(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    request_reply(r, result);
}

/* The filter of a list that may be narrowed to one user. */
static int filter_of_user(struct request *r, const Meta__ObjectReference *user_ref,
                          struct store_filter *ret, struct error *err)
{
    if (!resource_ref_is_set(user_ref)) {
        return 0;
    }
    ProtobufCMessage *user = NULL;
    int status = resource_find(r->gateway->store, STORE_USER, user_ref->uid, user_ref->name,
                               &r->arena, &user, err);
    if (!status) {
        ret->owner_uid = resource_uid(user);
    }
    return status;
}

void credential_list_handle(struct request *r)
{
    const Core__ListCredentialOptions *options = (const Core__ListCredentialOptions *)r->message;
    struct store_filter filter = {0};
    struct error err = {0};
    if (filter_of_user(r, options->user_ref, &filter, &err)) {
        request_fail(r, &err);
        return;
    }
    resource_list_reply(r, STORE_CREDENTIAL, &filter, options->common, NULL);
}

int credential_token_resolve(struct request *r, struct error *err)
{
    const Core__GenerateCredentialTokenRequest *asked =
        (const Core__GenerateCredentialTokenRequest *)r->message;
    const Meta__ObjectReference *ref = asked->credential_ref;
    return admin_target_find(r, STORE_CREDENTIAL, ref ? ref->uid : "", ref ? ref->name : "", err);
}

static char *secret_text(const struct secret *secret, struct arena *arena)
{
    return arena_strndup(arena, secret->text, secret->len);
}

/* A session of its own, whose one access token is the credential. */
static int open_access_session(struct request *r, const Core__Credential *credential,
                               Core__CredentialToken *reply, struct buf *diff, struct error *err)
{
    Core__User *user = NULL;
    Core__Session *session = NULL;
    struct session_tokens tokens;
    int status = delete_sessions(r, credential->metadata->uid, diff, err);
    if (!status) {
        status = session_user(r->gateway, credential->status->user_ref, &r->arena, &user, err);
    }
    if (status) {
        return status;
    }
    struct session_login login = {.user = user,
                                  .credential = credential,
                                  .peer = call_origin(r->call)->peer,
                                  .tokens = SESSION_LONG_ACCESS};
    status = session_open(r->gateway, &login, &r->arena, &session, &tokens, err);
    Core__CredentialToken__AccessToken *token = CODEC_NEW(
        &r->arena, Core__CredentialToken__AccessToken, core__credential_token__access_token);
    if (status || !token) {
        return status ? status : resource_no_memory(err);
    }
    token->access_token = secret_text(&tokens.access, &r->arena);
    secret_wipe(&tokens.access);
    change_diff_add(r, diff, NULL, &session->base);
    reply->type_case = CORE__CREDENTIAL_TOKEN__TYPE_ACCESS_TOKEN;
    reply->access_token = token;
    return token->access_token ? 0 : resource_no_memory(err);
}

static int rotate_secret(struct request *r, const Core__Credential *credential,
                         Core__CredentialToken *reply, struct error *err)
{
    Core__Credential *next = NULL;
    struct secret secret;
    int status = credential_rotate(r->gateway, credential, &r->arena, &next, &secret, err);
    Core__CredentialToken__AuthenticationToken *token =
        CODEC_NEW(&r->arena, Core__CredentialToken__AuthenticationToken,
                  core__credential_token__authentication_token);
    Core__CredentialToken__OAuth2Credentials *oauth2 =
        CODEC_NEW(&r->arena, Core__CredentialToken__OAuth2Credentials,
                  core__credential_token__oauth2_credentials);
    if (status) {
        return status;
    }
    char *text = secret_text(&secret, &r->arena);
    secret_wipe(&secret);
    if (!token || !oauth2 || !text) {
        return resource_no_memory(err);
    }
    if (credential->spec->type == CORE__CREDENTIAL__SPEC__TYPE__OAUTH2) {
        oauth2->client_id = next->status->id;
        oauth2->client_secret = text;
        reply->type_case = CORE__CREDENTIAL_TOKEN__TYPE_OAUTH2_CREDENTIALS;
        reply->oauth2_credentials = oauth2;
    } else {
        token->authentication_token = text;
        reply->type_case = CORE__CREDENTIAL_TOKEN__TYPE_AUTHENTICATION_TOKEN;
        reply->authentication_token = token;
    }
    return 0;
}

static int generate_token(struct request *r, Core__CredentialToken *reply, struct buf *diff,
                          struct error *err)
{
    int status = resource_reread(r, STORE_CREDENTIAL, &r->touched.target, err);
    if (!status) {
        status = store_begin(r->gateway->store, err);
    }
    if (status) {
        return status;
    }
    const Core__Credential *credential = (const Core__Credential *)r->touched.target;
    bool is_access = credential->spec->type == CORE__CREDENTIAL__SPEC__TYPE__ACCESS_TOKEN;
    status = is_access ? open_access_session(r, credential, reply, diff, err)
                       : rotate_secret(r, credential, reply, err);
    return store_end(r->gateway->store, status, err);
}

void credential_token_handle(struct request *r)
{
    struct error err = {0};
    Core__CredentialToken reply = CORE__CREDENTIAL_TOKEN__INIT;
    struct buf diff;
    change_diff_begin(&diff);
    if (generate_token(r, &reply, &diff, &err)) {
        buf_free(&diff);
        request_fail(r, &err);
        return;
    }
    change_diff_end(r, &diff);
    request_reply(r, &reply.base);
}

/* Sessions */

int session_named_resolve(struct request *r, struct error *err)
{
    return admin_target_by_options(r, STORE_SESSION, err);
}

void session_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

void session_delete_handle(struct request *r)
{
    struct error err = {0};
    int status = store_begin(r->gateway->store, &err);
    if (!status) {
        status = store_end(r->gateway->store,
                           session_delete(r->gateway, resource_uid(r->touched.target), &err), &err);
    }
    if (status) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, NULL);
    request_reply_empty(r);
}

int session_update_resolve(struct request *r, struct error *err)
{
    return admin_target_by_metadata(r, STORE_SESSION, err);
}

static int update_session(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *made = NULL;
    int status = resource_reread(r, STORE_SESSION, &r->touched.target, err);
    const Core__Session *stored = (const Core__Session *)r->touched.target;
    if (!status) {
        status = resource_make_update(r, STORE_SESSION, &stored->base, &made, err);
    }
    if (status) {
        return status;
    }
    const Core__Session *next = (const Core__Session *)made;
    if (next->spec->state < CORE__SESSION__SPEC__STATE__ACTIVE ||
        next->spec->state > CORE__SESSION__SPEC__STATE__REJECTED || !next->spec->expires_at) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The spec of a Session needs state (ACTIVE, PENDING or REJECTED) and "
                         "expiresAt");
    }
    status = policy_store_check_attachments(r->gateway->policies, made, err);
    struct store_index index = {
        .owner_uid = next->status->user_ref->uid,
        .template_uid = next->status->credential_ref ? next->status->credential_ref->uid : "",
        .state = (int)session_class_of(next),
    };
    return status ? status
                  : resource_write(r, STORE_SESSION, &stored->base, made, &index, ret, err);
}

void session_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_session(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    request_reply(r, result);
}

void session_list_handle(struct request *r)
{
    const Core__ListSessionOptions *options = (const Core__ListSessionOptions *)r->message;
    struct store_filter filter = {0};
    struct error err = {0};
    if (filter_of_user(r, options->user_ref, &filter, &err)) {
        request_fail(r, &err);
        return;
    }
    resource_list_reply(r, STORE_SESSION, &filter, options->common, NULL);
}
