#include "gateway/services/oneshot_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_unended.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/oneshot.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum {
    PROGRAM_BYTES = 64,
    LOAD_PAGE_ITEMS = 16,
    LOAD_ARENA_MAX_BYTES = 256 * 1024 * 1024,
    LIST_COUNT_DEFAULT = 100,
    LIST_COUNT_MAX = 1000,
    EXPIRY_MS = 60 * 1000,
};

/* What a list shows of a kept result. */
struct kept {
    struct kept *next; /* newer */
    char id[37];
    char owner_uid[37];
    char program[PROGRAM_BYTES];
    char template_[PROGRAM_BYTES];
    char outcome[16];
    bool has_exit_code;
    int exit_code;
    int signal;
    int64_t started_at_ns;
    uint64_t wall_ms;
    int64_t kept_at_ns;
    size_t bytes;
};

struct oneshot_table {
    struct gateway *gateway;
    struct oneshot *live;
    struct kept *oldest;
    struct kept *newest;
    size_t kept_count;
    size_t kept_bytes;
    uv_timer_t *expiry;
};

/* --- kept ones --- */

static void copy_text(char *to, size_t room, const char *from)
{
    (void)snprintf(to, room, "%s", from);
}

static void drop_oldest(struct oneshot_table *table)
{
    struct kept *k = table->oldest;
    struct error err;
    if (store_delete(table->gateway->store, STORE_RUN, k->id, &err) &&
        err.status != STATUS_NOT_FOUND) {
        log_warning("a run's result stays in the store: %s", err.text);
    }
    table->oldest = k->next;
    table->newest = k->next ? table->newest : NULL;
    table->kept_count--;
    table->kept_bytes -= k->bytes;
    free(k);
}

static void drop_old(struct oneshot_table *table, int64_t now_ns)
{
    const struct gateway_config *config = table->gateway->config;
    const int64_t retention_ns = (int64_t)config->runs.retention_seconds * 1000000000;
    const size_t bytes_max = (size_t)config->runs.megabytes_max << 20;
    while (table->oldest &&
           (table->kept_count > config->runs.results_max || table->kept_bytes > bytes_max ||
            table->oldest->kept_at_ns + retention_ns < now_ns)) {
        drop_oldest(table);
    }
}

/* A result goes when its time is over, whether anybody asks or not. */
static void on_expiry(uv_timer_t *timer)
{
    struct oneshot_table *table = timer->data;
    drop_old(table, gateway_wall_ns(table->gateway));
}

static int start_expiry(struct oneshot_table *table, struct error *err)
{
    table->expiry = calloc(1, sizeof *table->expiry);
    if (!table->expiry || uv_timer_init(table->gateway->loop, table->expiry)) {
        free(table->expiry);
        table->expiry = NULL;
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read the runs: no memory");
    }
    table->expiry->data = table;
    (void)uv_timer_start(table->expiry, on_expiry, EXPIRY_MS, EXPIRY_MS);
    uv_unref((uv_handle_t *)table->expiry);
    return 0;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void remember(struct oneshot_table *table, const Ext__RunResult *r, int64_t kept_at_ns)
{
    struct kept *k = calloc(1, sizeof *k);
    if (!k) {
        return; /* it is in the store; a list does without it */
    }
    copy_text(k->id, sizeof k->id, r->run_id);
    copy_text(k->owner_uid, sizeof k->owner_uid, r->user_uid);
    copy_text(k->program, sizeof k->program, r->metadata->display_name);
    copy_text(k->template_, sizeof k->template_, r->template_);
    copy_text(k->outcome, sizeof k->outcome, r->outcome);
    k->has_exit_code = r->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE;
    k->exit_code = k->has_exit_code ? r->exit_code : 0;
    k->signal = r->signal;
    k->started_at_ns = resource_timestamp_ns(r->started_at);
    k->wall_ms = r->usage ? r->usage->wall_ms : 0;
    k->kept_at_ns = kept_at_ns;
    k->bytes = protobuf_c_message_get_packed_size(&r->base);
    if (table->newest) {
        table->newest->next = k;
    } else {
        table->oldest = k;
    }
    table->newest = k;
    table->kept_count++;
    table->kept_bytes += k->bytes;
}

static struct store_index index_of(const Ext__RunResult *r)
{
    return (struct store_index){.owner_uid = r->user_uid, .state = (int)r->state};
}

/* Of what is in the store alone; what is gone meanwhile is not named. */
static int record_lost(const struct gateway *g, const Ext__RunResult *r, struct arena *arena)
{
    Meta__ObjectReference owner = META__OBJECT_REFERENCE__INIT;
    struct audit_run_end end = {.owner = &owner};
    ProtobufCMessage *found;
    struct error err;
    owner.uid = r->user_uid;
    if (store_get_by_uid(g->store, STORE_USER, r->user_uid, arena, &found, &err) == 0) {
        owner.api_version = arena_strdup(arena, "core/v1");
        owner.kind = arena_strdup(arena, "User");
        owner.name = ((const Core__User *)found)->metadata->name;
    }
    if (r->template_[0] &&
        store_get_by_name(g->store, STORE_TEMPLATE, r->template_, arena, &found, &err) == 0) {
        end.template_ = (const Cordium__Template *)found;
    }
    return owner.api_version && owner.kind ? oneshot_record_end(g, &end, r)
                                           : -STATUS_RESOURCE_EXHAUSTED;
}

/* The log has its end before the store forgets that it ran. */
static int tell_lost(const struct gateway *g, const Ext__RunResult *r, struct arena *arena,
                     struct error *err)
{
    if (!g->audit || audit_unended_has_run_end(g->unended, r->run_id)) {
        return 0;
    }
    return record_lost(g, r, arena)
               ? error_set(err, STATUS_UNAVAILABLE, "the audit log does not take the end of run %s",
                           r->run_id)
               : audit_log_flush(g->audit, err);
}

/* What a killed gateway left: nobody knows what became of it. */
static int lose(struct oneshot_table *table, Ext__RunResult *r, struct arena *arena,
                struct error *err)
{
    r->state = EXT__RUN_RESULT__STATE__ENDED;
    r->outcome = arena_strdup(arena, "lost");
    r->detail = arena_strdup(arena, "the gateway ended while the program ran");
    if (!r->outcome || !r->detail) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read the runs: no memory");
    }
    int rc = tell_lost(table->gateway, r, arena, err);
    struct store_index index = index_of(r);
    return rc ? rc : store_update(table->gateway->store, STORE_RUN, &r->base, &index, NULL, err);
}

