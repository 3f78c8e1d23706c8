#include "gateway/services/exec_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/edge/call.h"
#include "gateway/gateway.h"
#include "gateway/identity/token.h"
#include "gateway/services/exec_run.h"
#include "gateway/services/workspace_access.h"
#include "gateway/services/workspace_run.h"
#include "gateway/telemetry/metrics.h"

enum { FACTS_MAX_BYTES = 2048 };

/* A command and its stream; freed when both are over. */
struct exec_call {
    struct request *request;
    struct gateway *gateway;
    struct exec_run *run; /* NULL before the start and after the end */
    char workspace_uid[37];
    unsigned
        shell; /* as of the workspace; a workspace may be gone before its commands' ends come */
    bool is_reading_paused;
    bool has_stdin;
    bool is_cancelled; /* the client is gone; the request waits for the program's end */
};

/* --- resolve --- */

static int check_env(const Cordium__ExecRequest__Request *request, struct error *err)
{
    if (request->n_env_vars > EXEC_ENV_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "request.envVars has %zu entries; at most %d are allowed",
                         request->n_env_vars, EXEC_ENV_MAX);
    }
    for (size_t i = 0; i < request->n_env_vars; i++) {
        const char *key = request->env_vars[i]->key;
        size_t n = strlen(key);
        bool is_bad = n == 0 || n > EXEC_ENV_NAME_MAX;
        for (size_t k = 0; k < n && !is_bad; k++) {
            is_bad = key[k] <= ' ' || key[k] == '=' || key[k] == 0x7f;
        }
        if (is_bad) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "request.envVars[%zu].key '%.80s' must be 1 to %d visible ASCII "
                             "characters without '='",
                             i, key, EXEC_ENV_NAME_MAX);
        }
        if (strlen(request->env_vars[i]->value) >
            EXEC_ENV_VALUE_MAX_BYTES - EXEC_ENV_NAME_MAX - 2) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "request.envVars[%zu] '%s' is longer than the kernel takes (128 KiB); "
                             "send it by stdin",
                             i, key);
        }
    }
    return 0;
}

static int check_request(const Cordium__ExecRequest__Request *request, struct error *err)
{
    if (!request->command[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "request.command is empty");
    }
    if (strlen(request->command) > EXEC_COMMAND_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "request.command has %zu bytes; at most %d are allowed. Send the rest by "
                         "stdin",
                         strlen(request->command), EXEC_COMMAND_MAX_BYTES);
    }
    const char *dir = request->working_dir;
    if (dir[0] && (dir[0] != '/' || strlen(dir) > EXEC_WORKING_DIR_MAX)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "request.workingDir '%.100s' must be an absolute path of at most %d bytes",
                         dir, EXEC_WORKING_DIR_MAX);
    }
    return check_env(request, err);
}

/* What the policy sees as ctx.run. */
static int describe_run(struct request *r, const Cordium__ExecRequest__Request *request,
                        struct error *err)
{
    struct run_request *run = arena_zalloc(&r->arena, sizeof *run);
    const char **names = arena_calloc(&r->arena, request->n_env_vars, sizeof *names);
    if (!run || !names) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request is too large");
    }
    for (size_t i = 0; i < request->n_env_vars; i++) {
        names[i] = request->env_vars[i]->key;
    }
    run->command = str_from(request->command);
    token_sha256(run->command, run->command_sha256);
    run->working_dir = request->working_dir;
    run->as_root = request->run_as_root;
    run->has_stdin = request->has_stdin;
    run->env_names = names;
    run->env_name_count = request->n_env_vars;
    r->run = run;
    return 0;
}

int exec_resolve(struct request *r, struct error *err)
{
    const Cordium__ExecRequest *message = (const Cordium__ExecRequest *)r->message;
    if (message->type_case != CORDIUM__EXEC_REQUEST__TYPE_REQUEST) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The first message of an Exec must be `request`");
    }
    int rc = check_request(message->request, err);
    rc = rc ? rc : workspace_access_by_ref(r, message->request->workspace_ref, err);
    return rc ? rc : describe_run(r, message->request, err);
}

/* --- output --- */

