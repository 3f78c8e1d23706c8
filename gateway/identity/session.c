#include "gateway/identity/session.h"

#include <string.h>

#include "gateway/authorize/activation.h"
#include "gateway/gateway.h"
#include "gateway/identity/scope.h"
#include "gateway/identity/session_settings.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum {
    HOUR_SECONDS = 3600,
    WORKSPACE_SESSION_SECONDS = 90 * 24 * HOUR_SECONDS,
    LAST_AUTHENTICATIONS_KEPT = 10,
    REFRESHES_PER_HOUR_FREE = 5, /* beyond, half the access token's life must have passed */
};

#define NS_PER_SECOND INT64_C(1000000000)

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for a session");
}

enum session_class session_class_of(const Core__Session *session)
{
    for (size_t i = 0; session->status && i < session->status->n_ext; i++) {
        if (strcmp(session->status->ext[i]->key, "cordium") == 0) {
            return SESSION_WORKSPACE;
        }
    }
    return SESSION_LOGIN;
}

bool session_has_expired(const Core__Session *session, int64_t wall_ns)
{
    if (!session->spec || !session->spec->expires_at) {
        return false;
    }
    return resource_timestamp_ns(session->spec->expires_at) <= wall_ns;
}

static const char *ref_uid(const Meta__ObjectReference *ref)
{
    return ref ? ref->uid : "";
}

int session_store(struct gateway *g, const Core__Session *session, enum session_class class_,
                  bool is_new, struct error *err)
{
    struct store_index index = {
        .owner_uid = ref_uid(session->status->user_ref),
        .template_uid = ref_uid(session->status->credential_ref),
        .state = (int)class_,
    };
    if (is_new) {
        return store_insert(g->store, STORE_SESSION, &session->base, &index, err);
    }
    return store_update(g->store, STORE_SESSION, &session->base, &index, NULL, err);
}

int session_user(struct gateway *g, const Meta__ObjectReference *user_ref, struct arena *arena,
                 Core__User **ret, struct error *err)
{
    ProtobufCMessage *message = NULL;
    int status = store_get_by_uid(g->store, STORE_USER, ref_uid(user_ref), arena, &message, err);
    if (!status) {
        *ret = (Core__User *)message;
    }
    return status;
}

int session_delete(struct gateway *g, const char *uid, struct error *err)
{
    int status = store_token_delete_subject(g->store, uid, UINT32_MAX, err);
    if (status) {
        return status;
    }
    struct error gone = {0};
    status = store_delete(g->store, STORE_SESSION, uid, &gone);
    if (status && status != -STATUS_NOT_FOUND) {
        return error_set(err, gone.status, "%s", gone.text);
    }
    return 0;
}

int session_delete_all(struct gateway *g, const char *user_uid, const char *credential_uid,
                       struct arena *arena, struct error *err)
{
    struct store_filter filter = {
        .owner_uid = user_uid, .template_uid = credential_uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list sessions;
    int status = store_list_all(g->store, STORE_SESSION, &filter, arena, &sessions, err);
    for (size_t i = 0; !status && i < sessions.count; i++) {
        status = session_delete(g, resource_uid(sessions.items[i]), err);
    }
    return status;
}

int session_prune(struct gateway *g, struct arena *arena, struct error *err)
{
    int64_t now_ns = gateway_wall_ns(g);
    struct store_filter all = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list sessions;
    int status = store_list_all(g->store, STORE_SESSION, &all, arena, &sessions, err);
    for (size_t i = 0; !status && i < sessions.count; i++) {
        if (session_has_expired((const Core__Session *)sessions.items[i], now_ns)) {
            status = session_delete(g, resource_uid(sessions.items[i]), err);
        }
    }
    return status ? status : store_token_delete_expired(g->store, now_ns / NS_PER_SECOND, err);
}

/* Makes room by dropping what has expired, then counts. */
static int check_session_quota(struct gateway *g, const Core__User *user, uint32_t max,
                               struct arena *arena, struct error *err)
{
    struct store_filter filter = {.owner_uid = user->metadata->uid,
                                  .states = UINT64_C(1) << SESSION_LOGIN};
    struct store_list sessions;
    int status = store_list_all(g->store, STORE_SESSION, &filter, arena, &sessions, err);
    if (status) {
        return status;
    }
    int64_t now_ns = gateway_wall_ns(g);
    size_t live = 0;
    for (size_t i = 0; i < sessions.count; i++) {
        const Core__Session *session = (const Core__Session *)sessions.items[i];
        if (!session_has_expired(session, now_ns)) {
            live++;
            continue;
        }
        status = session_delete(g, session->metadata->uid, err);
        if (status) {
            return status;
        }
    }
    if (live >= max) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The User '%s' has %zu Sessions, the maximum is %u: log out elsewhere or "
                         "delete old Sessions",
                         user->metadata->name, live, max);
    }
    return 0;
}

