#include "gateway/services/workspace_sweep.h"

#include <stdlib.h>
#include <string.h>

#include "executor/proc/log.h"
#include "gateway/executor_link.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/workspace_run.h"
#include "gateway/services/workspace_source.h"
#include "gateway/state/store.h"

enum { SWEEP_ARENA_CAP_BYTES = 256 * 1024 * 1024 };

/* What is referred to. Lists live in the arena. */
struct marks {
    struct gateway *gateway;
    struct arena arena;
    const char **images; /* ids */
    size_t image_count;
    struct executor_uuid *storages;
    size_t storage_count;
    size_t room; /* of both lists */
    bool has_failed;
};

static int grow(struct marks *m)
{
    if (m->image_count < m->room && m->storage_count < m->room) {
        return 0;
    }
    size_t room = m->room ? m->room * 2 : 256;
    const char **images = arena_calloc(&m->arena, room, sizeof *images);
    struct executor_uuid *storages = arena_calloc(&m->arena, room, sizeof *storages);
    if (!images || !storages) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    if (m->room > 0) {
        memcpy(images, m->images, m->image_count * sizeof *images);
        memcpy(storages, m->storages, m->storage_count * sizeof *storages);
    }
    m->images = images;
    m->storages = storages;
    m->room = room;
    return 0;
}

static int mark_image(struct marks *m, const char *id)
{
    const char *copy = arena_strdup(&m->arena, id);
    if (!copy || grow(m)) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    m->images[m->image_count++] = copy;
    return 0;
}

static int mark_storage(struct marks *m, const char *uid)
{
    struct executor_uuid id;
    if (!workspace_uuid_parse(uid, &id)) {
        return 0;
    }
    if (grow(m)) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    m->storages[m->storage_count++] = id;
    return 0;
}

static int mark_workspaces(struct marks *m, struct error *err)
{
    const struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    int rc = store_list_all(m->gateway->store, STORE_WORKSPACE, &filter, &m->arena, &list, err);
    for (size_t i = 0; !rc && i < list.count; i++) {
        const char *uid = ((const Cordium__Workspace *)list.items[i])->metadata->uid;
        struct workspace_source source;
        rc = mark_storage(m, uid);
        int found = rc ? rc : workspace_source_get(m->gateway, uid, &m->arena, &source, err);
        if (!found) {
            rc = mark_image(m, source.image_id);
        } else if (found != -STATUS_NOT_FOUND) {
            rc = found;
        }
    }
    return rc;
}

static int mark_ready_build(struct marks *m, const Cordium__Template *t, struct error *err)
{
    const Cordium__Template__Status__BuildInfo *info = t->status ? t->status->build_info : NULL;
    struct workspace_source source;
    if (!info || !info->current_ready_build_id[0]) {
        return 0;
    }
    int rc = workspace_source_get_build(m->gateway, t->metadata->uid, info->current_ready_build_id,
                                        &m->arena, &source, err);
    if (rc) {
        return rc == -STATUS_NOT_FOUND ? 0 : rc;
    }
    rc = mark_image(m, source.image_id);
    return rc || !source.has_snapshot ? rc : mark_storage(m, source.snapshot);
}

static int mark_templates(struct marks *m, struct error *err)
{
    const struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    int rc = store_list_all(m->gateway->store, STORE_TEMPLATE, &filter, &m->arena, &list, err);
    for (size_t i = 0; !rc && i < list.count; i++) {
        rc = mark_ready_build(m, (const Cordium__Template *)list.items[i], err);
    }
    return rc;
}

static void mark_run(struct workspace_run *run, void *context)
{
    struct marks *m = context;
    if (run->image_id[0] && mark_image(m, run->image_id)) {
        m->has_failed = true;
    }
    /* Of an ephemeral workspace, and of a build between its sandbox's end and the snapshot. */
    if (grow(m)) {
        m->has_failed = true;
        return;
    }
    m->storages[m->storage_count++] = run->storage;
}

