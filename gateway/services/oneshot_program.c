#include "gateway/services/oneshot_program.h"

#include <stdio.h>
#include <string.h>

#include "gateway/edge/call.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/workspace_run.h"
#include "gateway/telemetry/metrics.h"

enum {
    HELPER_OUTPUT_MAX_BYTES = 8 * 1024 * 1024, /* all files with their heads */
    HELPER_WALL_MS = 15000,                    /* helper_says() names it */
    WATCH_MS_MIN = 5,
    WATCH_MS_MAX = 100,
    DISK_FULL_WITHIN_BYTES = 1024 * 1024, /* of a small disk: within an eighth of it */
};

static void start_program(struct oneshot *o);
static void get_files(struct oneshot *o);

/* --- our helper inside --- */

static uint32_t user_of(const struct oneshot *o)
{
    return o->request->run_as_root ? 0 : o->place->image.uid;
}

static uint32_t group_of(const struct oneshot *o)
{
    return o->request->run_as_root ? 0 : o->place->image.gid;
}

static bool on_helper_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct oneshot *o = context;
    oneshot_output_add(&o->helper[stream], bytes);
    return false;
}

static void on_helper_timer(uv_timer_t *timer)
{
    struct oneshot *o = timer->data;
    if (o->exec) {
        exec_run_kill(o->exec, EXECUTOR_KILL_DEADLINE);
    }
}

/* What is put into /workspace belongs to whom that belongs to: the root of a sandbox has no right
 * to write there unless it was given one, and reads it all the same. */
static int start_helper(struct oneshot *o, const char *const *argv, size_t argc, bool puts,
                        void (*ended)(void *context, const struct exec_outcome *outcome),
                        struct error *err)
{
    const struct exec_run_events events = {on_helper_output, NULL, ended, o, NULL};
    const struct exec_run_spec spec = {
        .sandbox = o->sandbox.id,
        .argv = argv,
        .argc = argc,
        .cwd = WORKSPACE_DIR,
        .uid = puts ? o->place->image.uid : user_of(o),
        .gid = puts ? o->place->image.gid : group_of(o),
        .flags = EXECUTOR_RUN_KILL_TREE_ON_EXIT,
        .has_stdin = puts,
    };
    for (int i = 0; i < 2; i++) {
        oneshot_output_free(&o->helper[i]);
        oneshot_output_init(&o->helper[i], i == 0 ? HELPER_OUTPUT_MAX_BYTES : 512);
    }
    (void)uv_timer_start(&o->wall_timer, on_helper_timer, HELPER_WALL_MS, 0);
    return exec_run_start(o->gateway, &spec, &events, &o->exec, err);
}

/* The helper's one line, without its newline. */
static struct str helper_says(struct oneshot *o, const struct exec_outcome *outcome)
{
    struct str text = oneshot_output_all(&o->helper[1], &o->arena);
    while (text.len > 0 && text.ptr[text.len - 1] == '\n') {
        text.len--;
    }
    if (text.len == 0 && outcome->kind == EXEC_TIMED_OUT) {
        return STR("that took more than 15 s");
    }
    return text.len > 0 ? text : str_from(outcome->text);
}

static void on_files_put(void *context, const struct exec_outcome *outcome)
{
    struct oneshot *o = context;
    o->exec = NULL;
    (void)uv_timer_stop(&o->wall_timer);
    if (oneshot_fail_when_cancelled(o)) {
        return;
    }
    if (outcome->kind != EXEC_EXITED || outcome->code != 0) {
        struct error err;
        struct str why = helper_says(o, outcome);
        if (outcome->kind == EXEC_NOT_STARTED) {
            error_set(
                &err, STATUS_FAILED_PRECONDITION,
                "The executor's tools_dir lacks the program that brings files into a sandbox: "
                "%.*s",
                STR_ARG(why));
        } else {
            error_set(&err,
                      outcome->kind == EXEC_LOST ? STATUS_UNAVAILABLE : STATUS_INVALID_ARGUMENT,
                      "The files could not be put into /workspace: %.*s", STR_ARG(why));
        }
        oneshot_fail(o, &err);
        return;
    }
    start_program(o);
}

static struct str bytes_of(const char *text, ProtobufCBinaryData data)
{
    return data.len > 0 ? str_make(data.data, data.len) : str_from(text);
}