static bool send_bytes(struct exec_call *call, enum exec_stream stream, struct str bytes)
{
    Cordium__ExecResponse message = CORDIUM__EXEC_RESPONSE__INIT;
    Cordium__ExecResponse__Stdout out = CORDIUM__EXEC_RESPONSE__STDOUT__INIT;
    Cordium__ExecResponse__Stderr err = CORDIUM__EXEC_RESPONSE__STDERR__INIT;
    /* Only read by the encoder; protobuf-c has no const data. */
    ProtobufCBinaryData data = {bytes.len, (uint8_t *)(uintptr_t)bytes.ptr};
    if (stream == EXEC_STDOUT) {
        message.type_case = CORDIUM__EXEC_RESPONSE__TYPE_STDOUT;
        out.data = data;
        message.stdout = &out;
    } else {
        message.type_case = CORDIUM__EXEC_RESPONSE__TYPE_STDERR;
        err.data = data;
        message.stderr = &err;
    }
    return request_send(call->request, &message.base);
}

static bool on_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct exec_call *call = context;
    return !request_is_over(call->request) && send_bytes(call, stream, bytes);
}

static void on_writable(struct request *r)
{
    struct exec_call *call = r->state;
    if (call && call->run) {
        exec_run_resume_output(call->run);
    }
}

/* --- input --- */

static void on_input_drained(void *context)
{
    struct exec_call *call = context;
    if (call->is_reading_paused && !request_is_over(call->request)) {
        call->is_reading_paused = false;
        call_resume_reading(call->request->call);
    }
}

static void on_message(struct request *r, const ProtobufCMessage *base)
{
    struct exec_call *call = r->state;
    const Cordium__ExecRequest *message = (const Cordium__ExecRequest *)base;
    if (!call || !call->run) {
        return; /* the command has ended; what comes late is dropped */
    }
    switch ((int)message->type_case) {
    case CORDIUM__EXEC_REQUEST__TYPE_WRITE_DATA:
        if (call->has_stdin && message->write_data->data.len > 0 &&
            exec_run_write(call->run, str_make(message->write_data->data.data,
                                               message->write_data->data.len)) &&
            !call->is_reading_paused) {
            call->is_reading_paused = true;
            call_pause_reading(r->call);
        }
        return;
    case CORDIUM__EXEC_REQUEST__TYPE_KILL:
        exec_run_kill(call->run, EXECUTOR_KILL_ASKED);
        return;
    default:
        return; /* a second `request`, or something newer than this program */
    }
}

static void on_half_close(struct request *r)
{
    struct exec_call *call = r->state;
    if (call && call->run) {
        exec_run_close_input(call->run);
    }
}

/* --- end --- */

static void count_exec(struct exec_call *call, int by)
{
    struct workspace_run *run = workspace_run_find(call->gateway->workspaces, call->workspace_uid);
    if (run) {
        run->exec_count += (unsigned)by;
        run->shell = call->shell ? call->shell : run->shell;
        workspace_run_touch(run);
    }
}

/* For the audit record and, when there is still somebody to answer, the trailers. */
static void set_facts(struct request *r, const struct exec_outcome *outcome)
{
    struct buf facts;
    buf_init(&facts, FACTS_MAX_BYTES);
    exec_outcome_write_json(outcome, &facts);
    if (!facts.failed) {
        request_set_outcome(r, buf_str(&facts));
    }
    if (!facts.failed && !request_is_over(r)) {
        call_add_trailer(r->call, "cordium-outcome", str_from(exec_outcome_name(outcome)));
        call_add_trailer(r->call, "cordium-facts", buf_str(&facts));
    }
    buf_free(&facts);
}

static void report(struct exec_call *call, const struct exec_outcome *outcome)
{
    struct request *r = call->request;
    Cordium__ExecResponse message = CORDIUM__EXEC_RESPONSE__INIT;
    Cordium__ExecResponse__Exit end = CORDIUM__EXEC_RESPONSE__EXIT__INIT;
    if (outcome->text[0]) {
        char text[sizeof outcome->text + 16];
        int n = snprintf(text, sizeof text, "cordium: %s\n", outcome->text);
        (void)send_bytes(call, EXEC_STDERR, str_make(text, (size_t)n));
    }
    end.code = outcome->code;
    message.type_case = CORDIUM__EXEC_RESPONSE__TYPE_EXIT;
    message.exit = &end;
    (void)request_send(r, &message.base);
    set_facts(r, outcome);
    request_finish(r);
}

static void on_ended(void *context, const struct exec_outcome *outcome)
{
    struct exec_call *call = context;
    struct request *r = call->request;
    call->run = NULL;
    count_exec(call, -1);
    metrics_add(call->gateway->metrics, METRIC_OUTCOMES, METRIC_OPERATION_EXEC,
                exec_outcome_metric(outcome), 0, 1);
    if (call->is_cancelled) {
        set_facts(r, outcome);
        r->state = NULL;
        free(call);
        request_end_late(r);
    } else if (!request_is_over(r)) {
        report(call, outcome);
    }
}

