/* POST /oauth2/token; declared in auth_service.h. */
#include <string.h>
#include <strings.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/identity/credential.h"
#include "gateway/identity/scope.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/services/auth_service.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/store.h"
#include "gateway/telemetry/metrics.h"
#include "policy/base/json_out.h"

enum {
    FORM_BYTES_MAX = 64 * 1024,
    REPLY_BYTES_MAX = 4096,
    RECORD_BYTES_MAX = 512 * 1024, /* with the diff of a credential */
};

/* What a client sends, decoded. NULL: not sent. */
struct token_form {
    char *grant_type;
    char *client_id;
    char *client_secret;
    char *scope;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* application/x-www-form-urlencoded; NULL for a broken escape, a NUL, or no memory. */
static char *decode_form_text(struct str in, struct arena *arena)
{
    char *out = arena_alloc(arena, in.len + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < in.len; i++) {
        int c = in.ptr[i] == '+' ? ' ' : in.ptr[i];
        if (c == '%') {
            int high = in.len - i > 2 ? hex_digit(in.ptr[i + 1]) : -1;
            int low = in.len - i > 2 ? hex_digit(in.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return NULL;
            }
            c = high * 16 + low;
            i += 2;
        }
        if (c == 0) {
            return NULL;
        }
        out[n++] = (char)c;
    }
    if (out) {
        out[n] = 0;
    }
    return out;
}

static char **form_field(struct token_form *form, struct str key)
{
    if (str_is(key, "grant_type")) {
        return &form->grant_type;
    }
    if (str_is(key, "client_id")) {
        return &form->client_id;
    }
    if (str_is(key, "client_secret")) {
        return &form->client_secret;
    }
    return str_is(key, "scope") ? &form->scope : NULL;
}

/* False for a malformed body and for a parameter that is there twice (RFC 6749 section 3.2). */
static bool parse_form(struct str body, struct arena *arena, struct token_form *ret)
{
    while (body.len > 0) {
        const char *end = memchr(body.ptr, '&', body.len);
        size_t len = end ? (size_t)(end - body.ptr) : body.len;
        const char *equals = memchr(body.ptr, '=', len);
        size_t key_len = equals ? (size_t)(equals - body.ptr) : len;
        char **field = form_field(ret, str_make(body.ptr, key_len));
        if (field) {
            struct str value = equals ? str_make(equals + 1, len - key_len - 1) : STR_NONE;
            if (*field) {
                return false;
            }
            *field = decode_form_text(value, arena);
            if (!*field) {
                return false;
            }
        }
        size_t used = end ? len + 1 : len;
        body = str_make(body.ptr + used, body.len - used);
    }
    return true;
}

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* RFC 4648 section 4; NULL for anything else, for a NUL inside, or no memory. */
static char *decode_base64(struct str in, struct arena *arena)
{
    while (in.len > 0 && in.ptr[in.len - 1] == '=') {
        in.len--;
    }
    char *out = arena_alloc(arena, in.len + 1);
    size_t n = 0;
    unsigned held = 0;
    unsigned bits = 0;
    for (size_t i = 0; out && i < in.len; i++) {
        int value = base64_value(in.ptr[i]);
        if (value < 0) {
            return NULL;
        }
        held = (held << 6) | (unsigned)value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n] = (char)((held >> bits) & 0xff);
            if (!out[n++]) {
                return NULL;
            }
        }
    }
    if (out) {
        out[n] = 0;
    }
    return out;
}

/* Section 2.3.1: "Basic", with id and secret each encoded as in a form. False when the header is
 * malformed, or when the form names a client too. */
static bool take_basic_login(struct str header, struct arena *arena, struct token_form *form)
{
    static const char scheme[] = "basic ";
    size_t n = sizeof(scheme) - 1;
    if (header.len <= n || strncasecmp(header.ptr, scheme, n) != 0) {
        return true;
    }
    char *pair = decode_base64(str_make(header.ptr + n, header.len - n), arena);
    char *colon = pair ? strchr(pair, ':') : NULL;
    if (!colon || form->client_secret) {
        return false;
    }
    form->client_id = decode_form_text(str_make(pair, (size_t)(colon - pair)), arena);
    form->client_secret = decode_form_text(str_from(colon + 1), arena);
    return form->client_id && form->client_secret;
}

/* From the form to the answer; the audit line of the decision goes to the disk in between. Lives in
 * the request's arena. */
struct token_answer {
    struct request *r;
    struct token_form form;
    const char **scopes;
    size_t scope_count;
    struct audit_http facts;
    bool is_used_up; /* the credential, and gone with this session's opening */
    struct str json;
};

