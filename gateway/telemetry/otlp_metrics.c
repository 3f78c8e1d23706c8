#include <string.h>

#include "gateway/telemetry/otlp_internal.h"
#include "gateway/telemetry/otlp_message.h"

/* Field numbers of opentelemetry/proto/metrics/v1/metrics.proto. */
enum {
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_DATA_GAUGE = 5,
    METRIC_DATA_SUM = 7,
    METRIC_DATA_HISTOGRAM = 9,
    DATA_POINTS = 1,
    DATA_TEMPORALITY = 2,
    DATA_IS_MONOTONIC = 3,
    TEMPORALITY_CUMULATIVE = 2,
    POINT_START_TIME = 2,
    POINT_TIME = 3,
    NUMBER_AS_DOUBLE = 4,
    NUMBER_AS_INT = 6,
    NUMBER_ATTRIBUTES = 7,
    HISTOGRAM_COUNT = 4,
    HISTOGRAM_SUM = 5,
    HISTOGRAM_BUCKETS = 6,
    HISTOGRAM_BOUNDS = 7,
    HISTOGRAM_ATTRIBUTES = 9,
};

struct writer {
    struct proto_out *p;
    const struct metric_info *open; /* whose Metric message is begun */
    int64_t started_wall_ns;
    int64_t wall_ns;
};

static bool is_seconds(const struct metric_info *info)
{
    return strcmp(info->unit, "s") == 0;
}

static void begin_metric(struct writer *w, const struct metric_info *info)
{
    static const unsigned fields[] = {[METRIC_COUNTER] = METRIC_DATA_SUM,
                                      [METRIC_GAUGE] = METRIC_DATA_GAUGE,
                                      [METRIC_HISTOGRAM] = METRIC_DATA_HISTOGRAM};
    proto_begin(w->p, OTLP_SCOPE_RECORDS);
    proto_text(w->p, METRIC_NAME, str_from(info->name));
    proto_text(w->p, METRIC_DESCRIPTION, str_from(info->help));
    proto_text(w->p, METRIC_UNIT, str_from(info->unit));
    proto_begin(w->p, fields[info->kind]);
    if (info->kind != METRIC_GAUGE) {
        proto_varint(w->p, DATA_TEMPORALITY, TEMPORALITY_CUMULATIVE);
    }
    if (info->kind == METRIC_COUNTER) {
        proto_varint(w->p, DATA_IS_MONOTONIC, 1);
    }
    w->open = info;
}

static void end_metric(struct writer *w)
{
    if (w->open) {
        proto_end(w->p);
        proto_end(w->p);
        w->open = NULL;
    }
}

static void put_number(struct writer *w, const struct metric_series *s)
{
    if (is_seconds(s->info)) {
        proto_double(w->p, NUMBER_AS_DOUBLE, (double)s->value / 1e9);
    } else {
        proto_fixed64(w->p, NUMBER_AS_INT, s->value);
    }
}

static void put_histogram(struct writer *w, const struct metric_series *s)
{
    proto_fixed64(w->p, HISTOGRAM_COUNT, s->count);
    proto_double(w->p, HISTOGRAM_SUM, (double)s->sum_ns / 1e9);
    proto_begin(w->p, HISTOGRAM_BUCKETS);
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) {
        proto_item_fixed64(w->p, s->buckets[i]);
    }
    proto_end(w->p);
    proto_begin(w->p, HISTOGRAM_BOUNDS);
    for (size_t i = 0; i < METRIC_BOUNDS; i++) {
        proto_item_double(w->p, (double)metric_bounds_ns[i] / 1e9);
    }
    proto_end(w->p);
}

static void put_series(void *arg, const struct metric_series *s)
{
    struct writer *w = arg;
    bool is_histogram = s->info->kind == METRIC_HISTOGRAM;
    if (w->open != s->info) {
        end_metric(w);
        begin_metric(w, s->info);
    }
    proto_begin(w->p, DATA_POINTS);
    proto_fixed64(w->p, POINT_START_TIME, (uint64_t)w->started_wall_ns);
    proto_fixed64(w->p, POINT_TIME, (uint64_t)w->wall_ns);
    for (unsigned i = 0; i < s->label_count; i++) {
        otlp_put_text(w->p, is_histogram ? HISTOGRAM_ATTRIBUTES : NUMBER_ATTRIBUTES,
                      s->label_names[i], str_from(s->label_values[i]));
    }
    if (is_histogram) {
        put_histogram(w, s);
    } else {
        put_number(w, s);
    }
    proto_end(w->p);
}

void otlp_message_metrics(const struct otlp_source *source, const struct metrics *m,
                          int64_t wall_ns, struct buf *out)
{
    struct proto_out p = proto_out_to(out);
    struct writer w = {.p = &p, .started_wall_ns = metrics_started_wall_ns(m), .wall_ns = wall_ns};
    otlp_begin(&p, source, "cordium.metrics");
    metrics_each(m, put_series, &w);
    end_metric(&w);
    otlp_end(&p);
}
