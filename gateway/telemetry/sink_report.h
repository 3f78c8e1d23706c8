#ifndef TELEMETRY_SINK_REPORT_H
#define TELEMETRY_SINK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/telemetry/metrics.h"

/* What a sink tells about itself: in the metrics at once, in the daemon's log at most once a
 * minute, whatever happens how often. */

enum { SINK_REPORT_REASON_SIZE = 200 };

struct sink_report {
    const char *name; /* "otlp", "syslog" */
    enum metric_sink sink;
    struct metrics *metrics;
    uint64_t logged_ns; /* monotonic; 0: never */
    uint64_t dropped;   /* since the last line of the log */
    uint64_t rejected;
    bool is_failing; /* said so, and not yet that it works again */
    char reason[SINK_REPORT_REASON_SIZE];
};

void sink_report_init(struct sink_report *r, const char *name, enum metric_sink sink,
                      struct metrics *metrics);

/* Lines that found no room in the queue, that the receiver refuses, and that it took. */
void sink_report_dropped(struct sink_report *r, uint64_t lines, uint64_t now_ns);
void sink_report_rejected(struct sink_report *r, uint64_t lines, const char *reason,
                          uint64_t now_ns);
void sink_report_sent(struct sink_report *r, uint64_t lines);

/* The receiver cannot be reached, or asks to come again; nothing is lost yet. */
void sink_report_failure(struct sink_report *r, const char *reason, uint64_t now_ns);

#endif
