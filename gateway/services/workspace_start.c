#include "gateway/services/workspace_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/config.h"
#include "gateway/edge/server.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/session.h"
#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/build_run.h"
#include "gateway/services/exec_run.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/limit_outcome.h"
#include "gateway/services/limits.h"
#include "gateway/services/spec_validation.h"
#include "gateway/services/workspace_record.h"
#include "gateway/services/workspace_secret.h"
#include "gateway/services/workspace_source.h"
#include "gateway/services/workspace_spec.h"
#include "gateway/services/workspace_task.h"
#include "gateway/state/resource.h"

enum { SANDBOX_PIDS_MAX = 1024 }; /* enough for a build with many jobs, too few to hurt the host */

#define REGION_DEFAULT "default"

static void choose_image(struct workspace_run *run);

/* --- begin: everything that can be refused is refused before the first write --- */

static int no_room(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The workspace's spec is too large");
}

/* One resource of a kind of which there is one, or one per owner; NULL when there is none. */
static int find_single(struct gateway *g, enum store_kind kind, const char *owner_uid,
                       struct arena *arena, const void **ret, struct error *err)
{
    const struct store_filter filter = {.owner_uid = owner_uid, .hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    int rc = store_list_all(g->store, kind, &filter, arena, &list, err);
    *ret = !rc && list.count > 0 ? list.items[0] : NULL;
    return rc;
}

static int copy_around(struct workspace_run *run, const struct workspace_start *start,
                       struct error *err)
{
    struct arena *arena = &run->spec_arena;
    const void *user_config;
    const void *cluster;
    int rc = find_single(run->gateway, STORE_USER_CONFIG, run->owner_uid, arena, &user_config, err);
    rc = rc ? rc : find_single(run->gateway, STORE_CORDIUM_CONFIG, NULL, arena, &cluster, err);
    if (rc) {
        return rc;
    }
    run->user_config = user_config;
    run->cluster = cluster;
    run->space = start->space ? CODEC_COPY(arena, Cordium__Space, start->space) : NULL;
    run->template_ =
        start->template_ ? CODEC_COPY(arena, Cordium__Template, start->template_) : NULL;
    return (start->space && !run->space) || (start->template_ && !run->template_) ? no_room(err)
                                                                                  : 0;
}

/* Tasks of the space and of the user see the same variables as those of the spec. */
static int expand_tasks_around(struct workspace_run *run, struct error *err)
{
    const struct workspace_vars vars = {run->spec->vars, run->spec->n_vars};
    int rc = 0;
    if (run->user_config && run->user_config->spec) {
        rc = workspace_tasks_expand(&vars, run->user_config->spec->n_tasks,
                                    run->user_config->spec->tasks, &run->spec_arena, err);
    }
    if (!rc && run->space && run->space->spec && run->space->spec->runtime) {
        rc = workspace_tasks_expand(&vars, run->space->spec->runtime->n_tasks,
                                    run->space->spec->runtime->tasks, &run->spec_arena, err);
    }
    return rc;
}

int workspace_start_prepare(struct workspace_run *run, const struct workspace_start *start,
                            struct error *err)
{
    int rc = copy_around(run, start, err);
    rc = rc ? rc
            : workspace_spec_merge(run->template_ ? run->template_->spec : NULL,
                                   start->workspace->spec, &run->spec_arena, &run->spec, err);
    rc = rc ? rc : workspace_spec_expand(run->spec, start->config, &run->spec_arena, err);
    rc = rc ? rc : spec_validate_merged(run->spec, err);
    return rc ? rc : expand_tasks_around(run, err);
}

static struct limit_sources limit_sources(const struct workspace_run *run)
{
    return (struct limit_sources){
        .workspace = run->workspace->spec->limit,
        .template_ = run->template_ && run->template_->spec ? run->template_->spec->limit : NULL,
        .space = run->space,
        .cluster = run->cluster,
        .is_build = run->is_build,
    };
}

static Cordium__Workspace__Spec__Limit *find_limit(const struct workspace_run *run,
                                                   struct arena *arena)
{
    const struct limit_sources sources = limit_sources(run);
    struct limit_values values = limit_effective(&sources);
    workspace_limit_cap(executor_link_host(run->gateway->executor), &values);
    return limit_to_message(values, arena);
}

static Meta__ObjectReference *region_ref(const char *name, struct arena *arena)
{
    Meta__ObjectReference *ref = CODEC_NEW(arena, Meta__ObjectReference, meta__object_reference);
    if (ref) {
        ref->api_version = arena_strdup(arena, "cordium/v1");
        ref->kind = arena_strdup(arena, "Region");
        ref->name = arena_strdup(arena, name);
    }
    return ref && ref->api_version && ref->kind && ref->name ? ref : NULL;
}

static const char *hostname_of(const struct workspace_run *run, const char *region,
                               struct arena *arena)
{
    const char *name = run->workspace->metadata->name;
    const char *domain = run->gateway->config->domain;
    return strcmp(region, REGION_DEFAULT) == 0
               ? arena_printf(arena, "%s.cordium.%s", name, domain)
               : arena_printf(arena, "%s.%s.cordium.%s", name, region, domain);
}

/* The session that the workspace's own socket stands for, for as long as the run lives. */
static int open_session(struct workspace_run *run, const Core__User *user, struct arena *arena,
                        Meta__ObjectReference **ret, struct error *err)
{
    const Cordium__Workspace__Status *status = run->workspace->status;
    Cordium__SessionExtInfo info = CORDIUM__SESSION_EXT_INFO__INIT;
    Core__Session *session;
    info.workspace_ref = resource_ref(&run->workspace->base, arena);
    info.space_ref = status->space_ref;
    info.template_ref = status->template_ref;
    info.space_type = status->space_type;
    int rc = session_open_for_workspace(run->gateway, user, &info, arena, &session, err);
    if (rc) {
        return rc;
    }
    *ret = resource_ref(&session->base, arena);
    (void)snprintf(run->identity.session_uid, sizeof run->identity.session_uid, "%s",
                   session->metadata->uid);
    return *ret ? 0 : no_room(err);
}

static int make_first_change(struct workspace_run *run, const struct workspace_start *start,
                             struct workspace_change *change, struct error *err)
{
    const char *region =
        run->gateway->config->region ? run->gateway->config->region : REGION_DEFAULT;
    char run_id[WORKSPACE_RUN_ID_LEN + 1];
    int rc = token_random_label(WORKSPACE_RUN_ID_LEN, run_id, err);
    if (rc) {
        return rc;
    }
    struct workspace_begin begin = {
        .run_id = run_id,
        .config = start->config,
        .limit = find_limit(run, &change->arena),
        .region_ref = region_ref(region, &change->arena),
        .hostname = hostname_of(run, region, &change->arena),
    };
    rc = open_session(run, start->user, &change->arena, &begin.session_ref, err);
    if (rc) {
        return rc;
    }
    if (!begin.limit || !begin.region_ref || !begin.hostname || change->has_failed ||
        workspace_begin_run(change->next, &begin, change->wall_ns, &change->arena)) {
        return no_room(err);
    }
    return 0;
}

/* The session and the state come together or not at all. */
static int store_beginning(struct workspace_run *run, const struct workspace_start *start,
                           struct error *err)
{
    struct store *store = run->gateway->store;
    struct workspace_change change;
    /* A power cut ends the run and its session: an ephemeral workspace keeps nothing of it. */
    bool is_transient = run->is_ephemeral && !start->is_new;
    int rc = is_transient ? store_begin_transient(store, err) : store_begin(store, err);
    if (rc) {
        return rc;
    }
    workspace_change_begin(run, &change);
    if (start->is_new) {
        struct store_index index = workspace_index(start->workspace);
        rc = store_insert(store, STORE_WORKSPACE, &start->workspace->base, &index, err);
    }
    rc = rc ? rc : make_first_change(run, start, &change, err);
    if (rc) {
        workspace_change_abandon(&change);
    } else {
        rc = workspace_change_apply(run, &change, true, err);
    }
    return store_end(store, rc, err);
}

void workspace_start_discard(struct workspace_run *run)
{
    workspace_log_unref(run->log);
    arena_free(&run->arena);
    arena_free(&run->spec_arena);
    free(run);
}

int workspace_start_begin(struct gateway *g, const struct workspace_start *start, struct error *err)
{
    if (!executor_link_client(g->executor, err)) {
        return -STATUS_UNAVAILABLE;
    }
    struct workspace_run *run = workspace_run_new(g, start->workspace);
    if (!run) {
        return no_room(err);
    }
    (void)snprintf(run->build_id, sizeof run->build_id, "%s",
                   start->build_id ? start->build_id : "");
    int rc = workspace_start_prepare(run, start, err);
    rc = rc ? rc : workspace_run_insert(g->workspaces, run, err);
    if (rc) {
        workspace_start_discard(run);
        return rc;
    }
    rc = store_beginning(run, start, err);
    if (rc) {
        workspace_run_finish(run);
        return rc;
    }
    workspace_run_enter(run, WORKSPACE_STATE(INITIALIZING));
    choose_image(run);
    return 0;
}

void workspace_start_note_limits(struct request *r, const char *uid)
{
    const struct workspace_run *run = workspace_run_find(r->gateway->workspaces, uid);
    if (run && run->workspace->status) {
        const struct limit_sources sources = limit_sources(run);
        limit_outcome_set(r, &sources, run->workspace->status->limit);
    }
}

/* --- image --- */

static void fail(struct workspace_run *run, workspace_failure_kind kind, const char *text)
{
    const struct workspace_failure failure = {.kind = kind, .message = text};
    workspace_stop_failed(run, &failure);
}

static void start_sandbox(struct workspace_run *run);
static void request_image(struct workspace_run *run);

/* What refers to the image is there, but not the image, in our store or in the executor's. */
static void make_image_again(struct workspace_run *run)
{
    run->image_was_retried = true;
    image_forget_key(run->gateway, run->image_key);
    run->image_id[0] = '\0';
    request_image(run);
}

int workspace_start_environment(struct workspace_run *run, struct error *err)
{
    const struct workspace_secrets secrets = workspace_secrets_of(run);
    const struct workspace_env_sources sources = {
        .image = &run->image,
        .user_config = run->user_config,
        .space = run->space,
        .spec = run->spec,
        .limit = run->workspace->status->limit,
        .workspace_name = run->workspace->metadata->name,
        .hostname = run->workspace->status->hostname,
        .domain = run->gateway->config->domain,
        .secrets = &secrets,
    };
    run->shell = exec_shell_number(run->image.exec_shell);
    workspace_env_init(&run->env, &run->spec_arena);
    return workspace_env_build(&sources, &run->env, err);
}

/* The image is known: its metadata gives user, home and environment. */
static void use_image(struct workspace_run *run)
{
    struct error err = {0};
    int rc = image_find_metadata(run->gateway, run->image_id, &run->spec_arena, &run->image, &err);
    if (rc == -STATUS_NOT_FOUND && !run->image_was_retried) {
        make_image_again(run);
        return;
    }
    if (rc) {
        fail(run, WORKSPACE_FAILURE(IMAGE_PULL), err.text);
        return;
    }
    if (workspace_start_environment(run, &err)) {
        fail(run, WORKSPACE_FAILURE(RUN_CONTAINER), err.text);
        return;
    }
    start_sandbox(run);
}

static void on_image(struct image_waiter *waiter, const struct image_result *result)
{
    struct workspace_run *run = waiter->context;
    run->image_waiter = NULL;
    free(waiter);
    if (result->failure.message) {
        workspace_stop_failed(run, &result->failure);
        return;
    }
    (void)snprintf(run->image_id, sizeof run->image_id, "%s", result->id);
    use_image(run);
}

static void request_image(struct workspace_run *run)
{
    struct image_waiter *waiter = calloc(1, sizeof *waiter);
    const struct workspace_secrets secrets = workspace_secrets_of(run);
    const struct image_request request = {
        .image = run->spec->image,
        .key = run->image_key,
        .is_forced = run->is_build,
        .secrets = &secrets,
    };
    struct error err = {0};
    if (!waiter) {
        fail(run, WORKSPACE_FAILURE(IMAGE_BUILD), "The image could not be built: no memory");
        return;
    }
    waiter->done = on_image;
    waiter->log = run->log;
    waiter->context = run;
    run->image_waiter = waiter;
    workspace_state state = image_state_of(run->spec->image);
    workspace_run_enter(run, state);
    if (image_table_request(run->gateway->images, &request, waiter, &err)) {
        run->image_waiter = NULL;
        free(waiter);
        fail(run,
             state == WORKSPACE_STATE(PULLING_IMAGE) ? WORKSPACE_FAILURE(IMAGE_PULL)
                                                     : WORKSPACE_FAILURE(IMAGE_BUILD),
             err.text);
    }
}

/* Neither template nor workspace names an image: the configured one. */
static int default_image(struct workspace_run *run, struct error *err)
{
    const char *url = run->gateway->config->default_image;
    if (!url || !url[0]) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "Neither the Template nor the Workspace has an image; set spec.image "
                         "(registry or dockerfile), or 'defaultImage' in the gateway's "
                         "configuration");
    }
    struct arena *arena = &run->spec_arena;
    Cordium__Workspace__Spec__Image *image =
        CODEC_NEW(arena, Cordium__Workspace__Spec__Image, cordium__workspace__spec__image);
    Cordium__Workspace__Spec__Image__Registry *registry =
        CODEC_NEW(arena, Cordium__Workspace__Spec__Image__Registry,
                  cordium__workspace__spec__image__registry);
    if (!image || !registry) {
        return no_room(err);
    }
    registry->url = arena_strdup(arena, url);
    image->type_case = CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY;
    image->registry = registry;
    run->spec->image = image;
    return registry->url ? 0 : no_room(err);
}

