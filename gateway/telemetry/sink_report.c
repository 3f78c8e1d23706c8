#include "gateway/telemetry/sink_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "executor/proc/log.h"

static const uint64_t LOG_PAUSE_NS = 60000000000ULL;

void sink_report_init(struct sink_report *r, const char *name, enum metric_sink sink,
                      struct metrics *metrics)
{
    *r = (struct sink_report){.name = name, .sink = sink, .metrics = metrics};
}

static void keep_reason(struct sink_report *r, const char *reason)
{
    (void)snprintf(r->reason, sizeof r->reason, "%s", reason);
}

static void say(struct sink_report *r, uint64_t now_ns)
{
    if (r->logged_ns && now_ns - r->logged_ns < LOG_PAUSE_NS) {
        return;
    }
    log_warning("telemetry: %s: %s%s%" PRIu64 " lines dropped, %" PRIu64
                " refused since the last message; the audit log itself has them",
                r->name, r->reason, r->reason[0] ? "; " : "", r->dropped, r->rejected);
    r->logged_ns = now_ns ? now_ns : 1;
    r->dropped = 0;
    r->rejected = 0;
    r->is_failing = true;
}

void sink_report_dropped(struct sink_report *r, uint64_t lines, uint64_t now_ns)
{
    metrics_add(r->metrics, METRIC_TELEMETRY_LINES, r->sink, METRIC_RESULT_DROPPED, 0,
                (int64_t)lines);
    r->dropped += lines;
    say(r, now_ns);
}

void sink_report_rejected(struct sink_report *r, uint64_t lines, const char *reason,
                          uint64_t now_ns)
{
    metrics_add(r->metrics, METRIC_TELEMETRY_LINES, r->sink, METRIC_RESULT_REJECTED, 0,
                (int64_t)lines);
    r->rejected += lines;
    keep_reason(r, reason);
    say(r, now_ns);
}

void sink_report_failure(struct sink_report *r, const char *reason, uint64_t now_ns)
{
    keep_reason(r, reason);
    say(r, now_ns);
}

void sink_report_sent(struct sink_report *r, uint64_t lines)
{
    metrics_add(r->metrics, METRIC_TELEMETRY_LINES, r->sink, METRIC_RESULT_SENT, 0, (int64_t)lines);
    r->reason[0] = '\0';
    if (r->is_failing) {
        r->is_failing = false;
        log_info("telemetry: %s: lines are taken again", r->name);
    }
}
