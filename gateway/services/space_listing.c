#include "gateway/services/space_listing.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/services/access.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

int space_listing_resolve(struct request *r, const Meta__ObjectReference *space_ref,
                          struct error *err)
{
    return resource_ref_is_set(space_ref) ? access_space_by_ref(r, space_ref, err) : 0;
}

static int order_by_name(const void *a, const void *b)
{
    return strcmp(resource_name(*(ProtobufCMessage *const *)a),
                  resource_name(*(ProtobufCMessage *const *)b));
}

static int order_by_creation(const void *a, const void *b)
{
    const Meta__Metadata *x = resource_metadata(*(ProtobufCMessage *const *)a);
    const Meta__Metadata *y = resource_metadata(*(ProtobufCMessage *const *)b);
    int64_t p = resource_timestamp_ns(x->created_at);
    int64_t q = resource_timestamp_ns(y->created_at);
    return p != q ? (p > q) - (p < q) : strcmp(x->uid, y->uid);
}

static void reverse(ProtobufCMessage **items, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        ProtobufCMessage *kept = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = kept;
    }
}

/* All of that kind in the Spaces of the actor's memberships. */
static int collect(struct request *r, enum store_kind kind, struct store_list *ret,
                   struct error *err)
{
    struct store *store = r->gateway->store;
    struct store_filter own = {.owner_uid = access_user_uid(r)};
    struct store_list members;
    int status = store_list_all(store, STORE_MEMBERSHIP, &own, &r->arena, &members, err);
    struct store_list *lists = arena_calloc(&r->arena, members.count + 1, sizeof(*lists));
    size_t total = 0;
    for (size_t i = 0; !status && lists && i < members.count; i++) {
        const Cordium__Membership *m = (const Cordium__Membership *)members.items[i];
        struct store_filter filter = {.space_uid = m->status->space_ref->uid};
        status = store_list_all(store, kind, &filter, &r->arena, &lists[i], err);
        total += lists[i].count;
    }
    ProtobufCMessage **items = arena_calloc(&r->arena, total + 1, sizeof(ProtobufCMessage *));
    if (status || !lists || !items) {
        return status ? status : resource_no_memory(err);
    }
    size_t n = 0;
    for (size_t i = 0; i < members.count; i++) {
        if (lists[i].count > 0) {
            memcpy(items + n, lists[i].items, lists[i].count * sizeof(ProtobufCMessage *));
        }
        n += lists[i].count;
    }
    *ret = (struct store_list){.items = items, .count = n, .total_count = (uint32_t)n};
    return 0;
}

/* Cuts one page out, by the rules of store_list(). */
static int cut_page(struct store_list *list, const struct store_page *page, struct error *err)
{
    size_t size = page->items_per_page ? page->items_per_page : STORE_PAGE_ITEMS_DEFAULT;
    size = size > STORE_PAGE_ITEMS_MAX ? STORE_PAGE_ITEMS_MAX : size;
    if (page->page > STORE_PAGE_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "Page %u is asked for, the last can be %d",
                         page->page, STORE_PAGE_MAX);
    }
    size_t begin = page->page * size;
    if (page->page > 0 && begin >= list->count) {
        return error_set(err, STATUS_NOT_FOUND, "Page %u is empty: the list has %zu items",
                         page->page, list->count);
    }
    size_t left = list->count - (begin < list->count ? begin : list->count);
    list->items += list->count - left;
    list->count = left < size ? left : size;
    list->has_more = left > size;
    list->items_per_page = (uint32_t)size;
    return 0;
}

static int list_everywhere(struct request *r, enum store_kind kind, const struct store_page *page,
                           struct store_list *ret, struct error *err)
{
    int status = collect(r, kind, ret, err);
    if (status) {
        return status;
    }
    qsort(ret->items, ret->count, sizeof(ProtobufCMessage *),
          page->order == STORE_BY_NAME ? order_by_name : order_by_creation);
    if (page->is_descending) {
        reverse(ret->items, ret->count);
    }
    return cut_page(ret, page, err);
}

void space_listing_reply(struct request *r, enum store_kind kind,
                         const Meta__CommonListOptions *common,
                         void (*show)(ProtobufCMessage *item))
{
    struct error err = {0};
    if (access_store_default(r, &err)) {
        request_fail(r, &err);
        return;
    }
    if (r->touched.space) {
        struct store_filter filter = {.space_uid = r->touched.space->metadata->uid};
        resource_list_reply(r, kind, &filter, common, show);
        return;
    }
    struct store_page page;
    struct store_list list;
    resource_page_from(common, &page);
    if (list_everywhere(r, kind, &page, &list, &err)) {
        request_fail(r, &err);
        return;
    }
    for (size_t i = 0; show && i < list.count; i++) {
        show(list.items[i]);
    }
    resource_list_reply_items(r, kind, &list, &page);
}
