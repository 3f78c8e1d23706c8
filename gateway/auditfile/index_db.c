#include "gateway/auditfile/index_db.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "gateway/auditfile/index_cell.h"
#include "gateway/state/sql.h"

enum {
    APPLICATION_ID = 0x43524149, /* "CRAI" */
    VERSION = 2, /* of the layout, of enum index_column, of packed columns and of what is read */
    CELLS_PER_CHUNK = 64,
};

static_assert((int)INDEX_COLUMN_COUNT <= CELLS_PER_CHUNK, "a key per column");
static_assert(CELLS_PER_CHUNK == 64, "as the statements have it");

static const char layout[] = "BEGIN;"
                             "CREATE TABLE hash_key (value BLOB NOT NULL) STRICT;"
                             "CREATE TABLE file ("
                             "  file INTEGER PRIMARY KEY,"
                             "  bytes INTEGER NOT NULL,"
                             "  disk_bytes INTEGER NOT NULL,"
                             "  is_compressed INTEGER NOT NULL"
                             ") STRICT;"
                             "CREATE TABLE chunk ("
                             "  id INTEGER PRIMARY KEY,"
                             "  file INTEGER NOT NULL,"
                             "  first_sequence INTEGER NOT NULL,"
                             "  last_sequence INTEGER NOT NULL,"
                             "  end_offset INTEGER NOT NULL,"
                             "  time_min INTEGER NOT NULL,"
                             "  time_max INTEGER NOT NULL,"
                             "  rows INTEGER NOT NULL"
                             ") STRICT;"
                             "CREATE INDEX chunk_file ON chunk (file);"
                             "CREATE TABLE cell (" /* key: chunk * CELLS_PER_CHUNK + column */
                             "  key INTEGER PRIMARY KEY,"
                             "  bytes BLOB NOT NULL"
                             ") STRICT;";

struct index_db {
    pthread_mutex_t lock;
    struct sql *sql;
    uint8_t key[SIPHASH_KEY_BYTES];
    bool has_key;
    char path[PATH_MAX];
};

static void remove_files(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[PATH_MAX];
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        int n = snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (n > 0 && (size_t)n < sizeof name) {
            (void)unlink(name);
        }
    }
}

/* ---- opening ---- */

static int query_int(struct sql *sql, const char *text, int64_t *ret, struct error *err)
{
    struct sql_statement *st;
    int rc = sql_prepare(sql, text, &st, err);
    if (rc) {
        return rc;
    }
    rc = sql_step(st, err);
    *ret = rc == 1 ? sql_column_int(st, 0) : 0;
    sql_reset(st);
    return rc < 0 ? rc : 0;
}

static int make_layout(struct index_db *db, struct error *err)
{
    struct sql_statement *st;
    char version[48];
    if (!db->has_key && getrandom(db->key, sizeof db->key, 0) != (ssize_t)sizeof db->key) {
        return error_set(err, STATUS_INTERNAL, "no random bytes");
    }
    (void)snprintf(version, sizeof version, "PRAGMA user_version = %d; COMMIT", VERSION);
    int rc = sql_run(db->sql, layout, err);
    rc = rc ? rc : sql_prepare(db->sql, "INSERT INTO hash_key (value) VALUES (?1)", &st, err);
    if (rc == 0) {
        sql_bind_blob(st, 1, db->key, sizeof db->key);
        rc = sql_finish(st, err);
    }
    rc = rc ? rc : sql_run(db->sql, version, err);
    db->has_key = rc == 0;
    return rc;
}

static int read_key(struct index_db *db, struct error *err)
{
    struct sql_statement *st;
    int rc = sql_prepare(db->sql, "SELECT value FROM hash_key", &st, err);
    if (rc) {
        return rc;
    }
    rc = sql_step(st, err);
    struct str key = rc == 1 ? sql_column_blob(st, 0) : STR_NONE;
    bool is_whole = key.len == sizeof db->key;
    if (is_whole) {
        memcpy(db->key, key.ptr, sizeof db->key);
        db->has_key = true;
    }
    sql_reset(st);
    return is_whole ? 0
           : rc < 0 ? rc
                    : error_set(err, STATUS_FAILED_PRECONDITION, "the index has no key");
}