int workspace_start_find_image(struct workspace_run *run, bool *ret_is_found, struct error *err)
{
    int rc = 0;
    *ret_is_found = false;
    if (!run->spec->image || run->spec->image->type_case == 0) {
        rc = default_image(run, err);
    }
    rc = rc ? rc : workspace_image_key(run->spec->image, run->image_key, err);
    return rc ? rc : workspace_source_find(run, ret_is_found, err);
}

/* What the workspace had last time, else the template's ready build, else an image that is there,
 * else a new one. */
static void choose_image(struct workspace_run *run)
{
    struct error err = {0};
    bool is_found;
    if (workspace_start_find_image(run, &is_found, &err)) {
        fail(run, WORKSPACE_FAILURE(IMAGE_BUILD), err.text);
    } else if (is_found) {
        use_image(run);
    } else {
        request_image(run);
    }
}

/* --- sandbox --- */

static void on_sandbox(void *context, const struct executor_reply *reply)
{
    struct workspace_run *run = context;
    if (!workspace_run_answered(run)) {
        return; /* a stop asked for its end already, after this request */
    }
    if (reply->err.status) {
        run->has_sandbox = false;
        if (run->is_stopping) {
            workspace_stop_continue(run);
        } else if (reply->err.status == STATUS_NOT_FOUND && !run->image_was_retried) {
            make_image_again(run);
        } else {
            fail(run, WORKSPACE_FAILURE(RUN_CONTAINER), reply->err.text);
        }
        return;
    }
    int proxy_fd = reply->created.proxy_fd;
    if (run->is_stopping) {
        if (proxy_fd >= 0) {
            (void)close(proxy_fd);
        }
        workspace_stop_continue(run);
        return;
    }
    struct error err = {0};
    if (proxy_fd >= 0 && !run->gateway->edge) {
        (void)close(proxy_fd);
    } else if (proxy_fd >= 0 && edge_server_adopt_unix(run->gateway->edge, proxy_fd, &run->identity,
                                                       &run->proxy, &err)) {
        fail(run, WORKSPACE_FAILURE(RUN_CONTAINER), err.text);
        return;
    }
    workspace_run_enter(run, WORKSPACE_STATE(PREPARING));
    workspace_tasks_prepare(run, workspace_start_prepared);
}

