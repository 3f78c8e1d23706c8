#include "gateway/services/workspace_service.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/config.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/limit_outcome.h"
#include "gateway/services/limits.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/spec_references.h"
#include "gateway/services/spec_validation.h"
#include "gateway/services/watch.h"
#include "gateway/services/workspace_access.h"
#include "gateway/services/workspace_source.h"
#include "gateway/services/workspace_start.h"
#include "gateway/state/resource.h"

static const Cordium__Workspace *workspace_message(const struct request *r)
{
    return (const Cordium__Workspace *)r->message;
}

static int missing(struct error *err, const char *field)
{
    return error_set(err, STATUS_INVALID_ARGUMENT, "The Workspace's %s is missing; set it", field);
}

/* --- create --- */

int create_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__Workspace *message = workspace_message(r);
    return access_template_by_ref(r, message->status ? message->status->template_ref : NULL, err);
}

/* One label; longer ones when short ones are taken. */
static int choose_name(struct request *r, char ret[8], struct error *err)
{
    static const struct {
        unsigned tries;
        size_t len;
    } STEPS[] = {{50, 3}, {450, 4}, {500, 5}, {1000, 6}};
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        for (unsigned k = 0; k < STEPS[i].tries; k++) {
            struct error ignored = {0};
            ProtobufCMessage *found;
            int rc = token_random_label(STEPS[i].len, ret, err);
            if (rc) {
                return rc;
            }
            rc = store_get_by_name(r->gateway->store, STORE_WORKSPACE, ret, &r->arena, &found,
                                   &ignored);
            if (rc == -STATUS_NOT_FOUND) {
                return 0;
            }
            if (rc) {
                return error_set(err, ignored.status, "%s", ignored.text);
            }
        }
    }
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "No free name for a Workspace was found");
}

static int check_quota(struct request *r, const Cordium__ClusterConfig *cluster, struct error *err)
{
    const struct store_filter filter = {.owner_uid = access_user_uid(r)};
    uint32_t max = limit_quota_workspaces(cluster, r->gateway->config->workspaces_per_user_max);
    uint32_t count;
    int rc = store_count(r->gateway->store, STORE_WORKSPACE, &filter, &count, err);
    if (!rc && count >= max) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Number of Workspaces per User has been exceeded: you have %u of %u. "
                         "Delete some (cordium delete workspace NAME), or ask an administrator to "
                         "raise spec.workspace.limit.maxPerUser of the ClusterConfig",
                         count, max);
    }
    return rc;
}

/* `sources` are those of its limits. */
static int fill_status(struct request *r, const struct limit_sources *sources,
                       Cordium__Workspace *workspace)
{
    struct arena *arena = &r->arena;
    const Cordium__Template *template_ = r->touched.template_;
    Cordium__Workspace__Status *status =
        CODEC_NEW(arena, Cordium__Workspace__Status, cordium__workspace__status);
    if (!status) {
        return -1;
    }
    status->state = WORKSPACE_STATE(STOPPED);
    status->user_ref = resource_ref(&r->actor.user->base, arena);
    status->space_ref = resource_ref(&r->touched.space->base, arena);
    status->template_ref = resource_ref(&template_->base, arena);
    status->limit = limit_to_message(limit_effective(sources), arena);
    status->space_type = r->touched.space->status ? r->touched.space->status->type
                                                  : CORDIUM__SPACE__STATUS__TYPE__SPACE_TYPE_UNSET;
    status->current_state_set_at = resource_timestamp(r->started_at_ns, arena);
    workspace->status = status;
    return status->user_ref && status->space_ref && status->template_ref && status->limit ? 0 : -1;
}

static int check_limit(const struct request *r, const Cordium__ClusterConfig *cluster,
                       const Cordium__Workspace__Spec__Limit *asked, struct error *err)
{
    const struct limit_sources sources = {
        .workspace = asked, .space = r->touched.space, .cluster = cluster};
    return limit_check_asked(&sources, err);
}

