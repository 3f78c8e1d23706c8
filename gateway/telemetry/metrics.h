#ifndef TELEMETRY_METRICS_H
#define TELEMETRY_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"

/* What the gateway counts: a fixed table (metrics.def) of counters, gauges and histograms, each
 * with at most three labels out of closed sets. A change is an index into an array and an addition;
 * nothing is looked up and nothing is allocated after metrics_new(). Of the loop's thread only.
 *
 * Every function that changes something takes a NULL registry and then does nothing. */
struct metrics;

#define LABEL_DECISION_VALUES(X) X(DECISION_ALLOWED, "ALLOWED") X(DECISION_DENIED, "DENIED")
#define LABEL_ACCESS_VALUES(X)                                                                     \
    X(ACCESS_READ, "read") X(ACCESS_WRITE, "write") X(ACCESS_STREAM, "stream")
#define LABEL_REASON_VALUES(X)                                                                     \
    X(REASON_NO_POLICY_MATCH, "NO_POLICY_MATCH")                                                   \
    X(REASON_POLICY_MATCH, "POLICY_MATCH")                                                         \
    X(REASON_POLICY_MISSING, "POLICY_MISSING")                                                     \
    X(REASON_EVALUATION_ERROR, "EVALUATION_ERROR")                                                 \
    X(REASON_MISSING_INPUT, "MISSING_INPUT")                                                       \
    X(REASON_UNAUTHENTICATED, "UNAUTHENTICATED")                                                   \
    X(REASON_MALFORMED, "MALFORMED")                                                               \
    X(REASON_METHOD_UNKNOWN, "METHOD_UNKNOWN")                                                     \
    X(REASON_CANCELLED, "CANCELLED")                                                               \
    X(REASON_DEADLINE, "DEADLINE")                                                                 \
    X(REASON_SESSION_NOT_ACTIVE, "SESSION_NOT_ACTIVE")                                             \
    X(REASON_SESSION_EXPIRED, "SESSION_EXPIRED")                                                   \
    X(REASON_SESSION_LOCKED, "SESSION_LOCKED")                                                     \
    X(REASON_USER_LOCKED, "USER_LOCKED")                                                           \
    X(REASON_AUTHENTICATION_REQUIRED, "AUTHENTICATOR_AUTHENTICATION_REQUIRED")                     \
    X(REASON_REGISTRATION_REQUIRED, "AUTHENTICATOR_REGISTRATION_REQUIRED")                         \
    X(REASON_USER_DEACTIVATED, "USER_DEACTIVATED")                                                 \
    X(REASON_SCOPE_UNAUTHORIZED, "SCOPE_UNAUTHORIZED")                                             \
    X(REASON_OTHER, "OTHER")
#define LABEL_PHASE_VALUES(X)                                                                      \
    X(PHASE_STARTING, "starting") X(PHASE_RUNNING, "running") X(PHASE_STOPPING, "stopping")
#define LABEL_START_VALUES(X) X(START_RUNNING, "running") X(START_FAILED, "failed")
#define LABEL_OPERATION_VALUES(X) X(OPERATION_EXEC, "exec") X(OPERATION_RUN, "run")
/* In the order of enum exec_outcome_kind. */
#define LABEL_OUTCOME_VALUES(X)                                                                    \
    X(OUTCOME_EXITED, "exited")                                                                    \
    X(OUTCOME_SIGNALED, "signaled")                                                                \
    X(OUTCOME_TIMED_OUT, "timed_out")                                                              \
    X(OUTCOME_CPU_LIMIT, "cpu_limit")                                                              \
    X(OUTCOME_OOM_KILLED, "oom_killed")                                                            \
    X(OUTCOME_OUTPUT_LIMIT, "output_limit")                                                        \
    X(OUTCOME_CANCELLED, "cancelled")                                                              \
    X(OUTCOME_LOST, "lost")
#define LABEL_QUEUE_VALUES(X)                                                                      \
    X(QUEUE_AUDIT, "audit")                                                                        \
    X(QUEUE_IMAGE_BUILDS, "image_builds")                                                          \
    X(QUEUE_RUNS, "runs")                                                                          \
    X(QUEUE_OTLP, "otlp")                                                                          \
    X(QUEUE_SYSLOG, "syslog")
#define LABEL_SINK_VALUES(X) X(SINK_OTLP, "otlp") X(SINK_SYSLOG, "syslog")
#define LABEL_RESULT_VALUES(X)                                                                     \
    X(RESULT_SENT, "sent") X(RESULT_DROPPED, "dropped") X(RESULT_REJECTED, "rejected")
