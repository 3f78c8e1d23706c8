/* Resources: one row each. */
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store_internal.h"

static int fail_missing(enum store_kind kind, const char *what, struct error *err)
{
    return error_set(err, STATUS_NOT_FOUND, "%s %s does not exist",
                     store_kind_info(kind)->full_name, what);
}

/* Encodes into the scratch buffer and checks what the caller promised. */
static int encode(struct store *store, enum store_kind kind, const ProtobufCMessage *message,
                  const Meta__Metadata **ret, struct error *err)
{
    const struct store_kind_info *info = store_kind_info(kind);
    const Meta__Metadata *metadata = resource_metadata(message);
    if (message->descriptor != info->descriptor || !metadata || !metadata->uid[0] ||
        !metadata->name[0] || !metadata->resource_version[0]) {
        return error_set(err, STATUS_INTERNAL,
                         "a %s without uid, name or resource_version cannot be stored",
                         info->full_name);
    }
    buf_clear(&store->scratch);
    store->scratch.failed = false;
    int status = codec_encode_wire_mended(message, &store->scratch, err);
    if (status == 0) {
        *ret = metadata;
    }
    return status;
}

/* Parameters 1 to 10 of insert and update. */
static void bind_row(struct store *store, struct sql_statement *st, enum store_kind kind,
                     const Meta__Metadata *metadata, const struct store_index *index)
{
    sql_bind_int(st, 1, (int)kind);
    sql_bind_text(st, 2, metadata->uid);
    sql_bind_text(st, 3, metadata->name);
    sql_bind_text(st, 4, metadata->resource_version);
    sql_bind_text(st, 5, index->space_uid);
    sql_bind_text(st, 6, index->owner_uid);
    sql_bind_text(st, 7, index->template_uid);
    sql_bind_int(st, 8, index->state);
    sql_bind_int(st, 9, index->is_hidden);
    sql_bind_blob(st, 10, store->scratch.ptr, store->scratch.len);
}

int store_insert(struct store *store, enum store_kind kind, const ProtobufCMessage *message,
                 const struct store_index *index, struct error *err)
{
    const Meta__Metadata *metadata;
    struct sql_statement *st;
    int status = encode(store, kind, message, &metadata, err);
    if (status == 0) {
        status = sql_prepare(store->db,
                             "INSERT INTO resource (kind, uid, name, version, space_uid, "
                             "owner_uid, template_uid, state, is_hidden, message) "
                             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                             &st, err);
    }
    if (status < 0) {
        return status;
    }
    bind_row(store, st, kind, metadata, index);
    status = sql_finish(st, err);
    if (status == -STATUS_ALREADY_EXISTS) {
        return error_set(err, STATUS_ALREADY_EXISTS, "%s %s already exists",
                         store_kind_info(kind)->full_name, metadata->name);
    }
    return status;
}

/* Why an update touched no row. */
static int explain_no_update(struct store *store, enum store_kind kind,
                             const Meta__Metadata *metadata, struct error *err)
{
    struct sql_statement *st;
    int status =
        sql_prepare(store->db, "SELECT 1 FROM resource WHERE kind = ?1 AND uid = ?2", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_int(st, 1, (int)kind);
    sql_bind_text(st, 2, metadata->uid);
    status = sql_step(st, err);
    sql_reset(st);
    if (status < 0) {
        return status;
    }
    return status == 0
               ? fail_missing(kind, metadata->name, err)
               : error_set(err, STATUS_OUT_OF_RANGE, "%s %s has already changed; read it again",
                           store_kind_info(kind)->full_name, metadata->name);
}

int store_update(struct store *store, enum store_kind kind, const ProtobufCMessage *message,
                 const struct store_index *index, const char *expected_version, struct error *err)
{
    const Meta__Metadata *metadata;
    struct sql_statement *st;
    int status = encode(store, kind, message, &metadata, err);
    if (status == 0) {
        status = sql_prepare(store->db,
                             "UPDATE resource SET name = ?3, version = ?4, space_uid = ?5, "
                             "owner_uid = ?6, template_uid = ?7, state = ?8, is_hidden = ?9, "
                             "message = ?10 "
                             "WHERE kind = ?1 AND uid = ?2 AND (?11 = '' OR version = ?11)",
                             &st, err);
    }
    if (status < 0) {
        return status;
    }
    store->changes[kind]++;
    bind_row(store, st, kind, metadata, index);
    sql_bind_text(st, 11, expected_version);
    status = sql_finish(st, err);
    if (status == -STATUS_ALREADY_EXISTS) {
        return error_set(err, STATUS_ALREADY_EXISTS, "%s %s already exists",
                         store_kind_info(kind)->full_name, metadata->name);
    }
    if (status == 0 && sql_changes(store->db) == 0) {
        return explain_no_update(store, kind, metadata, err);
    }
    return status;
}

int store_delete(struct store *store, enum store_kind kind, const char *uid, struct error *err)
{
    struct sql_statement *st;
    int status =
        sql_prepare(store->db, "DELETE FROM resource WHERE kind = ?1 AND uid = ?2", &st, err);
    if (status < 0) {
        return status;
    }
    store->changes[kind]++;
    sql_bind_int(st, 1, (int)kind);
    sql_bind_text(st, 2, uid);
    status = sql_finish(st, err);
    return status == 0 && sql_changes(store->db) == 0 ? fail_missing(kind, uid, err) : status;
}

uint64_t store_changes(const struct store *store, enum store_kind kind)
{
    return store->changes[kind];
}

/* sql selects the message by ?1 = kind and ?2 = key. */
static int get_one(struct store *store, enum store_kind kind, const char *sql, const char *key,
                   struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db, sql, &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_int(st, 1, (int)kind);
    sql_bind_text(st, 2, key);
    status = sql_step(st, err);
    if (status == 1) {
        status = codec_decode_stored(store_kind_info(kind)->descriptor, sql_column_blob(st, 0),
                                     arena, ret, err);
    } else if (status == 0) {
        status = fail_missing(kind, key ? key : "", err);
    }
    sql_reset(st);
    return status;
}

int store_get_by_uid(struct store *store, enum store_kind kind, const char *uid,
                     struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    return get_one(store, kind, "SELECT message FROM resource WHERE kind = ?1 AND uid = ?2", uid,
                   arena, ret, err);
}

int store_get_by_name(struct store *store, enum store_kind kind, const char *name,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    return get_one(store, kind, "SELECT message FROM resource WHERE kind = ?1 AND name = ?2", name,
                   arena, ret, err);
}