static int build_workspace(struct request *r, Cordium__Workspace **ret,
                           struct limit_sources *ret_sources, struct error *err)
{
    const Cordium__Workspace *message = workspace_message(r);
    Cordium__ClusterConfig *cluster;
    char name[8];
    if (!message->metadata || !message->spec) {
        return missing(err, message->spec ? "metadata" : "spec");
    }
    int rc = spec_validate_workspace(message->spec, err);
    rc = rc ? rc : spec_check_secrets(r, &message->spec->base, err);
    rc = rc ? rc : spec_check_volumes(r, message->spec->runtime, err);
    rc = rc ? rc : access_cluster_config(r, &cluster, err);
    rc = rc ? rc : check_limit(r, cluster, message->spec->limit, err);
    rc = rc ? rc : check_quota(r, cluster, err);
    rc = rc ? rc : choose_name(r, name, err);
    if (rc) {
        return rc;
    }
    if (message->status && resource_ref_is_set(message->status->workspace_snapshot_ref)) {
        return error_set(err, STATUS_UNIMPLEMENTED,
                         "Workspaces cannot be made from snapshots yet; leave snapshot out");
    }
    Cordium__Workspace *workspace = CODEC_NEW(&r->arena, Cordium__Workspace, cordium__workspace);
    Meta__Metadata *metadata = CODEC_NEW(&r->arena, Meta__Metadata, meta__metadata);
    if (!workspace || !metadata) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The Workspace is too large");
    }
    resource_metadata_take(metadata, message->metadata);
    workspace->metadata = metadata;
    workspace->spec = message->spec;
    *ret_sources = (struct limit_sources){
        .workspace = workspace->spec->limit,
        .template_ = r->touched.template_->spec ? r->touched.template_->spec->limit : NULL,
        .space = r->touched.space,
        .cluster = cluster,
    };
    if (fill_status(r, ret_sources, workspace)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The Workspace is too large");
    }
    *ret = workspace;
    return resource_stamp_new(&workspace->base, STORE_WORKSPACE, name, r->started_at_ns, &r->arena,
                              err);
}

void create_workspace_handle(struct request *r)
{
    struct error err = {0};
    Cordium__Workspace *workspace = NULL;
    struct limit_sources sources;
    int rc = access_store_default(r, &err);
    rc = rc ? rc : build_workspace(r, &workspace, &sources, &err);
    if (!rc) {
        struct store_index index = workspace_index(workspace);
        rc = store_insert(r->gateway->store, STORE_WORKSPACE, &workspace->base, &index, &err);
    }
    if (rc) {
        request_fail(r, &err);
        return;
    }
    r->touched.workspace = workspace; /* the log's line of the end names it */
    watch_publish(r->gateway->watches, NULL, workspace);
    r->touched.workspace = workspace; /* its end in the audit log names what was made */
    r->touched.target = &workspace->base;
    limit_outcome_set(r, &sources, workspace->status->limit);
    request_reply(r, &workspace->base);
}

/* --- get, list --- */

int get_workspace_resolve(struct request *r, struct error *err)
{
    const Meta__GetOptions *options = (const Meta__GetOptions *)r->message;
    return workspace_access(r, options->uid, options->name, err);
}

void get_workspace_handle(struct request *r)
{
    request_reply(r, &r->touched.workspace->base);
}

int list_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__ListWorkspaceOptions *options =
        (const Cordium__ListWorkspaceOptions *)r->message;
    if (options->filter_case == CORDIUM__LIST_WORKSPACE_OPTIONS__FILTER_SPACE_REF &&
        resource_ref_is_set(options->space_ref)) {
        return access_space_by_ref(r, options->space_ref, err);
    }
    if (options->filter_case == CORDIUM__LIST_WORKSPACE_OPTIONS__FILTER_TEMPLATE_REF &&
        resource_ref_is_set(options->template_ref)) {
        return access_template_by_ref(r, options->template_ref, err);
    }
    return 0;
}

static int list_items(struct request *r, Cordium__WorkspaceList *answer, struct error *err)
{
    const Cordium__ListWorkspaceOptions *options =
        (const Cordium__ListWorkspaceOptions *)r->message;
    bool by_template = options->filter_case == CORDIUM__LIST_WORKSPACE_OPTIONS__FILTER_TEMPLATE_REF;
    const struct store_filter filter = {
        .owner_uid = access_user_uid(r),
        .template_uid =
            by_template && r->touched.template_ ? r->touched.template_->metadata->uid : NULL,
        .space_uid = !by_template && r->touched.space ? r->touched.space->metadata->uid : NULL,
    };
    struct store_page page;
    struct store_list list;
    resource_page_from(options->common, &page);
    int rc = store_list(r->gateway->store, STORE_WORKSPACE, &filter, &page, &r->arena, &list, err);
    if (rc) {
        return rc;
    }
    Cordium__Workspace **items = arena_calloc(&r->arena, list.count, sizeof *items);
    if (!items) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "The page is too large; ask for fewer items");
    }
    for (size_t i = 0; !rc && i < list.count; i++) {
        items[i] = (Cordium__Workspace *)list.items[i];
        rc = workspace_overlay(r->gateway, &items[i], &r->arena, err);
    }
    answer->api_version = arena_strdup(&r->arena, "cordium/v1");
    answer->kind = arena_strdup(&r->arena, "WorkspaceList");
    answer->n_items = list.count;
    answer->items = items;
    answer->list_response_meta = resource_list_meta(&list, &page, &r->arena);
    if (!rc && (!answer->api_version || !answer->kind || !answer->list_response_meta)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "The page is too large; ask for fewer items");
    }
    return rc;
}

