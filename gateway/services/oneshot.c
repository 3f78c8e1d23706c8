#include "gateway/services/oneshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/oneshot_program.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/workspace_run.h"
#include "gateway/services/workspace_secret.h"
#include "gateway/services/workspace_start.h"
#include "gateway/state/resource.h"
#include "gateway/telemetry/metrics.h"

enum {
    ONESHOT_ARENA_MAX_BYTES = 96 * 1024 * 1024,
    FACTS_MAX_BYTES = 8192,
    SANDBOX_EXTRA_BYTES = 16 * 1024 * 1024, /* for init and cordium-files beside the program */
    SANDBOX_EXTRA_PIDS = 8,
};

/* --- life --- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct oneshot *o = handle->data;
    if (--o->open_timers > 0) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        oneshot_output_free(&o->helper[i]);
        oneshot_output_free(&o->output[i]);
    }
    buf_free(&o->merged);
    if (o->place) {
        workspace_start_discard(o->place);
    }
    arena_free(&o->arena);
    free(o);
}

/* Frees when nothing of the executor is due any more. */
void oneshot_free_when_over(struct oneshot *o)
{
    if (!o->is_over || o->pending > 0 || uv_is_closing((uv_handle_t *)&o->wall_timer)) {
        return;
    }
    oneshot_table_remove(o->gateway->oneshots, o);
    uv_close((uv_handle_t *)&o->wall_timer, on_timer_closed);
    uv_close((uv_handle_t *)&o->watch_timer, on_timer_closed);
}

void oneshot_discard(struct oneshot *o)
{
    o->is_over = true;
    oneshot_free_when_over(o);
}

static void on_destroyed(void *context, const struct executor_reply *reply)
{
    struct oneshot *o = context;
    (void)reply; /* a lost executor takes it down itself, or is told to when it comes back */
    o->pending--;
    oneshot_free_when_over(o);
}

static void end(struct oneshot *o)
{
    struct executor_client *client = executor_link_client(o->gateway->executor, NULL);
    (void)uv_timer_stop(&o->wall_timer);
    (void)uv_timer_stop(&o->watch_timer);
    if (o->has_sandbox && client &&
        executor_sandbox_destroy(client, &o->sandbox.id, true,
                                 (struct executor_callback){on_destroyed, o}, NULL) == 0) {
        o->pending++;
    }
    o->has_sandbox = false;
    o->is_over = true;
    oneshot_free_when_over(o);
}

static void tell(struct oneshot *o, const Ext__RunResult *result, const struct error *err)
{
    o->is_told = true;
    while (o->waiters) {
        struct oneshot_waiter *waiter = o->waiters;
        o->waiters = waiter->next;
        waiter->ended(waiter, result, err);
    }
}

/* The program was not started, so nothing has happened and the key is free again. */
void oneshot_fail(struct oneshot *o, const struct error *err)
{
    oneshot_table_forget(o->gateway->oneshots, o);
    tell(o, NULL, err);
    end(o);
}

bool oneshot_fail_when_cancelled(struct oneshot *o)
{
    if (!o->cancelled_by[0]) {
        return false;
    }
    o->outcome = (struct exec_outcome){.kind = EXEC_CANCELLED, .code = -1};
    (void)snprintf(o->outcome.text, sizeof o->outcome.text,
                   "cancelled by %.100s before the program started", o->cancelled_by);
    oneshot_finish(o);
    return true;
}

/* --- image --- */

static void create_sandbox(struct oneshot *o);
static void request_image(struct oneshot *o);

static void make_image_again(struct oneshot *o)
{
    o->image_was_retried = true;
    image_forget_key(o->gateway, o->place->image_key);
    o->place->image_id[0] = '\0';
    request_image(o);
}

static void use_image(struct oneshot *o)
{
    struct error err = {0};
    struct workspace_run *place = o->place;
    int rc =
        image_find_metadata(o->gateway, place->image_id, &place->spec_arena, &place->image, &err);
    if (rc == -STATUS_NOT_FOUND && !o->image_was_retried) {
        make_image_again(o);
        return;
    }
    rc = rc ? rc : workspace_start_environment(place, &err);
    if (rc) {
        oneshot_fail(o, &err);
        return;
    }
    create_sandbox(o);
}

