#ifndef TELEMETRY_OTLP_MESSAGE_H
#define TELEMETRY_OTLP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/telemetry/metrics.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The messages of OTLP 1.x in protobuf's binary encoding, the one that every receiver takes:
 * ExportLogsServiceRequest and ExportMetricsServiceRequest of opentelemetry-proto. */

enum { OTLP_INSTANCE_SIZE = 37 };

/* Whose telemetry it is: the resource attributes. Borrowed. */
struct otlp_source {
    const char *service_version;
    const char *instance; /* service.instance.id: a UUID of the process */
    const char *host;     /* host.name */
};

/* One log record per line of the audit log (without newlines), in their order: the body is the
 * line's object, severity INFO, or WARN when it says DENIED, attributes as in
 * the semantic conventions of OpenTelemetry, and cordium.audit.sequence and .sha256, by which the
 * chain can be checked elsewhere. A line that is no JSON goes as the text that it is. Pure: may run
 * in any thread. A full buffer shows in out->failed. */
void otlp_message_logs(const struct otlp_source *source, const struct str *lines, size_t count,
                       int64_t observed_wall_ns, struct buf *out);

/* All series, cumulative since the registry's start. Of the loop's thread. */
void otlp_message_metrics(const struct otlp_source *source, const struct metrics *m,
                          int64_t wall_ns, struct buf *out);

enum { OTLP_REASON_SIZE = 128 };

/* What a receiver answers with 200: how many records or points it refused, and why. The texts are
 * bytes from outside, with control characters taken out. */
struct otlp_answer {
    uint64_t rejected;
    char reason[OTLP_REASON_SIZE]; /* empty: none given */
};

/* Export{Logs,Metrics}ServiceResponse. INVALID_ARGUMENT for what is no such message; an empty one
 * is a full success. */
int otlp_answer_read(struct str body, struct otlp_answer *ret, struct error *err);

#endif
