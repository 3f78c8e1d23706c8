#ifndef AUDITFILE_INDEX_FILTER_H
#define AUDITFILE_INDEX_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/index_db.h"
#include "policy/base/str.h"

/* Which lines are wanted. */

/* One of the columns has one of the values. */
struct index_clause {
    enum index_column columns[3];
    size_t column_count;
    const uint64_t *values;
    size_t value_count;
};

enum { INDEX_CLAUSES_MAX = 24 };

struct index_filter {
    struct index_clause clauses[INDEX_CLAUSES_MAX]; /* all of them hold */
    size_t clause_count;
    bool has_time;
    int64_t time_from, time_to;        /* from <= time < to */
    struct str text;                   /* is part of the line; empty: anything */
    const struct index_filter *except; /* none of these may match; they have no `except` */
    size_t except_count;
};

/* Does the line that has these values match? */
bool index_filter_accepts(const struct index_filter *f, const uint64_t values[INDEX_COLUMN_COUNT],
                          struct str line);

/* Does it ask for text, so that the index alone cannot tell? */
bool index_filter_has_text(const struct index_filter *f);

/* Is every line wanted? */
bool index_filter_is_empty(const struct index_filter *f);

#endif
