#ifndef TELEMETRY_LINE_QUEUE_H
#define TELEMETRY_LINE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/str.h"

/* Lines of the audit log that wait to be sent, oldest first, with a bound. A line comes in when it
 * is written and may leave when it is durable: what a power cut takes from the log was then never
 * told to anybody else. A full queue refuses new lines, so that what it holds stays without gaps.
 *
 * Texts stay where they are until line_queue_drop(), so another thread may read those of a batch.
 */
struct line_queue;

/* NULL when there is no memory. */
struct line_queue *line_queue_new(size_t bytes_max);
void line_queue_free(struct line_queue *q);

/* Copies the line. False when there is no room, or no memory; then until lines have left. */
bool line_queue_push(struct line_queue *q, struct str line);

/* All that is in it may leave. */
void line_queue_release(struct line_queue *q);

/* Lines that may leave, and all of them. */
size_t line_queue_ready(const struct line_queue *q);
size_t line_queue_length(const struct line_queue *q);

/* The oldest lines that may leave: at most count_max, together at most bytes_max but always one
 * when there is one. Returns their number. */
size_t line_queue_peek(const struct line_queue *q, size_t count_max, size_t bytes_max,
                       struct str *ret);

/* Takes the oldest n <= line_queue_ready() out. */
void line_queue_drop(struct line_queue *q, size_t n);

#endif
