#include "gateway/services/build_run.h"

#include <stdlib.h>
#include <string.h>

#include "executor/proc/log.h"
#include "gateway/config.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/build_record.h"
#include "gateway/services/build_snapshot.h"
#include "gateway/services/limits.h"
#include "gateway/services/workspace_record.h"
#include "gateway/services/workspace_source.h"
#include "gateway/services/workspace_start.h"
#include "gateway/services/workspace_sweep.h"
#include "gateway/state/resource.h"

enum { TEMPLATE_ARENA_CAP_BYTES = 16 * 1024 * 1024 };

static int no_room(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The Template is too large");
}

static struct store_index template_index(const Cordium__Template *t)
{
    return (struct store_index){.space_uid = t->status->space_ref->uid,
                                .owner_uid = t->status->user_ref->uid};
}

static int store_template(struct gateway *g, Cordium__Template *t, int64_t wall_ns,
                          struct arena *arena, struct error *err)
{
    struct store_index index = template_index(t);
    int rc = resource_stamp_update(&t->base, wall_ns, arena, err);
    return rc ? rc : store_update(g->store, STORE_TEMPLATE, &t->base, &index, NULL, err);
}

static int load_template(struct gateway *g, const char *uid, struct arena *arena,
                         Cordium__Template **ret, struct error *err)
{
    ProtobufCMessage *found;
    int rc = store_get_by_uid(g->store, STORE_TEMPLATE, uid, arena, &found, err);
    if (!rc) {
        *ret = (Cordium__Template *)found;
    }
    return rc;
}

/* --- the end of a build --- */

/* Whoever began with the build before this one has a copy. */
static int replace_ready(struct workspace_run *run, const Cordium__Template *t,
                         const struct workspace_source *source, struct arena *arena,
                         struct build_snapshots *former, struct error *err)
{
    struct gateway *g = run->gateway;
    int rc = build_snapshot_forget(g, t, arena, former, err);
    return rc ? rc : workspace_source_put_build(g, t->metadata->uid, run->build_id, source, err);
}

static int record_end(struct workspace_run *run, const struct workspace_source *source,
                      const Cordium__Workspace__Status__Failure *failure, struct arena *arena,
                      struct build_snapshots *former, struct error *err)
{
    struct gateway *g = run->gateway;
    int64_t now = gateway_wall_ns(g);
    Cordium__Template *t = NULL;
    int rc = run->template_ ? load_template(g, run->template_->metadata->uid, arena, &t, err)
                            : -STATUS_NOT_FOUND;
    if (rc && rc != -STATUS_NOT_FOUND) {
        return rc;
    }
    const build_record *build = rc ? NULL : build_find(t, run->build_id);
    rc = 0;
    if (build && build->state == BUILD_STATE(RUNNING)) {
        rc = failure ? 0 : replace_ready(run, t, source, arena, former, err);
        if (!rc && build_end(t, run->build_id, failure, false, now, arena)) {
            rc = no_room(err);
        }
        rc = rc ? rc : store_template(g, t, now, arena, err);
    } else if (source && source->has_snapshot) {
        /* The template was deleted or the build canceled meanwhile: nobody will begin with it. */
        rc = build_snapshots_add(former, source->snapshot, arena, err);
    }
    rc = rc ? rc : store_delete(g->store, STORE_WORKSPACE, run->uid, err);
    return rc ? rc : session_delete(g, run->identity.session_uid, err);
}

static void end_run(struct workspace_run *run, const struct workspace_source *source,
                    const Cordium__Workspace__Status__Failure *failure)
{
    struct store *store = run->gateway->store;
    struct arena arena;
    struct build_snapshots former = {NULL};
    arena_init(&arena, TEMPLATE_ARENA_CAP_BYTES);
    struct error err = {0};
    if (store_begin(store, &err) || record_end(run, source, failure, &arena, &former, &err) ||
        store_commit(store, &err)) {
        store_rollback(store); /* corrected when the gateway starts again */
        log_error("build %s: its end was not stored: %s", run->build_id, err.text);
    } else {
        build_snapshots_delete(run->gateway, &former);
    }
    workspace_record_build_end(run, failure);
    arena_free(&arena);
    struct gateway *g = run->gateway;
    workspace_run_finish(run);
    if (!failure) {
        workspace_sweep_images(g);
    }
}