static struct executor_limits limits_of(const struct workspace_run *run)
{
    const Cordium__Workspace__Spec__Limit *limit = run->workspace->status->limit;
    const struct executor_host_report *host = executor_link_host(run->gateway->executor);
    struct executor_limits limits = {
        .memory_bytes = (uint64_t)limit->memory->megabytes << 20,
        .disk_bytes = (uint64_t)limit->storage->megabytes << 20,
        .cpu_millicores = limit->cpu->millicores,
        .pids = SANDBOX_PIDS_MAX,
    };
    if (host && host->ceiling.pids > 0 && limits.pids > host->ceiling.pids) {
        limits.pids = host->ceiling.pids;
    }
    return limits;
}

static int choose_storage(struct workspace_run *run, struct error *err)
{
    if (run->is_ephemeral) {
        return workspace_uuid_random(&run->storage, err);
    }
    return workspace_uuid_parse(run->uid, &run->storage)
               ? 0
               : error_set(err, STATUS_INTERNAL, "Workspace uid '%s' is no UUID", run->uid);
}

int workspace_start_describe(struct workspace_run *run, struct executor_sandbox_spec *spec,
                             struct error *err)
{
    const Cordium__Workspace__Spec__Runtime *runtime = run->spec->runtime;
    const Cordium__Workspace__Spec__Runtime__Capabilities *of_cluster =
        run->cluster && run->cluster->spec && run->cluster->spec->workspace &&
                run->cluster->spec->workspace->runtime
            ? run->cluster->spec->workspace->runtime->capabilities
            : NULL;
    const Cordium__Workspace__Spec__Runtime__Capabilities *of_space =
        run->space && run->space->spec && run->space->spec->runtime
            ? run->space->spec->runtime->capabilities
            : NULL;
    int rc = workspace_uuid_random(&run->sandbox, err);
    rc = rc ? rc : choose_storage(run, err);
    rc = rc ? rc
            : workspace_network(runtime ? runtime->network : NULL, &run->spec_arena, &spec->network,
                                err);
    if (rc) {
        return rc;
    }
    spec->id = run->sandbox;
    spec->profile = EXECUTOR_PROFILE_WORKSPACE;
    spec->storage = run->storage;
    spec->storage_from = run->storage_from;
    spec->storage_is_ephemeral = run->is_ephemeral && !run->is_build;
    spec->limits = limits_of(run);
    spec->root_read_only =
        runtime && runtime->filesystem && runtime->filesystem->read_only && !run->is_build;
    spec->uid = run->image.uid;
    spec->gid = run->image.gid;
    spec->home = run->image.home;
    spec->hostname = "";
    spec->capabilities =
        workspace_capabilities(of_cluster, of_space, runtime ? runtime->capabilities : NULL);
    spec->want_proxy_socket = !run->is_build;
    return image_id_parse(run->image_id, &spec->image)
               ? 0
               : error_set(err, STATUS_INTERNAL, "Image id '%s' is no digest", run->image_id);
}

