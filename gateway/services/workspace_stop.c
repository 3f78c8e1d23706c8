#include <stdlib.h>
#include <string.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_log.h"
#include "gateway/edge/server.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/services/build_run.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/terminal.h"
#include "gateway/services/workspace_record.h"
#include "gateway/services/workspace_start.h"
#include "gateway/services/workspace_task.h"
#include "gateway/state/resource.h"

/* --- the last step --- */

static int store_stopped(struct workspace_run *run, struct error *err)
{
    struct store *store = run->gateway->store;
    struct workspace_change change;
    int rc = store_begin(store, err);
    if (rc) {
        return rc;
    }
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        change.has_failed = workspace_enter(change.next, WORKSPACE_STATE(STOPPED), change.wall_ns,
                                            &change.arena) != 0;
    }
    rc = workspace_change_apply(run, &change, true, err);
    rc = rc ? rc : session_delete(run->gateway, run->identity.session_uid, err);
    return store_end(store, rc, err);
}

static void ignore_reply(void *context, const struct executor_reply *reply)
{
    (void)context;
    (void)reply;
}

/* A storage that outlived its sandbox and its workspace. */
static void drop_storage(struct workspace_run *run)
{
    struct executor_client *client = executor_link_client(run->gateway->executor, NULL);
    if (client && !run->is_ephemeral && !run->storage_is_gone && run->image_id[0]) {
        (void)executor_storage_delete(client, &run->storage,
                                      (struct executor_callback){ignore_reply, NULL}, NULL);
    }
}

static void finish(struct workspace_run *run)
{
    if (run->is_deleted) {
        workspace_record_end(run);
        drop_storage(run);
        workspace_run_finish(run);
    } else if (run->is_build) {
        build_run_ended(run);
    } else {
        /* A state that cannot be stored is corrected when the gateway starts again. */
        struct error err = {0};
        if (store_stopped(run, &err)) {
            log_error("workspace %s: its end was not stored: %s", run->uid, err.text);
        }
        workspace_record_end(run);
        workspace_run_finish(run);
    }
}

static void on_destroyed(void *context, const struct executor_reply *reply)
{
    struct workspace_run *run = context;
    (void)reply; /* NOT_FOUND: it had ended by itself; UNAVAILABLE: taken down at the next look */
    if (!workspace_run_answered(run)) {
        return;
    }
    run->has_sandbox = false;
    run->is_destroying = false;
    finish(run);
}

/* --- steps --- */

static void enter_stopping(struct workspace_run *run)
{
    if (!run->is_deleted) {
        workspace_run_enter(run, WORKSPACE_STATE(STOPPING));
    }
}

void workspace_stop_continue(struct workspace_run *run)
{
    workspace_tasks_cancel(run);
    if (run->pending > 0 || run->is_destroying) {
        return; /* the answer that is due calls again */
    }
    enter_stopping(run);
    terminal_close_all(run);
    if (run->proxy && run->gateway->edge) {
        edge_server_close_listener(run->proxy);
    }
    run->proxy = NULL;
    bool drops_storage = (run->is_ephemeral && !run->is_build) || run->is_deleted;
    struct executor_client *client = executor_link_client(run->gateway->executor, NULL);
    if (run->has_sandbox && client &&
        executor_sandbox_destroy(client, &run->sandbox, drops_storage,
                                 (struct executor_callback){on_destroyed, run}, NULL) == 0) {
        run->pending++;
        run->is_destroying = true;
        run->storage_is_gone = drops_storage;
        return;
    }
    run->has_sandbox = false;
    finish(run);
}

/* Takes the run out of the sequence of its start. */
static void leave_start(struct workspace_run *run)
{
    run->is_stopping = true;
    workspace_tasks_cancel(run);
    if (run->image_waiter) {
        struct image_waiter *waiter = run->image_waiter;
        run->image_waiter = NULL;
        image_table_forget(run->gateway->images, waiter);
        free(waiter);
    }
}

static void on_stop_tasks(struct workspace_run *run, const struct workspace_failure *failure)
{
    (void)failure; /* it stops in any case; the log tells what the task said */
    workspace_stop_continue(run);
}

void workspace_stop(struct workspace_run *run, workspace_stopping_reason reason)
{
    struct workspace_change change;
    if (run->is_stopping) {
        return;
    }
    leave_start(run);
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        change.next->status->stopping_reason = reason;
        change.has_failed = workspace_enter(change.next, WORKSPACE_STATE(STOPPING_REQUEST),
                                            change.wall_ns, &change.arena) != 0;
    }
    (void)workspace_change_apply(run, &change, false, NULL);
    workspace_run_settle(run, false);
    if (run->was_running && run->has_sandbox && !run->is_build) {
        enter_stopping(run);
        workspace_tasks_stop(run, on_stop_tasks);
    } else {
        workspace_stop_continue(run);
    }
}

