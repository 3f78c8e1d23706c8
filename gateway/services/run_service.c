#include "gateway/services/run_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/ext.pb-c.h"
#include "gateway/authorize/authorize.h"
#include "gateway/config.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/limits.h"
#include "gateway/services/oneshot.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/run_compare.h"
#include "gateway/services/workspace_run.h"
#include "gateway/state/resource.h"

enum {
    FACTS_MAX_BYTES = 4096,
    REQUEST_WIRE_MAX_BYTES = 16 * 1024 * 1024,
    JUDGE_ARENA_MAX_BYTES = 16 << 20
};

/* A request that waits for a run; freed when the request is gone. */
struct run_wait {
    struct oneshot_waiter waiter; /* first */
    struct request *request;
    struct oneshot *run; /* NULL once it has ended */
    bool is_stream;
    bool is_repeated;
    const Ext__RunResult *before; /* of the run that is run again; NULL: none is */
};

struct str run_service_alias(struct str path)
{
    return str_is(path, "/v1/run") ? STR("/cordium.ext.v1.RunService/Run") : STR_NONE;
}

/* From resolve to handle, as the request's state. */
struct run_intent {
    const Ext__RunRequest *request; /* the message, or what a former run was asked */
    const Ext__RunResult *before;   /* of the run that is run again; NULL: none is */
    struct oneshot_plan plan;
};

static const Ext__RunRequest *message_of(const struct request *r)
{
    const struct run_intent *intent = r->state;
    return intent->request;
}

/* --- resolve --- */

static int find_template(struct request *r, struct error *err)
{
    Meta__ObjectReference ref = META__OBJECT_REFERENCE__INIT;
    char *text = message_of(r)->template_;
    if (resource_uid_is_valid(str_from(text))) {
        ref.uid = text;
    } else {
        ref.name = text;
    }
    return access_template_by_ref(r, &ref, err);
}

static int plan(struct request *r, struct arena *arena, struct oneshot_plan *ret, struct error *err)
{
    Cordium__ClusterConfig *cluster;
    int rc = oneshot_plan_program(message_of(r), arena, ret, err);
    rc = rc ? rc : access_cluster_config(r, &cluster, err);
    if (rc) {
        return rc;
    }
    const struct oneshot_surroundings around = {
        .template_ = r->touched.template_,
        .space = r->touched.space,
        .cluster = cluster,
        .host = executor_link_host(r->gateway->executor),
        .output_bytes_max = r->gateway->config->output_bytes_max,
    };
    return oneshot_plan_limits(message_of(r)->limits, &around, ret, err);
}

static int describe_limits(const struct oneshot_plan *plan, struct arena *arena,
                           struct run_request *run)
{
    struct run_limit *limits = arena_calloc(arena, ONESHOT_LIMIT_COUNT, sizeof *limits);
    for (size_t i = 0; limits && i < ONESHOT_LIMIT_COUNT; i++) {
        const struct oneshot_limit *l = &plan->limits[i];
        limits[i] = (struct run_limit){l->name, l->value, limit_source_name(l->set_by)};
    }
    run->limits = limits;
    run->limit_count = limits ? ONESHOT_LIMIT_COUNT : 0;
    run->limit = oneshot_plan_limit_message(plan, arena);
    return limits && run->limit ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

/* What the policy sees as ctx.run, and the audit log. */
static int describe(struct request *r, const struct oneshot_plan *plan, struct error *err)
{
    const Ext__RunRequest *request = message_of(r);
    struct run_request *run = arena_zalloc(&r->arena, sizeof *run);
    const char **names = arena_calloc(&r->arena, request->n_env, sizeof *names);
    if (!run || !names) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request is too large");
    }
    for (size_t i = 0; i < request->n_env; i++) {
        names[i] = request->env[i]->key;
    }
    run->command = plan->text;
    memcpy(run->command_sha256, plan->text_sha256, sizeof run->command_sha256);
    run->working_dir = request->working_dir;
    run->as_root = request->run_as_root;
    run->has_stdin = request->stdin[0] || request->stdin_bytes.len > 0;
    run->env_names = names;
    run->env_name_count = request->n_env;
    r->run = run;
    return describe_limits(plan, &r->arena, run) == 0
               ? 0
               : error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request is too large");
}

static int resolve(struct request *r, struct run_intent *intent, struct error *err)
{
    r->state = intent;
    int rc = find_template(r, err);
    rc = rc ? rc : plan(r, &r->arena, &intent->plan, err);
    return rc ? rc : describe(r, &intent->plan, err);
}

static struct run_intent *new_intent(struct request *r, struct error *err)
{
    struct run_intent *intent = arena_zalloc(&r->arena, sizeof *intent);
    if (!intent) {
        (void)error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request is too large");
    }
    return intent;
}

