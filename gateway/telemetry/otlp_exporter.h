#ifndef TELEMETRY_OTLP_EXPORTER_H
#define TELEMETRY_OTLP_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/telemetry/endpoint.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/otlp_message.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Sends lines of the audit log and the metrics to an OpenTelemetry receiver by OTLP/HTTP
 * (/v1/logs, /v1/metrics; protobuf).
 *
 * Lines wait in a queue with a bound and leave in batches: OTLP_BATCH_LINES_MAX of them,
 * OTLP_BATCH_BYTES_MAX bytes, or what is there when the oldest is OTLP_BATCH_DELAY_MS old. A batch
 * stays in the queue until it was taken: a receiver that is away, or answers 429, 502, 503 or 504,
 * gets the same batch again, after a pause that grows (or that it asked for). What it refuses for
 * good is counted and dropped, as the protocol wants it. Batches are encoded by a worker thread;
 * nothing waits in the loop. Metrics are not sent again: the next ones say all that they said. */
struct otlp_exporter;
struct http_client;
struct uv_loop_s;

enum {
    OTLP_BATCH_LINES_MAX = 512,
    OTLP_BATCH_BYTES_MAX = 1 << 20,
    OTLP_BATCH_DELAY_MS = 1000,
    OTLP_TIMEOUT_MS = 10000,
};

/* Borrowed for the exporter's life. */
struct otlp_settings {
    const struct endpoint *endpoint;
    const char *ca_bundle;      /* NULL: the host's */
    const char *const *headers; /* "Name: value", secrets often */
    size_t header_count;
    unsigned metrics_interval_s; /* 0: no metrics */
    size_t queue_bytes_max;
    const struct otlp_source *source;
    struct metrics *metrics;
    /* Brings the gauges up to date before they are sent. */
    void (*gather)(void *arg);
    void *gather_arg;
};

int otlp_exporter_new(struct uv_loop_s *loop, struct http_client *http,
                      const struct otlp_settings *settings, struct otlp_exporter **ret,
                      struct error *err);

/* A line that was written; after release, all that were written may leave. */
void otlp_exporter_add(struct otlp_exporter *o, struct str line);
void otlp_exporter_release(struct otlp_exporter *o);

size_t otlp_exporter_depth(const struct otlp_exporter *o);

/* No delay any more: what is there is sent. The metrics go once more. */
void otlp_exporter_flush(struct otlp_exporter *o);
bool otlp_exporter_is_idle(const struct otlp_exporter *o);

/* What is in the queue is lost. The memory goes with a later round of the loop. NULL is fine. */
void otlp_exporter_free(struct otlp_exporter *o);

#endif
