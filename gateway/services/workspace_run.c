#include "gateway/services/workspace_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/watch.h"
#include "gateway/services/workspace_reconcile.h"
#include "gateway/services/workspace_start.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"
#include "gateway/telemetry/metrics.h"

enum {
    TABLE_BUCKETS = 1024, /* power of two; some hundreds of runs at once */
    LOGS_MAX = 256,       /* of ended runs too: at most 128 MiB, and only of those that say much */
    WORKSPACE_ARENA_CAP_BYTES = 16 * 1024 * 1024,
};

struct workspace_table {
    struct gateway *gateway;
    struct workspace_run *buckets[TABLE_BUCKETS];
    struct workspace_log *logs[LOGS_MAX]; /* the newest first; NULL at the end */
    struct workspace_timers *timers;
};

static size_t bucket_of(const char *uid)
{
    uint64_t h = 14695981039346656037ULL; /* FNV-1a; uids are random already */
    for (const char *p = uid; *p; p++) {
        h = (h ^ (unsigned char)*p) * 1099511628211ULL;
    }
    return (size_t)(h >> 20) & (TABLE_BUCKETS - 1);
}

int workspace_table_new(struct gateway *g, struct workspace_table **ret, struct error *err)
{
    struct workspace_table *table = calloc(1, sizeof *table);
    if (!table) {
        return error_set(err, STATUS_INTERNAL, "make the table of workspaces: out of memory");
    }
    table->gateway = g;
    int rc = g->store ? workspace_stop_leftovers(g, err) : 0;
    rc = rc ? rc : workspace_timers_new(g, table, &table->timers, err);
    if (rc) {
        free(table);
        return rc;
    }
    *ret = table;
    return 0;
}

static void run_free(struct workspace_run *run)
{
    workspace_log_unref(run->log);
    arena_free(&run->arena);
    arena_free(&run->spec_arena);
    free(run);
}

void workspace_table_free(struct workspace_table *table)
{
    if (!table) {
        return;
    }
    workspace_timers_free(table->timers);
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        while (table->buckets[i]) {
            struct workspace_run *run = table->buckets[i];
            table->buckets[i] = run->next_in_bucket;
            run_free(run);
        }
    }
    for (size_t i = 0; i < LOGS_MAX; i++) {
        workspace_log_unref(table->logs[i]);
    }
    free(table);
}

struct workspace_run *workspace_run_find(struct workspace_table *table, const char *uid)
{
    if (!table) {
        return NULL;
    }
    struct workspace_run *run = table->buckets[bucket_of(uid)];
    while (run && strcmp(run->uid, uid) != 0) {
        run = run->next_in_bucket;
    }
    return run;
}

void workspace_table_each(struct workspace_table *table,
                          void (*visit)(struct workspace_run *run, void *context), void *context)
{
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        struct workspace_run *next;
        for (struct workspace_run *run = table->buckets[i]; run; run = next) {
            next = run->next_in_bucket;
            visit(run, context);
        }
    }
}

unsigned workspace_run_count_of(const struct workspace_table *table, const char *owner_uid)
{
    unsigned count = 0;
    for (size_t i = 0; i < TABLE_BUCKETS; i++) {
        for (const struct workspace_run *run = table->buckets[i]; run; run = run->next_in_bucket) {
            count += !run->is_deleted && strcmp(run->owner_uid, owner_uid) == 0;
        }
    }
    return count;
}

/* --- logs --- */

/* The newest log of a workspace takes the place of an older one of it. */
static void keep_log(struct workspace_table *table, struct workspace_log *log)
{
    size_t at = 0;
    while (at < LOGS_MAX - 1 && table->logs[at] &&
           strcmp(workspace_log_uid(table->logs[at]), workspace_log_uid(log)) != 0) {
        at++;
    }
    workspace_log_unref(table->logs[at]);
    memmove(&table->logs[1], &table->logs[0], at * sizeof table->logs[0]);
    table->logs[0] = workspace_log_ref(log);
}

struct workspace_log *workspace_log_find(struct workspace_table *table, const char *uid)
{
    for (size_t i = 0; i < LOGS_MAX && table->logs[i]; i++) {
        if (strcmp(workspace_log_uid(table->logs[i]), uid) == 0) {
            return table->logs[i];
        }
    }
    return NULL;
}

struct workspace_log *workspace_log_find_by_name(struct workspace_table *table, const char *name)
{
    for (size_t i = 0; i < LOGS_MAX && table->logs[i]; i++) {
        if (strcmp(workspace_log_name(table->logs[i]), name) == 0) {
            return table->logs[i];
        }
    }
    return NULL;
}

/* --- a run --- */

struct workspace_run *workspace_run_new(struct gateway *g, const Cordium__Workspace *workspace)
{
    struct workspace_run *run = calloc(1, sizeof *run);
    if (!run) {
        return NULL;
    }
    run->gateway = g;
    run->table = g->workspaces;
    arena_init(&run->arena, WORKSPACE_ARENA_CAP_BYTES);
    arena_init(&run->spec_arena, WORKSPACE_ARENA_CAP_BYTES);
    run->workspace = CODEC_COPY(&run->arena, Cordium__Workspace, workspace);
    run->log = workspace_log_new(workspace->metadata->uid, workspace->metadata->name,
                                 workspace->status->user_ref->uid);
    if (!run->workspace || !run->log) {
        run_free(run);
        return NULL;
    }
    (void)strncpy(run->uid, workspace->metadata->uid, sizeof run->uid - 1);
    (void)strncpy(run->owner_uid, workspace->status->user_ref->uid, sizeof run->owner_uid - 1);
    run->is_build = workspace->status->is_build;
    run->is_ephemeral = workspace->spec->is_ephemeral || run->is_build;
    run->start_ns = run->state_ns = run->active_ns = gateway_monotonic_ns(g);
    return run;
}