static Meta__Duration *seconds_message(int64_t seconds, struct arena *arena)
{
    Meta__Duration *d = CODEC_NEW(arena, Meta__Duration, meta__duration);
    if (d) {
        d->type_case = META__DURATION__TYPE_SECONDS;
        d->seconds = seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
    }
    return d;
}

static Core__Session__Status__Authentication__Info *make_info(const Core__Credential *credential,
                                                              struct str user_agent,
                                                              const char *peer, bool is_refresh,
                                                              struct arena *arena)
{
    Core__Session__Status__Authentication__Info *info =
        CODEC_NEW(arena, Core__Session__Status__Authentication__Info,
                  core__session__status__authentication__info);
    Core__Session__Status__Authentication__Info__Downstream *downstream =
        CODEC_NEW(arena, Core__Session__Status__Authentication__Info__Downstream,
                  core__session__status__authentication__info__downstream);
    Core__Session__Status__Authentication__Info__Credential *details =
        CODEC_NEW(arena, Core__Session__Status__Authentication__Info__Credential,
                  core__session__status__authentication__info__credential);
    if (!info || !downstream || !details) {
        return NULL;
    }
    downstream->user_agent =
        arena_strndup(arena, user_agent.ptr, user_agent.len > 256 ? 256 : user_agent.len);
    struct str ip = activation_peer_ip(peer ? peer : "");
    downstream->ip_address = arena_strndup(arena, ip.ptr, ip.len);
    if (!downstream->user_agent || !downstream->ip_address) {
        return NULL;
    }
    info->downstream = downstream;
    info->aal = CORE__SESSION__STATUS__AUTHENTICATION__INFO__AAL__AAL1;
    info->type = is_refresh ? CORE__SESSION__STATUS__AUTHENTICATION__INFO__TYPE__REFRESH_TOKEN
                            : CORE__SESSION__STATUS__AUTHENTICATION__INFO__TYPE__INTERNAL;
    if (credential && !is_refresh) {
        info->type = CORE__SESSION__STATUS__AUTHENTICATION__INFO__TYPE__CREDENTIAL;
        info->details_case = CORE__SESSION__STATUS__AUTHENTICATION__INFO__DETAILS_CREDENTIAL;
        info->credential = details;
        details->credential_ref = resource_ref(&credential->base, arena);
        details->type = credential->spec->type;
        details->token_id = credential->status ? credential->status->token_id : details->token_id;
    }
    return info;
}

/* One authentication with a new token id. */
static int make_authentication(struct gateway *g, const struct session_tokens *tokens,
                               Core__Session__Status__Authentication__Info *info,
                               struct arena *arena, Core__Session__Status__Authentication **ret,
                               struct error *err)
{
    Core__Session__Status__Authentication *a = CODEC_NEW(
        arena, Core__Session__Status__Authentication, core__session__status__authentication);
    char *token_id = arena_alloc(arena, RESOURCE_UUID_BYTES);
    if (!a || !info || !token_id) {
        return no_memory(err);
    }
    int status = resource_uuid_v4(token_id, err);
    if (status) {
        return status;
    }
    a->info = info;
    a->token_id = token_id;
    a->set_at = resource_timestamp(gateway_wall_ns(g), arena);
    a->access_token_duration = seconds_message(tokens->access_seconds, arena);
    a->refresh_token_duration = seconds_message(tokens->refresh_seconds, arena);
    if (!a->set_at || !a->access_token_duration || !a->refresh_token_duration) {
        return no_memory(err);
    }
    *ret = a;
    return 0;
}