void list_workspace_handle(struct request *r)
{
    Cordium__WorkspaceList answer = CORDIUM__WORKSPACE_LIST__INIT;
    struct error err = {0};
    if (list_items(r, &answer, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &answer.base);
}

/* --- update --- */

int update_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__Workspace *message = workspace_message(r);
    if (!message->metadata) {
        return missing(err, "metadata");
    }
    return workspace_access(r, message->metadata->uid, message->metadata->name, err);
}

static int store_updated(struct request *r, Cordium__Workspace *workspace, struct error *err)
{
    struct store_index index = workspace_index(workspace);
    int rc = resource_stamp_update(&workspace->base, r->started_at_ns, &r->arena, err);
    return rc ? rc
              : store_update(r->gateway->store, STORE_WORKSPACE, &workspace->base, &index, NULL,
                             err);
}

/* Display name, the other free metadata and the spec; the run that lives goes on with the old spec.
 */
static int apply_update(struct request *r, Cordium__Workspace **ret, struct error *err)
{
    const Cordium__Workspace *message = workspace_message(r);
    Cordium__Workspace *before = NULL;
    if (!message->spec) {
        return missing(err, "spec");
    }
    int rc = spec_validate_workspace(message->spec, err);
    if (!rc && r->touched.space) {
        rc = spec_check_secrets(r, &message->spec->base, err);
        rc = rc ? rc : spec_check_volumes(r, message->spec->runtime, err);
        Cordium__ClusterConfig *cluster = NULL;
        rc = rc ? rc : access_cluster_config(r, &cluster, err);
        rc = rc ? rc : check_limit(r, cluster, message->spec->limit, err);
    }
    /* The status may have moved on since the decision. */
    rc = rc ? rc
            : workspace_load(r->gateway, r->touched.workspace->metadata->uid, NULL, &r->arena,
                             &before, err);
    Cordium__Workspace *after = rc ? NULL : CODEC_COPY(&r->arena, Cordium__Workspace, before);
    if (!after) {
        return rc ? rc : error_set(err, STATUS_RESOURCE_EXHAUSTED, "The Workspace is too large");
    }
    resource_metadata_take(after->metadata, message->metadata);
    after->spec = message->spec;
    *ret = after;
    if (codec_equal(&before->base, &after->base)) {
        return 0;
    }
    struct workspace_run *run = workspace_run_find(r->gateway->workspaces, after->metadata->uid);
    if (!run) {
        rc = store_updated(r, after, err);
        if (!rc) {
            watch_publish(r->gateway->watches, before, after);
        }
        return rc;
    }
    struct workspace_change change;
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        Cordium__Workspace *copy = CODEC_COPY(&change.arena, Cordium__Workspace, after);
        change.has_failed = !copy;
        change.next = copy ? copy : change.next;
    }
    rc = workspace_change_apply(run, &change, true, err);
    return rc ? rc : workspace_overlay(r->gateway, ret, &r->arena, err);
}

