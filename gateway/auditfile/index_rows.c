#include "gateway/auditfile/index_rows.h"

#include <stdlib.h>

enum { CELLS_MAX_BYTES = INDEX_COLUMN_COUNT * (INDEX_CHUNK_ROWS * 12 + 16) };

struct index_rows *index_rows_new(void)
{
    struct index_rows *rows = calloc(1, sizeof *rows);
    uint64_t *values =
        rows ? calloc((size_t)INDEX_COLUMN_COUNT * INDEX_CHUNK_ROWS, sizeof *values) : NULL;
    if (!values) {
        free(rows);
        return NULL;
    }
    for (size_t i = 0; i < INDEX_COLUMN_COUNT; i++) {
        rows->columns[i] = values + i * INDEX_CHUNK_ROWS;
    }
    return rows;
}

void index_rows_free(struct index_rows *rows)
{
    if (rows) {
        free(rows->columns[0]);
        free(rows);
    }
}

void index_rows_begin(struct index_rows *rows, int64_t id, uint64_t file, uint64_t offset)
{
    rows->chunk = (struct index_chunk){.id = id, .file = file, .end_offset = offset};
}

bool index_rows_is_full(const struct index_rows *rows)
{
    return rows->chunk.rows == INDEX_CHUNK_ROWS;
}

static uint64_t hash_of(const struct index_db *db, struct str text)
{
    return text.ptr ? index_db_hash(db, text) : 0;
}

void index_rows_hash(const struct index_db *db, const struct line_fields *fields,
                     uint64_t ret[INDEX_COLUMN_COUNT])
{
    for (size_t i = 0; i < LINE_FIELD_COUNT; i++) {
        ret[i] = hash_of(db, fields->text[i]);
    }
    ret[INDEX_PATH_TAIL] = hash_of(db, line_path_tail(fields->text[LINE_PATH]));
    ret[INDEX_PEER_ADDRESS] = hash_of(db, line_peer_address(fields->text[LINE_PEER]));
    ret[INDEX_IN_WORKSPACE] = fields->in_workspace;
    ret[INDEX_TIME] = (uint64_t)fields->time_ns;
}

static void extend(struct index_chunk *chunk, uint64_t sequence, int64_t time_ns, uint64_t end)
{
    bool is_first = chunk->rows == 0;
    chunk->first_sequence = is_first ? sequence : chunk->first_sequence;
    chunk->last_sequence = sequence;
    chunk->time_min = is_first || time_ns < chunk->time_min ? time_ns : chunk->time_min;
    chunk->time_max = is_first || time_ns > chunk->time_max ? time_ns : chunk->time_max;
    chunk->end_offset = end;
    chunk->rows++;
}

void index_rows_add(struct index_rows *rows, const struct index_db *db, struct str line,
                    uint64_t sequence, uint64_t offset, struct arena *scratch)
{
    struct line_fields fields;
    uint64_t values[INDEX_COLUMN_COUNT];
    /* Of a line that cannot be read to its end, what stands before is kept. */
    (void)line_fields_read(line, scratch, &fields);
    index_rows_hash(db, &fields, values);
    values[INDEX_SEQUENCE] = sequence;
    values[INDEX_OFFSET] = offset;
    values[INDEX_LENGTH] = line.len;
    for (size_t i = 0; i < INDEX_COLUMN_COUNT; i++) {
        rows->columns[i][rows->chunk.rows] = values[i];
    }
    extend(&rows->chunk, sequence, fields.time_ns, offset + line.len + 1);
}

int index_rows_store(const struct index_rows *rows, struct index_db *db, struct error *err)
{
    struct str cells[INDEX_COLUMN_COUNT];
    size_t ends[INDEX_COLUMN_COUNT];
    struct buf packed;
    buf_init(&packed, CELLS_MAX_BYTES);
    for (size_t i = 0; i < INDEX_COLUMN_COUNT; i++) {
        index_cell_write(rows->columns[i], rows->chunk.rows, &packed);
        ends[i] = packed.len;
    }
    for (size_t i = 0; i < INDEX_COLUMN_COUNT && !packed.failed; i++) {
        size_t begin = i > 0 ? ends[i - 1] : 0;
        cells[i] = str_make(packed.ptr + begin, ends[i] - begin);
    }
    int rc = packed.failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory")
                           : index_db_put_chunk(db, &rows->chunk, cells, err);
    buf_free(&packed);
    return rc;
}
