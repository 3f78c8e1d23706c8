#ifndef AUDITFILE_INDEX_DB_H
#define AUDITFILE_INDEX_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/line_fields.h"
#include "gateway/auditfile/siphash.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Where the index of the log is kept: index.db beside its files, made by SQLite. It holds no text
 * of any line: what lines are found by stands in it as hashes under a key of its own, so that what
 * is erased from the log is not found here either. May be used by several threads.
 *
 * Lines are kept in chunks of one file each, and a chunk as its columns (index_cell.h). Other than
 * with a row a line and an index a column, a question reads the columns that it asks for and
 * nothing else, any combination of filters costs the sum of them, and a line takes some 60 bytes.
 */
struct index_db;

/* What is known of a line: its fields as hashes (0: it has none), and where it stands. */
enum index_column {
    /* 0 to LINE_FIELD_COUNT - 1: enum line_field */
    INDEX_PATH_TAIL = LINE_FIELD_COUNT, /* "WorkspaceService/Exec" */
    INDEX_PEER_ADDRESS,
    INDEX_IN_WORKSPACE, /* 0 or 1 */
    INDEX_TIME,         /* nanoseconds since 1970 */
    INDEX_SEQUENCE,
    INDEX_OFFSET, /* in the file's lines, not compressed */
    INDEX_LENGTH, /* without its newline */
    INDEX_COLUMN_COUNT,
};

/* Lines of one file, in their order. */
struct index_chunk {
    int64_t id;    /* > 0; never used again */
    uint64_t file; /* first sequence of the file, as its name is when it is finished */
    uint64_t first_sequence, last_sequence;
    uint64_t end_offset; /* behind its last line, and what stands there that is no line */
    int64_t time_min, time_max;
    uint32_t rows;
};

/* A finished file that is in the index as a whole. */
struct index_file {
    uint64_t file;
    uint64_t bytes;      /* of its lines */
    uint64_t disk_bytes; /* as it was on the disk: when that changes, it is another */
    bool is_compressed;
};

/* Opens it; makes it anew when it is missing, damaged or of another version. UNAVAILABLE: another
 * process has it, or the disk fails. */
int index_db_open(const char *dir, struct index_db **ret, struct error *err);
void index_db_close(struct index_db *db); /* NULL is fine */

/* Makes it anew, empty, with the key that it has. */
int index_db_reset(struct index_db *db, struct error *err);

/* Of the hashes; lives as long as db. */
const uint8_t *index_db_key(const struct index_db *db);

/* The hash of a text under that key; never 0. */
uint64_t index_db_hash(const struct index_db *db, struct str text);

/* Append to ret: struct index_chunk by first_sequence, struct index_file by file. */
int index_db_list_chunks(struct index_db *db, struct buf *ret, struct error *err);
int index_db_list_files(struct index_db *db, struct buf *ret, struct error *err);

/* cells[c]: column c, packed. All of it or nothing. */
int index_db_put_chunk(struct index_db *db, const struct index_chunk *chunk,
                       const struct str cells[INDEX_COLUMN_COUNT], struct error *err);
int index_db_put_file(struct index_db *db, const struct index_file *file, struct error *err);

/* A file with its chunks. */
int index_db_drop_file(struct index_db *db, uint64_t file, struct error *err);

/* Appends the packed column. NOT_FOUND: the chunk was dropped. */
int index_db_read_cell(struct index_db *db, int64_t chunk, enum index_column column,
                       struct buf *ret, struct error *err);

/* Bytes of the database. */
uint64_t index_db_bytes(struct index_db *db);

#endif