void workspace_stop_failed(struct workspace_run *run, const struct workspace_failure *failure)
{
    struct workspace_change change;
    if (run->is_stopping) {
        workspace_stop_continue(run);
        return;
    }
    workspace_log_append(
        run->log, gateway_wall_ns(run->gateway), CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK,
        CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR, str_from(failure->message));
    workspace_log_append(run->log, gateway_wall_ns(run->gateway),
                         CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK,
                         CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR, STR("\n"));
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        change.has_failed = workspace_set_failure(change.next, failure, &change.arena) != 0 ||
                            workspace_enter(change.next, WORKSPACE_STATE(STOPPING), change.wall_ns,
                                            &change.arena) != 0;
    }
    (void)workspace_change_apply(run, &change, false, NULL);
    leave_start(run);
    workspace_run_settle(run, false);
    workspace_stop_continue(run);
}

void workspace_stop_lost(struct workspace_run *run, const char *why)
{
    if (run->is_stopping) {
        workspace_stop_continue(run);
        return;
    }
    const struct workspace_failure failure = {.kind = WORKSPACE_FAILURE(RUN_CONTAINER),
                                              .message = why};
    workspace_stop_failed(run, &failure);
}

void workspace_stop_deleted(struct workspace_run *run, void (*gone)(void *context), void *context)
{
    run->is_deleted = true;
    run->gone = gone;
    run->gone_context = context;
    leave_start(run);
    workspace_run_settle(run, false);
    workspace_stop_continue(run);
}

/* --- what an earlier gateway left --- */

/* Why, in its status. */
static int judge_leftover(Cordium__Workspace *workspace, struct arena *arena)
{
    const struct workspace_failure failure = {
        .kind = WORKSPACE_FAILURE(UNKNOWN),
        .message = workspace->status->is_build
                       ? "The gateway was restarted during the build; build the Template again"
                       : "The gateway was restarted while the workspace was running"};
    return workspace_set_failure(workspace, &failure, arena);
}

static int stop_leftover(struct gateway *g, Cordium__Workspace *workspace, struct arena *arena,
                         struct error *err)
{
    int64_t now = gateway_wall_ns(g);
    int rc = 0;
    if (workspace->status->session_ref) {
        rc = session_delete(g, workspace->status->session_ref->uid, err);
    }
    if (!rc && workspace->status->is_build) {
        return store_delete(g->store, STORE_WORKSPACE, workspace->metadata->uid, err);
    }
    rc = rc ? rc : workspace_enter(workspace, WORKSPACE_STATE(STOPPED), now, arena);
    rc = rc ? rc : resource_stamp_update(&workspace->base, now, arena, err);
    if (rc) {
        return rc;
    }
    struct store_index index = workspace_index(workspace);
    return store_update(g->store, STORE_WORKSPACE, &workspace->base, &index, NULL, err);
}

/* The log has their ends before the store forgets that they ran. */
static int tell_listed(struct gateway *g, const struct store_list *list, struct arena *arena,
                       struct error *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < list->count; i++) {
        Cordium__Workspace *workspace = (Cordium__Workspace *)list->items[i];
        rc = judge_leftover(workspace, arena);
        rc = rc ? rc : workspace_record_leftover(g, workspace, err);
    }
    return rc || list->count == 0 || !g->audit ? rc : audit_log_flush(g->audit, err);
}

static int stop_listed(struct gateway *g, const struct store_list *list, struct arena *arena,
                       struct error *err)
{
    int rc = store_begin(g->store, err);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; !rc && i < list->count; i++) {
        rc = stop_leftover(g, (Cordium__Workspace *)list->items[i], arena, err);
    }
    rc = rc ? rc : build_run_fail_leftovers(g, arena, err);
    return store_end(g->store, rc, err);
}

int workspace_stop_leftovers(struct gateway *g, struct error *err)
{
    const struct store_filter filter = {
        .states = ~(UINT64_C(1) << WORKSPACE_STATE(STOPPED)),
        .hidden = STORE_HIDDEN_AND_VISIBLE,
    };
    struct store_list list;
    struct arena arena;
    arena_init(&arena, 256 * 1024 * 1024);
    int rc = store_list_all(g->store, STORE_WORKSPACE, &filter, &arena, &list, err);
    rc = rc ? rc : tell_listed(g, &list, &arena, err);
    rc = rc ? rc : stop_listed(g, &list, &arena, err);
    arena_free(&arena);
    return rc;
}