static struct str keep_json(struct request *r, struct buf *json)
{
    const char *copy =
        json->failed ? NULL : arena_strndup(&r->arena, (const char *)json->ptr, json->len);
    struct str kept = copy ? str_make(copy, json->len) : STR("{\"error\":\"server_error\"}");
    buf_free(json);
    return kept;
}

static void refuse(struct token_answer *a, int http_status, const char *reason, const char *code,
                   const char *text)
{
    struct buf json;
    buf_init(&json, REPLY_BYTES_MAX);
    struct json_out j = json_out_to(&json);
    json_begin_object(&j);
    json_member_string(&j, "error", code);
    json_member_string(&j, "error_description", text);
    json_end_object(&j);
    a->json = keep_json(a->r, &json);
    a->facts.http_status = http_status;
    /* What comes after the decision does not change it. */
    a->facts.reason_type = a->facts.is_allowed ? a->facts.reason_type : reason;
}

/* Section 5.2: the client's fault is 400 or 401, ours 500 or 503, so that clients know what to
 * retry. */
static void refuse_for(struct token_answer *a, const struct error *err)
{
    switch (err->status) {
    case STATUS_UNAUTHENTICATED:
        refuse(a, 401, "UNAUTHENTICATED", "invalid_client", err->text);
        return;
    case STATUS_INVALID_ARGUMENT:
        refuse(a, 400, "MALFORMED", "invalid_scope", err->text);
        return;
    case STATUS_PERMISSION_DENIED:
        refuse(a, 400, "DENIED", "unauthorized_client", err->text);
        return;
    case STATUS_UNAVAILABLE:
        refuse(a, 503, "UNAVAILABLE", "temporarily_unavailable", "Try again later");
        return;
    default:
        refuse(a, 500, "INTERNAL", "server_error", "Internal error");
    }
}

static void grant_tokens(struct token_answer *a, struct session_tokens *tokens)
{
    struct buf json;
    buf_init(&json, REPLY_BYTES_MAX);
    struct json_out j = json_out_to(&json);
    json_begin_object(&j);
    json_member_string(&j, "access_token", tokens->access.text);
    json_member_string(&j, "token_type", "Bearer");
    json_member_int(&j, "expires_in", tokens->access_seconds);
    json_end_object(&j);
    a->json = keep_json(a->r, &json);
    a->facts.http_status = 200;
    secret_wipe(&tokens->access);
    secret_wipe(&tokens->refresh);
}

/* The scopes between spaces. */
static int split_scopes(char *text, struct arena *arena, const char ***ret, size_t *ret_count,
                        struct error *err)
{
    const char **scopes = arena_calloc(arena, SCOPE_COUNT_MAX + 1, sizeof(*scopes));
    size_t n = 0;
    if (!scopes) {
        return resource_no_memory(err);
    }
    for (char *next = text; next && *next && n <= SCOPE_COUNT_MAX;) {
        size_t len = strcspn(next, " ");
        char *after = next[len] ? next + len + 1 : NULL;
        next[len] = 0;
        if (len > 0) {
            scopes[n++] = next;
        }
        next = after;
    }
    *ret = scopes;
    *ret_count = n;
    return 0;
}

static int open_credential(struct token_answer *a, struct error *err)
{
    Core__Credential *credential = NULL;
    Core__User *user = NULL;
    int status =
        credential_open(a->r->gateway, TOKEN_CLIENT_SECRET, str_from(a->form.client_secret),
                        &a->r->arena, &credential, &user, err);
    if (status) {
        return status;
    }
    a->facts.credential = credential;
    a->facts.user = user;
    if (!cstr_eq(credential->status->id, a->form.client_id)) {
        return error_set(err, STATUS_UNAUTHENTICATED, "client_id and client_secret do not match");
    }
    return 0;
}

/* Changes nothing: a session may be there only after its decision is durable. */
static void judge(struct token_answer *a)
{
    struct error err;
    struct arena *arena = &a->r->arena;
    Core__Scope **scopes;
    int status = open_credential(a, &err);
    if (!status) {
        status = split_scopes(a->form.scope, arena, &a->scopes, &a->scope_count, &err);
    }
    if (!status) {
        status = scope_parse_all(a->scopes, a->scope_count, arena, &scopes, &err);
    }
    if (status) {
        refuse_for(a, &err);
        return;
    }
    a->facts.is_allowed = true;
    a->facts.reason_type = "LOGIN";
}