void update_workspace_handle(struct request *r)
{
    struct error err = {0};
    Cordium__Workspace *workspace;
    if (apply_update(r, &workspace, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &workspace->base);
}

/* --- delete --- */

int delete_workspace_resolve(struct request *r, struct error *err)
{
    const Meta__DeleteOptions *options = (const Meta__DeleteOptions *)r->message;
    return workspace_access(r, options->uid, options->name, err);
}

static int delete_stored(struct request *r, const char *session_uid, bool is_transient,
                         struct error *err)
{
    struct store *store = r->gateway->store;
    const Cordium__Workspace *workspace = r->touched.workspace;
    int rc = is_transient ? store_begin_transient(store, err) : store_begin(store, err);
    if (rc) {
        return rc;
    }
    rc = store_delete(store, STORE_WORKSPACE, workspace->metadata->uid, err);
    if (!rc && session_uid) {
        rc = session_delete(r->gateway, session_uid, err);
    }
    if (!rc && !workspace->spec->is_ephemeral) {
        rc = workspace_source_forget(r->gateway, workspace->metadata->uid, err);
    }
    return store_end(store, rc, err);
}

static void on_torn_down(void *context)
{
    struct request *r = context;
    if (!request_is_over(r)) {
        request_reply_empty(r);
    }
    request_release(r);
}

static void on_storage_deleted(void *context, const struct executor_reply *reply)
{
    (void)reply; /* NOT_FOUND: it never ran; UNAVAILABLE: removed with the executor's leftovers */
    on_torn_down(context);
}

/* A stopped workspace's storage. The answer tells that it is gone. */
static void delete_storage(struct request *r)
{
    struct executor_uuid storage;
    struct executor_client *client = executor_link_client(r->gateway->executor, NULL);
    const Cordium__Workspace *workspace = r->touched.workspace;
    request_hold(r);
    /* Also of one that has no successful run: the gateway may have died before it noted one. */
    if (workspace->spec->is_ephemeral || !client ||
        !workspace_uuid_parse(workspace->metadata->uid, &storage) ||
        executor_storage_delete(client, &storage, (struct executor_callback){on_storage_deleted, r},
                                NULL)) {
        on_torn_down(r);
    }
}

/* A delete whose run is being taken down. It is answered when the run is gone and the deletion is
 * on the disk. */
struct teardown {
    struct request *request;
    bool is_durable;
    bool is_gone;
};

static void answer_when_deleted(struct teardown *t)
{
    if (t->is_durable && t->is_gone && !request_is_over(t->request)) {
        request_reply_empty(t->request);
    }
}

static void on_run_gone(void *context)
{
    struct teardown *t = context;
    t->is_gone = true;
    answer_when_deleted(t);
    request_release(t->request);
}

/* The executor kills and clears while the disk is waited for. Only of an ephemeral workspace: a
 * power cut in between brings back its row, of which there is nothing but the row to lose. */
static void take_down(struct request *r, struct workspace_run *run, struct teardown *t,
                      bool is_transient)
{
    struct error err = {0};
    t->request = r;
    t->is_durable = !is_transient;
    request_hold(r);
    workspace_stop_deleted(run, on_run_gone, t);
    if (!is_transient) {
        return;
    }
    if (store_sync(r->gateway->store, &err)) {
        request_fail(r, &err);
        return;
    }
    t->is_durable = true;
    answer_when_deleted(t);
}

void delete_workspace_handle(struct request *r)
{
    struct error err = {0};
    struct teardown *t = arena_zalloc(&r->arena, sizeof *t);
    struct workspace_run *run =
        workspace_run_find(r->gateway->workspaces, r->touched.workspace->metadata->uid);
    bool is_transient = run && r->touched.workspace->spec->is_ephemeral;
    if (!t) {
        request_fail_memory(r);
        return;
    }
    if (delete_stored(r, run ? run->identity.session_uid : NULL, is_transient, &err)) {
        request_fail(r, &err);
        return;
    }
    watch_publish(r->gateway->watches, r->touched.workspace, NULL);
    if (!run) {
        delete_storage(r);
        return;
    }
    take_down(r, run, t, is_transient);
}

/* --- start --- */

struct start_wait {
    struct workspace_start_waiter waiter;
    struct request *request;
    struct workspace_table *table;
    uv_timer_t timer;
    char uid[37];
    bool is_settled;
};

int start_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__StartWorkspaceRequest *message =
        (const Cordium__StartWorkspaceRequest *)r->message;
    return workspace_access_by_ref(r, message->workspace_ref, err);
}

static int check_region(struct request *r, const Cordium__StartWorkspaceRequest__Config *config,
                        struct error *err)
{
    const char *own = r->gateway->config->region ? r->gateway->config->region : "default";
    if (!config || !resource_ref_is_set(config->region_ref) || !config->region_ref->name[0] ||
        strcmp(config->region_ref->name, own) == 0) {
        return 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "Region '%s' does not exist; this gateway has '%s'", config->region_ref->name,
                     own);
}

