#include "gateway/auditfile/index_scan.h"

#include <stdlib.h>
#include <string.h>

enum { CELL_MAX_BYTES = INDEX_CHUNK_ROWS * 12 + 64 };

enum place_column { PLACE_SEQUENCE, PLACE_OFFSET, PLACE_LENGTH, PLACE_COUNT };

struct index_scan {
    struct line_index *ix;
    const struct index_filter *filter;
    struct index_range range;
    struct index_snapshot snapshot;
    size_t given; /* chunks that were looked at */
    const struct index_chunk *chunk;
    bool is_cut;
    uint64_t cut_sequence;

    uint8_t mask[INDEX_CHUNK_ROWS];
    uint8_t part[INDEX_CHUNK_ROWS];   /* of one clause */
    uint8_t except[INDEX_CHUNK_ROWS]; /* of one exception */
    struct index_cell cell;
    struct buf bytes;
    bool has_places; /* of the current chunk */
    struct index_cell places[PLACE_COUNT];
    struct buf place_bytes[PLACE_COUNT];
};

int index_scan_new(struct line_index *ix, const struct index_filter *filter,
                   const struct index_range *range, struct index_scan **ret, struct error *err)
{
    struct index_scan *s = calloc(1, sizeof *s);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    s->ix = ix;
    s->filter = filter;
    s->range = *range;
    s->range.before = range->before ? range->before : UINT64_MAX;
    buf_init(&s->bytes, CELL_MAX_BYTES);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        buf_init(&s->place_bytes[i], CELL_MAX_BYTES);
    }
    int rc = line_index_snapshot(ix, &s->snapshot, err);
    if (rc) {
        index_scan_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void index_scan_free(struct index_scan *s)
{
    if (s) {
        index_snapshot_free(&s->snapshot);
        buf_free(&s->bytes);
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            buf_free(&s->place_bytes[i]);
        }
        free(s);
    }
}

const struct index_snapshot *index_scan_snapshot(const struct index_scan *s)
{
    return &s->snapshot;
}

/* ---- one chunk ---- */

static bool has_any(const uint8_t *mask, size_t rows)
{
    return memchr(mask, 1, rows);
}

static int read_column(struct index_scan *s, enum index_column column, struct error *err)
{
    return line_index_read(s->ix, &s->snapshot, s->chunk, column, &s->bytes, &s->cell, err);
}

static int apply_clause(struct index_scan *s, const struct index_clause *c, uint8_t *mask,
                        struct error *err)
{
    size_t rows = s->chunk->rows;
    int rc = 0;
    memset(s->part, 0, rows);
    for (size_t i = 0; rc == 0 && i < c->column_count; i++) {
        rc = read_column(s, c->columns[i], err);
        if (rc == 0) {
            index_cell_match(&s->cell, c->values, c->value_count, s->part);
        }
    }
    for (size_t i = 0; rc == 0 && i < rows; i++) {
        mask[i] &= s->part[i];
    }
    return rc;
}

static int apply_time(struct index_scan *s, const struct index_filter *f, uint8_t *mask,
                      struct error *err)
{
    const struct index_chunk *c = s->chunk;
    if (!f->has_time || (f->time_from <= c->time_min && c->time_max < f->time_to)) {
        return 0;
    }
    if (c->time_max < f->time_from || c->time_min >= f->time_to) {
        memset(mask, 0, c->rows);
        return 0;
    }
    int rc = read_column(s, INDEX_TIME, err);
    for (size_t i = 0; rc == 0 && i < c->rows; i++) {
        int64_t time_ns = (int64_t)index_cell_at(&s->cell, i);
        mask[i] &= f->time_from <= time_ns && time_ns < f->time_to;
    }
    return rc;
}

/* Leaves of the mask what the members of the filter want. */
static int apply_members(struct index_scan *s, const struct index_filter *f, uint8_t *mask,
                         struct error *err)
{
    int rc = apply_time(s, f, mask, err);
    for (size_t i = 0; rc == 0 && i < f->clause_count && has_any(mask, s->chunk->rows); i++) {
        rc = apply_clause(s, &f->clauses[i], mask, err);
    }
    return rc;
}

static int apply_except(struct index_scan *s, const struct index_filter *f, struct error *err)
{
    size_t rows = s->chunk->rows;
    if (f->text.len > 0) {
        return 0; /* the line itself must tell */
    }
    memcpy(s->except, s->mask, rows);
    int rc = apply_members(s, f, s->except, err);
    for (size_t i = 0; rc == 0 && i < rows; i++) {
        s->mask[i] &= (uint8_t)!s->except[i];
    }
    return rc;
}

static int apply_range(struct index_scan *s, struct error *err)
{
    const struct index_chunk *c = s->chunk;
    if (s->range.after < c->first_sequence && c->last_sequence < s->range.before) {
        return 0;
    }
    int rc = read_column(s, INDEX_SEQUENCE, err);
    for (size_t i = 0; rc == 0 && i < c->rows; i++) {
        uint64_t sequence = index_cell_at(&s->cell, i);
        s->mask[i] &= s->range.after < sequence && sequence < s->range.before;
    }
    return rc;
}