void oneshot_run_program(struct oneshot *o)
{
    static const char *const ARGV[] = {ONESHOT_FILES_PROGRAM, "put"};
    const Ext__RunRequest *request = o->request;
    if (request->n_files == 0 && !o->plan.code_file) {
        start_program(o);
        return;
    }
    struct error err = {0};
    struct buf in;
    buf_init(&in, 2 * CALL_MESSAGE_MAX_BYTES);
    for (size_t i = 0; i < request->n_files; i++) {
        const Ext__RunFile *file = request->files[i];
        oneshot_files_write(&in, file->path, file->is_executable, bytes_of(file->text, file->data));
    }
    if (o->plan.code_file) {
        oneshot_files_write(&in, o->plan.code_file, false, o->plan.text);
    }
    int rc = in.failed ? error_set(&err, STATUS_RESOURCE_EXHAUSTED, "The files are too large")
                       : start_helper(o, ARGV, 2, true, on_files_put, &err);
    if (rc) {
        oneshot_fail(o, &err);
    } else {
        (void)exec_run_write(o->exec, buf_str(&in));
        exec_run_close_input(o->exec);
    }
    buf_free(&in);
}

/* --- the program --- */

static void stream_output(struct oneshot *o, enum exec_stream stream, struct str bytes)
{
    uint64_t max =
        o->plan.limits[stream == EXEC_STDOUT ? ONESHOT_STDOUT_BYTES : ONESHOT_STDERR_BYTES].value;
    uint64_t room = max - o->streamed_bytes[stream];
    bytes.len = bytes.len < room ? bytes.len : (size_t)room;
    if (bytes.len == 0) {
        return;
    }
    o->streamed_bytes[stream] += bytes.len;
    if (o->request->merge_output) {
        buf_add_u8(&o->merged, (uint8_t)stream);
        buf_add_counted(&o->merged, bytes);
    }
    for (struct oneshot_waiter *w = o->waiters; w; w = w->next) {
        if (w->output) {
            w->output(w, stream, bytes);
        }
    }
}

/* Never pauses: what is over the limit is counted and dropped. */
static bool on_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct oneshot *o = context;
    oneshot_output_add(&o->output[stream], bytes);
    stream_output(o, stream, bytes);
    const struct oneshot_output *out = &o->output[stream];
    if (o->request->kill_on_output_limit && o->exec &&
        out->total_bytes > out->head_max + out->tail_max) {
        exec_run_kill(o->exec, EXECUTOR_KILL_OUTPUT_LIMIT);
    }
    return false;
}

static void on_grace_timer(uv_timer_t *timer)
{
    struct oneshot *o = timer->data;
    if (o->exec) {
        exec_run_kill(o->exec, EXECUTOR_KILL_DEADLINE);
    }
}

static void on_wall_timer(uv_timer_t *timer)
{
    struct oneshot *o = timer->data;
    if (o->exec) {
        exec_run_terminate(o->exec, (uint32_t)o->plan.limits[ONESHOT_WALL_MS].value);
        (void)uv_timer_start(timer, on_grace_timer, o->plan.limits[ONESHOT_GRACE_MS].value, 0);
    }
}

static void start_wall_timer(struct oneshot *o)
{
    uv_update_time(o->gateway->loop);
    (void)uv_timer_start(&o->wall_timer, on_wall_timer, o->plan.limits[ONESHOT_WALL_MS].value, 0);
}

/* Its time is its own, however long the start took. */
static void on_program_started(void *context)
{
    start_wall_timer(context);
}

static void note_disk(struct oneshot *o, const struct executor_stats *stats)
{
    const uint64_t limit = o->sandbox.limits.disk_bytes;
    const uint64_t within =
        limit / 8 < DISK_FULL_WITHIN_BYTES ? limit / 8 : (uint64_t)DISK_FULL_WITHIN_BYTES;
    o->disk_bytes = stats->disk_bytes;
    if (stats->disk_bytes + within >= limit) {
        o->is_disk_full = true;
    }
    if (stats->disk_limit_inodes > 0 && stats->disk_inodes >= stats->disk_limit_inodes) {
        o->are_inodes_full = true;
    }
}

static void start_watch(struct oneshot *o, uint64_t used_us);

static void on_watched(void *context, const struct executor_reply *reply)
{
    struct oneshot *o = context;
    o->pending--;
    o->is_watching = false;
    if (o->is_running && !reply->err.status) {
        uint64_t used_us = reply->stats.cpu_user_us + reply->stats.cpu_system_us;
        uint64_t max_us = o->plan.limits[ONESHOT_CPU_MS].value * 1000;
        note_disk(o, &reply->stats);
        if (max_us > 0 && used_us >= max_us && o->exec) {
            exec_run_kill(o->exec, EXECUTOR_KILL_CPU_LIMIT);
        } else {
            start_watch(o, used_us);
        }
    }
    oneshot_free_when_over(o);
}