static int load_page(struct oneshot_table *table, uint32_t number, bool *ret_has_more,
                     struct error *err)
{
    struct arena arena;
    struct store_list list;
    const struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    const struct store_page page = {.page = number, .items_per_page = LOAD_PAGE_ITEMS};
    arena_init(&arena, LOAD_ARENA_MAX_BYTES);
    int rc = store_list(table->gateway->store, STORE_RUN, &filter, &page, &arena, &list, err);
    for (size_t i = 0; !rc && i < list.count; i++) {
        Ext__RunResult *r = (Ext__RunResult *)list.items[i];
        if (r->state != EXT__RUN_RESULT__STATE__ENDED) {
            rc = lose(table, r, &arena, err);
        }
        remember(table, r, resource_timestamp_ns(r->metadata->created_at));
    }
    *ret_has_more = !rc && list.has_more;
    if (rc == -STATUS_NOT_FOUND) {
        rc = 0; /* no page */
    }
    arena_free(&arena);
    return rc;
}

int oneshot_table_new(struct gateway *g, struct oneshot_table **ret, struct error *err)
{
    struct oneshot_table *table = calloc(1, sizeof *table);
    if (!table) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read the runs: no memory");
    }
    table->gateway = g;
    bool has_more = true;
    for (uint32_t page = 0; has_more && page < STORE_PAGE_MAX; page++) {
        int rc = load_page(table, page, &has_more, err);
        if (rc) {
            oneshot_table_free(table);
            return rc;
        }
    }
    if (start_expiry(table, err)) {
        oneshot_table_free(table);
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    drop_old(table, gateway_wall_ns(g));
    *ret = table;
    return 0;
}

void oneshot_table_free(struct oneshot_table *table)
{
    if (!table) {
        return;
    }
    while (table->live) {
        struct oneshot *o = table->live;
        oneshot_table_remove(table, o);
        if (o->image_waiter) {
            image_table_forget(table->gateway->images, o->image_waiter);
            free(o->image_waiter);
            o->image_waiter = NULL;
        }
        o->pending = 0;
        oneshot_discard(o);
    }
    while (table->oldest) {
        struct kept *k = table->oldest;
        table->oldest = k->next;
        free(k);
    }
    if (table->expiry) {
        uv_close((uv_handle_t *)table->expiry, free_handle);
    }
    free(table);
}

/* --- live ones --- */

void oneshot_key_name(const char *owner_uid, const char *key, char ret[80])
{
    char hex[TOKEN_DIGEST_HEX_SIZE];
    char text[512];
    int n = snprintf(text, sizeof text, "%s\n%s", owner_uid, key);
    token_sha256_hex(str_make(text, n > 0 && (size_t)n < sizeof text ? (size_t)n : sizeof text - 1),
                     hex);
    (void)snprintf(ret, 80, "key-%s", hex);
}

struct oneshot *oneshot_table_find(struct oneshot_table *table, const char *id)
{
    struct oneshot *o = table->live;
    while (o && (o->is_told || strcmp(o->id, id) != 0)) {
        o = o->next;
    }
    return o;
}