/* 1 when the chunk has wanted lines. Those of a chunk that is gone are not in the log any more. */
static int look_at_chunk(struct index_scan *s, struct error *err)
{
    memset(s->mask, 1, s->chunk->rows);
    int rc = apply_range(s, err);
    rc = rc ? rc : apply_members(s, s->filter, s->mask, err);
    for (size_t i = 0; rc == 0 && i < s->filter->except_count; i++) {
        rc = apply_except(s, &s->filter->except[i], err);
    }
    if (rc == -STATUS_NOT_FOUND) {
        return 0;
    }
    return rc ? rc : has_any(s->mask, s->chunk->rows);
}

/* ---- all of them ---- */

/* The first sequence of the file behind gap i. */
static uint64_t gap_end(const struct index_scan *s, size_t i)
{
    const struct index_snapshot *n = &s->snapshot;
    size_t low = 0;
    size_t high = n->chunk_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->chunks[middle].file > n->gaps[i]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    uint64_t end = low < n->chunk_count ? n->chunks[low].file : UINT64_MAX;
    return i + 1 < n->gap_count && n->gaps[i + 1] < end ? n->gaps[i + 1] : end;
}

/* Is there a file with lines between these sequences that the index does not have? */
static bool has_gap(const struct index_scan *s, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < s->snapshot.gap_count && s->snapshot.gaps[i] < high; i++) {
        if (gap_end(s, i) - 1 > low) {
            return true;
        }
    }
    return false;
}

static bool cut(struct index_scan *s, uint64_t sequence)
{
    s->is_cut = true;
    s->cut_sequence = sequence;
    return false;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The next chunk of the range, whatever is in it; false at the end, or at a gap. */
static bool step_back(struct index_scan *s)
{
    const struct index_chunk *chunks = s->snapshot.chunks;
    size_t n = s->snapshot.chunk_count;
    while (s->given < n) {
        const struct index_chunk *c = &chunks[n - 1 - s->given];
        const struct index_chunk *above = s->given > 0 ? c + 1 : NULL;
        uint64_t file = smaller(above ? above->file : UINT64_MAX, s->range.before);
        uint64_t below = c->file > s->range.after ? c->file : s->range.after;
        if (c->file != file && has_gap(s, below, file)) {
            return cut(s, smaller(above ? above->first_sequence : UINT64_MAX, s->range.before));
        }
        s->given++;
        if (c->last_sequence <= s->range.after) {
            return false;
        }
        if (c->first_sequence < s->range.before) {
            s->chunk = c;
            return true;
        }
    }
    uint64_t file = smaller(n > 0 ? chunks[0].file : UINT64_MAX, s->range.before);
    return has_gap(s, s->range.after, file) &&
           cut(s, smaller(n > 0 ? chunks[0].first_sequence : UINT64_MAX, s->range.before));
}

static bool step_on(struct index_scan *s)
{
    while (s->given < s->snapshot.chunk_count) {
        const struct index_chunk *c = &s->snapshot.chunks[s->given];
        uint64_t below = s->given > 0 ? s->snapshot.chunks[s->given - 1].last_sequence : 0;
        below = below > s->range.after ? below : s->range.after;
        /* A file may begin before the range and be in it. */
        if (c->last_sequence > s->range.after &&
            has_gap(s, below, smaller(c->file, s->range.before))) {
            return cut(s, below);
        }
        s->given++;
        if (c->first_sequence >= s->range.before) {
            return false;
        }
        if (c->last_sequence > s->range.after) {
            s->chunk = c;
            return true;
        }
    }
    uint64_t below = s->given > 0 ? s->snapshot.chunks[s->given - 1].last_sequence : 0;
    return has_gap(s, below, s->range.before) ? cut(s, below) : false;
}

int index_scan_next(struct index_scan *s, struct error *err)
{
    int rc = 0;
    s->has_places = false;
    while (rc == 0 && !s->is_cut && (s->range.is_newest_first ? step_back : step_on)(s)) {
        rc = look_at_chunk(s, err);
    }
    return rc;
}

size_t index_scan_rows(const struct index_scan *s)
{
    return s->chunk->rows;
}

bool index_scan_is_wanted(const struct index_scan *s, size_t row)
{
    return s->mask[row];
}

int index_scan_column(struct index_scan *s, enum index_column column, const struct index_cell **ret,
                      struct error *err)
{
    int rc = read_column(s, column, err);
    *ret = &s->cell;
    return rc;
}

int index_scan_locate(struct index_scan *s, size_t row, struct index_place *ret, struct error *err)
{
    static const enum index_column columns[PLACE_COUNT] = {INDEX_SEQUENCE, INDEX_OFFSET,
                                                           INDEX_LENGTH};
    int rc = 0;
    for (size_t i = 0; rc == 0 && !s->has_places && i < PLACE_COUNT; i++) {
        rc = line_index_read(s->ix, &s->snapshot, s->chunk, columns[i], &s->place_bytes[i],
                             &s->places[i], err);
    }
    if (rc) {
        return rc;
    }
    s->has_places = true;
    *ret = (struct index_place){
        .file = s->chunk->file,
        .sequence = index_cell_at(&s->places[PLACE_SEQUENCE], row),
        .offset = index_cell_at(&s->places[PLACE_OFFSET], row),
        .length = (size_t)index_cell_at(&s->places[PLACE_LENGTH], row),
    };
    return 0;
}

bool index_scan_is_complete(const struct index_scan *s, uint64_t *ret_sequence)
{
    *ret_sequence = s->cut_sequence;
    return !s->is_cut;
}