static void on_watch_timer(uv_timer_t *timer)
{
    struct oneshot *o = timer->data;
    struct executor_client *client = executor_link_client(o->gateway->executor, NULL);
    if (o->is_running && !o->is_watching && client &&
        executor_sandbox_stats(client, &o->sandbox.id, (struct executor_callback){on_watched, o},
                               NULL) == 0) {
        o->is_watching = true;
        o->pending++;
    }
}

/* Looks again at the earliest moment at which the limit can be reached. */
static void start_watch(struct oneshot *o, uint64_t used_us)
{
    uint64_t max_us = o->plan.limits[ONESHOT_CPU_MS].value * 1000;
    uint64_t wait_ms = WATCH_MS_MAX;
    if (max_us > 0) {
        uint64_t left_us = max_us > used_us ? max_us - used_us : 0;
        uint64_t soonest_ms = left_us / o->plan.limits[ONESHOT_CPU_MILLICORES].value;
        wait_ms = soonest_ms < wait_ms ? soonest_ms : wait_ms;
    }
    wait_ms = wait_ms < WATCH_MS_MIN ? WATCH_MS_MIN : wait_ms;
    (void)uv_timer_start(&o->watch_timer, on_watch_timer, wait_ms, 0);
}

static void on_last_look(void *context, const struct executor_reply *reply)
{
    struct oneshot *o = context;
    o->pending--;
    if (!reply->err.status) {
        note_disk(o, &reply->stats);
    }
    oneshot_finish(o);
}

static void on_denials_told(void *context, const struct executor_reply *reply)
{
    struct oneshot *o = context;
    (void)reply;
    o->pending--;
    oneshot_free_when_over(o);
}

/* Answers come in their order: what was refused is known before the last look at the usage is. */
static void ask_denials(struct oneshot *o, struct executor_client *client)
{
    if (o->sandbox.network.mode != EXECUTOR_NETWORK_NONE &&
        executor_network_denials(client, &o->sandbox.id,
                                 (struct executor_callback){on_denials_told, o}, NULL) == 0) {
        o->pending++;
    }
}

static void look_last(struct oneshot *o)
{
    struct executor_client *client = executor_link_client(o->gateway->executor, NULL);
    if (client && o->outcome.kind != EXEC_LOST) {
        ask_denials(o, client);
    }
    if (o->outcome.kind == EXEC_LOST || !client ||
        executor_sandbox_stats(client, &o->sandbox.id, (struct executor_callback){on_last_look, o},
                               NULL)) {
        oneshot_finish(o);
        return;
    }
    o->pending++;
}

static void on_program_ended(void *context, const struct exec_outcome *outcome)
{
    struct oneshot *o = context;
    o->exec = NULL;
    o->is_running = false;
    o->outcome = *outcome;
    o->ended_at_ns = gateway_wall_ns(o->gateway);
    (void)uv_timer_stop(&o->wall_timer);
    (void)uv_timer_stop(&o->watch_timer);
    if (outcome->kind == EXEC_CANCELLED && o->cancelled_by[0]) {
        (void)snprintf(o->outcome.text, sizeof o->outcome.text, "cancelled by %.120s",
                       o->cancelled_by);
    }
    if (o->request->n_collect > 0 && outcome->kind != EXEC_LOST &&
        outcome->kind != EXEC_CANCELLED) {
        get_files(o);
    } else {
        look_last(o);
    }
}

static int set_environment(struct oneshot *o, struct workspace_env *env)
{
    const struct workspace_env *from = &o->place->env;
    workspace_env_init(env, &o->arena);
    for (size_t i = 0; i < from->count; i++) {
        const char *eq = strchr(from->entries[i], '=');
        const char *name =
            eq ? arena_strndup(&o->arena, from->entries[i], (size_t)(eq - from->entries[i])) : NULL;
        /* What belongs to a workspace's session is not there. */
        if (name && strncmp(name, "OCTELIUM_", 9) != 0 && strncmp(name, "CORDIUM_", 8) != 0) {
            workspace_env_set(env, name, eq + 1);
        }
    }
    const struct oneshot_limit *limits = o->plan.limits;
    const struct {
        const char *name;
        unsigned long long value;
    } numbers[] = {
        {"SANDBOX_MEMORY_BYTES", limits[ONESHOT_MEMORY_MEGABYTES].value << 20},
        {"SANDBOX_CPU_MILLICORES", limits[ONESHOT_CPU_MILLICORES].value},
        {"SANDBOX_PIDS", limits[ONESHOT_PIDS].value},
        {"SANDBOX_WALL_MS", limits[ONESHOT_WALL_MS].value},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *text = arena_printf(&o->arena, "%llu", numbers[i].value);
        workspace_env_set(env, numbers[i].name, text ? text : "");
    }
    workspace_env_set(env, "CORDIUM_RUN_ID", o->id);
    if (o->request->run_as_root) {
        workspace_env_set(env, "HOME", "/root");
        workspace_env_set(env, "USER", "root");
        workspace_env_set(env, "LOGNAME", "root");
    }
    for (size_t i = 0; i < o->request->n_env; i++) {
        workspace_env_set(env, o->request->env[i]->key, o->request->env[i]->value);
    }
    return env->has_failed ? -STATUS_RESOURCE_EXHAUSTED : 0;
}