#define LABEL_SIGNAL_VALUES(X) X(SIGNAL_LOGS, "logs") X(SIGNAL_METRICS, "metrics")
#define LABEL_EXPORT_VALUES(X)                                                                     \
    X(EXPORT_OK, "ok") X(EXPORT_UNREACHED, "unreached") X(EXPORT_REFUSED, "refused")

#define METRIC_VALUE_ENUM(id, text) METRIC_##id,
enum metric_decision { LABEL_DECISION_VALUES(METRIC_VALUE_ENUM) };
enum metric_access { LABEL_ACCESS_VALUES(METRIC_VALUE_ENUM) };
enum metric_reason { LABEL_REASON_VALUES(METRIC_VALUE_ENUM) };
enum metric_phase { LABEL_PHASE_VALUES(METRIC_VALUE_ENUM) METRIC_PHASE_COUNT };
enum metric_start { LABEL_START_VALUES(METRIC_VALUE_ENUM) };
enum metric_operation { LABEL_OPERATION_VALUES(METRIC_VALUE_ENUM) };
enum metric_outcome { LABEL_OUTCOME_VALUES(METRIC_VALUE_ENUM) METRIC_OUTCOME_COUNT };
enum metric_queue { LABEL_QUEUE_VALUES(METRIC_VALUE_ENUM) };
enum metric_sink { LABEL_SINK_VALUES(METRIC_VALUE_ENUM) };
enum metric_result { LABEL_RESULT_VALUES(METRIC_VALUE_ENUM) };
enum metric_signal { LABEL_SIGNAL_VALUES(METRIC_VALUE_ENUM) };
enum metric_export { LABEL_EXPORT_VALUES(METRIC_VALUE_ENUM) };
#undef METRIC_VALUE_ENUM

enum metric {
#define METRIC(id, kind, name, unit, a, b, c, help) METRIC_##id,
#include "gateway/telemetry/metrics.def"
#undef METRIC
    METRIC_COUNT
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum { METRIC_LABELS_MAX = 3, METRIC_BOUNDS = 15, METRIC_NAME_MAX_BYTES = 96 };

/* One line of metrics.def. */
struct metric_info {
    enum metric_kind kind;
    const char *name;
    const char *unit;
    const char *help;
};

/* One series for a reader; lives until the registry changes. */
struct metric_series {
    const struct metric_info *info;
    unsigned label_count;
    const char *label_names[METRIC_LABELS_MAX];
    const char *label_values[METRIC_LABELS_MAX];
    uint64_t value;          /* nanoseconds where the unit is "s" */
    const uint64_t *buckets; /* of a histogram: METRIC_BOUNDS + 1, not cumulative */
    uint64_t sum_ns;
    uint64_t count;
};

/* started_wall_ns: since when is counted. RESOURCE_EXHAUSTED. */
int metrics_new(int64_t started_wall_ns, struct metrics **ret, struct error *err);
void metrics_free(struct metrics *m);

/* Label values by their places in the sets; 0 where there is no label. Values out of the set are a
 * mistake of the caller (assert). */
void metrics_add(struct metrics *m, enum metric id, unsigned a, unsigned b, unsigned c, int64_t n);
void metrics_set(struct metrics *m, enum metric id, unsigned a, uint64_t value);
void metrics_observe(struct metrics *m, enum metric id, unsigned a, uint64_t duration_ns);

/* Upper bounds of the histograms' buckets in nanoseconds, ascending; the last bucket has none. */
extern const uint64_t metric_bounds_ns[METRIC_BOUNDS];

/* The place of a reason in its set; REASON_OTHER for NULL and for what is not in it. */
enum metric_reason metrics_reason(const char *text);

/* The place that METRIC_REQUESTS has for paths that are no method's. */
unsigned metrics_method_unknown(void);

int64_t metrics_started_wall_ns(const struct metrics *m);

/* "cordium_requests_total" of "cordium.requests". */
void metric_prometheus_name(const struct metric_info *info, char ret[METRIC_NAME_MAX_BYTES]);

/* Calls visit for each series, those of one metric together. Counters with the label "method" show
 * from their first use on, all others always. */
void metrics_each(const struct metrics *m,
                  void (*visit)(void *arg, const struct metric_series *series), void *arg);

#endif