static int insert_token(struct gateway *g, enum token_kind kind, enum store_token_kind stored_kind,
                        const Core__Session *session, int64_t seconds, struct secret *ret,
                        struct error *err)
{
    struct store_token token = {
        .kind = stored_kind,
        .subject_uid = session->metadata->uid,
        .expires_at_seconds = gateway_wall_ns(g) / NS_PER_SECOND + seconds,
        .generation = session->status->total_authentications,
    };
    int status = token_generate(kind, ret, token.hash, err);
    return status ? status : store_token_insert(g->store, &token, err);
}

/* No token outlives its session, and a refresh token not less than its access token. */
static void fit_lifetimes(struct session_tokens *tokens, const struct session_settings *settings,
                          int64_t left_seconds, bool access_token_only)
{
    int64_t access = access_token_only ? left_seconds : settings->access_seconds;
    int64_t refresh = settings->refresh_seconds;
    access = access > left_seconds ? left_seconds : access;
    refresh = refresh > left_seconds ? left_seconds : refresh;
    tokens->access_seconds = access;
    tokens->refresh_seconds = access_token_only ? 0 : refresh < access ? access : refresh;
}

/* Stores the tokens of the session's newest authentication and drops the earlier ones. */
static int replace_tokens(struct gateway *g, const Core__Session *session,
                          struct session_tokens *tokens, struct error *err)
{
    int status = store_token_delete_subject(g->store, session->metadata->uid,
                                            session->status->total_authentications, err);
    if (!status) {
        status = insert_token(g, TOKEN_ACCESS, STORE_TOKEN_ACCESS, session, tokens->access_seconds,
                              &tokens->access, err);
    }
    if (!status && tokens->refresh_seconds > 0) {
        status = insert_token(g, TOKEN_REFRESH, STORE_TOKEN_REFRESH, session,
                              tokens->refresh_seconds, &tokens->refresh, err);
    }
    return status;
}

/* The session's type: the credential's, else what kind of client asks. */
static Core__Session__Status__Type type_of(const Core__Credential *credential,
                                           struct str user_agent)
{
    if (credential && credential->spec->session_type != CORE__SESSION__STATUS__TYPE__TYPE_UNKNOWN) {
        return credential->spec->session_type;
    }
    bool is_cli = str_starts_with(user_agent, STR("octelium-cli/")) ||
                  str_starts_with(user_agent, STR("cordium/"));
    return is_cli ? CORE__SESSION__STATUS__TYPE__CLIENT : CORE__SESSION__STATUS__TYPE__CLIENTLESS;
}

/* The credential's authorization, as it is now, becomes the session's. */
static int copy_authorization(const Core__Credential *credential, struct arena *arena,
                              Core__Session__Spec *spec, struct error *err)
{
    const Core__Credential__Spec__Authorization *from =
        credential ? credential->spec->authorization : NULL;
    if (!from) {
        return 0;
    }
    Core__Session__Spec__Authorization *to =
        CODEC_NEW(arena, Core__Session__Spec__Authorization, core__session__spec__authorization);
    if (!to) {
        return no_memory(err);
    }
    to->n_policies = from->n_policies;
    to->policies = from->policies;
    to->n_inline_policies = from->n_inline_policies;
    to->inline_policies = from->inline_policies;
    spec->authorization = to;
    return 0;
}

/* A stamped session without authentication. */
static int make_session(struct gateway *g, const Core__User *user, int64_t seconds,
                        Core__Session__Spec__State state, struct arena *arena, Core__Session **ret,
                        struct error *err)
{
    char suffix[8];
    int status = token_random_label(6, suffix, err);
    if (status) {
        return status;
    }
    Core__Session *session = CODEC_NEW(arena, Core__Session, core__session);
    Core__Session__Spec *spec = CODEC_NEW(arena, Core__Session__Spec, core__session__spec);
    Core__Session__Status *st = CODEC_NEW(arena, Core__Session__Status, core__session__status);
    const char *name = arena_printf(arena, "%s-%s", user->metadata->name, suffix);
    if (!session || !spec || !st || !name) {
        return no_memory(err);
    }
    session->spec = spec;
    session->status = st;
    int64_t now_ns = gateway_wall_ns(g);
    status = resource_stamp_new(&session->base, STORE_SESSION, name, now_ns, arena, err);
    if (status) {
        return status;
    }
    spec->state = state;
    spec->expires_at = resource_timestamp(now_ns + seconds * NS_PER_SECOND, arena);
    st->user_ref = resource_ref(&user->base, arena);
    if (!spec->expires_at || !st->user_ref) {
        return no_memory(err);
    }
    *ret = session;
    return 0;
}