static int note_layers(struct workspace_run *run, const struct executor_sandbox_spec *spec,
                       struct error *err)
{
    return workspace_note_layers(run, spec) ? no_room(err) : 0;
}

static void start_sandbox(struct workspace_run *run)
{
    struct error err = {0};
    struct executor_sandbox_spec spec = {0};
    workspace_run_enter(run, WORKSPACE_STATE(STARTING_RUNTIME));
    struct executor_client *client = executor_link_client(run->gateway->executor, &err);
    if (!client || workspace_start_describe(run, &spec, &err) || note_layers(run, &spec, &err) ||
        executor_sandbox_create(client, &spec, (struct executor_callback){on_sandbox, run}, &err)) {
        fail(run, WORKSPACE_FAILURE(RUN_CONTAINER), err.text);
        return;
    }
    run->has_sandbox = true;
    run->pending++;
}

/* --- the end of the start --- */

/* Of an ephemeral workspace nothing has to outlive a crash: it would be stopped all the same. */
static int store_running(struct workspace_run *run, struct workspace_change *change,
                         struct error *err)
{
    struct store *store = run->gateway->store;
    if (run->is_ephemeral) {
        return workspace_change_apply(run, change, false, err);
    }
    int rc = store_begin(store, err);
    if (rc) {
        workspace_change_abandon(change);
        return rc;
    }
    rc = workspace_change_apply(run, change, true, err);
    rc = rc ? rc : workspace_source_remember(run, err);
    return store_end(store, rc, err);
}

void workspace_start_prepared(struct workspace_run *run, const struct workspace_failure *failure)
{
    struct workspace_change change;
    struct error err = {0};
    if (failure) {
        workspace_stop_failed(run, failure);
        return;
    }
    workspace_change_begin(run, &change);
    if (!change.has_failed) {
        change.has_failed = workspace_enter(change.next, WORKSPACE_STATE(RUNNING), change.wall_ns,
                                            &change.arena) != 0;
    }
    if (store_running(run, &change, &err)) {
        fail(run, WORKSPACE_FAILURE(SAVE_STORAGE), "The state could not be stored");
        return;
    }
    run->was_running = true;
    workspace_record_running(run);
    workspace_run_touch(run);
    workspace_run_settle(run, true);
    bool stops_itself = run->spec->runtime && run->spec->runtime->auto_stop;
    if (run->is_build || stops_itself) {
        workspace_stop(run, WORKSPACE_STOPPING(CLUSTER));
    }
}
