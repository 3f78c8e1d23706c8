#ifndef TELEMETRY_SYSLOG_SINK_H
#define TELEMETRY_SYSLOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/telemetry/endpoint.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/syslog_message.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Sends each line of the audit log to a syslog receiver: by UDP (RFC 5426), TCP with octet counting
 * (RFC 6587), or the datagram socket of the machine (/dev/log).
 *
 * Lines wait in a queue with a bound, are formatted by a worker thread, and leave as fast as the
 * socket takes them. When it breaks, it is made anew after a pause that grows, and goes on with the
 * first line that it did not take whole. Syslog has no acknowledgement: what the kernel took and
 * the receiver never read is lost unseen; the sequence numbers tell. */
struct syslog_sink;
struct uv_loop_s;

enum {
    SYSLOG_BATCH_LINES_MAX = 128,
    SYSLOG_BATCH_BYTES_MAX = 1 << 20,
    SYSLOG_DATAGRAM_MAX_BYTES = 65000, /* what UDP carries; a longer line is refused and counted */
};

/* Borrowed for the sink's life. */
struct syslog_settings {
    const struct endpoint *target;
    struct syslog_source source;
    size_t queue_bytes_max;
    struct metrics *metrics;
};

int syslog_sink_new(struct uv_loop_s *loop, const struct syslog_settings *settings,
                    struct syslog_sink **ret, struct error *err);

/* A line that was written; after release, all that were written may leave. */
void syslog_sink_add(struct syslog_sink *s, struct str line);
void syslog_sink_release(struct syslog_sink *s);

size_t syslog_sink_depth(const struct syslog_sink *s);
bool syslog_sink_is_idle(const struct syslog_sink *s);

/* What is in the queue is lost. The memory goes with a later round of the loop. NULL is fine. */
void syslog_sink_free(struct syslog_sink *s);

#endif
