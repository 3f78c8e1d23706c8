#ifndef AUDITFILE_INDEX_STATS_H
#define AUDITFILE_INDEX_STATS_H

#include "gateway/auditfile/index_scan.h"

/* Counts lines by the values of columns. */

struct index_count {
    uint64_t lines;
    uint64_t allowed; /* of these lines: decisions */
    uint64_t denied;
};

/* What a table is about: a column, two of them together, or a span of time. */
struct index_key {
    enum index_column column;
    enum index_column second;
    bool has_second;
    uint64_t span_ns; /* 0: none; else of INDEX_TIME */
};

struct index_group {
    uint64_t key; /* a hash, or nanoseconds since 1970; 0: the lines do not say it */
    struct index_count count;
    struct index_place newest; /* a line of it */
};

/* Groups of more keys than INDEX_GROUPS_MAX are counted together. */
enum { INDEX_GROUPS_MAX = 1 << 17 };

struct index_table {
    struct index_group *groups; /* freed by index_table_free() */
    size_t count;
    struct index_count rest; /* lines that found no room */
};
void index_table_free(struct index_table *t);

/* Counts what the scan gives, into a table for each key, and all together. `hashes`: of "DECISION",
 * "ALLOWED" and "DENIED". CANCELLED when `stop` says so between two chunks. */
struct index_stats_hashes {
    uint64_t decision, allowed, denied;
};
int index_stats_run(struct index_scan *scan, const struct index_stats_hashes *hashes,
                    const struct index_key *keys, size_t key_count, bool (*stop)(void *arg),
                    void *arg, struct index_table *ret_tables, struct index_count *ret_all,
                    struct error *err);

#endif