struct oneshot *oneshot_table_find_name(struct oneshot_table *table, const char *name)
{
    struct oneshot *o = table->live;
    while (o && (o->is_told || strcmp(o->name, name) != 0)) {
        o = o->next;
    }
    return o;
}

unsigned oneshot_table_count(const struct oneshot_table *table)
{
    unsigned count = 0;
    for (const struct oneshot *o = table ? table->live : NULL; o; o = o->next) {
        count++;
    }
    return count;
}

unsigned oneshot_table_count_of(const struct oneshot_table *table, const char *owner_uid)
{
    unsigned count = 0;
    for (const struct oneshot *o = table ? table->live : NULL; o; o = o->next) {
        count += strcmp(o->owner_uid, owner_uid) == 0;
    }
    return count;
}

struct oneshot *oneshot_table_find_sandbox(struct oneshot_table *table,
                                           const struct executor_uuid *id)
{
    struct oneshot *o = table->live;
    while (o && memcmp(o->sandbox.id.bytes, id->bytes, sizeof id->bytes) != 0) {
        o = o->next;
    }
    return o;
}

bool oneshot_table_has_sandbox(struct oneshot_table *table, const struct executor_uuid *id)
{
    const struct oneshot *o = oneshot_table_find_sandbox(table, id);
    return o && o->has_sandbox;
}

/* A result may be lost in a power cut, as the program was; not with the process. */
static int put(struct oneshot_table *table, const Ext__RunResult *r, bool is_new, struct error *err)
{
    struct store *store = table->gateway->store;
    struct store_index index = index_of(r);
    int rc = store_begin_transient(store, err);
    if (rc) {
        return rc;
    }
    rc = is_new ? store_insert(store, STORE_RUN, &r->base, &index, err)
                : store_update(store, STORE_RUN, &r->base, &index, NULL, err);
    return store_end(store, rc, err);
}

int oneshot_table_insert(struct oneshot_table *table, struct oneshot *o, const char *key,
                         struct error *err)
{
    copy_text(o->name, sizeof o->name, o->id);
    if (key[0]) {
        struct arena arena;
        oneshot_key_name(o->owner_uid, key, o->name);
        arena_init(&arena, LOAD_ARENA_MAX_BYTES);
        const Ext__RunResult *r = oneshot_result(o, &arena);
        int rc = r ? put(table, r, true, err)
                   : error_set(err, STATUS_RESOURCE_EXHAUSTED, "note the run's key: no memory");
        arena_free(&arena);
        if (rc) {
            return rc;
        }
        o->has_record = true;
    }
    o->next = table->live;
    table->live = o;
    return 0;
}

void oneshot_table_keep(struct oneshot_table *table, struct oneshot *o,
                        const Ext__RunResult *result)
{
    struct error err;
    int64_t now_ns = gateway_wall_ns(table->gateway);
    Ext__RunResult whole = *result;
    whole.inputs = table->gateway->config->runs.keep_inputs ? o->request : NULL;
    if (put(table, &whole, !o->has_record, &err)) {
        log_error("the result of run %s is not kept: %s", o->id, err.text);
        return;
    }
    remember(table, &whole, now_ns);
    drop_old(table, now_ns);
}

void oneshot_table_forget(struct oneshot_table *table, struct oneshot *o)
{
    struct error err;
    if (o->has_record && store_delete(table->gateway->store, STORE_RUN, o->id, &err)) {
        log_error("the key of run %s stays taken: %s", o->id, err.text);
    }
    o->has_record = false;
}

void oneshot_table_remove(struct oneshot_table *table, struct oneshot *o)
{
    for (struct oneshot **at = &table->live; *at; at = &(*at)->next) {
        if (*at == o) {
            *at = o->next;
            return;
        }
    }
}

/* --- look-ups --- */

int oneshot_table_load_whole(struct oneshot_table *table, const char *id, const char *owner_uid,
                             struct arena *arena, Ext__RunResult **ret, struct error *err)
{
    ProtobufCMessage *found;
    drop_old(table, gateway_wall_ns(table->gateway));
    if (!resource_uid_is_valid(str_from(id))) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "runId '%.64s' is no run's id", id);
    }
    int rc = store_get_by_uid(table->gateway->store, STORE_RUN, id, arena, &found, err);
    if (rc && rc != -STATUS_NOT_FOUND) {
        return rc;
    }
    if (rc || (owner_uid && strcmp(((Ext__RunResult *)found)->user_uid, owner_uid) != 0)) {
        return error_set(err, STATUS_NOT_FOUND,
                         "Run '%s' does not exist, or its result is no longer kept", id);
    }
    *ret = (Ext__RunResult *)found;
    return 0;
}

