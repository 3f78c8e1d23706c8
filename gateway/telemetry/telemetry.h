#ifndef TELEMETRY_TELEMETRY_H
#define TELEMETRY_TELEMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"

/* What leaves the gateway for those who watch it: metrics that are fetched, and lines of the audit
 * log and metrics that are sent to an OpenTelemetry receiver or a syslog receiver. Each is off
 * until the configuration names it (telemetry.*).
 *
 * Lines are sent after they are durable and from memory: a receiver that is away for longer than
 * the queue lasts misses lines, and so does one while the gateway is killed; both show as gaps of
 * the sequence. The audit log itself is complete in any case, and never waits for a receiver. */
struct telemetry;
struct gateway;
struct call;

/* Reads the secrets' files, opens the metrics' listener, and makes g->metrics. Before the process
 * is confined, and with g->loop and g->config. Errors name the setting. */
int telemetry_new(struct gateway *g, struct telemetry **ret, struct error *err);

/* From here on lines go out; with g->audit. */
void telemetry_begin(struct telemetry *t);

/* Closes the metrics' listener and looks at the gateway's parts for the last time; from here on
 * telemetry alone keeps no loop running. Before anything else is taken down. */
void telemetry_stop_serving(struct telemetry *t);

/* Waits, in a loop of its own, until what is durable was sent, at most FLUSH_MAX_MS of telemetry.c,
 * then frees it and g->metrics; run the loop once more for the handles. Not from inside a callback;
 * after the audit log was closed and the loop has run. NULL is fine. */
void telemetry_close(struct telemetry *t);

/* GET /metrics on the API's port; false when it is not served there. */
bool telemetry_serve_metrics(struct telemetry *t, struct call *call);

/* Of the audit log, when telemetry began. */
uint64_t telemetry_first_sequence(const struct telemetry *t);

/* Lines that wait. */
struct telemetry_depths {
    size_t otlp;
    size_t syslog;
};
struct telemetry_depths telemetry_depths(const struct telemetry *t);

#endif