static int authenticate_new(struct gateway *g, const struct session_login *login,
                            const struct session_settings *settings, Core__Session *session,
                            struct arena *arena, struct session_tokens *tokens, struct error *err)
{
    fit_lifetimes(tokens, settings, settings->session_seconds,
                  login->tokens != SESSION_REFRESHABLE);
    Core__Session__Status__Authentication__Info *info =
        make_info(login->credential, login->user_agent, login->peer, false, arena);
    int status = make_authentication(g, tokens, info, arena, &session->status->authentication, err);
    if (status) {
        return status;
    }
    session->status->initial_authentication = session->status->authentication;
    session->status->total_authentications = 1;
    status = session_store(g, session, SESSION_LOGIN, true, err);
    return status ? status : replace_tokens(g, session, tokens, err);
}

int session_open(struct gateway *g, const struct session_login *login, struct arena *arena,
                 Core__Session **ret, struct session_tokens *ret_tokens, struct error *err)
{
    Core__Session__Status__Type type = type_of(login->credential, login->user_agent);
    struct session_settings settings;
    int status = session_settings_load(g, login->user, type == CORE__SESSION__STATUS__TYPE__CLIENT,
                                       arena, &settings, err);
    if (!status && login->tokens == SESSION_SHORT) {
        settings.session_seconds = settings.access_seconds;
    }
    if (!status) {
        status = check_session_quota(g, login->user, settings.sessions_max, arena, err);
    }
    Core__Session *session = NULL;
    if (!status) {
        status = make_session(g, login->user, settings.session_seconds, settings.state, arena,
                              &session, err);
    }
    if (!status) {
        status = scope_parse_all(login->scopes, login->scope_count, arena, &session->status->scopes,
                                 err);
    }
    if (!status) {
        session->status->n_scopes = login->scope_count;
        session->status->type = type;
        status = copy_authorization(login->credential, arena, session->spec, err);
    }
    if (!status && login->credential) {
        session->status->credential_ref = resource_ref(&login->credential->base, arena);
        status = session->status->credential_ref ? 0 : no_memory(err);
    }
    memset(ret_tokens, 0, sizeof(*ret_tokens));
    if (!status) {
        status = authenticate_new(g, login, &settings, session, arena, ret_tokens, err);
    }
    if (!status) {
        *ret = session;
    }
    return status;
}

/* How many times the session was authenticated in the last hour, the first one included. */
static unsigned recent_authentications(const Core__Session__Status *st, int64_t now_ns)
{
    int64_t since_ns = now_ns - HOUR_SECONDS * NS_PER_SECOND;
    unsigned n = resource_timestamp_ns(st->authentication->set_at) > since_ns;
    for (size_t i = 0; i < st->n_last_authentications; i++) {
        n += resource_timestamp_ns(st->last_authentications[i]->set_at) > since_ns;
    }
    return n;
}

static int check_refresh_rate(struct gateway *g, const Core__Session *session,
                              int64_t access_seconds, struct error *err)
{
    const Core__Session__Status *st = session->status;
    int64_t now_ns = gateway_wall_ns(g);
    int64_t age_ns = now_ns - resource_timestamp_ns(st->authentication->set_at);
    bool is_early = age_ns < access_seconds * NS_PER_SECOND / 2;
    if (is_early && recent_authentications(st, now_ns) >= REFRESHES_PER_HOUR_FREE) {
        return error_set(err, STATUS_ALREADY_EXISTS,
                         "The Session '%s' was refreshed %d times in the last hour: go on using "
                         "the access token it has",
                         session->metadata->name, REFRESHES_PER_HOUR_FREE);
    }
    return 0;
}

