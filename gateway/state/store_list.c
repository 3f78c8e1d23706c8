/* Many resources at once: lists, counts, deletions by a filter. */
#include <stdio.h>

#include "gateway/rpc/codec.h"
#include "gateway/state/store_internal.h"

enum { SQL_TEXT_MAX = 512 };

static bool is_given(const char *text)
{
    return text && text[0];
}

/* " WHERE …" for what the filter sets; made of constants, so that there are few of them. */
static void where_text(const struct store_filter *f, char out[SQL_TEXT_MAX])
{
    (void)snprintf(out, SQL_TEXT_MAX, " FROM resource WHERE kind = ?1%s%s%s%s%s",
                   is_given(f->space_uid) ? " AND space_uid = ?2" : "",
                   is_given(f->owner_uid) ? " AND owner_uid = ?3" : "",
                   is_given(f->template_uid) ? " AND template_uid = ?4" : "",
                   f->states ? " AND (?5 >> state) & 1" : "",
                   f->hidden == STORE_HIDDEN_AND_VISIBLE ? "" : " AND is_hidden = ?6");
}

/* Bits of ?5 beyond 2^63 keep their place in SQLite's arithmetic shift, since state is at most 63.
 */
static void where_bind(struct sql_statement *st, enum store_kind kind, const struct store_filter *f)
{
    sql_bind_int(st, 1, (int)kind);
    if (is_given(f->space_uid)) {
        sql_bind_text(st, 2, f->space_uid);
    }
    if (is_given(f->owner_uid)) {
        sql_bind_text(st, 3, f->owner_uid);
    }
    if (is_given(f->template_uid)) {
        sql_bind_text(st, 4, f->template_uid);
    }
    if (f->states) {
        sql_bind_int(st, 5, (int64_t)f->states);
    }
    if (f->hidden != STORE_HIDDEN_AND_VISIBLE) {
        sql_bind_int(st, 6, f->hidden == STORE_HIDDEN_ONLY);
    }
}

int store_count(struct store *store, enum store_kind kind, const struct store_filter *filter,
                uint32_t *ret, struct error *err)
{
    char where[SQL_TEXT_MAX];
    char text[SQL_TEXT_MAX + 32];
    struct sql_statement *st;
    where_text(filter, where);
    (void)snprintf(text, sizeof(text), "SELECT count(*)%s", where);
    int status = sql_prepare(store->db, text, &st, err);
    if (status < 0) {
        return status;
    }
    where_bind(st, kind, filter);
    status = sql_step(st, err);
    if (status == 1) {
        int64_t count = sql_column_int(st, 0);
        *ret = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
        status = 0;
    }
    sql_reset(st);
    return status;
}

int store_delete_all(struct store *store, enum store_kind kind, const struct store_filter *filter,
                     uint32_t *ret_count, struct error *err)
{
    char where[SQL_TEXT_MAX];
    char text[SQL_TEXT_MAX + 32];
    struct sql_statement *st;
    where_text(filter, where);
    (void)snprintf(text, sizeof(text), "DELETE%s", where);
    int status = sql_prepare(store->db, text, &st, err);
    if (status < 0) {
        return status;
    }
    store->changes[kind]++;
    where_bind(st, kind, filter);
    status = sql_finish(st, err);
    if (status == 0 && ret_count) {
        *ret_count = (uint32_t)sql_changes(store->db);
    }
    return status;
}

/* Up to `limit` rows from `offset` on into ret->items. */
static int list_rows(struct store *store, enum store_kind kind, const struct store_filter *filter,
                     const char *order, uint32_t limit, uint32_t offset, struct arena *arena,
                     struct store_list *ret, struct error *err)
{
    char where[SQL_TEXT_MAX];
    char text[SQL_TEXT_MAX + 96];
    struct sql_statement *st;
    where_text(filter, where);
    (void)snprintf(text, sizeof(text), "SELECT message%s ORDER BY %s LIMIT ?7 OFFSET ?8", where,
                   order);
    ret->items = arena_calloc(arena, limit, sizeof(ProtobufCMessage *));
    if (!ret->items) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the list is too large");
    }
    int status = sql_prepare(store->db, text, &st, err);
    if (status < 0) {
        return status;
    }
    where_bind(st, kind, filter);
    sql_bind_int(st, 7, limit);
    sql_bind_int(st, 8, offset);
    ret->count = 0;
    while ((status = sql_step(st, err)) == 1) {
        status = codec_decode_stored(store_kind_info(kind)->descriptor, sql_column_blob(st, 0),
                                     arena, &ret->items[ret->count], err);
        if (status < 0) {
            break;
        }
        ret->count++;
    }
    sql_reset(st);
    return status;
}

static const char *order_text(const struct store_page *page)
{
    if (page->order == STORE_BY_NAME) {
        return page->is_descending ? "name DESC" : "name";
    }
    return page->is_descending ? "seq DESC" : "seq";
}

int store_list(struct store *store, enum store_kind kind, const struct store_filter *filter,
               const struct store_page *page, struct arena *arena, struct store_list *ret,
               struct error *err)
{
    if (page->page > STORE_PAGE_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "page %u is over the maximum of %d",
                         page->page, STORE_PAGE_MAX);
    }
    uint32_t limit = page->items_per_page ? page->items_per_page : STORE_PAGE_ITEMS_DEFAULT;
    limit = limit > STORE_PAGE_ITEMS_MAX ? STORE_PAGE_ITEMS_MAX : limit;
    uint32_t offset = page->page * limit;
    struct store_list list = {.items_per_page = limit};
    int status = list_rows(store, kind, filter, order_text(page), limit, offset, arena, &list, err);
    if (status < 0) {
        return status;
    }
    if (list.count == 0 && page->page > 0) {
        return error_set(err, STATUS_NOT_FOUND, "the list has no page %u", page->page);
    }
    list.total_count = offset + (uint32_t)list.count;
    if (list.count == limit) { /* only then there may be more */
        status = store_count(store, kind, filter, &list.total_count, err);
    }
    list.has_more = offset + list.count < list.total_count;
    if (status == 0) {
        *ret = list;
    }
    return status;
}

int store_list_all(struct store *store, enum store_kind kind, const struct store_filter *filter,
                   struct arena *arena, struct store_list *ret, struct error *err)
{
    struct store_list list = {0};
    int status = store_count(store, kind, filter, &list.total_count, err);
    if (status == 0) {
        status = list_rows(store, kind, filter, "seq", list.total_count, 0, arena, &list, err);
    }
    list.items_per_page = list.total_count;
    if (status == 0) {
        *ret = list;
    }
    return status;
}
