#include "gateway/services/build_snapshot.h"

#include <string.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/workspace_run.h"
#include "gateway/services/workspace_source.h"

struct build_snapshot {
    struct executor_uuid storage;
    struct build_snapshot *next;
};

int build_snapshots_add(struct build_snapshots *list, const char *uid, struct arena *arena,
                        struct error *err)
{
    struct build_snapshot *s = arena_zalloc(arena, sizeof *s);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The Template's builds: no memory");
    }
    if (workspace_uuid_parse(uid, &s->storage)) {
        s->next = list->first;
        list->first = s;
    }
    return 0;
}

int build_snapshot_forget(struct gateway *g, const Cordium__Template *t, struct arena *arena,
                          struct build_snapshots *list, struct error *err)
{
    const Cordium__Template__Status__BuildInfo *info = t->status ? t->status->build_info : NULL;
    const char *id = info ? info->current_ready_build_id : "";
    struct workspace_source source;
    struct error cause = {0};
    if (!id[0]) {
        return 0;
    }
    int rc = workspace_source_get_build(g, t->metadata->uid, id, arena, &source, &cause);
    if (rc == -STATUS_NOT_FOUND) {
        return 0;
    }
    if (rc) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    rc = source.has_snapshot ? build_snapshots_add(list, source.snapshot, arena, err) : 0;
    return rc ? rc : workspace_source_forget_build(g, t->metadata->uid, id, err);
}

static void ignore_reply(void *context, const struct executor_reply *reply)
{
    (void)context;
    (void)reply;
}

void build_storage_delete(struct gateway *g, const struct executor_uuid *storage)
{
    static const struct executor_uuid NONE;
    struct executor_client *client = executor_link_client(g->executor, NULL);
    if (client && memcmp(storage, &NONE, sizeof NONE) != 0) {
        (void)executor_storage_delete(client, storage,
                                      (struct executor_callback){ignore_reply, NULL}, NULL);
    }
}

void build_snapshots_delete(struct gateway *g, const struct build_snapshots *list)
{
    for (const struct build_snapshot *s = list->first; s; s = s->next) {
        build_storage_delete(g, &s->storage);
    }
}
