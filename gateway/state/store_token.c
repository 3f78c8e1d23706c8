/* Tokens, images and settings: small tables beside the resources. */
#include "gateway/state/store_internal.h"

#include <string.h>

int store_token_insert(struct store *store, const struct store_token *token, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db,
                             "INSERT INTO token (hash, kind, subject_uid, expires_at, generation) "
                             "VALUES (?1, ?2, ?3, ?4, ?5)",
                             &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_blob(st, 1, token->hash, STORE_HASH_BYTES);
    sql_bind_int(st, 2, (int)token->kind);
    sql_bind_text(st, 3, token->subject_uid);
    sql_bind_int(st, 4, token->expires_at_seconds);
    sql_bind_int(st, 5, token->generation);
    status = sql_finish(st, err);
    return status == -STATUS_ALREADY_EXISTS
               ? error_set(err, STATUS_ALREADY_EXISTS, "a token exists already")
               : status;
}

int store_token_get(struct store *store, const uint8_t hash[STORE_HASH_BYTES], struct arena *arena,
                    struct store_token *ret, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(
        store->db, "SELECT kind, subject_uid, expires_at, generation FROM token WHERE hash = ?1",
        &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_blob(st, 1, hash, STORE_HASH_BYTES);
    status = sql_step(st, err);
    if (status == 0) {
        status = error_set(err, STATUS_NOT_FOUND, "no such token");
    } else if (status == 1) {
        struct str subject = sql_column_text(st, 1);
        struct store_token token = {
            .kind = (enum store_token_kind)sql_column_int(st, 0),
            .subject_uid = arena_strndup(arena, subject.ptr, subject.len),
            .expires_at_seconds = sql_column_int(st, 2),
            .generation = (uint32_t)sql_column_int(st, 3),
        };
        memcpy(token.hash, hash, STORE_HASH_BYTES);
        status = token.subject_uid ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        if (status == 0) {
            *ret = token;
        }
    }
    sql_reset(st);
    return status;
}

int store_token_delete(struct store *store, const uint8_t hash[STORE_HASH_BYTES], struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db, "DELETE FROM token WHERE hash = ?1", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_blob(st, 1, hash, STORE_HASH_BYTES);
    status = sql_finish(st, err);
    return status == 0 && sql_changes(store->db) == 0
               ? error_set(err, STATUS_NOT_FOUND, "no such token")
               : status;
}

int store_token_delete_subject(struct store *store, const char *subject_uid,
                               uint32_t generation_below, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db,
                             "DELETE FROM token WHERE subject_uid = ?1 "
                             "AND (generation < ?2 OR ?2 = 4294967295)",
                             &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, subject_uid);
    sql_bind_int(st, 2, generation_below);
    return sql_finish(st, err);
}

int store_token_delete_expired(struct store *store, int64_t now_seconds, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(
        store->db, "DELETE FROM token WHERE expires_at > 0 AND expires_at <= ?1", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_int(st, 1, now_seconds);
    return sql_finish(st, err);
}

int store_image_put(struct store *store, const struct store_image *image, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db,
                             "INSERT INTO image (id, json, created_at) VALUES (?1, ?2, ?3) "
                             "ON CONFLICT (id) DO UPDATE SET json = ?2, created_at = ?3",
                             &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, image->id);
    sql_bind_text(st, 2, image->json);
    sql_bind_int(st, 3, image->created_at_seconds);
    return sql_finish(st, err);
}

/* Columns id, json, created_at of the row where st stands. */
static int image_take(struct sql_statement *st, struct arena *arena, struct store_image *ret,
                      struct error *err)
{
    struct str id = sql_column_text(st, 0);
    struct str json = sql_column_text(st, 1);
    ret->id = arena_strndup(arena, id.ptr, id.len);
    ret->json = arena_strndup(arena, json.ptr, json.len);
    ret->created_at_seconds = sql_column_int(st, 2);
    return ret->id && ret->json ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

int store_image_get(struct store *store, const char *id, struct arena *arena,
                    struct store_image *ret, struct error *err)
{
    struct sql_statement *st;
    struct store_image image;
    int status =
        sql_prepare(store->db, "SELECT id, json, created_at FROM image WHERE id = ?1", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, id);
    status = sql_step(st, err);
    if (status == 0) {
        status = error_set(err, STATUS_NOT_FOUND, "image %s does not exist", id);
    } else if (status == 1) {
        status = image_take(st, arena, &image, err);
    }
    sql_reset(st);
    if (status == 0) {
        *ret = image;
    }
    return status;
}

int store_image_delete(struct store *store, const char *id, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db, "DELETE FROM image WHERE id = ?1", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, id);
    status = sql_finish(st, err);
    return status == 0 && sql_changes(store->db) == 0
               ? error_set(err, STATUS_NOT_FOUND, "image %s does not exist", id)
               : status;
}

int store_image_list(struct store *store, struct arena *arena, struct store_image **ret,
                     size_t *ret_count, struct error *err)
{
    struct sql_statement *st;
    int64_t room = 0;
    int status = sql_query_int(store->db, "SELECT count(*) FROM image", &room, err);
    if (status == 0) {
        status = sql_prepare(
            store->db, "SELECT id, json, created_at FROM image ORDER BY created_at, id", &st, err);
    }
    if (status < 0) {
        return status;
    }
    struct store_image *images = arena_calloc(arena, (size_t)room, sizeof(*images));
    size_t count = 0;
    status = images ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    while (status == 0 && (int64_t)count < room && (status = sql_step(st, err)) == 1) {
        status = image_take(st, arena, &images[count++], err);
    }
    sql_reset(st);
    if (status == 0) {
        *ret = images;
        *ret_count = count;
    }
    return status;
}

int store_setting_put(struct store *store, const char *key, const char *value, struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db,
                             value ? "INSERT INTO setting (key, value) VALUES (?1, ?2) "
                                     "ON CONFLICT (key) DO UPDATE SET value = ?2"
                                   : "DELETE FROM setting WHERE key = ?1",
                             &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, key);
    if (value) {
        sql_bind_text(st, 2, value);
    }
    return sql_finish(st, err);
}

int store_setting_get(struct store *store, const char *key, struct arena *arena, const char **ret,
                      struct error *err)
{
    struct sql_statement *st;
    int status = sql_prepare(store->db, "SELECT value FROM setting WHERE key = ?1", &st, err);
    if (status < 0) {
        return status;
    }
    sql_bind_text(st, 1, key);
    status = sql_step(st, err);
    if (status == 0) {
        status = error_set(err, STATUS_NOT_FOUND, "the setting %s is not there", key);
    } else if (status == 1) {
        struct str value = sql_column_text(st, 0);
        const char *copy = arena_strndup(arena, value.ptr, value.len);
        status = copy ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        if (copy) {
            *ret = copy;
        }
    }
    sql_reset(st);
    return status;
}