int run_resolve(struct request *r, struct error *err)
{
    struct run_intent *intent = new_intent(r, err);
    if (!intent) {
        return -err->status;
    }
    intent->request = (const Ext__RunRequest *)r->message;
    return resolve(r, intent, err);
}

/* What that run was asked, as if the caller asked it now. */
static int take_inputs(struct run_intent *intent, Ext__RunResult *kept, struct error *err)
{
    static char nothing[1];
    if (!kept->inputs) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "The inputs of run '%s' were not kept; that is done for runs which begin "
                         "when the gateway's setting runs.keepInputs is on",
                         kept->run_id);
    }
    Ext__RunRequest *request = kept->inputs;
    kept->inputs = NULL;
    request->idempotency_key = nothing;
    request->cancel_on_disconnect = false;
    intent->request = request;
    intent->before = kept;
    return 0;
}

int run_replay_resolve(struct request *r, struct error *err)
{
    const Ext__ReplayRunRequest *message = (const Ext__ReplayRunRequest *)r->message;
    Ext__RunResult *kept;
    const char *owner = actor_is_admin(&r->actor) ? NULL : access_user_uid(r);
    struct run_intent *intent = new_intent(r, err);
    if (!intent) {
        return -err->status;
    }
    int rc = oneshot_table_load_whole(r->gateway->oneshots, message->run_id, owner, &r->arena,
                                      &kept, err);
    rc = rc ? rc : take_inputs(intent, kept, err);
    return rc ? rc : resolve(r, intent, err);
}

/* --- the wait --- */

static void put_facts(struct request *r, const Ext__RunResult *result)
{
    struct buf facts;
    buf_init(&facts, FACTS_MAX_BYTES);
    oneshot_write_facts(result, &facts);
    if (!facts.failed) {
        request_set_outcome(r, buf_str(&facts));
    }
    buf_free(&facts);
}

static void answer(struct request *r, const Ext__RunResult *result, bool is_stream,
                   bool is_repeated)
{
    Ext__RunResult copy = *result; /* only the mark differs */
    copy.is_repeated = is_repeated;
    put_facts(r, result);
    if (!is_stream) {
        request_reply(r, &copy.base);
        return;
    }
    Ext__RunEvent event = EXT__RUN_EVENT__INIT;
    event.type_case = EXT__RUN_EVENT__TYPE_RESULT;
    event.result = &copy;
    (void)request_send(r, &event.base);
    request_finish(r);
}

static void answer_replay(struct request *r, const Ext__RunResult *before,
                          const Ext__RunResult *result)
{
    Ext__ReplayRunResponse *m =
        CODEC_NEW(&r->arena, Ext__ReplayRunResponse, ext__replay_run_response);
    put_facts(r, result);
    if (!m || run_compare(before, result, &r->arena, m) < 0) {
        request_fail_memory(r);
        return;
    }
    Ext__RunResult copy = *result;
    m->result = &copy;
    m->replayed_run_id = before->run_id;
    request_reply(r, &m->base);
}

static void on_ended(struct oneshot_waiter *waiter, const Ext__RunResult *result,
                     const struct error *err)
{
    struct run_wait *wait = (struct run_wait *)waiter;
    wait->run = NULL;
    if (request_is_over(wait->request)) {
        return;
    }
    if (result && wait->before) {
        answer_replay(wait->request, wait->before, result);
    } else if (result) {
        answer(wait->request, result, wait->is_stream, wait->is_repeated);
    } else {
        request_fail(wait->request, err);
    }
}

static void on_output(struct oneshot_waiter *waiter, enum exec_stream stream, struct str bytes)
{
    struct run_wait *wait = (struct run_wait *)waiter;
    Ext__RunEvent event = EXT__RUN_EVENT__INIT;
    Ext__RunResult__Chunk chunk = EXT__RUN_RESULT__CHUNK__INIT;
    struct arena arena;
    if (request_is_over(wait->request)) {
        return;
    }
    arena_init(&arena, 1024 * 1024);
    if (oneshot_text_or_data(bytes, &arena, &chunk.text, &chunk.data) == 0) {
        chunk.stream = stream == EXEC_STDOUT ? EXT__RUN_RESULT__CHUNK__STREAM__STDOUT
                                             : EXT__RUN_RESULT__CHUNK__STREAM__STDERR;
        event.type_case = EXT__RUN_EVENT__TYPE_OUTPUT;
        event.output = &chunk;
        /* A slow reader costs at most the limits of both streams. */
        (void)request_send(wait->request, &event.base);
    }
    arena_free(&arena);
}

static void on_gone(struct request *r)
{
    struct run_wait *wait = r->state;
    char who[128];
    r->state = NULL;
    if (!wait) {
        return;
    }
    if (wait->run) {
        (void)snprintf(who, sizeof who, "User '%.60s', whose %s", access_user_name(r),
                       r->end == CALL_END_WITHDRAWN ? "Session ended" : "client went away");
        oneshot_leave(wait->run, &wait->waiter, who);
    }
    free(wait);
}

