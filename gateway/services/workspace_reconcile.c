#include "gateway/services/workspace_reconcile.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/duration.h"
#include "gateway/services/network_denials.h"
#include "gateway/services/workspace_start.h"
#include "gateway/services/workspace_sweep.h"

enum {
    CHECK_EVERY_MS = 15 * 1000,
    IDLE_DEFAULT_SECONDS = 30 * 3600,
    START_MAX_SECONDS = 180 * 60,
    STOP_TASKS_MAX_SECONDS = 10 * 60,
};

struct workspace_timers {
    uv_timer_t timer;
    struct gateway *gateway;
    struct workspace_table *table;
};

struct workspace_time_limits workspace_time_limits(const Cordium__ClusterConfig *cluster,
                                                   const Cordium__Workspace__Spec__Runtime *runtime,
                                                   Cordium__Space__Status__Type space_type)
{
    const Cordium__ClusterConfig__Spec__Workspace__Timeout *timeout =
        cluster && cluster->spec && cluster->spec->workspace ? cluster->spec->workspace->timeout
                                                             : NULL;
    struct workspace_time_limits limits = {IDLE_DEFAULT_SECONDS, 0};
    if (timeout) {
        const Meta__Duration *of_type = space_type == CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION
                                            ? timeout->organization_space_duration
                                            : timeout->user_space_duration;
        int64_t seconds = duration_seconds(of_type);
        seconds = seconds > 0 ? seconds : duration_seconds(timeout->default_duration);
        limits.idle_seconds = seconds > 0 ? seconds : limits.idle_seconds;
        limits.active_seconds = duration_seconds(timeout->max_active_duration);
    }
    bool is_disabled =
        runtime && runtime->timeout &&
        runtime->timeout->mode == CORDIUM__WORKSPACE__SPEC__RUNTIME__TIMEOUT__MODE__DISABLED;
    if (is_disabled && timeout && timeout->allow_no_timeout) {
        limits.idle_seconds = 0;
    }
    return limits;
}

/* --- by the clock --- */

static bool is_older(uint64_t now_ns, uint64_t then_ns, int64_t seconds)
{
    return seconds > 0 && now_ns > then_ns && (now_ns - then_ns) / 1000000000 >= (uint64_t)seconds;
}