static void fail_run(struct workspace_run *run, workspace_failure_kind kind, const char *text)
{
    struct arena arena;
    const struct workspace_failure failure = {.kind = kind, .message = text};
    arena_init(&arena, TEMPLATE_ARENA_CAP_BYTES);
    Cordium__Workspace__Status__Failure *message = workspace_make_failure(&failure, &arena);
    end_run(run, NULL, message);
    arena_free(&arena);
}

static void describe_source(const struct workspace_run *run, struct workspace_source *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret->key, run->image_key, sizeof ret->key);
    memcpy(ret->image_id, run->image_id, sizeof ret->image_id);
}

struct snapshot {
    struct workspace_run *run;
    struct executor_uuid id;
};

static void write_uuid(const struct executor_uuid *id, char ret[37])
{
    static const char HEX[] = "0123456789abcdef";
    char *p = ret;
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *p++ = '-';
        }
        *p++ = HEX[id->bytes[i] >> 4];
        *p++ = HEX[id->bytes[i] & 15];
    }
    *p = '\0';
}

static void on_snapshot(void *context, const struct executor_reply *reply)
{
    struct snapshot *snapshot = context;
    struct workspace_run *run = snapshot->run;
    struct workspace_source source;
    (void)workspace_run_answered(run); /* the run is not over before this ends it */
    describe_source(run, &source);
    source.has_snapshot = true;
    write_uuid(&snapshot->id, source.snapshot);
    free(snapshot);
    build_storage_delete(run->gateway, &run->storage);
    if (reply->err.status) {
        fail_run(run, WORKSPACE_FAILURE(SAVE_STORAGE), reply->err.text);
    } else {
        end_run(run, &source, NULL);
    }
}

static void save_storage(struct workspace_run *run)
{
    struct error err = {0};
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    struct executor_client *client = executor_link_client(run->gateway->executor, &err);
    if (!snapshot || !client || workspace_uuid_random(&snapshot->id, &err) ||
        executor_storage_snapshot(client, &run->storage, &snapshot->id,
                                  (struct executor_callback){on_snapshot, snapshot}, &err)) {
        free(snapshot);
        build_storage_delete(run->gateway, &run->storage);
        fail_run(run, WORKSPACE_FAILURE(SAVE_STORAGE), err.text[0] ? err.text : "no memory");
        return;
    }
    snapshot->run = run;
    run->pending++;
}

/* Without tasks and repositories the storage is as new: the image alone is the build. */
static bool has_work(const struct workspace_run *run)
{
    return (run->spec->runtime && run->spec->runtime->n_tasks > 0) ||
           (run->spec->repository && run->spec->repository->url[0]) ||
           run->spec->n_additional_repositories > 0 ||
           (run->space && run->space->spec && run->space->spec->runtime &&
            run->space->spec->runtime->n_tasks > 0);
}

void build_run_ended(struct workspace_run *run)
{
    const Cordium__Workspace__Status__Failure *failure = run->workspace->status->failure;
    struct workspace_source source;
    if (run->was_running && !failure && has_work(run)) {
        save_storage(run);
        return;
    }
    build_storage_delete(run->gateway, &run->storage);
    if (run->was_running && !failure) {
        describe_source(run, &source);
        end_run(run, &source, NULL);
    } else if (failure) {
        end_run(run, NULL, failure);
    } else {
        fail_run(run, WORKSPACE_FAILURE(IMAGE_BUILD), "The build was canceled");
    }
}

/* --- BuildTemplate --- */

int build_template_resolve(struct request *r, struct error *err)
{
    const Cordium__BuildTemplateRequest *message =
        (const Cordium__BuildTemplateRequest *)r->message;
    if (!resource_ref_is_set(message->template_ref)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "templateRef is missing; give the Template's name or uid");
    }
    int rc = access_template_by_ref(r, message->template_ref, err);
    rc = rc ? rc : access_require_role(r, SPACE_ROLE_ADMIN, "build its Templates", err);
    return rc ? rc : build_check_tags(message->n_tags, message->tags, err);
}

struct build_search {
    const char *template_uid;
    struct workspace_run *found;
};

static void search_build(struct workspace_run *run, void *context)
{
    struct build_search *search = context;
    if (run->is_build && run->template_ &&
        strcmp(run->template_->metadata->uid, search->template_uid) == 0 && !run->is_stopping) {
        search->found = run;
    }
}

