#include "gateway/plain_http.h"

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/edge/server.h"
#include "gateway/gateway.h"
#include "gateway/services/auth_service.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/telemetry.h"

enum { RECORD_MAX_BYTES = 64 * 1024 };

static bool serve_token(struct gateway *g, struct call *call, struct str body)
{
    oauth2_token_http(g, call, body);
    return true;
}

/* For load balancers and watchdogs: says only that the process answers and takes work. */
static bool serve_health(struct gateway *g, struct call *call, struct str body)
{
    (void)body;
    bool is_draining = edge_server_is_draining(g->edge);
    call_http_reply(call, is_draining ? 503 : 200, "text/plain",
                    is_draining ? STR("draining\n") : STR("ok\n"));
    return true;
}

static bool serve_metrics(struct gateway *g, struct call *call, struct str body)
{
    (void)body;
    return telemetry_serve_metrics(g->telemetry, call);
}

void plain_http_refused(void *owner, const struct call_refusal *refusal)
{
    struct gateway *g = owner;
    metrics_add(g->metrics, METRIC_REFUSALS, 0, 0, 0, 1);
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    audit_record_refused(g, refusal, &line);
    (void)audit_log_append(g->audit, &line, NULL, NULL);
    buf_free(&line);
}

static void refuse_method(struct gateway *g, struct call *call, struct str method)
{
    const struct call_refusal refusal = {
        .origin = call_origin(call),
        .method = method,
        .path = call_path(call),
        .user_agent = call_header(call, "user-agent"),
        .request_id = call_request_id(call),
        .protocol = call_protocol(call),
        .http_status = 405,
        .reason = "METHOD_NOT_ALLOWED",
    };
    plain_http_refused(g, &refusal);
    call_http_reply(call, 405, "text/plain", STR("method not allowed\n"));
}

bool plain_http_request(void *owner, struct call *call, struct str method, struct str path,
                        struct str body)
{
    static const struct {
        const char *method;
        const char *path;
        bool (*serve)(struct gateway *g, struct call *call, struct str body); /* false: 404 */
    } routes[] = {
        {"POST", "/oauth2/token", serve_token},
        {"GET", "/healthz", serve_health},
        {"GET", "/metrics", serve_metrics},
    };
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (str_is(path, routes[i].path)) {
            if (str_is(method, routes[i].method)) {
                return routes[i].serve(owner, call, body);
            }
            refuse_method(owner, call, method);
            return true;
        }
    }
    return false;
}