/* --- start --- */

static int check_quota(struct request *r, struct error *err)
{
    Cordium__ClusterConfig *cluster;
    int rc = access_cluster_config(r, &cluster, err);
    if (rc) {
        return rc;
    }
    const char *user = access_user_uid(r);
    uint32_t max =
        limit_quota_active_workspaces(cluster, r->gateway->config->active_workspaces_per_user_max);
    unsigned count = workspace_run_count_of(r->gateway->workspaces, user) +
                     oneshot_table_count_of(r->gateway->oneshots, user);
    if (count >= max) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "Maximum limit of active Workspaces and Runs exceeded: %u of %u. Wait for "
                         "one to end, or ask an administrator to raise "
                         "spec.workspace.limit.maxActivePerUser of the ClusterConfig",
                         count, max);
    }
    return 0;
}

static int compare_env(const void *a, const void *b)
{
    const Ext__RunRequest__EnvEntry *const *x = a;
    const Ext__RunRequest__EnvEntry *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

/* The same for the same request: a map's entries come in any order. */
static int hash_request(const Ext__RunRequest *request, struct arena *arena, char ret[65],
                        struct error *err)
{
    Ext__RunRequest copy = *request;
    struct buf wire;
    copy.cancel_on_disconnect = false; /* how one waits is not what one wants */
    copy.env = arena_calloc(arena, copy.n_env + 1, sizeof(Ext__RunRequest__EnvEntry *));
    if (!copy.env) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request is too large");
    }
    if (copy.n_env > 0) {
        memcpy(copy.env, request->env, copy.n_env * sizeof(Ext__RunRequest__EnvEntry *));
        qsort(copy.env, copy.n_env, sizeof(Ext__RunRequest__EnvEntry *), compare_env);
    }
    buf_init(&wire, REQUEST_WIRE_MAX_BYTES);
    int rc = codec_encode_wire(&copy.base, &wire, err);
    if (!rc) {
        token_sha256_hex(buf_str(&wire), ret);
    }
    buf_free(&wire);
    return rc;
}

static int check_same(const char *before, const char *now, const char *id, struct error *err)
{
    return strcmp(before, now) == 0
               ? 0
               : error_set(err, STATUS_ALREADY_EXISTS,
                           "idempotencyKey was used before for another request (run %s); use "
                           "another key",
                           id);
}

/* The run that has the key, live or kept. Both NULL: it is free. */
static int find_by_key(struct request *r, const char *sha256, struct oneshot **ret_live,
                       Ext__RunResult **ret_kept, struct error *err)
{
    char name[80];
    const char *key = message_of(r)->idempotency_key;
    *ret_live = NULL;
    *ret_kept = NULL;
    if (!key[0]) {
        return 0;
    }
    oneshot_key_name(access_user_uid(r), key, name);
    *ret_live = oneshot_table_find_name(r->gateway->oneshots, name);
    if (*ret_live) {
        return check_same((*ret_live)->request_sha256, sha256, (*ret_live)->id, err);
    }
    struct error ignored;
    int rc = oneshot_table_load_name(r->gateway->oneshots, name, &r->arena, ret_kept, &ignored);
    if (rc == -STATUS_NOT_FOUND) {
        return 0;
    }
    return rc ? error_set(err, ignored.status, "%s", ignored.text)
              : check_same((*ret_kept)->request_sha256, sha256, (*ret_kept)->run_id, err);
}

static int start(struct request *r, const struct oneshot_plan *p, const char *sha256,
                 struct oneshot **ret, struct error *err)
{
    struct oneshot_order order = {
        .request = message_of(r),
        .plan = p,
        .user = r->actor.user,
        .space = r->touched.space,
        .template_ = r->touched.template_,
    };
    (void)snprintf(order.request_sha256, sizeof order.request_sha256, "%s", sha256);
    int rc = access_store_default(r, err);
    rc = rc ? rc : check_quota(r, err);
    rc = rc ? rc : oneshot_new(r->gateway, &order, ret, err);
    if (rc) {
        return rc;
    }
    rc = oneshot_table_insert(r->gateway->oneshots, *ret, message_of(r)->idempotency_key, err);
    if (rc) {
        oneshot_discard(*ret);
    }
    return rc;
}

static void send_started(struct request *r, const char *id)
{
    Ext__RunEvent event = EXT__RUN_EVENT__INIT;
    Ext__RunEvent__Started started = EXT__RUN_EVENT__STARTED__INIT;
    started.run_id = (char *)(uintptr_t)id; /* only read by the encoder */
    event.type_case = EXT__RUN_EVENT__TYPE_STARTED;
    event.started = &started;
    (void)request_send(r, &event.base);
}