/* Marks the running build as canceled; stop is what has to be stopped once that is stored. */
static int cancel_running(struct request *r, Cordium__Template *t, struct workspace_run **ret_stop,
                          struct error *err)
{
    const char *id = t->status->build_info ? t->status->build_info->current_running_build_id : "";
    struct build_search search = {t->metadata->uid, NULL};
    const struct workspace_failure why = {.kind = WORKSPACE_FAILURE(IMAGE_BUILD),
                                          .message = "The build was canceled"};
    workspace_table_each(r->gateway->workspaces, search_build, &search);
    *ret_stop = search.found;
    if (!id[0]) {
        return 0;
    }
    Cordium__Workspace__Status__Failure *failure = workspace_make_failure(&why, &r->arena);
    if (!failure || build_end(t, id, failure, true, r->started_at_ns, &r->arena)) {
        return no_room(err);
    }
    return 0;
}

static int make_workspace(struct request *r, const Cordium__Template *t, const char *build_id,
                          Cordium__Workspace **ret, struct error *err)
{
    struct arena *arena = &r->arena;
    Cordium__Workspace *w = CODEC_NEW(arena, Cordium__Workspace, cordium__workspace);
    Cordium__Workspace__Spec *spec =
        CODEC_NEW(arena, Cordium__Workspace__Spec, cordium__workspace__spec);
    Cordium__Workspace__Status *status =
        CODEC_NEW(arena, Cordium__Workspace__Status, cordium__workspace__status);
    const char *name = arena_printf(arena, "build-%s-%s", t->metadata->uid, build_id);
    if (!w || !spec || !status || !name) {
        return no_room(err);
    }
    w->spec = spec;
    w->status = status;
    spec->is_ephemeral = true;
    status->state = WORKSPACE_STATE(STOPPED);
    status->is_build = true;
    status->user_ref = resource_ref(&r->actor.user->base, arena);
    status->template_ref = resource_ref(&t->base, arena);
    status->space_ref = resource_ref(&r->touched.space->base, arena);
    status->space_type = r->touched.space->status ? r->touched.space->status->type
                                                  : CORDIUM__SPACE__STATUS__TYPE__SPACE_TYPE_UNSET;
    if (!status->user_ref || !status->template_ref || !status->space_ref) {
        return no_room(err);
    }
    *ret = w;
    return resource_stamp_new(&w->base, STORE_WORKSPACE, name, r->started_at_ns, arena, err);
}

static int check_build(struct request *r, struct error *err)
{
    Cordium__ClusterConfig *cluster;
    if (!executor_link_client(r->gateway->executor, err)) {
        return -STATUS_UNAVAILABLE;
    }
    int rc = access_store_default(r, err);
    rc = rc ? rc : access_cluster_config(r, &cluster, err);
    if (rc) {
        return rc;
    }
    uint32_t max =
        limit_quota_active_workspaces(cluster, r->gateway->config->active_workspaces_per_user_max);
    unsigned count = workspace_run_count_of(r->gateway->workspaces, access_user_uid(r));
    return count < max ? 0
                       : error_set(err, STATUS_PERMISSION_DENIED,
                                   "Maximum limit of active Workspaces exceeded: %u of %u are not "
                                   "stopped, and a build needs one. Stop or delete one first",
                                   count, max);
}

/* Writes the new build down; its workspace comes next. */
static int begin(struct request *r, Cordium__Template **ret, const char *build_id,
                 struct workspace_run **ret_stop, struct error *err)
{
    const Cordium__BuildTemplateRequest *message =
        (const Cordium__BuildTemplateRequest *)r->message;
    Cordium__Template *t;
    int rc = load_template(r->gateway, r->touched.template_->metadata->uid, &r->arena, &t, err);
    rc = rc ? rc : cancel_running(r, t, ret_stop, err);
    if (!rc &&
        build_begin(t, build_id, message->n_tags, message->tags, r->started_at_ns, &r->arena)) {
        rc = no_room(err);
    }
    rc = rc ? rc : store_template(r->gateway, t, r->started_at_ns, &r->arena, err);
    if (!rc) {
        *ret = t;
    }
    return rc;
}