/* The current authentication moves to the front of the history. */
static int push_history(Core__Session__Status *st, struct arena *arena, struct error *err)
{
    size_t kept = st->n_last_authentications;
    if (kept > LAST_AUTHENTICATIONS_KEPT - 1) {
        kept = LAST_AUTHENTICATIONS_KEPT - 1;
    }
    Core__Session__Status__Authentication **list = arena_calloc(arena, kept + 1, sizeof(*list));
    if (!list) {
        return no_memory(err);
    }
    list[0] = st->authentication;
    for (size_t i = 0; i < kept; i++) {
        list[i + 1] = st->last_authentications[i];
    }
    st->last_authentications = list;
    st->n_last_authentications = kept + 1;
    return 0;
}

int session_refresh(struct gateway *g, const Core__User *user, const Core__Session *session,
                    struct str user_agent, const char *peer, struct arena *arena,
                    struct session_tokens *ret_tokens, struct error *err)
{
    int64_t now_ns = gateway_wall_ns(g);
    int64_t left_seconds =
        (resource_timestamp_ns(session->spec->expires_at) - now_ns) / NS_PER_SECOND;
    if (left_seconds < 1 || !session->status->authentication) {
        return error_set(err, STATUS_UNAUTHENTICATED, "The Session has expired: log in again");
    }
    struct session_settings settings;
    int status =
        session_settings_load(g, user, session->status->type == CORE__SESSION__STATUS__TYPE__CLIENT,
                              arena, &settings, err);
    if (!status) {
        status = check_refresh_rate(g, session, settings.access_seconds, err);
    }
    if (status) {
        return status;
    }
    Core__Session *next = CODEC_COPY(arena, Core__Session, session);
    if (!next) {
        return no_memory(err);
    }
    memset(ret_tokens, 0, sizeof(*ret_tokens));
    fit_lifetimes(ret_tokens, &settings, left_seconds, false);
    status = push_history(next->status, arena, err);
    if (!status) {
        status = make_authentication(g, ret_tokens, make_info(NULL, user_agent, peer, true, arena),
                                     arena, &next->status->authentication, err);
    }
    if (!status) {
        next->status->total_authentications++;
        status = resource_stamp_update(&next->base, now_ns, arena, err);
    }
    if (!status) {
        status = session_store(g, next, session_class_of(next), false, err);
    }
    return status ? status : replace_tokens(g, next, ret_tokens, err);
}

/* {workspaceRef: …} as a Struct, by way of JSON: that is how policies read it. */
static int info_to_struct(const Cordium__SessionExtInfo *info, struct arena *arena,
                          Google__Protobuf__Struct **ret, struct error *err)
{
    struct buf json;
    buf_init(&json, 16384);
    int status = codec_encode_json(&info->base, &json, err);
    ProtobufCMessage *message = NULL;
    if (!status) {
        status = codec_decode_json(&google__protobuf__struct__descriptor, buf_str(&json),
                                   CODEC_LENIENT, arena, &message, err);
    }
    buf_free(&json);
    if (!status) {
        *ret = (Google__Protobuf__Struct *)message;
    }
    return status;
}

int session_open_for_workspace(struct gateway *g, const Core__User *user,
                               const Cordium__SessionExtInfo *info, struct arena *arena,
                               Core__Session **ret, struct error *err)
{
    Core__Session *session = NULL;
    int status = make_session(g, user, WORKSPACE_SESSION_SECONDS,
                              CORE__SESSION__SPEC__STATE__ACTIVE, arena, &session, err);
    if (status) {
        return status;
    }
    Core__Session__Status__ExtEntry *entry =
        CODEC_NEW(arena, Core__Session__Status__ExtEntry, core__session__status__ext_entry);
    Core__Session__Status__ExtEntry **ext = arena_calloc(arena, 1, sizeof(*ext));
    char *key = arena_strdup(arena, "cordium");
    if (!entry || !ext || !key) {
        return no_memory(err);
    }
    status = info_to_struct(info, arena, &entry->value, err);
    if (status) {
        return status;
    }
    entry->key = key;
    ext[0] = entry;
    session->status->ext = ext;
    session->status->n_ext = 1;
    session->status->type = CORE__SESSION__STATUS__TYPE__CLIENT;
    status = session_store(g, session, SESSION_WORKSPACE, true, err);
    if (!status) {
        *ret = session;
    }
    return status;
}