/* State first: a full user's no-op start must say what is the case. */
static int check_start(struct request *r, const Cordium__StartWorkspaceRequest__Config *config,
                       struct error *err)
{
    const Cordium__Workspace *workspace = r->touched.workspace;
    const char *name = workspace->metadata->name;
    workspace_state state = workspace->status->state;
    struct workspace_run *run =
        workspace_run_find(r->gateway->workspaces, workspace->metadata->uid);
    if (run && (run->is_stopping || workspace_state_is_stopping(state))) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Workspace '%s' is stopping; wait until it is STOPPED", name);
    }
    if (run) {
        return error_set(err, STATUS_ALREADY_EXISTS,
                         "Workspace '%s' is already starting or running", name);
    }
    int rc = config ? spec_validate_vars(config->n_vars, config->vars, "config.vars", err) : 0;
    rc = rc ? rc : check_region(r, config, err);
    Cordium__ClusterConfig *cluster;
    rc = rc ? rc : access_cluster_config(r, &cluster, err);
    if (rc) {
        return rc;
    }
    uint32_t max =
        limit_quota_active_workspaces(cluster, r->gateway->config->active_workspaces_per_user_max);
    unsigned count = workspace_run_count_of(r->gateway->workspaces, access_user_uid(r)) +
                     oneshot_table_count_of(r->gateway->oneshots, access_user_uid(r));
    if (count >= max) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Maximum limit of active Workspaces exceeded: %u of %u are not stopped. "
                         "Stop or delete one, or ask an administrator to raise "
                         "spec.workspace.limit.maxActivePerUser of the ClusterConfig",
                         count, max);
    }
    return 0;
}

static void wait_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Answers, whatever the state is by now: the client asks for it. */
static void end_wait(struct start_wait *wait)
{
    if (wait->is_settled) {
        return;
    }
    wait->is_settled = true;
    uv_close((uv_handle_t *)&wait->timer, wait_closed);
    if (!request_is_over(wait->request)) {
        request_reply_empty(wait->request);
    }
    request_release(wait->request);
}

static void on_settled(struct workspace_start_waiter *waiter, bool is_running)
{
    (void)is_running;
    end_wait((struct start_wait *)waiter);
}

static void on_wait_timer(uv_timer_t *timer)
{
    struct start_wait *wait = timer->data;
    struct workspace_run *run = workspace_run_find(wait->table, wait->uid);
    for (struct workspace_start_waiter **at = run ? &run->waiters : NULL; at && *at;
         at = &(*at)->next) {
        if (*at == &wait->waiter) {
            *at = wait->waiter.next;
            break;
        }
    }
    end_wait(wait);
}

/* The next poll of the client comes a second later: a start that takes less is waited for. */
static void reply_when_running(struct request *r)
{
    const char *uid = r->touched.workspace->metadata->uid;
    struct workspace_run *run = workspace_run_find(r->gateway->workspaces, uid);
    struct start_wait *wait =
        run && !run->is_stopping && !run->was_running && r->gateway->config->start_wait_ms > 0
            ? calloc(1, sizeof *wait)
            : NULL;
    if (!wait) {
        request_reply_empty(r);
        return;
    }
    wait->request = r;
    wait->table = r->gateway->workspaces;
    memcpy(wait->uid, run->uid, sizeof wait->uid);
    wait->waiter.settled = on_settled;
    wait->waiter.next = run->waiters;
    run->waiters = &wait->waiter;
    (void)uv_timer_init(r->gateway->loop, &wait->timer);
    wait->timer.data = wait;
    (void)uv_timer_start(&wait->timer, on_wait_timer, r->gateway->config->start_wait_ms, 0);
    request_hold(r);
}

void start_workspace_handle(struct request *r)
{
    const Cordium__StartWorkspaceRequest *message =
        (const Cordium__StartWorkspaceRequest *)r->message;
    struct error err = {0};
    Cordium__Workspace *workspace = NULL;
    int rc = workspace_load(r->gateway, r->touched.workspace->metadata->uid, NULL, &r->arena,
                            &workspace, &err);
    rc = rc ? rc : check_start(r, message->config, &err);
    if (!rc) {
        const struct workspace_start start = {
            .workspace = workspace,
            .template_ = r->touched.template_,
            .space = r->touched.space,
            .user = r->actor.user,
            .config = message->config,
        };
        rc = workspace_start_begin(r->gateway, &start, &err);
    }
    if (rc) {
        request_fail(r, &err);
        return;
    }
    workspace_start_note_limits(r, workspace->metadata->uid);
    reply_when_running(r);
}

/* --- stop --- */

int stop_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__StopWorkspaceRequest *message =
        (const Cordium__StopWorkspaceRequest *)r->message;
    return workspace_access_by_ref(r, message->workspace_ref, err);
}

void stop_workspace_handle(struct request *r)
{
    struct workspace_run *run =
        workspace_run_find(r->gateway->workspaces, r->touched.workspace->metadata->uid);
    if (!run) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT, "Workspace '%s' is stopped already",
                          r->touched.workspace->metadata->name);
        return;
    }
    request_reply_empty(r);
    workspace_stop(run, WORKSPACE_STOPPING(API));
}