static int start_build(struct request *r, const Cordium__Template *t, const char *build_id,
                       struct error *err)
{
    Cordium__Workspace *workspace = NULL;
    int rc = make_workspace(r, t, build_id, &workspace, err);
    if (rc) {
        return rc;
    }
    const struct workspace_start start = {
        .workspace = workspace,
        .template_ = t,
        .space = r->touched.space,
        .user = r->actor.user,
        .build_id = build_id,
        .is_new = true,
    };
    rc = workspace_start_begin(r->gateway, &start, err);
    if (!rc) {
        workspace_start_note_limits(r, workspace->metadata->uid);
    }
    return rc;
}

/* The build was written down as running, but could not begin. */
static void note_failed_start(struct request *r, Cordium__Template *t, const char *build_id,
                              const char *text)
{
    const struct workspace_failure why = {.kind = WORKSPACE_FAILURE(STARTUP_UNKNOWN),
                                          .message = text};
    Cordium__Workspace__Status__Failure *failure = workspace_make_failure(&why, &r->arena);
    if (failure && !build_end(t, build_id, failure, false, r->started_at_ns, &r->arena)) {
        (void)store_template(r->gateway, t, r->started_at_ns, &r->arena, NULL);
    }
}

void build_template_handle(struct request *r)
{
    struct error err = {0};
    struct workspace_run *stop = NULL;
    Cordium__Template *t = NULL;
    char build_id[BUILD_ID_LEN + 1];
    int rc = check_build(r, &err);
    rc = rc ? rc : token_random_label(BUILD_ID_LEN, build_id, &err);
    rc = rc ? rc : begin(r, &t, build_id, &stop, &err);
    if (!rc && stop) {
        workspace_stop(stop, WORKSPACE_STOPPING(API));
    }
    if (!rc) {
        rc = start_build(r, t, build_id, &err);
        if (rc) {
            note_failed_start(r, t, build_id, err.text);
        }
    }
    if (rc) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &t->base);
}

/* --- CancelBuildTemplate --- */

int cancel_build_template_resolve(struct request *r, struct error *err)
{
    const Cordium__CancelBuildTemplateRequest *message =
        (const Cordium__CancelBuildTemplateRequest *)r->message;
    if (!resource_ref_is_set(message->template_ref)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "templateRef is missing; give the Template's name or uid");
    }
    int rc = access_template_by_ref(r, message->template_ref, err);
    return rc ? rc
              : access_require_role(r, SPACE_ROLE_ADMIN, "cancel builds of its Templates", err);
}

void cancel_build_template_handle(struct request *r)
{
    struct error err = {0};
    struct workspace_run *stop = NULL;
    Cordium__Template *t = NULL;
    int rc = load_template(r->gateway, r->touched.template_->metadata->uid, &r->arena, &t, &err);
    bool is_running =
        !rc && t->status->build_info && t->status->build_info->current_running_build_id[0];
    if (is_running) {
        rc = cancel_running(r, t, &stop, &err);
        rc = rc ? rc : store_template(r->gateway, t, r->started_at_ns, &r->arena, &err);
    }
    if (rc) {
        request_fail(r, &err);
        return;
    }
    if (stop) {
        workspace_stop(stop, WORKSPACE_STOPPING(API));
    }
    request_reply(r, &t->base);
}

/* --- after a restart --- */

static int fail_leftover(struct gateway *g, Cordium__Template *t, struct arena *arena,
                         struct error *err)
{
    const char *id =
        t->status && t->status->build_info ? t->status->build_info->current_running_build_id : "";
    const struct workspace_failure why = {
        .kind = WORKSPACE_FAILURE(UNKNOWN),
        .message = "The gateway was restarted during the build; build the Template again"};
    int64_t now = gateway_wall_ns(g);
    if (!id[0]) {
        return 0;
    }
    Cordium__Workspace__Status__Failure *failure = workspace_make_failure(&why, arena);
    if (!failure || build_end(t, id, failure, false, now, arena)) {
        return no_room(err);
    }
    return store_template(g, t, now, arena, err);
}

int build_run_fail_leftovers(struct gateway *g, struct arena *arena, struct error *err)
{
    const struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    int rc = store_list_all(g->store, STORE_TEMPLATE, &filter, arena, &list, err);
    for (size_t i = 0; !rc && i < list.count; i++) {
        rc = fail_leftover(g, (Cordium__Template *)list.items[i], arena, err);
    }
    return rc;
}
