#ifndef TELEMETRY_METRICS_TEXT_H
#define TELEMETRY_METRICS_TEXT_H

#include "gateway/telemetry/metrics.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Prometheus' text exposition format 0.0.4. */
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* A full buffer shows in out->failed. */
void metrics_text_write(const struct metrics *m, struct buf *out);

/* With backslash, newline and double quote escaped, as the value of a label is. */
void metrics_text_escape(struct str value, struct buf *out);

#endif