static void check_run(struct workspace_run *run, void *context)
{
    (void)context;
    uint64_t now_ns = gateway_monotonic_ns(run->gateway);
    const Cordium__Workspace__Status *status = run->workspace->status;
    if (run->is_stopping) {
        if (run->tasks && is_older(now_ns, run->state_ns, STOP_TASKS_MAX_SECONDS)) {
            workspace_stop_continue(run); /* the tasks had their time */
        }
        return;
    }
    if (status->state != WORKSPACE_STATE(RUNNING)) {
        if (is_older(now_ns, run->state_ns, START_MAX_SECONDS)) {
            const struct workspace_failure failure = {
                .kind = WORKSPACE_FAILURE(STARTUP_TIMEOUT_EXCEEDED),
                .message = "The workspace took more than 180 minutes in one step of its start"};
            workspace_stop_failed(run, &failure);
        }
        return;
    }
    struct workspace_time_limits limits = workspace_time_limits(
        run->cluster, run->spec ? run->spec->runtime : NULL, status->space_type);
    if (run->exec_count > 0) {
        workspace_run_touch(run);
    }
    if (is_older(now_ns, run->state_ns, limits.active_seconds) ||
        is_older(now_ns, run->active_ns, limits.idle_seconds)) {
        workspace_stop(run, WORKSPACE_STOPPING(CLUSTER));
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct workspace_timers *timers = timer->data;
    workspace_table_each(timers->table, check_run, NULL);
}

int workspace_timers_new(struct gateway *g, struct workspace_table *table,
                         struct workspace_timers **ret, struct error *err)
{
    struct workspace_timers *timers = calloc(1, sizeof *timers);
    if (!timers) {
        return error_set(err, STATUS_INTERNAL, "make the workspaces' timer: out of memory");
    }
    timers->gateway = g;
    timers->table = table;
    (void)uv_timer_init(g->loop, &timers->timer);
    timers->timer.data = timers;
    (void)uv_timer_start(&timers->timer, on_timer, CHECK_EVERY_MS, CHECK_EVERY_MS);
    uv_unref((uv_handle_t *)&timers->timer);
    *ret = timers;
    return 0;
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void workspace_timers_free(struct workspace_timers *timers)
{
    if (timers) {
        uv_close((uv_handle_t *)&timers->timer, timer_closed);
    }
}

/* --- with the executor --- */

struct listing {
    struct gateway *gateway;
    uint8_t *ids;
    size_t count;
    size_t room;
};

static void listing_free(struct listing *l)
{
    free(l->ids);
    free(l);
}

static bool listing_has(const struct listing *l, const struct executor_uuid *id)
{
    for (size_t i = 0; i < l->count; i++) {
        if (memcmp(l->ids + i * sizeof id->bytes, id->bytes, sizeof id->bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void lose_if_missing(struct workspace_run *run, void *context)
{
    if (run->has_sandbox && run->pending == 0 && !listing_has(context, &run->sandbox)) {
        run->has_sandbox = false;
        workspace_stop_lost(run, "The executor was restarted; the workspace's processes are gone");
    }
}

struct owner_search {
    const uint8_t *id;
    bool is_found;
};

static void search_owner(struct workspace_run *run, void *context)
{
    struct owner_search *search = context;
    if (memcmp(run->sandbox.bytes, search->id, sizeof run->sandbox.bytes) == 0) {
        search->is_found = true;
    }
}

/* Strangers whose end is awaited: what they use can be swept only then. */
struct strangers {
    struct gateway *gateway;
    size_t pending;
};

static void leave_strangers(struct strangers *s)
{
    if (--s->pending == 0) {
        workspace_sweep_all(s->gateway);
        free(s);
    }
}

static void on_stranger_gone(void *context, const struct executor_reply *reply)
{
    (void)reply; /* NOT_FOUND: it ended by itself */
    leave_strangers(context);
}

/* Sandboxes of an earlier gateway, or of workspaces that were deleted while we were apart. */
static void destroy_strangers(const struct listing *l)
{
    struct executor_client *client = executor_link_client(l->gateway->executor, NULL);
    struct strangers *s = calloc(1, sizeof *s);
    if (!s) {
        return; /* the next look may find memory */
    }
    s->gateway = l->gateway;
    s->pending = 1; /* ours, until all are asked */
    for (size_t i = 0; client && i < l->count; i++) {
        struct owner_search search = {l->ids + i * 16, false};
        workspace_table_each(l->gateway->workspaces, search_owner, &search);
        struct executor_uuid id;
        memcpy(id.bytes, search.id, sizeof id.bytes);
        if (!search.is_found &&
            !(l->gateway->oneshots && oneshot_table_has_sandbox(l->gateway->oneshots, &id))) {
            s->pending++;
            if (executor_sandbox_destroy(client, &id, false,
                                         (struct executor_callback){on_stranger_gone, s}, NULL)) {
                s->pending--;
            }
        }
    }
    leave_strangers(s);
}

static int ask_page(struct listing *l);

static void on_page(void *context, const struct executor_reply *reply)
{
    struct listing *l = context;
    const struct executor_list *page = &reply->list;
    if (reply->err.status || page->id_bytes != 16) {
        listing_free(l);
        return;
    }
    uint8_t *ids = realloc(l->ids, (l->count + page->count + 1) * 16);
    if (!ids) {
        listing_free(l);
        return;
    }
    l->ids = ids;
    if (page->count > 0) {
        memcpy(l->ids + l->count * 16, page->ids, (size_t)page->count * 16);
    }
    l->count += page->count;
    if (page->count > 0 && l->count < page->total) {
        if (ask_page(l)) {
            listing_free(l);
        }
        return;
    }
    workspace_table_each(l->gateway->workspaces, lose_if_missing, l);
    destroy_strangers(l);
    listing_free(l);
}

static int ask_page(struct listing *l)
{
    struct executor_client *client = executor_link_client(l->gateway->executor, NULL);
    return client ? executor_list(client, EXECUTOR_LIST_SANDBOXES, (uint32_t)l->count,
                                  (struct executor_callback){on_page, l}, NULL)
                  : -STATUS_UNAVAILABLE;
}

void workspace_table_executor_up(struct gateway *g)
{
    struct listing *l = calloc(1, sizeof *l);
    if (!l) {
        return;
    }
    l->gateway = g;
    if (ask_page(l)) {
        listing_free(l);
    }
}

void workspace_table_executor_down(struct gateway *g)
{
    /* Runs in the middle of a step fail by the answer that they wait for; the others are judged
     * when the executor is back and tells what is alive. */
    (void)g;
}

struct gone_search {
    const struct executor_sandbox_gone *event;
    struct workspace_run *found;
};

static void search_gone(struct workspace_run *run, void *context)
{
    struct gone_search *search = context;
    if (run->has_sandbox &&
        memcmp(run->sandbox.bytes, search->event->id.bytes, sizeof run->sandbox.bytes) == 0) {
        search->found = run;
    }
}

void workspace_table_sandbox_gone(struct gateway *g, const struct executor_sandbox_gone *event)
{
    struct gone_search search = {event, NULL};
    workspace_table_each(g->workspaces, search_gone, &search);
    struct workspace_run *run = search.found;
    if (!run || run->is_destroying) {
        return; /* the answer to our request tells */
    }
    run->has_sandbox = false;
    workspace_stop_lost(run, event->reason == EXECUTOR_GONE_OOM
                                 ? "The sandbox ended: its memory limit was reached"
                                 : event->text);
}

/* --- the link's events --- */

static void on_up(void *context)
{
    workspace_table_executor_up(context);
}

static void on_down(void *context)
{
    workspace_table_executor_down(context);
}

static void on_gone(void *context, const struct executor_sandbox_gone *event)
{
    workspace_table_sandbox_gone(context, event);
}

static void on_denied(void *context, const struct executor_network_denied *event)
{
    network_denials_record(context, event);
}

struct executor_link_events workspace_executor_events(struct gateway *g)
{
    return (struct executor_link_events){.up = on_up,
                                         .down = on_down,
                                         .sandbox_gone = on_gone,
                                         .network_denied = on_denied,
                                         .context = g};
}
