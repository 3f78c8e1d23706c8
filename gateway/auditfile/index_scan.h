#ifndef AUDITFILE_INDEX_SCAN_H
#define AUDITFILE_INDEX_SCAN_H

#include "gateway/auditfile/index_filter.h"
#include "gateway/auditfile/line_index.h"

/* Goes through the index for the lines that a filter wants, chunk by chunk, in the order of the log
 * or against it. Where a filter asks for text, lines come that may not have it. */
struct index_scan;

struct index_range {
    uint64_t after;  /* only lines of a greater sequence */
    uint64_t before; /* only lines of a smaller one; 0: all */
    bool is_newest_first;
};

/* The filter is borrowed. UNAVAILABLE: there is no index. */
int index_scan_new(struct line_index *ix, const struct index_filter *filter,
                   const struct index_range *range, struct index_scan **ret, struct error *err);
void index_scan_free(struct index_scan *s); /* NULL is fine */

/* The next chunk that has wanted lines. 1; 0 at the end. */
int index_scan_next(struct index_scan *s, struct error *err);

/* Of the current chunk: which rows are wanted. */
size_t index_scan_rows(const struct index_scan *s);
bool index_scan_is_wanted(const struct index_scan *s, size_t row);

/* Where a line of the current chunk stands. */
struct index_place {
    uint64_t file;
    uint64_t sequence;
    uint64_t offset;
    size_t length;
};
int index_scan_locate(struct index_scan *s, size_t row, struct index_place *ret, struct error *err);

/* A column of the current chunk; until the next call of either kind. */
int index_scan_column(struct index_scan *s, enum index_column column, const struct index_cell **ret,
                      struct error *err);

/* Where the scan ended: false when it met lines that are not in the index yet. *ret_sequence: all
 * wanted lines up to there (or down to there) were given; when it is not complete. */
bool index_scan_is_complete(const struct index_scan *s, uint64_t *ret_sequence);

/* The index as the scan sees it. */
const struct index_snapshot *index_scan_snapshot(const struct index_scan *s);

#endif
