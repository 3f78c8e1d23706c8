#include "gateway/identity/authenticate.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

#define NS_PER_SECOND INT64_C(1000000000)

static int refuse(struct error *err, const char *text)
{
    return error_set(err, STATUS_UNAUTHENTICATED, "%s", text);
}

/* A failure to look (not: to find) is told as it is; the caller is not thrown out for it. */
static int lost(const struct error *cause, const char *text, struct error *err)
{
    if (cause->status == STATUS_NOT_FOUND) {
        return refuse(err, text);
    }
    return error_set(err, cause->status, "%s", cause->text);
}

/* The value of one cookie of a Cookie header (RFC 6265 section 4.2.1). */
static struct str cookie_value(struct str header, struct str name)
{
    while (header.len > 0) {
        const char *semicolon = memchr(header.ptr, ';', header.len);
        size_t len = semicolon ? (size_t)(semicolon - header.ptr) : header.len;
        struct str pair = str_make(header.ptr, len);
        while (pair.len > 0 && pair.ptr[0] == ' ') {
            pair = str_make(pair.ptr + 1, pair.len - 1);
        }
        if (pair.len > name.len && str_starts_with(pair, name) && pair.ptr[name.len] == '=') {
            return str_make(pair.ptr + name.len + 1, pair.len - name.len - 1);
        }
        size_t used = semicolon ? len + 1 : len;
        header = str_make(header.ptr + used, header.len - used);
    }
    return STR_NONE;
}

static struct str bearer_value(struct str header)
{
    static const char scheme[] = "bearer ";
    size_t n = sizeof(scheme) - 1;
    if (header.len > n && strncasecmp(header.ptr, scheme, n) == 0) {
        return str_make(header.ptr + n, header.len - n);
    }
    return STR_NONE;
}

static struct str presented_token(const struct call *call, bool is_refresh)
{
    struct str token =
        call_header(call, is_refresh ? "x-octelium-refresh-token" : "x-octelium-auth");
    if (token.len == 0) {
        token = cookie_value(call_header(call, "cookie"),
                             is_refresh ? STR("octelium_rt") : STR("octelium_auth"));
    }
    if (token.len == 0 && !is_refresh) {
        token = bearer_value(call_header(call, "authorization"));
    }
    return token;
}

/* From the token to the uid of the session it stands for. */
static int find_session_uid(struct request *r, bool is_refresh, const char **ret, struct error *err)
{
    struct str text = presented_token(r->call, is_refresh);
    if (text.len == 0) {
        return refuse(
            err, is_refresh ? "No refresh token: send it in the x-octelium-refresh-token header"
                            : "Not logged in: send an access token in the x-octelium-auth header "
                              "or as Authorization: Bearer");
    }
    uint8_t digest[TOKEN_DIGEST_BYTES];
    if (!token_digest(is_refresh ? TOKEN_REFRESH : TOKEN_ACCESS, text, digest)) {
        return refuse(err, is_refresh ? "The refresh token is not one of this cluster's"
                                      : "The access token is not one of this cluster's");
    }
    struct store_token token;
    struct error cause = {0};
    if (store_token_get(r->gateway->store, digest, &r->arena, &token, &cause)) {
        return lost(&cause, "The token is unknown or was replaced: log in again", err);
    }
    enum store_token_kind wanted = is_refresh ? STORE_TOKEN_REFRESH : STORE_TOKEN_ACCESS;
    if (token.kind != wanted || !token_digest_equal(token.hash, digest)) {
        return refuse(err, "The token is of another kind");
    }
    if (token.expires_at_seconds > 0 &&
        token.expires_at_seconds <= r->started_at_ns / NS_PER_SECOND) {
        return refuse(err, is_refresh ? "The refresh token has expired: log in again"
                                      : "The access token has expired: refresh it");
    }
    *ret = token.subject_uid;
    return 0;
}

