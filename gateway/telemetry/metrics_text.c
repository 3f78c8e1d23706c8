#include "gateway/telemetry/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct writer {
    struct buf *out;
    const struct metric_info *last; /* whose HELP and TYPE stand there already */
};

void metrics_text_escape(struct str value, struct buf *out)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n') {
            buf_add_cstr(out, "\\n");
            continue;
        }
        if (c == '\\' || c == '"') {
            buf_add_u8(out, '\\');
        }
        buf_add_u8(out, (uint8_t)c);
    }
}

enum { SECONDS_TEXT_SIZE = 32 };

/* Nanoseconds as seconds, exactly: a fraction of at most nine digits without zeros at its end. */
static const char *seconds_text(uint64_t ns, char ret[SECONDS_TEXT_SIZE])
{
    int n = snprintf(ret, SECONDS_TEXT_SIZE, "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
                     ns % 1000000000);
    while (ret[n - 1] == '0') {
        ret[--n] = '\0';
    }
    if (ret[n - 1] == '.') {
        ret[n - 1] = '\0';
    }
    return ret;
}

static void put_labels(struct buf *out, const struct metric_series *s, const char *le)
{
    if (s->label_count == 0 && !le) {
        return;
    }
    buf_add_u8(out, '{');
    for (unsigned i = 0; i < s->label_count; i++) {
        buf_printf(out, "%s%s=\"", i > 0 ? "," : "", s->label_names[i]);
        metrics_text_escape(str_from(s->label_values[i]), out);
        buf_add_u8(out, '"');
    }
    if (le) {
        buf_printf(out, "%sle=\"%s\"", s->label_count > 0 ? "," : "", le);
    }
    buf_add_u8(out, '}');
}

static void put_head(struct buf *out, const struct metric_info *info, const char *name)
{
    static const char *const types[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, info->help, name, types[info->kind]);
}

static void put_histogram(struct buf *out, const char *name, const struct metric_series *s)
{
    char seconds[SECONDS_TEXT_SIZE];
    uint64_t below = 0;
    for (size_t i = 0; i <= METRIC_BOUNDS; i++) {
        below += s->buckets[i];
        buf_printf(out, "%s_bucket", name);
        put_labels(out, s, i < METRIC_BOUNDS ? seconds_text(metric_bounds_ns[i], seconds) : "+Inf");
        buf_printf(out, " %" PRIu64 "\n", below);
    }
    buf_printf(out, "%s_sum", name);
    put_labels(out, s, NULL);
    buf_printf(out, " %s\n%s_count", seconds_text(s->sum_ns, seconds), name);
    put_labels(out, s, NULL);
    buf_printf(out, " %" PRIu64 "\n", s->count);
}

static void put_series(void *arg, const struct metric_series *s)
{
    struct writer *w = arg;
    char name[METRIC_NAME_MAX_BYTES];
    char seconds[SECONDS_TEXT_SIZE];
    metric_prometheus_name(s->info, name);
    if (w->last != s->info) {
        w->last = s->info;
        put_head(w->out, s->info, name);
    }
    if (s->info->kind == METRIC_HISTOGRAM) {
        put_histogram(w->out, name, s);
        return;
    }
    buf_add_cstr(w->out, name);
    put_labels(w->out, s, NULL);
    if (strcmp(s->info->unit, "s") == 0) {
        buf_printf(w->out, " %s\n", seconds_text(s->value, seconds));
    } else {
        buf_printf(w->out, " %" PRIu64 "\n", s->value);
    }
}

void metrics_text_write(const struct metrics *m, struct buf *out)
{
    struct writer w = {.out = out};
    metrics_each(m, put_series, &w);
}