/* What a power cut may take of it is made anew: no write waits for the disk. */
static int open_once(struct index_db *db, struct error *err)
{
    int64_t version = 0;
    int rc = sql_open(db->path, APPLICATION_ID, &db->sql, err);
    rc = rc ? rc : sql_set_sync(db->sql, false, err);
    rc = rc ? rc : query_int(db->sql, "PRAGMA user_version", &version, err);
    if (rc == 0 && version == 0) {
        return make_layout(db, err);
    }
    if (rc == 0 && version != VERSION) {
        rc = error_set(err, STATUS_FAILED_PRECONDITION, "the index is of version %d", (int)version);
    }
    return rc ? rc : read_key(db, err);
}

int index_db_open(const char *dir, struct index_db **ret, struct error *err)
{
    struct index_db *db = calloc(1, sizeof *db);
    if (!db) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    (void)pthread_mutex_init(&db->lock, NULL);
    int n = snprintf(db->path, sizeof db->path, "%s/index.db", dir);
    int rc = n > 0 && (size_t)n < sizeof db->path
                 ? open_once(db, err)
                 : error_set(err, STATUS_INVALID_ARGUMENT, "the name of the folder is too long");
    if (rc && rc != -STATUS_UNAVAILABLE && rc != -STATUS_INVALID_ARGUMENT) {
        sql_close(db->sql);
        db->sql = NULL;
        remove_files(db->path);
        rc = open_once(db, err);
    }
    if (rc) {
        index_db_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void index_db_close(struct index_db *db)
{
    if (db) {
        sql_close(db->sql);
        (void)pthread_mutex_destroy(&db->lock);
        free(db);
    }
}

int index_db_reset(struct index_db *db, struct error *err)
{
    (void)pthread_mutex_lock(&db->lock);
    sql_close(db->sql);
    db->sql = NULL;
    remove_files(db->path);
    int rc = open_once(db, err);
    (void)pthread_mutex_unlock(&db->lock);
    return rc;
}

const uint8_t *index_db_key(const struct index_db *db)
{
    return db->key;
}

uint64_t index_db_hash(const struct index_db *db, struct str text)
{
    uint64_t h = siphash(db->key, text);
    return h ? h : 1;
}

/* ---- lists ---- */

/* After a reset that failed. */
static int refuse_closed(struct error *err)
{
    return error_set(err, STATUS_UNAVAILABLE, "the index of the audit log cannot be opened");
}

static int prepare(struct index_db *db, const char *text, struct sql_statement **ret,
                   struct error *err)
{
    return db->sql ? sql_prepare(db->sql, text, ret, err) : refuse_closed(err);
}

/* Calls add() with each row of the statement. */
static int each_row(struct index_db *db, const char *text,
                    void (*add)(struct sql_statement *st, struct buf *ret), struct buf *ret,
                    struct error *err)
{
    struct sql_statement *st;
    (void)pthread_mutex_lock(&db->lock);
    int rc = prepare(db, text, &st, err);
    if (rc == 0) {
        while ((rc = sql_step(st, err)) == 1) {
            add(st, ret);
        }
        sql_reset(st);
    }
    (void)pthread_mutex_unlock(&db->lock);
    return rc || !ret->failed ? rc
                              : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                          "out of memory for the index of the audit log");
}

static void add_chunk(struct sql_statement *st, struct buf *ret)
{
    const struct index_chunk chunk = {
        .id = sql_column_int(st, 0),
        .file = (uint64_t)sql_column_int(st, 1),
        .first_sequence = (uint64_t)sql_column_int(st, 2),
        .last_sequence = (uint64_t)sql_column_int(st, 3),
        .end_offset = (uint64_t)sql_column_int(st, 4),
        .time_min = sql_column_int(st, 5),
        .time_max = sql_column_int(st, 6),
        .rows = (uint32_t)sql_column_int(st, 7),
    };
    buf_add(ret, &chunk, sizeof chunk);
}

/* The file is no more to be trusted than any other: who reads a chunk has room for so many rows,
 * and its id is counted on from. */
static int check_chunks(const struct buf *chunks, struct error *err)
{
    const struct index_chunk *c = (const struct index_chunk *)(const void *)chunks->ptr;
    for (size_t i = 0; i < chunks->len / sizeof *c; i++) {
        if (c[i].rows < 1 || c[i].rows > INDEX_CHUNK_ROWS || c[i].id < 1 ||
            c[i].id > INT64_MAX / CELLS_PER_CHUNK / 2) {
            return error_set(err, STATUS_FAILED_PRECONDITION, "chunk %lld cannot be",
                             (long long)c[i].id);
        }
    }
    return 0;
}

int index_db_list_chunks(struct index_db *db, struct buf *ret, struct error *err)
{
    int rc = each_row(db,
                      "SELECT id, file, first_sequence, last_sequence, end_offset, time_min, "
                      "time_max, rows FROM chunk ORDER BY first_sequence",
                      add_chunk, ret, err);
    return rc ? rc : check_chunks(ret, err);
}

static void add_file(struct sql_statement *st, struct buf *ret)
{
    const struct index_file file = {
        .file = (uint64_t)sql_column_int(st, 0),
        .bytes = (uint64_t)sql_column_int(st, 1),
        .disk_bytes = (uint64_t)sql_column_int(st, 2),
        .is_compressed = sql_column_int(st, 3) != 0,
    };
    buf_add(ret, &file, sizeof file);
}

int index_db_list_files(struct index_db *db, struct buf *ret, struct error *err)
{
    return each_row(db, "SELECT file, bytes, disk_bytes, is_compressed FROM file ORDER BY file",
                    add_file, ret, err);
}

/* ---- changes ---- */

static int insert_chunk(struct index_db *db, const struct index_chunk *c, struct error *err)
{
    struct sql_statement *st;
    int rc = sql_prepare(db->sql,
                         "INSERT INTO chunk (id, file, first_sequence, last_sequence, end_offset, "
                         "time_min, time_max, rows) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                         &st, err);
    if (rc) {
        return rc;
    }
    const int64_t values[] = {c->id,
                              (int64_t)c->file,
                              (int64_t)c->first_sequence,
                              (int64_t)c->last_sequence,
                              (int64_t)c->end_offset,
                              c->time_min,
                              c->time_max,
                              c->rows};
    for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++) {
        sql_bind_int(st, i + 1, values[i]);
    }
    return sql_finish(st, err);
}

static int insert_cells(struct index_db *db, int64_t chunk,
                        const struct str cells[INDEX_COLUMN_COUNT], struct error *err)
{
    struct sql_statement *st;
    int rc = sql_prepare(db->sql, "INSERT INTO cell (key, bytes) VALUES (?1, ?2)", &st, err);
    for (int i = 0; rc == 0 && i < INDEX_COLUMN_COUNT; i++) {
        sql_bind_int(st, 1, chunk * CELLS_PER_CHUNK + i);
        sql_bind_blob(st, 2, cells[i].ptr, cells[i].len);
        rc = sql_finish(st, err);
    }
    return rc;
}

static int begin(struct index_db *db, struct error *err)
{
    (void)pthread_mutex_lock(&db->lock);
    return db->sql ? sql_run(db->sql, "BEGIN IMMEDIATE", err) : refuse_closed(err);
}

/* Ends what begin() began. */
static int end(struct index_db *db, int rc, struct error *err)
{
    struct error ignored;
    rc = rc ? rc : sql_run(db->sql, "COMMIT", err);
    if (rc && db->sql && sql_in_transaction(db->sql)) {
        (void)sql_run(db->sql, "ROLLBACK", &ignored);
    }
    (void)pthread_mutex_unlock(&db->lock);
    return rc;
}

int index_db_put_chunk(struct index_db *db, const struct index_chunk *chunk,
                       const struct str cells[INDEX_COLUMN_COUNT], struct error *err)
{
    int rc = begin(db, err);
    rc = rc ? rc : insert_chunk(db, chunk, err);
    rc = rc ? rc : insert_cells(db, chunk->id, cells, err);
    return end(db, rc, err);
}

int index_db_put_file(struct index_db *db, const struct index_file *file, struct error *err)
{
    struct sql_statement *st;
    int rc = begin(db, err);
    rc = rc ? rc
            : sql_prepare(db->sql,
                          "INSERT OR REPLACE INTO file (file, bytes, disk_bytes, is_compressed) "
                          "VALUES (?1, ?2, ?3, ?4)",
                          &st, err);
    if (rc == 0) {
        sql_bind_int(st, 1, (int64_t)file->file);
        sql_bind_int(st, 2, (int64_t)file->bytes);
        sql_bind_int(st, 3, (int64_t)file->disk_bytes);
        sql_bind_int(st, 4, file->is_compressed);
        rc = sql_finish(st, err);
    }
    return end(db, rc, err);
}

static int run_for(struct index_db *db, const char *text, uint64_t file, struct error *err)
{
    struct sql_statement *st;
    int rc = sql_prepare(db->sql, text, &st, err);
    if (rc == 0) {
        sql_bind_int(st, 1, (int64_t)file);
        rc = sql_finish(st, err);
    }
    return rc;
}

int index_db_drop_file(struct index_db *db, uint64_t file, struct error *err)
{
    int rc = begin(db, err);
    rc = rc ? rc
            : run_for(db,
                      "WITH RECURSIVE place (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM place "
                      "WHERE n < 63) DELETE FROM cell WHERE key IN (SELECT chunk.id * 64 + place.n "
                      "FROM chunk, place WHERE chunk.file = ?1)",
                      file, err);
    rc = rc ? rc : run_for(db, "DELETE FROM chunk WHERE file = ?1", file, err);
    rc = rc ? rc : run_for(db, "DELETE FROM file WHERE file = ?1", file, err);
    return end(db, rc, err);
}

/* ---- cells ---- */

int index_db_read_cell(struct index_db *db, int64_t chunk, enum index_column column,
                       struct buf *ret, struct error *err)
{
    struct sql_statement *st;
    (void)pthread_mutex_lock(&db->lock);
    int rc = prepare(db, "SELECT bytes FROM cell WHERE key = ?1", &st, err);
    if (rc == 0) {
        sql_bind_int(st, 1, chunk * CELLS_PER_CHUNK + (int64_t)column);
        rc = sql_step(st, err);
        if (rc == 1) {
            buf_add_str(ret, sql_column_blob(st, 0));
        }
        sql_reset(st);
    }
    (void)pthread_mutex_unlock(&db->lock);
    if (rc == 1) {
        return ret->failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory") : 0;
    }
    return rc < 0 ? rc : error_set(err, STATUS_NOT_FOUND, "the chunk is not in the index any more");
}

uint64_t index_db_bytes(struct index_db *db)
{
    struct error ignored;
    int64_t pages = 0;
    int64_t page_bytes = 0;
    (void)pthread_mutex_lock(&db->lock);
    if (db->sql) {
        (void)query_int(db->sql, "PRAGMA page_count", &pages, &ignored);
        (void)query_int(db->sql, "PRAGMA page_size", &page_bytes, &ignored);
    }
    (void)pthread_mutex_unlock(&db->lock);
    return (uint64_t)pages * (uint64_t)page_bytes;
}