static void on_image(struct image_waiter *waiter, const struct image_result *result)
{
    struct oneshot *o = waiter->context;
    o->image_waiter = NULL;
    free(waiter);
    if (result->failure.message) {
        struct error err;
        error_set(&err, STATUS_FAILED_PRECONDITION, "The image could not be made: %s",
                  result->failure.message);
        oneshot_fail(o, &err);
        return;
    }
    (void)snprintf(o->place->image_id, sizeof o->place->image_id, "%s", result->id);
    use_image(o);
}

static void request_image(struct oneshot *o)
{
    struct error err = {0};
    struct image_waiter *waiter = calloc(1, sizeof *waiter);
    const struct workspace_secrets secrets = workspace_secrets_of(o->place);
    const struct image_request request = {
        .image = o->place->spec->image,
        .key = o->place->image_key,
        .secrets = &secrets,
    };
    if (!waiter) {
        error_set(&err, STATUS_RESOURCE_EXHAUSTED, "wait for an image: no memory");
        oneshot_fail(o, &err);
        return;
    }
    waiter->done = on_image;
    waiter->context = o;
    waiter->log = o->place->log;
    o->image_waiter = waiter;
    if (image_table_request(o->gateway->images, &request, waiter, &err)) {
        o->image_waiter = NULL;
        free(waiter);
        oneshot_fail(o, &err);
    }
}

/* --- sandbox --- */

static void on_created(void *context, const struct executor_reply *reply)
{
    struct oneshot *o = context;
    o->pending--;
    if (reply->err.status) {
        o->has_sandbox = false;
        if (reply->err.status == STATUS_NOT_FOUND && !o->image_was_retried && !o->cancelled_by[0]) {
            make_image_again(o);
        } else if (!oneshot_fail_when_cancelled(o)) {
            oneshot_fail(o, &reply->err);
        }
        return;
    }
    if (reply->created.proxy_fd >= 0) {
        (void)close(reply->created.proxy_fd);
    }
    if (!oneshot_fail_when_cancelled(o)) {
        oneshot_run_program(o);
    }
}

/* The program's own limits are those of the caller; the sandbox's are a little wider, so that init
 * and our helper are never what the kernel picks or refuses. */
static void set_limits(struct oneshot *o)
{
    const struct executor_host_report *host = executor_link_host(o->gateway->executor);
    struct executor_limits *limits = &o->sandbox.limits;
    limits->cpu_millicores = (uint32_t)o->plan.limits[ONESHOT_CPU_MILLICORES].value;
    limits->disk_bytes = o->plan.limits[ONESHOT_DISK_MEGABYTES].value << 20;
    uint64_t inodes = o->plan.limits[ONESHOT_INODES].value;
    limits->inodes = inodes ? inodes + ONESHOT_EXTRA_INODES : 0;
    limits->shm_bytes = o->plan.limits[ONESHOT_SHM_MEGABYTES].value << 20;
    limits->memory_bytes =
        (o->plan.limits[ONESHOT_MEMORY_MEGABYTES].value << 20) + SANDBOX_EXTRA_BYTES;
    limits->pids = (uint32_t)o->plan.limits[ONESHOT_PIDS].value + SANDBOX_EXTRA_PIDS;
    if (host && limits->memory_bytes > host->ceiling.memory_bytes) {
        limits->memory_bytes = host->ceiling.memory_bytes;
    }
}

static void create_sandbox(struct oneshot *o)
{
    struct error err = {0};
    struct executor_client *client = executor_link_client(o->gateway->executor, &err);
    int rc = client ? workspace_start_describe(o->place, &o->sandbox, &err) : -err.status;
    if (!rc) {
        o->sandbox.want_proxy_socket = false;
        o->sandbox.storage_is_ephemeral = true;
        set_limits(o);
        rc = executor_sandbox_create(client, &o->sandbox, (struct executor_callback){on_created, o},
                                     &err);
    }
    if (rc) {
        oneshot_fail(o, &err);
        return;
    }
    o->has_sandbox = true;
    o->pending++;
}

/* --- result --- */

