#include "gateway/auditfile/log_query.h"

#include <stdlib.h>
#include <time.h>

#include "executor/proc/clock.h"
#include "gateway/auditfile/index_rows.h"
#include "gateway/auditfile/line_fetch.h"

enum { ROWS_PER_CLOCK = 64, LINE_ARENA_MAX_BYTES = 4 << 20 };

struct log_query {
    struct line_index *ix;
    const struct index_filter *filter;
    struct index_range range;
    struct index_scan *scan;
    struct line_fetch *fetch;
    uint64_t deadline_ns;
    bool has_chunk;
    size_t looked_at; /* rows of the chunk */
    uint64_t position;
    unsigned since_clock;
    bool is_paused;
    struct arena scratch; /* of one line */
};

int log_query_new(struct line_index *ix, const struct index_filter *filter,
                  const struct index_range *range, uint64_t deadline_ns, struct log_query **ret,
                  struct error *err)
{
    struct log_query *q = calloc(1, sizeof *q);
    if (!q) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    q->ix = ix;
    arena_init(&q->scratch, LINE_ARENA_MAX_BYTES);
    q->filter = filter;
    q->range = *range;
    q->deadline_ns = deadline_ns;
    q->position = range->is_newest_first ? range->before : range->after;
    q->fetch = line_fetch_new(line_index_dir(ix));
    int rc = q->fetch ? index_scan_new(ix, filter, range, &q->scan, err)
                      : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    if (rc) {
        log_query_free(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void log_query_free(struct log_query *q)
{
    if (q) {
        index_scan_free(q->scan);
        arena_free(&q->scratch);
        line_fetch_free(q->fetch);
        free(q);
    }
}

const struct index_snapshot *log_query_snapshot(const struct log_query *q)
{
    return index_scan_snapshot(q->scan);
}

/* Only text makes many lines be read in vain. */
static bool is_over_time(struct log_query *q)
{
    if (index_filter_has_text(q->filter) && ++q->since_clock == ROWS_PER_CLOCK) {
        q->since_clock = 0;
        q->is_paused = clock_now_ns() >= q->deadline_ns;
    }
    return q->is_paused;
}

/* The next wanted row of the current chunk. */
static bool next_row(struct log_query *q, size_t *ret)
{
    size_t rows = q->has_chunk ? index_scan_rows(q->scan) : 0;
    while (q->looked_at < rows) {
        size_t i = q->range.is_newest_first ? rows - 1 - q->looked_at : q->looked_at;
        q->looked_at++;
        if (index_scan_is_wanted(q->scan, i)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* 1 when it matches. 0: it has gone, or another line has the same hash. */
static int read_row(struct log_query *q, size_t row, struct log_match *ret, struct error *err)
{
    struct index_place place;
    uint64_t values[INDEX_COLUMN_COUNT] = {0};
    int rc = index_scan_locate(q->scan, row, &place, err);
    if (rc == 0) {
        q->position = place.sequence;
        rc = line_fetch(q->fetch, &place, &ret->line, err);
    }
    if (rc == -STATUS_DATA_LOSS) {
        line_index_refresh(q->ix, place.file);
        return error_set(err, STATUS_UNAVAILABLE,
                         "A file of the audit log was changed, and is being indexed anew; try "
                         "again in a moment");
    }
    if (rc) {
        return rc == -STATUS_NOT_FOUND ? 0 : rc;
    }
    ret->sequence = place.sequence;
    arena_reset(&q->scratch);
    (void)line_fields_read(ret->line, &q->scratch, &ret->fields);
    line_index_hash_fields(q->ix, &ret->fields, values);
    return index_filter_accepts(q->filter, values, ret->line);
}

int log_query_next(struct log_query *q, struct log_match *ret, struct error *err)
{
    size_t row;
    for (;;) {
        while (next_row(q, &row)) {
            int rc = read_row(q, row, ret, err);
            if (rc) {
                return rc;
            }
            if (is_over_time(q)) {
                return 0;
            }
        }
        int rc = index_scan_next(q->scan, err);
        q->has_chunk = rc == 1;
        q->looked_at = 0;
        if (rc != 1) {
            return rc;
        }
    }
}

enum log_query_end log_query_end(const struct log_query *q, uint64_t *ret_position)
{
    uint64_t cut;
    bool is_complete = index_scan_is_complete(q->scan, &cut);
    *ret_position = q->position;
    if (q->is_paused) {
        return LOG_QUERY_PAUSED;
    }
    if (!is_complete) {
        *ret_position = cut == UINT64_MAX ? q->position : cut;
        return LOG_QUERY_GAP;
    }
    return LOG_QUERY_COMPLETE;
}
