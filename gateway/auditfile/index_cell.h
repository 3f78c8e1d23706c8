#ifndef AUDITFILE_INDEX_CELL_H
#define AUDITFILE_INDEX_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* One column of up to INDEX_CHUNK_ROWS lines: numbers of 64 bits, packed as their values allow. A
 * question about a column is answered without unpacking it. */

enum { INDEX_CHUNK_ROWS = 8192 };

/* Appends the packed form of n >= 1 values. */
void index_cell_write(const uint64_t *values, size_t n, struct buf *out);

/* The same without an attempt to make it small. */
void index_cell_write_plain(const uint64_t *values, size_t n, struct buf *out);

/* A packed column, looked at. Borrows the bytes but for the codebook. */
struct index_cell {
    uint8_t form;
    size_t rows;
    uint64_t first;                   /* the value of all, or the first, or the least */
    const uint8_t *bytes;             /* one item a row, as the form says */
    size_t code_count;                /* forms with codes: */
    uint64_t codes[INDEX_CHUNK_ROWS]; /* their values */
};

/* The first `rows` of a column. False for bytes that index_cell_write() did not make of as many. */
bool index_cell_read(struct str bytes, size_t rows, struct index_cell *ret);

/* Of row i < rows. */
uint64_t index_cell_at(const struct index_cell *c, size_t i);
void index_cell_unpack(const struct index_cell *c, uint64_t ret[INDEX_CHUNK_ROWS]);

/* Sets mask[i] to 1 for each row whose value is one of the n; others stay. */
void index_cell_match(const struct index_cell *c, const uint64_t *values, size_t n, uint8_t *mask);

#endif