int oneshot_table_load(struct oneshot_table *table, const char *id, const char *owner_uid,
                       struct arena *arena, Ext__RunResult **ret, struct error *err)
{
    int rc = oneshot_table_load_whole(table, id, owner_uid, arena, ret, err);
    if (rc == 0) {
        (*ret)->inputs = NULL;
    }
    return rc;
}

int oneshot_table_load_name(struct oneshot_table *table, const char *name, struct arena *arena,
                            Ext__RunResult **ret, struct error *err)
{
    ProtobufCMessage *found;
    drop_old(table, gateway_wall_ns(table->gateway));
    int rc = store_get_by_name(table->gateway->store, STORE_RUN, name, arena, &found, err);
    if (!rc) {
        *ret = (Ext__RunResult *)found;
        (*ret)->inputs = NULL;
    }
    return rc;
}

/* NULL for what has not started, or was lost before anybody could tell. */
static Google__Protobuf__Timestamp *start_of(int64_t started_at_ns, struct arena *arena)
{
    return started_at_ns > 0 ? resource_timestamp(started_at_ns, arena) : NULL;
}

static Ext__ListRunsResponse__Item *item_of_live(const struct oneshot *o, struct arena *arena)
{
    Ext__ListRunsResponse__Item *item =
        CODEC_NEW(arena, Ext__ListRunsResponse__Item, ext__list_runs_response__item);
    if (item) {
        item->run_id = arena_strdup(arena, o->id);
        item->program = arena_strdup(arena, o->plan.program);
        item->started_at = start_of(o->started_at_ns, arena);
        item->state =
            o->is_running ? EXT__RUN_RESULT__STATE__RUNNING : EXT__RUN_RESULT__STATE__PREPARING;
    }
    return item && item->run_id && item->program ? item : NULL;
}

static Ext__ListRunsResponse__Item *item_of_kept(const struct kept *k, struct arena *arena)
{
    Ext__ListRunsResponse__Item *item =
        CODEC_NEW(arena, Ext__ListRunsResponse__Item, ext__list_runs_response__item);
    if (!item) {
        return NULL;
    }
    item->run_id = arena_strdup(arena, k->id);
    item->program = arena_strdup(arena, k->program);
    item->template_ = arena_strdup(arena, k->template_);
    item->outcome = arena_strdup(arena, k->outcome);
    item->state = EXT__RUN_RESULT__STATE__ENDED;
    item->signal = k->signal;
    item->wall_ms = k->wall_ms;
    item->started_at = start_of(k->started_at_ns, arena);
    if (k->has_exit_code) {
        item->has_exit_code_case = EXT__LIST_RUNS_RESPONSE__ITEM__HAS_EXIT_CODE_EXIT_CODE;
        item->exit_code = k->exit_code;
    }
    return item->run_id && item->program && item->template_ && item->outcome ? item : NULL;
}

/* The last `max` of one user's, newest first. */
static int add_kept(const struct oneshot_table *table, const char *owner_uid, uint32_t max,
                    struct arena *arena, Ext__ListRunsResponse *ret)
{
    size_t of_user = 0;
    for (const struct kept *k = table->oldest; k; k = k->next) {
        of_user += strcmp(k->owner_uid, owner_uid) == 0;
    }
    size_t room = max > ret->n_items ? max - ret->n_items : 0;
    size_t skipped = of_user > room ? of_user - room : 0;
    size_t at = ret->n_items + (of_user - skipped);
    ret->n_items = at;
    for (const struct kept *k = table->oldest; k; k = k->next) {
        if (strcmp(k->owner_uid, owner_uid) != 0) {
            continue;
        }
        if (skipped > 0) {
            skipped--;
            continue;
        }
        if (!(ret->items[--at] = item_of_kept(k, arena))) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
    }
    return 0;
}

int oneshot_table_list(struct oneshot_table *table, const char *owner_uid, bool only_active,
                       uint32_t count_max, struct arena *arena, Ext__ListRunsResponse *ret,
                       struct error *err)
{
    uint32_t max = count_max ? count_max : LIST_COUNT_DEFAULT;
    if (max > LIST_COUNT_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "countMax is %u, over the maximum of %d: ask for fewer", max,
                         LIST_COUNT_MAX);
    }
    drop_old(table, gateway_wall_ns(table->gateway));
    ret->retention_seconds = table->gateway->config->runs.retention_seconds;
    ret->items = arena_calloc(arena, max, sizeof *ret->items);
    bool is_full = !ret->items;
    for (const struct oneshot *o = table->live; o && !is_full && ret->n_items < max; o = o->next) {
        if (!o->is_told && strcmp(o->owner_uid, owner_uid) == 0) {
            is_full = !(ret->items[ret->n_items] = item_of_live(o, arena));
            ret->n_items += !is_full;
        }
    }
    if (is_full || (!only_active && add_kept(table, owner_uid, max, arena, ret))) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The list is too large; ask for less");
    }
    return 0;
}
