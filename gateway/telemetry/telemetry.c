#include "gateway/telemetry/telemetry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_log.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/http_client.h"
#include "gateway/telemetry/endpoint.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/metrics_endpoint.h"
#include "gateway/telemetry/metrics_gather.h"
#include "gateway/telemetry/otlp_exporter.h"
#include "gateway/telemetry/secret_file.h"
#include "gateway/telemetry/syslog_sink.h"
#include "gateway/version.h"

enum {
    ARENA_MAX_BYTES = 256 * 1024,
    HOST_SIZE = 256,
    PID_SIZE = 16,
    FLUSH_MAX_MS = 3000,
};

struct telemetry {
    struct gateway *gateway;
    struct arena arena; /* of headers */
    char host[HOST_SIZE];
    char pid[PID_SIZE];
    char instance[OTLP_INSTANCE_SIZE];
    struct otlp_source source;
    struct endpoint otlp_target;
    struct endpoint syslog_target;
    struct metrics_endpoint *endpoint;
    struct http_client *http;
    struct otlp_exporter *otlp;
    struct syslog_sink *syslog;
    uint64_t first_sequence;
    bool is_ending;
    bool is_late; /* the flush at the end took too long */
};

/* ---- lines ---- */

static void on_written(void *arg, struct str lines)
{
    struct telemetry *t = arg;
    while (lines.len > 0) {
        const char *newline = memchr(lines.ptr, '\n', lines.len);
        size_t n = newline ? (size_t)(newline - lines.ptr) : lines.len;
        struct str line = str_make(lines.ptr, n);
        lines = newline ? str_make(newline + 1, lines.len - n - 1) : STR_NONE;
        if (t->otlp) {
            otlp_exporter_add(t->otlp, line);
        }
        if (t->syslog) {
            syslog_sink_add(t->syslog, line);
        }
    }
}

static void on_durable(void *arg)
{
    struct telemetry *t = arg;
    if (t->otlp) {
        otlp_exporter_release(t->otlp);
    }
    if (t->syslog) {
        syslog_sink_release(t->syslog);
    }
}

void telemetry_begin(struct telemetry *t)
{
    t->first_sequence = audit_log_sequence(t->gateway->audit);
    if (t->otlp || t->syslog) {
        const struct audit_observer observer = {on_written, on_durable, t};
        audit_log_add_observer(t->gateway->audit, &observer);
    }
}

uint64_t telemetry_first_sequence(const struct telemetry *t)
{
    return t ? t->first_sequence : 0;
}

struct telemetry_depths telemetry_depths(const struct telemetry *t)
{
    struct telemetry_depths depths = {0, 0};
    if (t && t->otlp) {
        depths.otlp = otlp_exporter_depth(t->otlp);
    }
    if (t && t->syslog) {
        depths.syslog = syslog_sink_depth(t->syslog);
    }
    return depths;
}

bool telemetry_serve_metrics(struct telemetry *t, struct call *call)
{
    return t && metrics_endpoint_serve(t->endpoint, call);
}

/* ---- what is configured ---- */

/* At the end the parts go one by one: what was true before that stays. */
static void on_gather(void *arg)
{
    struct telemetry *t = arg;
    if (!t->is_ending) {
        metrics_gather(t->gateway);
    }
}

static int open_otlp(struct telemetry *t, struct error *err)
{
    const struct gateway_config *c = t->gateway->config;
    struct otlp_settings settings = {
        .endpoint = &t->otlp_target,
        .ca_bundle = c->telemetry.otlp_ca_bundle,
        .metrics_interval_s = c->telemetry.otlp_metrics_seconds,
        .queue_bytes_max = (size_t)c->telemetry.queue_mebibytes << 20,
        .source = &t->source,
        .metrics = t->gateway->metrics,
        .gather = on_gather,
        .gather_arg = t,
    };
    const char *ca = c->telemetry.otlp_ca_bundle;
    if (ca && access(ca, R_OK) == -1) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "telemetry.otlpCABundle: '%s' cannot be read", ca);
    }
    if (endpoint_parse_otlp(c->telemetry.otlp_endpoint, &t->otlp_target, err) < 0) {
        return error_wrap(err, "telemetry.otlpEndpoint");
    }
    if (c->telemetry.otlp_headers_file &&
        secret_file_headers(c->telemetry.otlp_headers_file, &t->arena, &settings.headers,
                            &settings.header_count, err) < 0) {
        return error_wrap(err, "telemetry.otlpHeadersFile");
    }
    if (http_client_new(t->gateway->loop, &t->http, err) < 0 ||
        otlp_exporter_new(t->gateway->loop, t->http, &settings, &t->otlp, err) < 0) {
        return -err->status;
    }
    log_info("telemetry: lines of the audit log and metrics go to %s", c->telemetry.otlp_endpoint);
    return 0;
}

