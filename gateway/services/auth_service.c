#include "gateway/services/auth_service.h"

#include <string.h>

#include "api/auth.pb-c.h"
#include "gateway/identity/credential.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/store.h"

static void reply_tokens(struct request *r, struct session_tokens *tokens)
{
    Auth__SessionToken reply = AUTH__SESSION_TOKEN__INIT;
    reply.access_token = tokens->access.text;
    reply.refresh_token = tokens->refresh.text;
    reply.expires_in = tokens->access_seconds;
    reply.refresh_token_expires_in = tokens->refresh_seconds;
    request_reply(r, &reply.base);
    secret_wipe(&tokens->access);
    secret_wipe(&tokens->refresh);
}

/* RFC 7636 in its S256 form: the digest of the verifier is what was given when the token was
 * made. */
static int check_pkce(const Core__Credential *credential, const ProtobufCBinaryData *verifier,
                      struct error *err)
{
    const Core__Credential__Status__PKCE *pkce = credential->status->pkce;
    if (!pkce || pkce->code_challenge.len == 0) {
        return 0;
    }
    uint8_t digest[TOKEN_DIGEST_BYTES];
    token_sha256(str_make(verifier->data, verifier->len), digest);
    if (verifier->len == 0 || pkce->code_challenge.len != TOKEN_DIGEST_BYTES ||
        !token_digest_equal(digest, pkce->code_challenge.data)) {
        return error_set(err, STATUS_UNAUTHENTICATED,
                         "The code verifier does not belong to this token");
    }
    return 0;
}

/* ret_gone: the credential, if that was the last time. */
static int log_in(struct request *r, struct session_tokens *tokens,
                  const Core__Credential **ret_gone, struct error *err)
{
    const Auth__AuthenticateWithAuthenticationTokenRequest *asked =
        (const Auth__AuthenticateWithAuthenticationTokenRequest *)r->message;
    Core__Credential *credential = NULL;
    Core__User *user = NULL;
    int status =
        credential_open(r->gateway, TOKEN_AUTHENTICATION, str_from(asked->authentication_token),
                        &r->arena, &credential, &user, err);
    if (!status) {
        status = check_pkce(credential, &asked->code_verifier, err);
    }
    if (status) {
        return status;
    }
    struct session_login login = {
        .user = user,
        .credential = credential,
        .user_agent = call_header(r->call, "user-agent"),
        .peer = call_origin(r->call)->peer,
        .scopes = (const char *const *)asked->scopes,
        .scope_count = asked->n_scopes,
    };
    Core__Session *session = NULL;
    status = session_open(r->gateway, &login, &r->arena, &session, tokens, err);
    bool is_removed = false;
    if (!status) {
        status = credential_count_use(r->gateway, credential, &r->arena, &is_removed, err);
    }
    if (!status) {
        *ret_gone = is_removed ? credential : NULL;
        /* For the audit line at the end: now it is known who it was. */
        r->actor.user = user;
        r->actor.session = session;
    }
    return status;
}

void auth_with_token_handle(struct request *r)
{
    struct error err = {0};
    struct session_tokens tokens;
    const Core__Credential *gone = NULL;
    int status = store_begin(r->gateway->store, &err);
    if (!status) {
        status = store_end(r->gateway->store, log_in(r, &tokens, &gone, &err), &err);
    }
    if (status) {
        request_fail(r, &err);
        return;
    }
    if (gone) {
        change_outcome_set_resource(r, &gone->base, NULL);
    }
    reply_tokens(r, &tokens);
}

void auth_with_assertion_handle(struct request *r)
{
    request_fail_with(r, STATUS_UNIMPLEMENTED,
                      "Log-in with an assertion of an identity provider is not served by this "
                      "version: use an authentication token or OAuth2 client credentials");
}

void auth_refresh_handle(struct request *r)
{
    struct error err = {0};
    struct session_tokens tokens;
    int status = store_begin(r->gateway->store, &err);
    if (!status) {
        status = session_refresh(r->gateway, r->actor.user, r->actor.session,
                                 call_header(r->call, "user-agent"), call_origin(r->call)->peer,
                                 &r->arena, &tokens, &err);
        status = store_end(r->gateway->store, status, &err);
    }
    if (status) {
        request_fail(r, &err);
        return;
    }
    reply_tokens(r, &tokens);
}

void auth_logout_handle(struct request *r)
{
    struct error err = {0};
    int status = store_begin(r->gateway->store, &err);
    if (!status) {
        status = session_delete(r->gateway, r->actor.session->metadata->uid, &err);
        status = store_end(r->gateway->store, status, &err);
    }
    if (status) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, &r->actor.session->base, NULL);
    request_reply_empty(r);
}