int oneshot_record_end(const struct gateway *g, struct audit_run_end *end,
                       const Ext__RunResult *result)
{
    int rc = -STATUS_UNAVAILABLE;
    struct buf facts;
    struct buf line;
    buf_init(&facts, FACTS_MAX_BYTES);
    buf_init(&line, 2 * FACTS_MAX_BYTES);
    oneshot_write_facts(result, &facts);
    end->outcome = buf_str(&facts);
    audit_record_run(end, gateway_wall_ns(g), &line);
    if (!facts.failed && g->audit) {
        rc = audit_log_append(g->audit, &line, NULL, NULL);
    }
    buf_free(&facts);
    buf_free(&line);
    return rc;
}

/* Nobody waits whose own line in the audit log would tell the outcome. */
static void record_end(const struct oneshot *o, const Ext__RunResult *result)
{
    struct audit_run_end end = {
        .owner = o->place->workspace->status ? o->place->workspace->status->user_ref : NULL,
        .space = o->place->space,
        .template_ = o->place->template_,
    };
    (void)oneshot_record_end(o->gateway, &end, result);
}

void oneshot_finish(struct oneshot *o)
{
    struct arena arena;
    struct error err = {0};
    arena_init(&arena, ONESHOT_ARENA_MAX_BYTES);
    o->ended_at_ns = o->ended_at_ns ? o->ended_at_ns : gateway_wall_ns(o->gateway);
    o->is_over = true;
    metrics_add(o->gateway->metrics, METRIC_OUTCOMES, METRIC_OPERATION_RUN,
                exec_outcome_metric(&o->outcome), 0, 1);
    Ext__RunResult *result = oneshot_result(o, &arena);
    if (result) {
        oneshot_table_keep(o->gateway->oneshots, o, result);
        if (!o->waiters) {
            record_end(o, result);
        }
        tell(o, result, NULL);
    } else {
        oneshot_table_forget(o->gateway->oneshots, o);
        error_set(&err, STATUS_RESOURCE_EXHAUSTED, "The result of the run is too large");
        tell(o, NULL, &err);
    }
    arena_free(&arena);
    end(o);
}

/* --- who waits --- */

static void catch_up(struct oneshot *o, struct oneshot_waiter *waiter)
{
    for (int stream = EXEC_STDOUT; stream <= EXEC_STDERR; stream++) {
        struct arena arena;
        arena_init(&arena, ONESHOT_ARENA_MAX_BYTES);
        struct str bytes = oneshot_output_all(&o->output[stream], &arena);
        bytes = bytes.len > 0 ? bytes : buf_str(&o->output[stream].head);
        while (bytes.len > 0) {
            const size_t n = bytes.len < EXEC_OUTPUT_MESSAGE_MAX_BYTES
                                 ? bytes.len
                                 : (size_t)EXEC_OUTPUT_MESSAGE_MAX_BYTES;
            waiter->output(waiter, (enum exec_stream)stream, str_make(bytes.ptr, n));
            bytes = str_make(bytes.ptr + n, bytes.len - n);
        }
        arena_free(&arena);
    }
}

void oneshot_join(struct oneshot *o, struct oneshot_waiter *waiter)
{
    waiter->next = o->waiters;
    o->waiters = waiter;
    o->stays = o->stays || !waiter->cancels;
    if (waiter->output) {
        catch_up(o, waiter);
    }
}

void oneshot_leave(struct oneshot *o, struct oneshot_waiter *waiter, const char *who)
{
    for (struct oneshot_waiter **at = &o->waiters; *at; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    }
    if (!o->waiters && !o->stays) {
        (void)oneshot_cancel(o, who);
    }
}

bool oneshot_cancel(struct oneshot *o, const char *who)
{
    if (o->is_told || o->is_over || o->outcome.has_event) {
        return false;
    }
    if (!o->cancelled_by[0]) {
        (void)snprintf(o->cancelled_by, sizeof o->cancelled_by, "%s", who);
    }
    if (o->exec) {
        exec_run_kill(o->exec, EXECUTOR_KILL_CANCELLED);
    } else if (o->image_waiter) {
        struct image_waiter *waiter = o->image_waiter;
        o->image_waiter = NULL;
        image_table_forget(o->gateway->images, waiter);
        free(waiter);
        (void)oneshot_fail_when_cancelled(o);
    }
    return true;
}

