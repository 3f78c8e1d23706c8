#ifndef AUDITFILE_INDEX_ROWS_H
#define AUDITFILE_INDEX_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/index_cell.h"
#include "gateway/auditfile/index_db.h"
#include "policy/base/arena.h"

/* A chunk of the index while it is filled. One thread adds; others may read the rows that were
 * there when they learnt of them. */
struct index_rows {
    struct index_chunk chunk;
    uint64_t *columns[INDEX_COLUMN_COUNT]; /* INDEX_CHUNK_ROWS of each */
};

/* NULL without memory. */
struct index_rows *index_rows_new(void);
void index_rows_free(struct index_rows *rows); /* NULL is fine */

/* Empties it for lines of that file. */
void index_rows_begin(struct index_rows *rows, int64_t id, uint64_t file, uint64_t offset);
bool index_rows_is_full(const struct index_rows *rows);

/* One line of the log, whose first byte has that offset in the file; rows must not be full. */
void index_rows_add(struct index_rows *rows, const struct index_db *db, struct str line,
                    uint64_t sequence, uint64_t offset, struct arena *scratch);

/* Keeps it; it has a row at least. */
int index_rows_store(const struct index_rows *rows, struct index_db *db, struct error *err);

/* The hashed columns that a line's fields give, for whoever asks whether it matches. */
void index_rows_hash(const struct index_db *db, const struct line_fields *fields,
                     uint64_t ret[INDEX_COLUMN_COUNT]);

#endif
