#include "gateway/state/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/clock.h"

enum {
    STATEMENTS_MAX = 96, /* kept prepared; beyond that the oldest gives way */
    LOCK_WAIT_MS = 2000, /* for the former process to end */
    BIND_LENGTH_MAX = 64 * 1024 * 1024,
};

struct sql_statement {
    struct sql *db;
    sqlite3_stmt *stmt;
    int bind_status;
};

struct sql {
    sqlite3 *handle;
    struct sql_statement statements[STATEMENTS_MAX];
    size_t statement_count;
    size_t next_to_replace; /* when all slots are taken */
    uint64_t write_ns;
    uint64_t write_count;
    bool is_sync_off;
};

static int sql_error(sqlite3 *handle, int code, const char *step, struct error *err)
{
    const char *why = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
        return error_set(err, STATUS_ALREADY_EXISTS, "%s: %s", step, why);
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "%s: %s", step, why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(err, STATUS_UNAVAILABLE,
                         "%s: the file is in use by another process; stop that one first", step);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "%s: %s; restore the file from a copy, or begin with another one", step,
                         why);
    default:
        return error_set(err, STATUS_INTERNAL, "%s: %s", step, why);
    }
}

static void count_write(struct sql *db, uint64_t began_ns)
{
    db->write_ns += clock_now_ns() - began_ns;
    db->write_count += !db->is_sync_off && !sql_in_transaction(db);
}

void sql_write_time(const struct sql *db, uint64_t *ret_ns, uint64_t *ret_count)
{
    *ret_ns = db->write_ns;
    *ret_count = db->write_count;
}

int sql_run(struct sql *db, const char *text, struct error *err)
{
    uint64_t began_ns = clock_now_ns();
    int code = sqlite3_exec(db->handle, text, NULL, NULL, NULL);
    count_write(db, began_ns);
    if (code != SQLITE_OK) {
        char step[64];
        (void)snprintf(step, sizeof(step), "SQL '%.40s'", text);
        return sql_error(db->handle, code, step, err);
    }
    return 0;
}

int sql_query_int(struct sql *db, const char *text, int64_t *ret, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(db, text, &st, err);
    if (status < 0) {
        return status;
    }
    status = sql_step(st, err);
    if (status == 1) {
        *ret = sql_column_int(st, 0);
        status = 0;
    }
    sql_reset(st);
    return status;
}

/* SQLite would make the file with the umask's mode; its journal files take the database's. */
static int file_make(const char *path, struct error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot open the store %s",
                               path);
    }
    int failed = fchmod(fd, 0600);
    int error_number = errno;
    close(fd);
    return failed ? error_set_errno(err, STATUS_FAILED_PRECONDITION, error_number,
                                    "the store %s must be our own file", path)
                  : 0;
}

static int sql_configure(struct sql *db, struct error *err)
{
    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_timeout(db->handle, LOCK_WAIT_MS);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, BIND_LENGTH_MAX);
    if (sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL) !=
            SQLITE_OK ||
        sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK) {
        return error_set(err, STATUS_INTERNAL, "SQLite does not take its safety settings");
    }
    /* EXCLUSIVE: one gateway owns the file; then WAL needs no shared memory either. */
    return sql_run(db,
                   "PRAGMA locking_mode = EXCLUSIVE;"
                   "PRAGMA journal_mode = WAL;"
                   "PRAGMA synchronous = FULL;"
                   "PRAGMA foreign_keys = ON;"
                   "PRAGMA secure_delete = ON;"
                   "PRAGMA cell_size_check = ON;"
                   "BEGIN IMMEDIATE; COMMIT;",
                   err);
}

/* A new file is empty and gets the id; any other must have it. */
static int sql_check_owner(struct sql *db, const char *path, int32_t application_id,
                           struct error *err)
{
    int64_t id = 0;
    int64_t tables = 0;
    int status = sql_query_int(db, "PRAGMA application_id", &id, err);
    if (status == 0) {
        status = sql_query_int(db, "SELECT count(*) FROM sqlite_schema", &tables, err);
    }
    if (status < 0 || id == application_id) {
        return status;
    }
    if (id != 0 || tables != 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "%s is the database of another program; name another file", path);
    }
    char text[64];
    (void)snprintf(text, sizeof(text), "PRAGMA application_id = %d", application_id);
    return sql_run(db, text, err);
}

int sql_open(const char *path, int32_t application_id, struct sql **ret, struct error *err)
{
    int status = file_make(path, err);
    if (status < 0) {
        return status;
    }
    struct sql *db = calloc(1, sizeof(*db));
    if (!db) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int code =
        sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    status = code == SQLITE_OK ? sql_configure(db, err) : sql_error(db->handle, code, "open", err);
    if (status == 0) {
        status = sql_check_owner(db, path, application_id, err);
    }
    if (status < 0) {
        (void)error_wrap(err, "store %s", path);
        sql_close(db);
        return status;
    }
    *ret = db;
    return 0;
}

