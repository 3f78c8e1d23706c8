#ifndef TELEMETRY_METRICS_ENDPOINT_H
#define TELEMETRY_METRICS_ENDPOINT_H

#include <stdint.h>

#include "gateway/edge/call.h"
#include "gateway/telemetry/endpoint.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Who may fetch GET /metrics. Neither way is open until it is configured:
 *
 * - A listener of its own, plain HTTP, on loopback only: whoever is on the machine. It serves
 *   nothing but /metrics and /healthz, so a scraper needs no session, and no session can be taken
 *   from it.
 * - The API's port, with the token of a file as `authorization: Bearer …`, which is what Prometheus
 *   sends for `authorization.credentials_file`. Prometheus has no log-in of ours, and a session's
 *   access token ends after hours; the token opens this one path and nothing else. */
struct metrics_endpoint;
struct gateway;
struct uv_loop_s;

/* listen may be NULL; so may token_path. INVALID_ARGUMENT, FAILED_PRECONDITION, UNAVAILABLE. */
int metrics_endpoint_new(struct gateway *g, const struct endpoint *listen, const char *token_path,
                         struct metrics_endpoint **ret, struct error *err);

/* Closes the listener; the memory of its connections goes with later rounds of the loop. */
void metrics_endpoint_free(struct metrics_endpoint *m);

/* GET /metrics on the API's port. False when no token is configured or the call comes from inside a
 * workspace: there is no such path then. */
bool metrics_endpoint_serve(struct metrics_endpoint *m, struct call *call);

#endif