/* For the request's last line in the audit log, in case it ends before the run. */
static void note_run(struct request *r, const char *id)
{
    char facts[64];
    (void)snprintf(facts, sizeof facts, "{\"runId\":\"%s\"}", id);
    request_set_outcome(r, str_from(facts));
}

static void handle(struct request *r, bool is_stream)
{
    const struct run_intent *intent = r->state;
    struct error err = {0};
    char sha256[65];
    struct oneshot *run = NULL;
    Ext__RunResult *kept = NULL;
    int rc = hash_request(intent->request, &r->arena, sha256, &err);
    rc = rc ? rc : find_by_key(r, sha256, &run, &kept, &err);
    if (!rc && kept) {
        answer(r, kept, is_stream, true);
        return;
    }
    bool is_repeated = !rc && run;
    struct run_wait *wait = rc ? NULL : calloc(1, sizeof *wait);
    if (!rc && !wait) {
        rc = error_set(&err, STATUS_RESOURCE_EXHAUSTED, "begin a run: no memory");
    }
    if (!rc && !run) {
        rc = start(r, &intent->plan, sha256, &run, &err);
    }
    if (rc) {
        r->state = NULL;
        free(wait);
        request_fail(r, &err);
        return;
    }
    *wait = (struct run_wait){.waiter = {.output = is_stream ? on_output : NULL,
                                         .ended = on_ended,
                                         .cancels = intent->request->cancel_on_disconnect},
                              .request = r,
                              .run = run,
                              .is_stream = is_stream,
                              .is_repeated = is_repeated,
                              .before = intent->before};
    r->state = wait;
    r->on_gone = on_gone;
    call_add_header(r->call, "x-run-id", str_from(run->id));
    note_run(r, run->id);
    if (is_stream) {
        send_started(r, run->id);
    }
    oneshot_join(run, &wait->waiter);
    if (!is_repeated) {
        oneshot_begin(run);
    }
}

void run_handle(struct request *r)
{
    handle(r, false);
}

void run_stream_handle(struct request *r)
{
    handle(r, true);
}

/* What may not be run may not be run again: the policies are asked as for a Run with these inputs,
 * too. */
static int judge_as_run(struct request *r, struct error *err)
{
    struct decision decision = {0};
    struct request run = *r;
    run.method = method_find(STR("/cordium.ext.v1.RunService/Run"));
    run.message = &message_of(r)->base;
    arena_init(&run.arena, JUDGE_ARENA_MAX_BYTES);
    authorize_explain(&run, NULL, &decision, err);
    arena_free(&run.arena);
    return decision.is_allowed ? 0 : -err->status;
}

void run_replay_handle(struct request *r)
{
    struct error err = {0};
    if (judge_as_run(r, &err)) {
        r->state = NULL;
        request_fail(r, &err);
        return;
    }
    handle(r, false);
}

/* --- kept and live runs --- */

static struct oneshot *find_live(struct request *r, const char *id)
{
    struct oneshot *run = oneshot_table_find(r->gateway->oneshots, id);
    return run && strcmp(run->owner_uid, access_user_uid(r)) == 0 ? run : NULL;
}

void run_get_handle(struct request *r)
{
    const Ext__GetRunRequest *message = (const Ext__GetRunRequest *)r->message;
    struct error err = {0};
    Ext__RunResult *result = NULL;
    const struct oneshot *run = find_live(r, message->run_id);
    if (run) {
        request_reply(r, (ProtobufCMessage *)oneshot_result(run, &r->arena));
        return;
    }
    if (oneshot_table_load(r->gateway->oneshots, message->run_id, access_user_uid(r), &r->arena,
                           &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &result->base);
}

void run_list_handle(struct request *r)
{
    const Ext__ListRunsRequest *message = (const Ext__ListRunsRequest *)r->message;
    Ext__ListRunsResponse answer = EXT__LIST_RUNS_RESPONSE__INIT;
    struct error err = {0};
    if (oneshot_table_list(r->gateway->oneshots, access_user_uid(r), message->is_active,
                           message->count_max, &r->arena, &answer, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &answer.base);
}

void run_cancel_handle(struct request *r)
{
    const Ext__CancelRunRequest *message = (const Ext__CancelRunRequest *)r->message;
    Ext__CancelRunResponse answer = EXT__CANCEL_RUN_RESPONSE__INIT;
    struct error err = {0};
    Ext__RunResult *result;
    char who[128];
    struct oneshot *run = find_live(r, message->run_id);
    if (run) {
        (void)snprintf(who, sizeof who, "User '%.60s'", access_user_name(r));
        answer.is_cancelled = oneshot_cancel(run, who);
    } else if (oneshot_table_load(r->gateway->oneshots, message->run_id, access_user_uid(r),
                                  &r->arena, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, &answer.base);
}