/* A failure leaves everything as it is: what cannot be seen is not free. */
static int mark(struct marks *m, struct gateway *g, struct error *err)
{
    memset(m, 0, sizeof *m);
    m->gateway = g;
    arena_init(&m->arena, SWEEP_ARENA_CAP_BYTES);
    int rc = mark_workspaces(m, err);
    rc = rc ? rc : mark_templates(m, err);
    if (!rc) {
        workspace_table_each(g->workspaces, mark_run, m);
    }
    if (!rc && m->has_failed) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for what is in use");
    }
    return rc;
}

static bool image_is_marked(const struct marks *m, const char *id)
{
    for (size_t i = 0; i < m->image_count; i++) {
        if (strcmp(m->images[i], id) == 0) {
            return true;
        }
    }
    return false;
}

static bool storage_is_marked(const struct marks *m, const uint8_t *id)
{
    for (size_t i = 0; i < m->storage_count; i++) {
        if (memcmp(m->storages[i].bytes, id, sizeof m->storages[i].bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void ignore_reply(void *context, const struct executor_reply *reply)
{
    (void)context;
    (void)reply;
}

/* --- images --- */

static void sweep_image(struct marks *m, const struct store_image *image)
{
    struct gateway *g = m->gateway;
    struct executor_digest digest;
    struct executor_client *client = executor_link_client(g->executor, NULL);
    bool is_old =
        gateway_wall_ns(g) / 1000000000 - image->created_at_seconds > IMAGE_UNUSED_KEEP_SECONDS;
    if (image_is_marked(m, image->id) || (!is_old && image_is_newest(g, image->id, &m->arena)) ||
        !client || !image_id_parse(image->id, &digest)) {
        return;
    }
    /* Our record goes first: an image that the executor keeps for somebody is found again by nobody
     * and goes with a later sweep of the executor's own. */
    image_forget(g, image->id, &m->arena);
    (void)executor_image_delete(client, &digest, (struct executor_callback){ignore_reply, NULL},
                                NULL);
}

void workspace_sweep_images(struct gateway *g)
{
    struct marks m;
    struct store_image *images;
    size_t count;
    struct error err = {0};
    if (!mark(&m, g, &err) && !store_image_list(g->store, &m.arena, &images, &count, &err)) {
        for (size_t i = 0; i < count; i++) {
            sweep_image(&m, &images[i]);
        }
    } else {
        log_error("images were not swept: %s", err.text);
    }
    arena_free(&m.arena);
}

/* --- storages --- */

struct storage_listing {
    struct gateway *gateway;
    uint32_t offset;
};

static int ask_storages(struct storage_listing *l);

static void sweep_page(struct gateway *g, const struct executor_list *page)
{
    struct marks m;
    struct error err = {0};
    struct executor_client *client = executor_link_client(g->executor, NULL);
    if (!mark(&m, g, &err)) {
        for (uint32_t i = 0; client && i < page->count; i++) {
            const uint8_t *id = page->ids + (size_t)i * 16;
            struct executor_uuid storage;
            if (!storage_is_marked(&m, id)) {
                memcpy(storage.bytes, id, sizeof storage.bytes);
                (void)executor_storage_delete(client, &storage,
                                              (struct executor_callback){ignore_reply, NULL}, NULL);
            }
        }
    } else {
        log_error("storages were not swept: %s", err.text);
    }
    arena_free(&m.arena);
}

static void on_storages(void *context, const struct executor_reply *reply)
{
    struct storage_listing *l = context;
    const struct executor_list *page = &reply->list;
    if (reply->err.status || page->id_bytes != 16) {
        free(l);
        return;
    }
    sweep_page(l->gateway, page);
    l->offset += page->count;
    /* What is deleted meanwhile moves the rest forward: some may be left for the next time. */
    if (page->count == 0 || l->offset >= page->total || ask_storages(l)) {
        free(l);
    }
}

static int ask_storages(struct storage_listing *l)
{
    struct executor_client *client = executor_link_client(l->gateway->executor, NULL);
    return client ? executor_list(client, EXECUTOR_LIST_STORAGES, l->offset,
                                  (struct executor_callback){on_storages, l}, NULL)
                  : -STATUS_UNAVAILABLE;
}

void workspace_sweep_all(struct gateway *g)
{
    struct storage_listing *l = calloc(1, sizeof *l);
    workspace_sweep_images(g);
    if (l) {
        l->gateway = g;
        if (ask_storages(l)) {
            free(l);
        }
    }
}
