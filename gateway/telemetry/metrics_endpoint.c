#include "gateway/telemetry/metrics_endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/edge/server.h"
#include "gateway/gateway.h"
#include "gateway/identity/token.h"
#include "gateway/telemetry/metrics_gather.h"
#include "gateway/telemetry/metrics_text.h"
#include "gateway/telemetry/secret_file.h"

enum {
    ANSWER_MAX_BYTES = 16 * 1024 * 1024,
    RECORD_MAX_BYTES = 16 * 1024,
    TOKEN_MIN_BYTES = 32, /* of printable ASCII: no password that can be guessed */
    TOKEN_MAX_BYTES = 1024,
    TOKEN_ARENA_BYTES = 64 * 1024,
};

struct metrics_endpoint {
    struct gateway *gateway;
    struct edge_server *server; /* NULL: no listener of its own */
    bool has_token;
    uint8_t token_sha256[TOKEN_DIGEST_BYTES];
};

static void answer(struct gateway *g, struct call *call)
{
    struct buf text;
    buf_init(&text, ANSWER_MAX_BYTES);
    metrics_gather(g);
    metrics_text_write(g->metrics, &text);
    if (text.failed) {
        call_http_reply(call, 503, "text/plain", STR("out of memory\n"));
    } else {
        call_http_reply(call, 200, METRICS_TEXT_TYPE, buf_str(&text));
    }
    buf_free(&text);
}

/* ---- the API's port ---- */

static void record(struct gateway *g, struct call *call, bool is_allowed)
{
    const struct audit_http facts = {
        .request_id = call_request_id(call),
        .method = "GET",
        .path = "/metrics",
        .is_allowed = is_allowed,
        .reason_type = is_allowed ? "METRICS_TOKEN" : "UNAUTHENTICATED",
        .http_status = is_allowed ? 200 : 401,
    };
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    audit_record_http(g, call, &facts, &line);
    (void)audit_log_append(g->audit, &line, NULL, NULL);
    buf_free(&line);
}

static bool has_right_token(const struct metrics_endpoint *m, const struct call *call)
{
    struct str given = call_header(call, "authorization");
    struct str scheme = STR("Bearer ");
    uint8_t digest[TOKEN_DIGEST_BYTES];
    if (!str_starts_with(given, scheme)) {
        return false;
    }
    token_sha256(str_make(given.ptr + scheme.len, given.len - scheme.len), digest);
    return token_digest_equal(digest, m->token_sha256);
}

bool metrics_endpoint_serve(struct metrics_endpoint *m, struct call *call)
{
    if (!m || !m->has_token || call_origin(call)->listener_owner) {
        return false;
    }
    bool is_allowed = has_right_token(m, call);
    record(m->gateway, call, is_allowed);
    if (is_allowed) {
        answer(m->gateway, call);
    } else {
        call_add_header(call, "www-authenticate", STR("Bearer"));
        call_http_reply(call, 401, "text/plain", STR("the token of the metrics is needed\n"));
    }
    return true;
}

/* ---- the listener on loopback ---- */

static void *refuse_rpc(void *owner, struct call *call)
{
    (void)owner;
    call_finish(call, STATUS_UNIMPLEMENTED, "only GET /metrics is served here");
    return NULL;
}

static bool serve_http(void *owner, struct call *call, struct str method, struct str path,
                       struct str body)
{
    struct metrics_endpoint *m = owner;
    (void)body;
    bool is_metrics = str_is(path, "/metrics");
    if (!is_metrics && !str_is(path, "/healthz")) {
        return false;
    }
    if (!str_is(method, "GET")) {
        call_http_reply(call, 405, "text/plain", STR("method not allowed\n"));
    } else if (is_metrics) {
        answer(m->gateway, call);
    } else {
        call_http_reply(call, 200, "text/plain", STR("ok\n"));
    }
    return true;
}

/* No RPC is ever begun: none of the events that follow one can come. */
static const struct call_events listener_events = {.begin = refuse_rpc, .http = serve_http};

static int open_listener(struct metrics_endpoint *m, const struct endpoint *listen,
                         struct error *err)
{
    struct edge_limits limits = edge_limits_default();
    limits.connections_max = limits.connections_per_source_max = 64;
    limits.streams_per_connection_max = 8;
    limits.idle_timeout_ms = 5 * 60 * 1000; /* longer than any usual interval of a scraper */
    if (edge_server_new(m->gateway->loop, limits, &listener_events, m, &m->server, err) < 0) {
        return -err->status;
    }
    return edge_server_listen_plain(m->server, listen->host, listen->port, err);
}

/* ---- life ---- */

static int read_token(struct metrics_endpoint *m, const char *path, struct error *err)
{
    struct arena arena;
    struct str text = STR_NONE;
    arena_init(&arena, TOKEN_ARENA_BYTES);
    int rc = secret_file_read(path, &arena, &text, err);
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r')) {
        text.len--;
    }
    bool is_ok = text.len >= TOKEN_MIN_BYTES && text.len <= TOKEN_MAX_BYTES;
    for (size_t i = 0; is_ok && i < text.len; i++) {
        is_ok = text.ptr[i] > 0x20 && text.ptr[i] < 0x7f;
    }
    if (!rc && !is_ok) {
        rc = error_set(err, STATUS_INVALID_ARGUMENT,
                       "'%s': expected one line of %d to %d characters without blanks, for example "
                       "of `openssl rand -hex 32`",
                       path, TOKEN_MIN_BYTES, TOKEN_MAX_BYTES);
    }
    if (!rc) {
        token_sha256(text, m->token_sha256);
        m->has_token = true;
    }
    arena_free(&arena);
    return rc;
}

int metrics_endpoint_new(struct gateway *g, const struct endpoint *listen, const char *token_path,
                         struct metrics_endpoint **ret, struct error *err)
{
    struct metrics_endpoint *m = calloc(1, sizeof *m);
    if (!m) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "serve metrics: out of memory");
    }
    m->gateway = g;
    int rc = token_path ? read_token(m, token_path, err) : 0;
    rc = rc || !listen ? rc : open_listener(m, listen, err);
    if (rc) {
        metrics_endpoint_free(m);
        return rc;
    }
    *ret = m;
    return 0;
}

void metrics_endpoint_free(struct metrics_endpoint *m)
{
    if (m) {
        edge_server_free(m->server);
        free(m);
    }
}