static void start_program(struct oneshot *o)
{
    struct error err = {0};
    struct workspace_env env;
    const Ext__RunRequest *request = o->request;
    struct str input = bytes_of(request->stdin, request->stdin_bytes);
    int rc = set_environment(o, &env)
                 ? error_set(&err, STATUS_RESOURCE_EXHAUSTED, "The environment is too large")
                 : 0;
    const struct exec_run_spec spec = {
        .sandbox = o->sandbox.id,
        .argv = o->plan.argv,
        .argc = o->plan.argc,
        .command = o->plan.command,
        .shell = &o->place->shell,
        .env = env.entries,
        .env_count = env.count,
        .cwd = request->working_dir[0] ? request->working_dir : WORKSPACE_DIR,
        .uid = user_of(o),
        .gid = group_of(o),
        .flags = EXECUTOR_RUN_KILL_TREE_ON_EXIT,
        .has_stdin = input.len > 0,
        .memory_bytes = o->plan.limits[ONESHOT_MEMORY_MEGABYTES].value << 20,
        .pids = (uint32_t)o->plan.limits[ONESHOT_PIDS].value,
    };
    const struct exec_run_events events = {on_output, NULL, on_program_ended, o,
                                           on_program_started};
    rc = rc ? rc : exec_run_start(o->gateway, &spec, &events, &o->exec, &err);
    if (rc) {
        oneshot_fail(o, &err);
        return;
    }
    o->is_running = true;
    metrics_observe(o->gateway->metrics, METRIC_RUN_START, 0,
                    gateway_monotonic_ns(o->gateway) - o->place->start_ns);
    o->started_at_ns = gateway_wall_ns(o->gateway);
    if (input.len > 0) {
        (void)exec_run_write(o->exec, input);
        exec_run_close_input(o->exec);
    }
    start_wall_timer(o); /* again when it has started; an executor that is silent ends it, too */
    start_watch(o, 0);
}

/* --- files out, result --- */

static void on_files_got(void *context, const struct exec_outcome *outcome)
{
    struct oneshot *o = context;
    struct error err = {0};
    o->exec = NULL;
    (void)uv_timer_stop(&o->wall_timer);
    if (outcome->kind != EXEC_EXITED || outcome->code != 0) {
        struct str why = helper_says(o, outcome);
        (void)snprintf(o->files_error, sizeof o->files_error, "files could not be read: %.*s",
                       (int)(why.len < 100 ? why.len : 100), why.ptr ? why.ptr : "");
    } else if (oneshot_files_parse(oneshot_output_all(&o->helper[0], &o->arena), &o->arena,
                                   &o->files, &err)) {
        (void)snprintf(o->files_error, sizeof o->files_error, "%.150s", err.text);
    }
    look_last(o);
}

static void get_files(struct oneshot *o)
{
    struct error err = {0};
    size_t argc = 4 + o->request->n_collect;
    const char **argv = arena_calloc(&o->arena, argc, sizeof *argv);
    if (!argv) {
        look_last(o);
        return;
    }
    argv[0] = ONESHOT_FILES_PROGRAM;
    argv[1] = "get";
    argv[2] = arena_printf(&o->arena, "%d", ONESHOT_FILES_OUT_MAX);
    argv[3] = arena_printf(&o->arena, "%llu",
                           (unsigned long long)o->plan.limits[ONESHOT_FILES_BYTES].value);
    for (size_t i = 0; i < o->request->n_collect; i++) {
        argv[4 + i] = o->request->collect[i];
    }
    if (!argv[2] || !argv[3] || start_helper(o, argv, argc, false, on_files_got, &err)) {
        (void)snprintf(o->files_error, sizeof o->files_error, "files could not be read: %.100s",
                       err.text);
        look_last(o);
    }
}