int workspace_run_insert(struct workspace_table *table, struct workspace_run *run,
                         struct error *err)
{
    if (workspace_run_find(table, run->uid)) {
        return error_set(err, STATUS_ALREADY_EXISTS,
                         "Workspace '%s' is already starting or running",
                         run->workspace->metadata->name);
    }
    struct workspace_run **head = &table->buckets[bucket_of(run->uid)];
    run->next_in_bucket = *head;
    *head = run;
    keep_log(table, run->log);
    return 0;
}

static void count_start(struct workspace_run *run, bool is_running)
{
    if (run->start_ns) {
        metrics_observe(run->gateway->metrics, METRIC_WORKSPACE_START,
                        is_running ? METRIC_START_RUNNING : METRIC_START_FAILED,
                        gateway_monotonic_ns(run->gateway) - run->start_ns);
        run->start_ns = 0;
    }
}

void workspace_run_settle(struct workspace_run *run, bool is_running)
{
    count_start(run, is_running);
    while (run->waiters) {
        struct workspace_start_waiter *waiter = run->waiters;
        run->waiters = waiter->next;
        waiter->settled(waiter, is_running);
    }
}

void workspace_run_finish(struct workspace_run *run)
{
    struct workspace_run **at = &run->table->buckets[bucket_of(run->uid)];
    while (*at && *at != run) {
        at = &(*at)->next_in_bucket;
    }
    if (*at) {
        *at = run->next_in_bucket;
    }
    run->is_over = true;
    workspace_run_settle(run, false);
    workspace_log_close(run->log);
    if (run->gone) {
        run->gone(run->gone_context);
        run->gone = NULL;
    }
    if (run->pending == 0) {
        run_free(run);
    }
}

bool workspace_run_answered(struct workspace_run *run)
{
    run->pending--;
    if (!run->is_over) {
        return true;
    }
    if (run->pending == 0) {
        run_free(run);
    }
    return false;
}

bool workspace_run_is_ready(const struct workspace_run *run)
{
    return run && !run->is_deleted && !run->is_stopping && run->has_sandbox &&
           (run->workspace->status->state == WORKSPACE_STATE(PREPARING) ||
            run->workspace->status->state == WORKSPACE_STATE(RUNNING));
}

void workspace_run_touch(struct workspace_run *run)
{
    run->active_ns = gateway_monotonic_ns(run->gateway);
}

/* --- changes --- */

void workspace_change_begin(struct workspace_run *run, struct workspace_change *change)
{
    memset(change, 0, sizeof *change);
    arena_init(&change->arena, WORKSPACE_ARENA_CAP_BYTES);
    change->wall_ns = gateway_wall_ns(run->gateway);
    change->next = CODEC_COPY(&change->arena, Cordium__Workspace, run->workspace);
    change->has_failed = !change->next;
}

void workspace_change_abandon(struct workspace_change *change)
{
    arena_free(&change->arena);
    change->next = NULL;
}

static int store_change(struct workspace_run *run, const Cordium__Workspace *workspace,
                        struct error *err)
{
    struct store_index index = workspace_index(workspace);
    return store_update(run->gateway->store, STORE_WORKSPACE, &workspace->base, &index, NULL, err);
}

int workspace_change_apply(struct workspace_run *run, struct workspace_change *change,
                           bool is_stored, struct error *err)
{
    int rc =
        change->has_failed || !change->next
            ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "Workspace '%s': no memory for its status",
                        run->workspace->metadata->name)
            : resource_stamp_update(&change->next->base, change->wall_ns, &change->arena, err);
    if (!rc && is_stored) {
        rc = store_change(run, change->next, err);
    }
    if (rc) {
        workspace_change_abandon(change);
        return rc;
    }
    if (change->next->status->state != run->workspace->status->state) {
        run->state_ns = gateway_monotonic_ns(run->gateway);
    }
    watch_publish(run->gateway->watches, run->workspace, change->next);
    arena_free(&run->arena);
    run->arena = change->arena;
    run->workspace = change->next;
    return 0;
}

void workspace_run_enter(struct workspace_run *run, workspace_state state)
{
    if (!workspace_state_may_follow(run->workspace->status->state, state)) {
        return;
    }
    struct workspace_change change;
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        change.has_failed = workspace_enter(change.next, state, change.wall_ns, &change.arena) != 0;
    }
    (void)workspace_change_apply(run, &change, false, NULL);
}

/* --- ids --- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool workspace_uuid_parse(const char *text, struct executor_uuid *ret)
{
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '-') {
            continue;
        }
        int high = hex_value(p[0]);
        int low = high >= 0 ? hex_value(p[1]) : -1;
        if (low < 0 || n >= sizeof ret->bytes) {
            return false;
        }
        ret->bytes[n++] = (uint8_t)(high * 16 + low);
        p++;
    }
    return n == sizeof ret->bytes;
}

int workspace_uuid_random(struct executor_uuid *ret, struct error *err)
{
    if (getrandom(ret->bytes, sizeof ret->bytes, 0) != (ssize_t)sizeof ret->bytes) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "get random bytes");
    }
    ret->bytes[6] = (uint8_t)((ret->bytes[6] & 0x0f) | 0x40);
    ret->bytes[8] = (uint8_t)((ret->bytes[8] & 0x3f) | 0x80);
    return 0;
}
