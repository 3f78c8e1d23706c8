#include "gateway/telemetry/request_count.h"

#include "gateway/gateway.h"
#include "gateway/request.h"
#include "gateway/telemetry/metrics.h"

void request_count_begin(const struct request *r)
{
    metrics_add(r->gateway->metrics, METRIC_REQUESTS_ACTIVE, 0, 0, 0, 1);
}

static enum metric_decision decision_of(const struct request *r)
{
    return r->decision.is_allowed ? METRIC_DECISION_ALLOWED : METRIC_DECISION_DENIED;
}

void request_count_decision(const struct request *r, uint64_t duration_ns)
{
    metrics_observe(r->gateway->metrics, METRIC_DECISION_DURATION, decision_of(r), duration_ns);
}

/* What the client was told, or would have been. */
static unsigned code_of(const struct request *r, enum call_end end)
{
    int code = r->is_answered              ? r->end_status
               : end == CALL_END_DEADLINE  ? STATUS_DEADLINE_EXCEEDED
               : end == CALL_END_CANCELLED ? STATUS_CANCELLED
                                           : STATUS_INVALID_ARGUMENT; /* by the edge: unreadable */
    return code >= 0 && code < STATUS_COUNT ? (unsigned)code : STATUS_UNKNOWN;
}

static enum metric_access access_of(const struct request *r)
{
    switch (r->method ? r->method->audit : METHOD_AUDIT_READ) {
    case METHOD_AUDIT_WRITE:
        return METRIC_ACCESS_WRITE;
    case METHOD_AUDIT_STREAM:
        return METRIC_ACCESS_STREAM;
    case METHOD_AUDIT_READ:
        break;
    }
    return METRIC_ACCESS_READ;
}

void request_count_end(const struct request *r, enum call_end end)
{
    struct metrics *m = r->gateway->metrics;
    if (!m) {
        return;
    }
    unsigned method = r->method ? r->method->index : metrics_method_unknown();
    metrics_add(m, METRIC_REQUESTS_ACTIVE, 0, 0, 0, -1);
    metrics_add(m, METRIC_REQUESTS, method, decision_of(r), code_of(r, end), 1);
    metrics_observe(m, METRIC_REQUEST_DURATION, access_of(r),
                    gateway_monotonic_ns(r->gateway) - r->started_ns);
    if (!r->decision.is_allowed) {
        metrics_add(m, METRIC_DENIALS, metrics_reason(r->decision.reason_type), 0, 0, 1);
    }
}