/* A group that is gone has no say; the others count. */
static int load_groups(struct request *r, const Core__User *user, struct error *err)
{
    size_t count = user->spec ? user->spec->n_groups : 0;
    const Core__Group **groups = arena_calloc(&r->arena, count ? count : 1, sizeof(*groups));
    if (!groups) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for groups");
    }
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        ProtobufCMessage *group = NULL;
        struct error cause = {0};
        int status = store_get_by_name(r->gateway->store, STORE_GROUP, user->spec->groups[i],
                                       &r->arena, &group, &cause);
        if (!status) {
            groups[found++] = (const Core__Group *)group;
        } else if (cause.status != STATUS_NOT_FOUND) {
            return error_set(err, cause.status, "%s", cause.text);
        }
    }
    r->actor.groups = groups;
    r->actor.group_count = found;
    return 0;
}

static int load_credential(struct request *r, const Core__Session *session, struct error *err)
{
    const Meta__ObjectReference *ref = session->status->credential_ref;
    if (!ref || !ref->uid[0]) {
        return 0;
    }
    ProtobufCMessage *credential = NULL;
    struct error cause = {0};
    if (!store_get_by_uid(r->gateway->store, STORE_CREDENTIAL, ref->uid, &r->arena, &credential,
                          &cause)) {
        r->actor.credential = (const Core__Credential *)credential;
    } else if (cause.status != STATUS_NOT_FOUND) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    return 0;
}

/* Session, user, groups and credential of the actor. */
static int load_actor(struct request *r, const char *session_uid, struct error *err)
{
    ProtobufCMessage *message = NULL;
    struct error cause = {0};
    if (store_get_by_uid(r->gateway->store, STORE_SESSION, session_uid, &r->arena, &message,
                         &cause)) {
        return lost(&cause, "The Session has ended: log in again", err);
    }
    const Core__Session *session = (const Core__Session *)message;
    Core__User *user = NULL;
    if (session_user(r->gateway, session->status->user_ref, &r->arena, &user, &cause)) {
        return lost(&cause, "The User of this Session is gone", err);
    }
    int status = load_groups(r, user, err);
    if (!status) {
        status = load_credential(r, session, err);
    }
    if (!status) {
        r->actor.session = session;
        r->actor.user = user;
    }
    return status;
}

int actor_load(struct request *r, const char *session_uid, struct error *err)
{
    return load_actor(r, session_uid, err);
}

int authenticate_request(struct request *r, struct error *err)
{
    const struct call_origin *origin = call_origin(r->call);
    if (r->method->access == METHOD_PUBLIC) {
        return 0;
    }
    bool is_refresh = r->method->access == METHOD_REFRESH;
    if (origin->listener_owner) {
        const struct listener_identity *identity = origin->listener_owner;
        if (!identity->session_uid[0] || is_refresh) {
            return refuse(err, is_refresh ? "A Workspace's Session has no tokens to refresh"
                                          : "The Workspace has no Session");
        }
        int status = load_actor(r, identity->session_uid, err);
        r->actor.is_workspace = status == 0;
        return status;
    }
    const char *session_uid = NULL;
    int status = find_session_uid(r, is_refresh, &session_uid, err);
    return status ? status : load_actor(r, session_uid, err);
}

static bool has_admin_policy(size_t count, char *const *policies)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(policies[i], ADMIN_POLICY_NAME) == 0 ||
            strcmp(policies[i], ADMIN_API_POLICY_NAME) == 0) {
            return true;
        }
    }
    return false;
}

bool actor_is_admin(const struct actor *actor)
{
    if (!actor->user || !actor->user->spec) {
        return false;
    }
    const Core__User__Spec__Authorization *own = actor->user->spec->authorization;
    if (own && has_admin_policy(own->n_policies, own->policies)) {
        return true;
    }
    for (size_t i = 0; i < actor->group_count; i++) {
        const Core__Group__Spec *spec = actor->groups[i]->spec;
        if (spec && spec->authorization &&
            has_admin_policy(spec->authorization->n_policies, spec->authorization->policies)) {
            return true;
        }
    }
    return false;
}

int admin_require(const struct request *r, struct error *err)
{
    if (r->actor.is_workspace) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The Session of a Workspace cannot administer the cluster: make this call "
                         "from outside");
    }
    if (!actor_is_admin(&r->actor)) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The User '%s' is no administrator: one of those can attach the policy "
                         "'" ADMIN_POLICY_NAME "' to it",
                         r->actor.user ? r->actor.user->metadata->name : "");
    }
    return 0;
}