static int open_session(struct token_answer *a, struct session_tokens *tokens, struct error *err)
{
    struct gateway *g = a->r->gateway;
    struct arena *arena = &a->r->arena;
    int status = open_credential(a, err); /* what was so at the decision may be otherwise by now */
    if (status) {
        return status;
    }
    const struct session_login login = {
        .user = a->facts.user,
        .credential = a->facts.credential,
        .user_agent = call_header(a->r->call, "user-agent"),
        .peer = call_origin(a->r->call)->peer,
        .tokens = SESSION_SHORT,
        .scopes = a->scopes,
        .scope_count = a->scope_count,
    };
    Core__Session *session = NULL;
    status = session_open(g, &login, arena, &session, tokens, err);
    if (!status) {
        status = credential_count_use(g, a->facts.credential, arena, &a->is_used_up, err);
        a->facts.session = session;
    }
    return status;
}

/* Opens the session inside a transaction. */
static void serve_grant(struct token_answer *a)
{
    struct store *store = a->r->gateway->store;
    struct error err = {0};
    struct session_tokens tokens = {0};
    int status = store_begin(store, &err);
    if (!status) {
        status = open_session(a, &tokens, &err);
        status = store_end(store, status, &err);
        if (status) {
            a->facts.session = NULL;
        }
    }
    a->facts.code = status_name(err.status);
    if (status) {
        refuse_for(a, &err);
        return;
    }
    if (a->is_used_up) {
        change_outcome_set_resource(a->r, &a->facts.credential->base, NULL);
        a->facts.outcome = a->r->outcome_facts;
    }
    grant_tokens(a, &tokens);
}

static void send_answer(struct token_answer *a)
{
    metrics_add(a->r->gateway->metrics, METRIC_TOKEN_REQUESTS,
                a->facts.is_allowed ? METRIC_DECISION_ALLOWED : METRIC_DECISION_DENIED, 0, 0, 1);
    if (!request_is_over(a->r)) {
        call_add_header(a->r->call, "cache-control", STR("no-store"));
        call_http_reply(a->r->call, a->facts.http_status, "application/json", a->json);
    }
}

static int record(struct token_answer *a, void (*done)(void *arg, int status))
{
    struct buf line;
    buf_init(&line, RECORD_BYTES_MAX);
    audit_record_http(a->r->gateway, a->r->call, &a->facts, &line);
    int status = audit_log_append(a->r->gateway->audit, &line, done, a);
    buf_free(&line);
    return status;
}

static void on_decided(void *arg, int status)
{
    struct token_answer *a = arg;
    struct request *r = a->r;
    if (status) {
        a->facts.is_allowed = false;
        refuse(a, 503, "UNAVAILABLE", "temporarily_unavailable", "The audit log cannot be written");
    } else if (a->facts.is_allowed) {
        a->facts.is_end = true;
        a->facts.code = status_name(STATUS_CANCELLED); /* unless somebody still waits for it */
        if (!request_is_over(r)) {
            serve_grant(a);
        }
        a->facts.duration_ns = gateway_monotonic_ns(r->gateway) - r->started_ns;
        (void)record(a, NULL);
    }
    send_answer(a);
    request_release(r);
}

void oauth2_token_http(struct gateway *g, struct call *call, struct str body)
{
    struct request *r = request_begin_http(g, call);
    struct token_answer *a = r ? arena_zalloc(&r->arena, sizeof(*a)) : NULL;
    if (!a) {
        call_http_reply(call, 503, "application/json", STR("{\"error\":\"server_error\"}"));
        return;
    }
    a->r = r;
    a->facts.method = "POST";
    a->facts.path = "/oauth2/token";
    a->facts.request_id = r->id;
    a->facts.started_at_ns = r->started_at_ns;
    struct token_form *form = &a->form;
    if (body.len > FORM_BYTES_MAX || !parse_form(body, &r->arena, form) || !form->grant_type ||
        !take_basic_login(call_header(call, "authorization"), &r->arena, form)) {
        refuse(a, 400, "MALFORMED", "invalid_request",
               "The body is not a form with grant_type, client_id and client_secret");
    } else if (strcmp(form->grant_type, "client_credentials") != 0) {
        refuse(a, 400, "MALFORMED", "unsupported_grant_type", "Only client_credentials is served");
    } else if (!form->client_id || !form->client_secret) {
        refuse(a, 401, "UNAUTHENTICATED", "invalid_client",
               "client_id and client_secret are needed");
    } else {
        judge(a);
    }
    request_hold(r);
    int status = record(a, on_decided);
    if (status) {
        on_decided(a, status);
    }
}