static int open_syslog(struct telemetry *t, struct error *err)
{
    const struct gateway_config *c = t->gateway->config;
    const struct syslog_settings settings = {
        .target = &t->syslog_target,
        .source = {.facility = c->telemetry.syslog_facility, .host = t->host, .pid = t->pid},
        .queue_bytes_max = (size_t)c->telemetry.queue_mebibytes << 20,
        .metrics = t->gateway->metrics,
    };
    if (endpoint_parse_syslog(c->telemetry.syslog_target, &t->syslog_target, err) < 0) {
        return error_wrap(err, "telemetry.syslogTarget");
    }
    if (syslog_sink_new(t->gateway->loop, &settings, &t->syslog, err) < 0) {
        return -err->status;
    }
    log_info("telemetry: lines of the audit log go to %s", c->telemetry.syslog_target);
    return 0;
}

static int open_endpoint(struct telemetry *t, struct error *err)
{
    const struct gateway_config *c = t->gateway->config;
    const char *listen = c->telemetry.metrics_listen;
    struct endpoint at;
    if (listen && endpoint_parse_listen(listen, &at, err) < 0) {
        return error_wrap(err, "telemetry.metricsListen");
    }
    if (metrics_endpoint_new(t->gateway, listen ? &at : NULL, c->telemetry.metrics_token_file,
                             &t->endpoint, err) < 0) {
        return error_wrap(err, "telemetry.metrics%s", listen ? "Listen" : "TokenFile");
    }
    if (listen) {
        log_info("telemetry: http://%s/metrics", listen);
    }
    return 0;
}

static void describe_process(struct telemetry *t)
{
    uint8_t b[16] = {0};
    /* Without random bytes two processes have one id: a receiver then shows them as one. */
    ssize_t ignored = getrandom(b, sizeof b, 0);
    (void)ignored;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40); /* RFC 9562 §5.4 */
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)snprintf(t->instance, sizeof t->instance,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
    (void)snprintf(t->pid, sizeof t->pid, "%d", (int)getpid());
    if (gethostname(t->host, sizeof t->host - 1) == -1) {
        t->host[0] = '\0';
    }
    t->source = (struct otlp_source){GATEWAY_VERSION, t->instance, t->host};
}

int telemetry_new(struct gateway *g, struct telemetry **ret, struct error *err)
{
    const struct gateway_config *c = g->config;
    struct telemetry *t = calloc(1, sizeof *t);
    if (!t) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start telemetry: out of memory");
    }
    t->gateway = g;
    arena_init(&t->arena, ARENA_MAX_BYTES);
    describe_process(t);
    int rc = metrics_new(gateway_wall_ns(g), &g->metrics, err);
    if (!rc && (c->telemetry.metrics_listen || c->telemetry.metrics_token_file)) {
        rc = open_endpoint(t, err);
    }
    rc = rc || !c->telemetry.otlp_endpoint ? rc : open_otlp(t, err);
    rc = rc || !c->telemetry.syslog_target ? rc : open_syslog(t, err);
    *ret = t; /* also after a failure, so that telemetry_close() takes down what is there */
    return rc;
}

/* ---- the end ---- */

static bool is_idle(const struct telemetry *t)
{
    return (!t->otlp || otlp_exporter_is_idle(t->otlp)) &&
           (!t->syslog || syslog_sink_is_idle(t->syslog));
}

static void on_late(uv_timer_t *timer)
{
    struct telemetry *t = timer->data;
    t->is_late = true;
}

static void flush(struct telemetry *t)
{
    uv_timer_t limit;
    if (t->otlp) {
        otlp_exporter_flush(t->otlp);
    }
    (void)uv_timer_init(t->gateway->loop, &limit); /* cannot fail */
    limit.data = t;
    (void)uv_timer_start(&limit, on_late, FLUSH_MAX_MS, 0);
    while (!is_idle(t) && !t->is_late) {
        (void)uv_run(t->gateway->loop, UV_RUN_ONCE);
    }
    if (!is_idle(t)) {
        struct telemetry_depths depths = telemetry_depths(t);
        log_warning("telemetry: %zu lines for OTLP and %zu for syslog were not sent; the audit log "
                    "itself has them",
                    depths.otlp, depths.syslog);
    }
    uv_close((uv_handle_t *)&limit, NULL);
    (void)uv_run(t->gateway->loop, UV_RUN_NOWAIT); /* the timer is on our stack */
}

void telemetry_stop_serving(struct telemetry *t)
{
    if (t && !t->is_ending) {
        on_gather(t);
        t->is_ending = true;
        metrics_endpoint_free(t->endpoint);
        t->endpoint = NULL;
    }
}

void telemetry_close(struct telemetry *t)
{
    if (!t) {
        return;
    }
    if (t->otlp || t->syslog) {
        flush(t);
    }
    telemetry_stop_serving(t);
    otlp_exporter_free(t->otlp);
    syslog_sink_free(t->syslog);
    http_client_free(t->http);
    (void)uv_run(t->gateway->loop, UV_RUN_DEFAULT); /* what they borrow goes next */
    metrics_free(t->gateway->metrics);
    t->gateway->metrics = NULL;
    arena_free(&t->arena);
    free(t);
}
