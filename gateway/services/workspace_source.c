#include "gateway/services/workspace_source.h"

#include <stdio.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/services/image_builder.h"
#include "gateway/state/store.h"

enum { SETTING_KEY_SIZE = 96, SETTING_VALUE_SIZE = 192, SOURCE_ARENA_CAP_BYTES = 64 * 1024 };

static void write_source(const struct workspace_source *source, char ret[SETTING_VALUE_SIZE])
{
    (void)snprintf(ret, SETTING_VALUE_SIZE, "%s %s %s", source->key, source->image_id,
                   source->has_snapshot ? source->snapshot : "-");
}

static int read_source(const char *text, struct workspace_source *ret, struct error *err)
{
    char snapshot[37];
    memset(ret, 0, sizeof *ret);
    if (sscanf(text, "%64s %64s %36s", ret->key, ret->image_id, snapshot) != 3) {
        return error_set(err, STATUS_INTERNAL, "a stored source of files is malformed");
    }
    ret->has_snapshot = strcmp(snapshot, "-") != 0;
    if (ret->has_snapshot) {
        memcpy(ret->snapshot, snapshot, sizeof ret->snapshot);
    }
    return 0;
}

static int get_source(struct gateway *g, const char *key, struct arena *arena,
                      struct workspace_source *ret, struct error *err)
{
    const char *text;
    int rc = store_setting_get(g->store, key, arena, &text, err);
    return rc ? rc : read_source(text, ret, err);
}

static int put_source(struct gateway *g, const char *key, const struct workspace_source *source,
                      struct error *err)
{
    char value[SETTING_VALUE_SIZE];
    write_source(source, value);
    return store_setting_put(g->store, key, value, err);
}

static void build_key(const char *template_uid, const char *build_id, char ret[SETTING_KEY_SIZE])
{
    (void)snprintf(ret, SETTING_KEY_SIZE, "build/%.36s/%.16s", template_uid, build_id);
}

static void own_key(const char *workspace_uid, char ret[SETTING_KEY_SIZE])
{
    (void)snprintf(ret, SETTING_KEY_SIZE, "source/%.36s", workspace_uid);
}

int workspace_source_put_build(struct gateway *g, const char *template_uid, const char *build_id,
                               const struct workspace_source *source, struct error *err)
{
    char key[SETTING_KEY_SIZE];
    build_key(template_uid, build_id, key);
    return put_source(g, key, source, err);
}

int workspace_source_get_build(struct gateway *g, const char *template_uid, const char *build_id,
                               struct arena *arena, struct workspace_source *ret, struct error *err)
{
    char key[SETTING_KEY_SIZE];
    build_key(template_uid, build_id, key);
    return get_source(g, key, arena, ret, err);
}

int workspace_source_forget_build(struct gateway *g, const char *template_uid, const char *build_id,
                                  struct error *err)
{
    char key[SETTING_KEY_SIZE];
    build_key(template_uid, build_id, key);
    return store_setting_put(g->store, key, NULL, err);
}

int workspace_source_remember(struct workspace_run *run, struct error *err)
{
    char key[SETTING_KEY_SIZE];
    struct workspace_source source = {0};
    own_key(run->uid, key);
    memcpy(source.key, run->image_key, sizeof source.key);
    memcpy(source.image_id, run->image_id, sizeof source.image_id);
    return put_source(run->gateway, key, &source, err);
}

int workspace_source_get(struct gateway *g, const char *workspace_uid, struct arena *arena,
                         struct workspace_source *ret, struct error *err)
{
    char key[SETTING_KEY_SIZE];
    own_key(workspace_uid, key);
    return get_source(g, key, arena, ret, err);
}

int workspace_source_forget(struct gateway *g, const char *workspace_uid, struct error *err)
{
    char key[SETTING_KEY_SIZE];
    own_key(workspace_uid, key);
    return store_setting_put(g->store, key, NULL, err);
}

static void take(struct workspace_run *run, const struct workspace_source *source, bool is_fresh)
{
    (void)snprintf(run->image_id, sizeof run->image_id, "%s", source->image_id);
    run->is_fresh = is_fresh;
    if (source->has_snapshot) {
        (void)workspace_uuid_parse(source->snapshot, &run->storage_from);
    }
}

/* NOT_FOUND when there is none, or when it was made from something else. */
static int find_ready_build(struct workspace_run *run, struct arena *arena,
                            struct workspace_source *ret, struct error *err)
{
    const Cordium__Template *t = run->template_;
    const char *build_id = t && t->status && t->status->build_info
                               ? t->status->build_info->current_ready_build_id
                               : "";
    if (run->is_build || !build_id[0]) {
        return error_set(err, STATUS_NOT_FOUND, "no ready build");
    }
    int rc = workspace_source_get_build(run->gateway, t->metadata->uid, build_id, arena, ret, err);
    if (!rc && strcmp(ret->key, run->image_key) != 0) {
        rc = error_set(err, STATUS_NOT_FOUND, "the ready build is of another image");
    }
    return rc;
}

static int find(struct workspace_run *run, struct arena *arena, bool *ret_is_found,
                struct error *err)
{
    struct workspace_source source;
    char key[SETTING_KEY_SIZE];
    own_key(run->uid, key);
    int rc =
        run->is_ephemeral ? -STATUS_NOT_FOUND : get_source(run->gateway, key, arena, &source, err);
    if (!rc) {
        take(run, &source, false);
        *ret_is_found = true;
        return 0;
    }
    if (rc != -STATUS_NOT_FOUND) {
        return rc;
    }
    rc = find_ready_build(run, arena, &source, err);
    if (!rc) {
        /* Without a snapshot the build had nothing to do but the image, and the storage is new. */
        take(run, &source, !source.has_snapshot);
        *ret_is_found = true;
        return 0;
    }
    if (rc != -STATUS_NOT_FOUND) {
        return rc;
    }
    run->is_fresh = true;
    if (run->is_build) {
        return 0; /* a build makes everything anew */
    }
    const char *id;
    rc = image_find_by_key(run->gateway, run->image_key, arena, &id, err);
    if (!rc) {
        (void)snprintf(run->image_id, sizeof run->image_id, "%s", id);
        *ret_is_found = true;
    }
    return rc == -STATUS_NOT_FOUND ? 0 : rc;
}

int workspace_source_find(struct workspace_run *run, bool *ret_is_found, struct error *err)
{
    struct arena arena;
    struct error ignored = {0};
    arena_init(&arena, SOURCE_ARENA_CAP_BYTES);
    *ret_is_found = false;
    int rc = find(run, &arena, ret_is_found, &ignored);
    arena_free(&arena);
    return rc ? error_set(err, ignored.status, "%s", ignored.text) : 0;
}
