#ifndef AUDITFILE_LOG_QUERY_H
#define AUDITFILE_LOG_QUERY_H

#include "gateway/auditfile/index_scan.h"
#include "gateway/auditfile/line_fields.h"

/* The lines of the log that a filter wants, one after the other: found by the index, read from the
 * files, and looked at once more there. */
struct log_query;

struct log_match {
    uint64_t sequence;
    struct str line;           /* until the next call */
    struct line_fields fields; /* likewise */
};

/* The filter is borrowed. deadline_ns: of the monotonic clock, when a search for text pauses.
 * Errors as index_scan_new(). */
int log_query_new(struct line_index *ix, const struct index_filter *filter,
                  const struct index_range *range, uint64_t deadline_ns, struct log_query **ret,
                  struct error *err);
void log_query_free(struct log_query *q); /* NULL is fine */

/* The next line. 1; 0 when there is none, or the time is
 * over: log_query_end() tells. UNAVAILABLE: a file is not what the index says, which is made anew
 * for it; the question may be asked again. */
int log_query_next(struct log_query *q, struct log_match *ret, struct error *err);

enum log_query_end {
    LOG_QUERY_COMPLETE, /* all lines of the range were looked at */
    LOG_QUERY_PAUSED,   /* the time is over */
    LOG_QUERY_GAP,      /* what comes next is not in the index yet */
};

/* *ret_position: lines up to there, or down to there, were looked at; the range's own bound when
 * there was none. */
enum log_query_end log_query_end(const struct log_query *q, uint64_t *ret_position);

const struct index_snapshot *log_query_snapshot(const struct log_query *q);

#endif
