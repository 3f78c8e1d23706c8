#include "gateway/telemetry/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/request.h"
#include "gateway/version.h"

enum { HISTOGRAM_CELLS = METRIC_BOUNDS + 2 }; /* buckets, the last without bound, and the sum */

struct label {
    const char *name; /* NULL: no label */
    unsigned count;
    const char *const *values; /* or value() */
    const char *(*value)(unsigned index);
};

struct definition {
    struct metric_info info;
    const struct label *labels[METRIC_LABELS_MAX];
};

struct metrics {
    int64_t started_wall_ns;
    size_t starts[METRIC_COUNT]; /* first cell of each */
    unsigned counts[METRIC_COUNT][METRIC_LABELS_MAX];
    uint64_t cells[];
};

/* From what a cached policy takes to what a person waits for: 1-2.5-5 steps, then coarser. */
const uint64_t metric_bounds_ns[METRIC_BOUNDS] = {
    10000,    25000,     50000,     100000,    250000,     500000,     1000000,     5000000,
    25000000, 100000000, 250000000, 500000000, 1000000000, 5000000000, 30000000000,
};

static const char *method_value(unsigned index)
{
    const struct method *method = method_at(index);
    return method ? method->schema->path + 1 : "unknown";
}

static const char *code_value(unsigned index)
{
    return status_name((int)index);
}

#define VALUE_TEXT(id, text) text,
#define LABEL_TABLE(id, label_name)                                                                \
    static const char *const values_##id[] = {LABEL_##id##_VALUES(VALUE_TEXT)};                    \
    static const struct label label_##id = {label_name, sizeof values_##id / sizeof(char *),       \
                                            values_##id, NULL};
LABEL_TABLE(DECISION, "decision")
LABEL_TABLE(ACCESS, "access")
LABEL_TABLE(REASON, "reason")
LABEL_TABLE(PHASE, "phase")
LABEL_TABLE(START, "result")
LABEL_TABLE(OPERATION, "operation")
LABEL_TABLE(OUTCOME, "outcome")
LABEL_TABLE(QUEUE, "queue")
LABEL_TABLE(SINK, "sink")
LABEL_TABLE(RESULT, "result")
LABEL_TABLE(SIGNAL, "signal")
LABEL_TABLE(EXPORT, "result")
static const char *const values_VERSION[] = {GATEWAY_VERSION};
static const struct label label_VERSION = {"version", 1, values_VERSION, NULL};
static const struct label label_NONE = {NULL, 1, NULL, NULL};
static const struct label label_CODE = {"code", STATUS_COUNT, NULL, code_value};
static const struct label label_METHOD = {"method", 0, NULL, method_value}; /* see label_size() */

static const struct definition definitions[METRIC_COUNT] = {
#define METRIC(id, kind, name, unit, a, b, c, help)                                                \
    {{METRIC_##kind, name, unit, help}, {&label_##a, &label_##b, &label_##c}},
#include "gateway/telemetry/metrics.def"
#undef METRIC
};

static unsigned label_size(const struct label *label)
{
    return label == &label_METHOD ? metrics_method_unknown() + 1 : label->count;
}

static const char *label_value(const struct label *label, unsigned index)
{
    return label->value ? label->value(index) : label->values[index];
}

unsigned metrics_method_unknown(void)
{
    return method_count();
}

int metrics_new(int64_t started_wall_ns, struct metrics **ret, struct error *err)
{
    struct metrics layout = {.started_wall_ns = started_wall_ns};
    size_t used = 0;
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        size_t cells = definitions[i].info.kind == METRIC_HISTOGRAM ? HISTOGRAM_CELLS : 1;
        for (size_t k = 0; k < METRIC_LABELS_MAX; k++) {
            layout.counts[i][k] = label_size(definitions[i].labels[k]);
            cells *= layout.counts[i][k];
        }
        layout.starts[i] = used;
        used += cells;
    }
    struct metrics *m = calloc(1, sizeof *m + used * sizeof m->cells[0]);
    if (!m) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "make the metrics: out of memory");
    }
    *m = layout;
    *ret = m;
    return 0;
}

void metrics_free(struct metrics *m)
{
    free(m);
}

int64_t metrics_started_wall_ns(const struct metrics *m)
{
    return m->started_wall_ns;
}