/* The client or its session is gone. Its command ends too, and then there is something to tell. */
static bool on_cancel(struct request *r)
{
    struct exec_call *call = r->state;
    if (!call->run) {
        return false;
    }
    call->is_cancelled = true;
    exec_run_mute(call->run, r->end_status == STATUS_DEADLINE_EXCEEDED ? EXECUTOR_KILL_DEADLINE
                                                                       : EXECUTOR_KILL_CANCELLED);
    return true;
}

static void on_gone(struct request *r)
{
    struct exec_call *call = r->state;
    if (call && !call->is_cancelled) {
        r->state = NULL;
        free(call);
    }
}

/* --- start --- */

/* The workspace's environment, then the request's. Lives in the request's arena. */
static const char *const *make_env(struct request *r, const struct workspace_run *run,
                                   const Cordium__ExecRequest__Request *request, size_t *ret_count)
{
    struct workspace_env env;
    workspace_env_init(&env, &r->arena);
    size_t room = run->env.count + request->n_env_vars + 2;
    env.entries = arena_calloc(&r->arena, room, sizeof *env.entries);
    if (!env.entries) {
        return NULL;
    }
    env.room = room;
    memcpy(env.entries, run->env.entries, run->env.count * sizeof *env.entries);
    env.count = run->env.count;
    if (request->run_as_root) {
        workspace_env_set(&env, "HOME", "/root");
        workspace_env_set(&env, "USER", "root");
        workspace_env_set(&env, "LOGNAME", "root");
    }
    for (size_t i = 0; i < request->n_env_vars; i++) {
        workspace_env_set(&env, request->env_vars[i]->key, request->env_vars[i]->value);
    }
    *ret_count = env.count;
    return env.has_failed ? NULL : env.entries;
}

static int start(struct request *r, struct exec_call *call, struct workspace_run *run,
                 struct error *err)
{
    const Cordium__ExecRequest__Request *request =
        ((const Cordium__ExecRequest *)r->message)->request;
    size_t env_count = 0;
    const char *const *env = make_env(r, run, request, &env_count);
    if (!env) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The environment is too large");
    }
    const struct exec_run_spec spec = {
        .sandbox = run->sandbox,
        .command = request->command,
        .shell = &call->shell,
        .env = env,
        .env_count = env_count,
        .cwd = request->working_dir[0] ? request->working_dir : WORKSPACE_DIR,
        .uid = request->run_as_root ? 0 : run->image.uid,
        .gid = request->run_as_root ? 0 : run->image.gid,
        .has_stdin = request->has_stdin,
    };
    const struct exec_run_events events = {on_output, on_input_drained, on_ended, call, NULL};
    return exec_run_start(r->gateway, &spec, &events, &call->run, err);
}

void exec_handle(struct request *r)
{
    struct error err = {0};
    const Cordium__Workspace *workspace = r->touched.workspace;
    struct workspace_run *run =
        workspace_run_find(r->gateway->workspaces, workspace->metadata->uid);
    if (!workspace_run_is_ready(run)) {
        request_fail_with(
            r, STATUS_INVALID_ARGUMENT,
            "The Workspace is not ready: %s is %s; start it and wait until it is "
            "RUNNING",
            workspace->metadata->name,
            workspace_state_name(run ? run->workspace->status->state : workspace->status->state));
        return;
    }
    if (!call_can_stream(r->call)) {
        request_fail_with(r, STATUS_UNIMPLEMENTED,
                          "Exec needs a protocol that can stream: gRPC or Connect over HTTP/2");
        return;
    }
    struct exec_call *call = calloc(1, sizeof *call);
    if (!call) {
        request_fail_memory(r);
        return;
    }
    call->request = r;
    call->gateway = r->gateway;
    call->shell = run->shell;
    call->has_stdin = ((const Cordium__ExecRequest *)r->message)->request->has_stdin;
    memcpy(call->workspace_uid, run->uid, sizeof call->workspace_uid);
    if (start(r, call, run, &err)) {
        free(call);
        request_fail(r, &err);
        return;
    }
    count_exec(call, 1);
    r->state = call;
    r->on_message = on_message;
    r->on_half_close = on_half_close;
    r->on_writable = on_writable;
    r->on_cancel = on_cancel;
    r->on_gone = on_gone;
}
