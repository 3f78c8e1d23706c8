#include "gateway/state/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/state/store_internal.h"

enum { APPLICATION_ID = 0x43524447 }; /* "CRDG" */

/* The layout, step by step: a file at version n has taken the first n steps. Steps are never
 * changed once released; a new one goes at the end. */
static const char *const layout_steps[] = {
    "CREATE TABLE resource ("
    "  seq INTEGER PRIMARY KEY AUTOINCREMENT," /* order of creation */
    "  kind INTEGER NOT NULL,"
    "  uid TEXT NOT NULL CHECK (uid <> ''),"
    "  name TEXT NOT NULL CHECK (name <> ''),"
    "  version TEXT NOT NULL,"
    "  space_uid TEXT NOT NULL,"
    "  owner_uid TEXT NOT NULL,"
    "  template_uid TEXT NOT NULL,"
    "  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 63),"
    "  is_hidden INTEGER NOT NULL CHECK (is_hidden IN (0, 1)),"
    "  message BLOB NOT NULL,"
    "  UNIQUE (kind, uid),"
    "  UNIQUE (kind, name)"
    ") STRICT;"
    "CREATE INDEX resource_kind ON resource (kind);"
    "CREATE INDEX resource_space ON resource (kind, space_uid);"
    "CREATE INDEX resource_owner ON resource (kind, owner_uid);"
    "CREATE INDEX resource_template ON resource (kind, template_uid);"
    "CREATE TABLE token ("
    "  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),"
    "  kind INTEGER NOT NULL,"
    "  subject_uid TEXT NOT NULL,"
    "  expires_at INTEGER NOT NULL,"
    "  generation INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX token_subject ON token (subject_uid);"
    "CREATE INDEX token_expiry ON token (expires_at) WHERE expires_at > 0;"
    "CREATE TABLE image ("
    "  id TEXT PRIMARY KEY,"
    "  json TEXT NOT NULL,"
    "  created_at INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE TABLE setting ("
    "  key TEXT PRIMARY KEY,"
    "  value TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;",
};

enum { LAYOUT_VERSION = sizeof(layout_steps) / sizeof(layout_steps[0]) };

static int layout_take_step(struct store *store, int64_t step, struct error *err)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "PRAGMA user_version = %d", (int)step + 1);
    int status = store_begin(store, err);
    if (status == 0) {
        status = sql_run(store->db, layout_steps[step], err);
    }
    if (status == 0) {
        status = sql_run(store->db, text, err);
    }
    return store_end(store, status, err);
}

static int layout_update(struct store *store, const char *path, struct error *err)
{
    int64_t version = 0;
    int status = sql_query_int(store->db, "PRAGMA user_version", &version, err);
    if (status == 0 && (version < 0 || version > LAYOUT_VERSION)) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "the store %s was written by a newer program (layout %d, we know %d); "
                         "use that one",
                         path, (int)version, LAYOUT_VERSION);
    }
    for (; status == 0 && version < LAYOUT_VERSION; version++) {
        status = layout_take_step(store, version, err);
    }
    return status;
}

int store_open(const char *path, struct store **ret, struct error *err)
{
    struct store *store = calloc(1, sizeof(*store));
    if (!store) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    buf_init(&store->scratch, STORE_MESSAGE_BYTES_MAX);
    int status = sql_open(path, APPLICATION_ID, &store->db, err);
    if (status == 0) {
        status = layout_update(store, path, err);
    }
    if (status < 0) {
        store_close(store);
        return status;
    }
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (store) {
        sql_close(store->db);
        buf_free(&store->scratch);
        free(store);
    }
}

struct store_write_time store_write_time(const struct store *store)
{
    struct store_write_time ret = {0, 0};
    if (store) {
        sql_write_time(store->db, &ret.ns, &ret.count);
    }
    return ret;
}

int store_begin(struct store *store, struct error *err)
{
    if (sql_in_transaction(store->db)) {
        return error_set(err, STATUS_INTERNAL, "the store is in a transaction already");
    }
    return sql_run(store->db, "BEGIN IMMEDIATE", err);
}

int store_begin_transient(struct store *store, struct error *err)
{
    if (sql_in_transaction(store->db)) {
        return error_set(err, STATUS_INTERNAL, "the store is in a transaction already");
    }
    int status = sql_set_sync(store->db, false, err);
    if (status == 0) {
        status = sql_run(store->db, "BEGIN IMMEDIATE", err);
    }
    if (status < 0) {
        (void)sql_set_sync(store->db, true, NULL);
    }
    return status;
}

int store_commit(struct store *store, struct error *err)
{
    int status = sql_run(store->db, "COMMIT", err);
    if (status == 0) {
        status = sql_set_sync(store->db, true, err);
    }
    return status;
}

int store_sync(struct store *store, struct error *err)
{
    return sql_sync(store->db, err);
}

void store_rollback(struct store *store)
{
    if (sql_in_transaction(store->db)) {
        (void)sql_run(store->db, "ROLLBACK", NULL); /* closing the file would do the same */
    }
    (void)sql_set_sync(store->db, true, NULL);
}

int store_end(struct store *store, int status, struct error *err)
{
    if (!status) {
        status = store_commit(store, err);
    }
    if (status) {
        store_rollback(store);
    }
    return status;
}