static uint64_t *cell_of(struct metrics *m, enum metric id, unsigned a, unsigned b, unsigned c,
                         size_t width)
{
    const unsigned *n = m->counts[id];
    assert(a < n[0] && b < n[1] && c < n[2]);
    return &m->cells[m->starts[id] + (((size_t)a * n[1] + b) * n[2] + c) * width];
}

void metrics_add(struct metrics *m, enum metric id, unsigned a, unsigned b, unsigned c, int64_t n)
{
    if (m) {
        *cell_of(m, id, a, b, c, 1) += (uint64_t)n;
    }
}

void metrics_set(struct metrics *m, enum metric id, unsigned a, uint64_t value)
{
    if (m) {
        *cell_of(m, id, a, 0, 0, 1) = value;
    }
}

void metrics_observe(struct metrics *m, enum metric id, unsigned a, uint64_t duration_ns)
{
    if (!m) {
        return;
    }
    uint64_t *cells = cell_of(m, id, a, 0, 0, HISTOGRAM_CELLS);
    size_t i = 0;
    while (i < METRIC_BOUNDS && duration_ns > metric_bounds_ns[i]) {
        i++;
    }
    cells[i]++;
    cells[HISTOGRAM_CELLS - 1] += duration_ns;
}

enum metric_reason metrics_reason(const char *text)
{
    for (unsigned i = 0; text && i < label_REASON.count; i++) {
        if (strcmp(values_REASON[i], text) == 0) {
            return (enum metric_reason)i;
        }
    }
    return METRIC_REASON_OTHER;
}

void metric_prometheus_name(const struct metric_info *info, char ret[METRIC_NAME_MAX_BYTES])
{
    const char *unit = strcmp(info->unit, "s") == 0    ? "_seconds"
                       : strcmp(info->unit, "By") == 0 ? "_bytes"
                                                       : "";
    int n = snprintf(ret, METRIC_NAME_MAX_BYTES, "%s%s%s", info->name, unit,
                     info->kind == METRIC_COUNTER ? "_total" : "");
    assert(n > 0 && n < METRIC_NAME_MAX_BYTES);
    for (char *p = ret; *p; p++) {
        *p = *p == '.' ? '_' : *p;
    }
}

static void fill_values(const uint64_t *cells, struct metric_series *s)
{
    if (s->info->kind != METRIC_HISTOGRAM) {
        s->value = cells[0];
        return;
    }
    s->buckets = cells;
    s->sum_ns = cells[HISTOGRAM_CELLS - 1];
    s->count = 0;
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) {
        s->count += cells[i];
    }
}

static void fill_labels(const struct definition *d, size_t index, struct metric_series *s)
{
    unsigned places[METRIC_LABELS_MAX];
    for (size_t k = METRIC_LABELS_MAX; k-- > 0;) {
        unsigned size = label_size(d->labels[k]);
        places[k] = (unsigned)(index % size);
        index /= size;
    }
    s->label_count = 0;
    for (size_t k = 0; k < METRIC_LABELS_MAX; k++) {
        if (d->labels[k]->name) {
            s->label_names[s->label_count] = d->labels[k]->name;
            s->label_values[s->label_count++] = label_value(d->labels[k], places[k]);
        }
    }
}

static void visit_metric(const struct metrics *m, size_t id,
                         void (*visit)(void *arg, const struct metric_series *series), void *arg)
{
    const struct definition *d = &definitions[id];
    size_t width = d->info.kind == METRIC_HISTOGRAM ? HISTOGRAM_CELLS : 1;
    size_t count = (size_t)m->counts[id][0] * m->counts[id][1] * m->counts[id][2];
    struct metric_series s = {.info = &d->info};
    for (size_t i = 0; i < count; i++) {
        fill_values(&m->cells[m->starts[id] + i * width], &s);
        if (s.value == 0 && d->labels[0] == &label_METHOD) {
            continue;
        }
        fill_labels(d, i, &s);
        visit(arg, &s);
    }
}

void metrics_each(const struct metrics *m,
                  void (*visit)(void *arg, const struct metric_series *series), void *arg)
{
    for (size_t id = 0; id < METRIC_COUNT; id++) {
        visit_metric(m, id, visit, arg);
    }
}
