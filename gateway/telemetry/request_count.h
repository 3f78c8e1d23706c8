#ifndef TELEMETRY_REQUEST_COUNT_H
#define TELEMETRY_REQUEST_COUNT_H

#include <stdint.h>

#include "gateway/edge/call.h"

/* What the metrics learn of an RPC: three points of its life. */
struct request;

/* Its headers are there. */
void request_count_begin(const struct request *r);

/* The policy has decided, which took that long. */
void request_count_decision(const struct request *r, uint64_t duration_ns);

/* Its call is gone; its decision is final. */
void request_count_end(const struct request *r, enum call_end end);

#endif