/* --- begin --- */

/* A workspace that is nowhere, for the steps that a start and a run have in common. */
static int make_place(struct oneshot *o, const struct oneshot_order *order, struct error *err)
{
    Cordium__Workspace workspace = CORDIUM__WORKSPACE__INIT;
    Cordium__Workspace__Spec spec = CORDIUM__WORKSPACE__SPEC__INIT;
    Cordium__Workspace__Status status = CORDIUM__WORKSPACE__STATUS__INIT;
    Cordium__Workspace__Spec__Image image = CORDIUM__WORKSPACE__SPEC__IMAGE__INIT;
    Cordium__Workspace__Spec__Image__Registry registry =
        CORDIUM__WORKSPACE__SPEC__IMAGE__REGISTRY__INIT;
    Meta__Metadata metadata = META__METADATA__INIT;
    metadata.uid = o->id;
    metadata.name = o->id;
    registry.url = o->request->image;
    image.type_case = CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY;
    image.registry = &registry;
    spec.image = o->request->image[0] ? &image : NULL;
    spec.is_ephemeral = true;
    status.user_ref = resource_ref(&order->user->base, &o->arena);
    status.limit = oneshot_plan_limit_message(&o->plan, &o->arena);
    spec.limit = status.limit;
    workspace.metadata = &metadata;
    workspace.spec = &spec;
    workspace.status = &status;
    o->place = status.user_ref && status.limit ? workspace_run_new(o->gateway, &workspace) : NULL;
    if (!o->place) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The run's request is too large");
    }
    const struct workspace_start start = {
        .workspace = o->place->workspace,
        .template_ = order->template_,
        .space = order->space,
        .user = order->user,
    };
    return workspace_start_prepare(o->place, &start, err);
}

static int fill(struct oneshot *o, const struct oneshot_order *order, struct error *err)
{
    int rc = resource_uuid_v4(o->id, err);
    if (rc) {
        return rc;
    }
    (void)snprintf(o->owner_uid, sizeof o->owner_uid, "%s", order->user->metadata->uid);
    memcpy(o->request_sha256, order->request_sha256, sizeof o->request_sha256);
    o->request = CODEC_COPY(&o->arena, Ext__RunRequest, order->request);
    if (!o->request) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The run's request is too large");
    }
    rc = oneshot_plan_program(o->request, &o->arena, &o->plan, err);
    if (rc) {
        return rc;
    }
    memcpy(o->plan.limits, order->plan->limits, sizeof o->plan.limits);
    oneshot_output_init(&o->output[EXEC_STDOUT],
                        (size_t)o->plan.limits[ONESHOT_STDOUT_BYTES].value);
    oneshot_output_init(&o->output[EXEC_STDERR],
                        (size_t)o->plan.limits[ONESHOT_STDERR_BYTES].value);
    return make_place(o, order, err);
}

int oneshot_new(struct gateway *g, const struct oneshot_order *order, struct oneshot **ret,
                struct error *err)
{
    struct oneshot *o = calloc(1, sizeof *o);
    if (!o) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "begin a run: no memory");
    }
    o->gateway = g;
    arena_init(&o->arena, ONESHOT_ARENA_MAX_BYTES);
    buf_init(&o->merged, CALL_MESSAGE_MAX_BYTES);
    (void)uv_timer_init(g->loop, &o->wall_timer);
    (void)uv_timer_init(g->loop, &o->watch_timer);
    o->wall_timer.data = o->watch_timer.data = o;
    o->open_timers = 2;
    int rc = executor_link_client(g->executor, err) ? fill(o, order, err) : -STATUS_UNAVAILABLE;
    if (rc) {
        oneshot_discard(o);
        return rc;
    }
    *ret = o;
    return 0;
}

void oneshot_begin(struct oneshot *o)
{
    struct error err = {0};
    bool is_found;
    if (workspace_start_find_image(o->place, &is_found, &err)) {
        oneshot_fail(o, &err);
    } else if (is_found) {
        use_image(o);
    } else {
        request_image(o);
    }
}