void sql_close(struct sql *db)
{
    if (!db) {
        return;
    }
    for (size_t i = 0; i < db->statement_count; i++) {
        (void)sqlite3_finalize(db->statements[i].stmt);
    }
    (void)sqlite3_close(db->handle);
    free(db);
}

int sql_prepare(struct sql *db, const char *text, struct sql_statement **ret, struct error *err)
{
    for (size_t i = 0; i < db->statement_count; i++) {
        if (strcmp(sqlite3_sql(db->statements[i].stmt), text) == 0) {
            *ret = &db->statements[i];
            return 0;
        }
    }
    bool is_full = db->statement_count == STATEMENTS_MAX;
    struct sql_statement *st = &db->statements[is_full ? db->next_to_replace : db->statement_count];
    sqlite3_stmt *stmt;
    int code = sqlite3_prepare_v3(db->handle, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (code != SQLITE_OK) {
        return sql_error(db->handle, code, text, err);
    }
    if (is_full) { /* no statement is in use between the store's calls */
        (void)sqlite3_finalize(st->stmt);
        db->next_to_replace = (db->next_to_replace + 1) % STATEMENTS_MAX;
    } else {
        db->statement_count++;
    }
    st->db = db;
    st->stmt = stmt;
    st->bind_status = SQLITE_OK;
    *ret = st;
    return 0;
}

static void note_bind(struct sql_statement *st, int code)
{
    if (st->bind_status == SQLITE_OK) {
        st->bind_status = code;
    }
}

void sql_bind_text(struct sql_statement *st, int index, const char *text)
{
    note_bind(st, sqlite3_bind_text(st->stmt, index, text ? text : "", -1, SQLITE_STATIC));
}

void sql_bind_blob(struct sql_statement *st, int index, const void *bytes, size_t len)
{
    note_bind(st, len > 0 ? sqlite3_bind_blob64(st->stmt, index, bytes, len, SQLITE_STATIC)
                          : sqlite3_bind_zeroblob(st->stmt, index, 0));
}

void sql_bind_int(struct sql_statement *st, int index, int64_t value)
{
    note_bind(st, sqlite3_bind_int64(st->stmt, index, value));
}

int sql_step(struct sql_statement *st, struct error *err)
{
    sqlite3 *handle = sqlite3_db_handle(st->stmt);
    int code = st->bind_status == SQLITE_OK ? sqlite3_step(st->stmt) : st->bind_status;
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
        return code == SQLITE_ROW;
    }
    return sql_error(handle, code, "SQL", err);
}

void sql_reset(struct sql_statement *st)
{
    (void)sqlite3_reset(st->stmt); /* repeats the error of the step, which was seen */
    (void)sqlite3_clear_bindings(st->stmt);
    st->bind_status = SQLITE_OK;
}

int sql_finish(struct sql_statement *st, struct error *err)
{
    uint64_t began_ns = clock_now_ns();
    int status = sql_step(st, err);
    sql_reset(st);
    count_write(st->db, began_ns);
    return status < 0 ? status : 0;
}

int64_t sql_column_int(struct sql_statement *st, int index)
{
    return sqlite3_column_int64(st->stmt, index);
}

struct str sql_column_text(struct sql_statement *st, int index)
{
    const unsigned char *text = sqlite3_column_text(st->stmt, index);
    return str_make(text, text ? (size_t)sqlite3_column_bytes(st->stmt, index) : 0);
}

struct str sql_column_blob(struct sql_statement *st, int index)
{
    const void *bytes = sqlite3_column_blob(st->stmt, index);
    return str_make(bytes, bytes ? (size_t)sqlite3_column_bytes(st->stmt, index) : 0);
}

int64_t sql_changes(const struct sql *db)
{
    return sqlite3_changes64(db->handle);
}

int sql_set_sync(struct sql *db, bool is_on, struct error *err)
{
    if (db->is_sync_off != is_on) {
        return 0;
    }
    int code = sqlite3_exec(db->handle,
                            is_on ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                            NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        return sql_error(db->handle, code, "set synchronous", err);
    }
    db->is_sync_off = !is_on;
    return 0;
}

int sql_sync(struct sql *db, struct error *err)
{
    uint64_t began_ns = clock_now_ns();
    sqlite3_file *wal = NULL;
    int code = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (code == SQLITE_OK && wal && wal->pMethods) {
        code = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    }
    count_write(db, began_ns);
    return code == SQLITE_OK ? 0 : sql_error(NULL, code, "sync the write-ahead log", err);
}

bool sql_in_transaction(const struct sql *db)
{
    return sqlite3_get_autocommit(db->handle) == 0;
}
