#ifndef AUDITFILE_LINE_INDEX_H
#define AUDITFILE_LINE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/index_cell.h"
#include "gateway/auditfile/index_db.h"
#include "gateway/auditfile/line_fields.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The index of the log, kept by a thread of its own: it follows the files as they grow, are
 * compressed and go, and takes in those that it does not have yet, the newest first. All functions
 * may be called from any thread. */
struct line_index;
struct index_unread;

struct line_index_options {
    const char *dir; /* of the log; index.db is made in it */
    /* There are new lines, or files, in it. From the thread; may be NULL. */
    void (*progress)(void *arg);
    void *arg;
};

/* UNAVAILABLE when the folder cannot be opened. What is wrong with the index itself shows later, in
 * line_index_state(): the log does without it. */
int line_index_open(const struct line_index_options *options, struct line_index **ret,
                    struct error *err);
void line_index_close(struct line_index *ix); /* waits for the thread; NULL is fine */

/* The log has new lines. */
void line_index_wake(struct line_index *ix);

struct line_index_state {
    uint64_t indexed_sequence; /* of the newest line in it */
    bool is_building;          /* it does not have all files yet */
    bool has_failed;           /* it cannot be kept; that is tried again all the time */
    size_t unread_files;       /* that it does without, since they are damaged */
    char failure[256];
    uint64_t bytes; /* of the database */
};
void line_index_state(struct line_index *ix, struct line_index_state *ret);

/* Waits until that line is in it, or it fails; true when it is. */
bool line_index_await(struct line_index *ix, uint64_t sequence, unsigned timeout_ms);

/* Waits until it has all files, or fails; true when it has. */
bool line_index_await_built(struct line_index *ix, unsigned timeout_ms);

/* What was in it at one instant. */
struct index_snapshot {
    struct index_chunk *chunks; /* by sequence; the last may still grow */
    size_t chunk_count;
    uint64_t *gaps; /* first sequences of the files that are not in it yet, ascending */
    size_t gap_count;
    struct index_unread *unread; /* files that it does without */
    size_t unread_count;
    uint64_t indexed_sequence;
    unsigned generation;
};

/* UNAVAILABLE: the index has failed; says why. */
int line_index_snapshot(struct line_index *ix, struct index_snapshot *ret, struct error *err);
void index_snapshot_free(struct index_snapshot *s); /* a zeroed one is fine */

/* A column of a chunk of that snapshot. `bytes` is cleared and lends its memory to the cell.
 * NOT_FOUND: its lines have gone meanwhile; UNAVAILABLE: the index is made anew. */
int line_index_read(struct line_index *ix, const struct index_snapshot *s,
                    const struct index_chunk *chunk, enum index_column column, struct buf *bytes,
                    struct index_cell *ret, struct error *err);

/* As index_db_hash(). Not before the first snapshot. */
uint64_t line_index_hash(const struct line_index *ix, struct str text);

/* The hashed columns of a line's fields; likewise. */
void line_index_hash_fields(const struct line_index *ix, const struct line_fields *fields,
                            uint64_t ret[INDEX_COLUMN_COUNT]);

/* What the index says of that file is not what the file says: its lines are taken in anew. */
void line_index_refresh(struct line_index *ix, uint64_t file);

/* The folder, as long as ix. */
int line_index_dir(const struct line_index *ix);

#endif
