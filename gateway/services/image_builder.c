#include "gateway/services/image_builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "gateway/config.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/exec_run.h"
#include "gateway/services/image_command.h"
#include "gateway/services/limits.h"
#include "gateway/services/workspace_run.h"
#include "gateway/services/workspace_spec.h"
#include "gateway/state/store.h"

enum {
    BUILD_TIMEOUT_SECONDS = 3600,
    BUILD_PIDS_MAX = 4096,
    BUILDS_MAX = 64, /* at once: each has a sandbox with gigabytes */
    SETTING_KEY_SIZE = 96,
};

/* One build or pull. Frees itself when it is over and no answer of the executor is due. */
struct image_build {
    struct image_table *table;
    struct image_build *next;
    struct arena arena;
    struct image_command command;
    char key[65];
    char id[65];
    struct executor_digest digest;
    bool is_pull;
    struct executor_uuid sandbox;
    struct exec_run *program;
    uv_timer_t *timer;
    struct buf result; /* standard output: one line of JSON at the end */
    struct workspace_log *log;
    struct image_waiter *waiters;
    bool has_sandbox;
    bool is_cancelled;
    bool has_timed_out;
    bool is_answer_due;
};

struct image_table {
    struct gateway *gateway;
    struct image_build *builds;
};

int image_table_new(struct gateway *g, struct image_table **ret, struct error *err)
{
    struct image_table *table = calloc(1, sizeof *table);
    if (!table) {
        return error_set(err, STATUS_INTERNAL, "make the table of images: out of memory");
    }
    table->gateway = g;
    *ret = table;
    return 0;
}

unsigned image_table_count(const struct image_table *table)
{
    unsigned count = 0;
    for (const struct image_build *b = table ? table->builds : NULL; b; b = b->next) {
        count++;
    }
    return count;
}

workspace_state image_state_of(const Cordium__Workspace__Spec__Image *image)
{
    return image->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY
               ? WORKSPACE_STATE(PULLING_IMAGE)
               : WORKSPACE_STATE(BUILDING_IMAGE);
}

/* --- what is there --- */

static void setting_key(const char *key, char ret[SETTING_KEY_SIZE])
{
    (void)snprintf(ret, SETTING_KEY_SIZE, "image/%.64s", key);
}

/* The way back, from an image's id to its key. */
static void key_of_setting(const char *id, char ret[SETTING_KEY_SIZE])
{
    (void)snprintf(ret, SETTING_KEY_SIZE, "image-key/%.64s", id);
}

int image_find_by_key(struct gateway *g, const char *key, struct arena *arena, const char **ret_id,
                      struct error *err)
{
    char name[SETTING_KEY_SIZE];
    setting_key(key, name);
    return store_setting_get(g->store, name, arena, ret_id, err);
}

bool image_is_newest(struct gateway *g, const char *id, struct arena *arena)
{
    char name[SETTING_KEY_SIZE];
    const char *key;
    const char *newest;
    struct error ignored = {0};
    key_of_setting(id, name);
    return !store_setting_get(g->store, name, arena, &key, &ignored) &&
           !image_find_by_key(g, key, arena, &newest, &ignored) && strcmp(newest, id) == 0;
}

void image_forget(struct gateway *g, const char *id, struct arena *arena)
{
    char name[SETTING_KEY_SIZE];
    const char *key;
    struct error ignored = {0};
    key_of_setting(id, name);
    if (image_is_newest(g, id, arena) &&
        !store_setting_get(g->store, name, arena, &key, &ignored)) {
        image_forget_key(g, key);
    }
    (void)store_setting_put(g->store, name, NULL, &ignored);
    (void)store_image_delete(g->store, id, &ignored);
}

int image_find_metadata(struct gateway *g, const char *id, struct arena *arena,
                        struct image_metadata *ret, struct error *err)
{
    struct store_image image;
    int rc = store_image_get(g->store, id, arena, &image, err);
    return rc ? rc : image_metadata_parse(str_from(image.json), arena, ret, err);
}

void image_forget_key(struct gateway *g, const char *key)
{
    char name[SETTING_KEY_SIZE];
    setting_key(key, name);
    (void)store_setting_put(g->store, name, NULL, NULL);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool image_id_parse(const char *id, struct executor_digest *ret)
{
    if (strlen(id) != 2 * sizeof ret->bytes) {
        return false;
    }
    for (size_t i = 0; i < sizeof ret->bytes; i++) {
        int high = hex_value(id[2 * i]);
        int low = hex_value(id[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret->bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* --- a build's end --- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void build_free(struct image_build *build)
{
    if (build->timer) {
        (void)uv_timer_stop(build->timer);
        uv_close((uv_handle_t *)build->timer, free_handle);
    }
    workspace_log_unref(build->log);
    buf_free(&build->result);
    arena_free(&build->arena);
    free(build);
}

static void unlink_build(struct image_build *build)
{
    for (struct image_build **at = &build->table->builds; *at; at = &(*at)->next) {
        if (*at == build) {
            *at = build->next;
            return;
        }
    }
}

static void ignore_reply(void *context, const struct executor_reply *reply)
{
    (void)context;
    (void)reply;
}

static void destroy_sandbox(struct image_build *build)
{
    struct executor_client *client = executor_link_client(build->table->gateway->executor, NULL);
    if (build->has_sandbox && client) {
        (void)executor_sandbox_destroy(client, &build->sandbox, true,
                                       (struct executor_callback){ignore_reply, NULL}, NULL);
    }
    build->has_sandbox = false;
}

/* Tells everybody; a waiter may free itself and ask for the next image at once. */
static void end_build(struct image_build *build, const struct image_result *result)
{
    unlink_build(build);
    destroy_sandbox(build);
    while (build->waiters) {
        struct image_waiter *waiter = build->waiters;
        build->waiters = waiter->next;
        waiter->done(waiter, result);
    }
    build_free(build);
}

static void fail_build(struct image_build *build, const char *text)
{
    struct image_result result = {.failure = {.kind = build->is_pull
                                                          ? WORKSPACE_FAILURE(IMAGE_PULL)
                                                          : WORKSPACE_FAILURE(IMAGE_BUILD),
                                              .message = text}};
    if (build->has_timed_out) {
        result.failure.kind = WORKSPACE_FAILURE(BUILD_TIMEOUT_EXCEEDED);
        result.failure.message = "The image was not ready in time; make its steps shorter, or ask "
                                 "an administrator to raise build.timeoutSeconds";
    }
    end_build(build, &result);
}

/* An answer came; true when the build goes on. */
static bool is_alive(struct image_build *build)
{
    build->is_answer_due = false;
    if (!build->is_cancelled) {
        return true;
    }
    destroy_sandbox(build);
    build_free(build);
    return false;
}

/* --- commit --- */

static int remember(struct image_build *build, struct error *err)
{
    struct gateway *g = build->table->gateway;
    char name[SETTING_KEY_SIZE];
    const struct store_image image = {
        .id = build->id,
        .json = arena_strndup(&build->arena, (const char *)build->result.ptr, build->result.len),
        .created_at_seconds = gateway_wall_ns(g) / 1000000000,
    };
    setting_key(build->key, name);
    if (!image.json) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The image's metadata is too large");
    }
    int rc = store_begin(g->store, err);
    if (rc) {
        return rc;
    }
    rc = store_image_put(g->store, &image, err);
    rc = rc ? rc : store_setting_put(g->store, name, build->id, err);
    key_of_setting(build->id, name);
    rc = rc ? rc : store_setting_put(g->store, name, build->key, err);
    return store_end(g->store, rc, err);
}

static void on_committed(void *context, const struct executor_reply *reply)
{
    struct image_build *build = context;
    struct error err = {0};
    if (!is_alive(build)) {
        return;
    }
    if (reply->err.status) {
        fail_build(build, reply->err.text);
        return;
    }
    build->has_sandbox = false;
    if (remember(build, &err)) {
        fail_build(build, err.text);
        return;
    }
    const struct image_result result = {.id = build->id};
    end_build(build, &result);
}

/* Only the last line counts. */
static struct str last_line(const struct buf *out)
{
    size_t end = out->len;
    while (end > 0 && (out->ptr[end - 1] == '\n' || out->ptr[end - 1] == '\r')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && out->ptr[start - 1] != '\n') {
        start--;
    }
    return str_make(out->ptr + start, end - start);
}

static void commit(struct image_build *build)
{
    struct error err = {0};
    struct image_metadata metadata;
    struct str line = last_line(&build->result);
    int rc = image_metadata_parse(line, &build->arena, &metadata, &err);
    if (!rc) {
        /* What was parsed is what is kept. */
        memmove(build->result.ptr, line.ptr, line.len);
        build->result.len = line.len;
    }
    struct executor_client *client =
        rc ? NULL : executor_link_client(build->table->gateway->executor, &err);
    if (!client || executor_image_commit(client, &build->sandbox, &build->digest,
                                         (struct executor_callback){on_committed, build}, &err)) {
        fail_build(build, err.text);
        return;
    }
    build->is_answer_due = true;
}

/* --- the program --- */

static bool on_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct image_build *build = context;
    if (stream == EXEC_STDOUT) {
        buf_add_str(&build->result, bytes);
        return false;
    }
    int64_t now = gateway_wall_ns(build->table->gateway);
    Cordium__ListenLogResponse__Type type =
        build->is_pull ? CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_PULLING_IMAGE
                       : CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_BUILDING_IMAGE;
    workspace_log_append(build->log, now, type, CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDOUT,
                         bytes);
    for (struct image_waiter *w = build->waiters; w; w = w->next) {
        workspace_log_append(w->log, now, type, CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDOUT,
                             bytes);
    }
    return false;
}

static void on_ended(void *context, const struct exec_outcome *outcome)
{
    struct image_build *build = context;
    build->program = NULL;
    if (outcome->kind == EXEC_EXITED && outcome->code == 0 && !build->result.failed) {
        commit(build);
        return;
    }
    const char *text = image_failure_text(last_line(&build->result), &build->arena);
    if (!text && outcome->text[0]) {
        text = outcome->text;
    }
    if (!text) {
        text = arena_printf(&build->arena, "The image program ended (%s, exit code %d)",
                            exec_outcome_name(outcome), outcome->code);
    }
    fail_build(build, text ? text : "The build failed");
}

static void start_program(struct image_build *build)
{
    struct error err = {0};
    const struct image_command *c = &build->command;
    const struct exec_run_spec spec = {
        .sandbox = build->sandbox,
        .argv = c->argv,
        .argc = c->argc,
        .env = c->env,
        .env_count = c->env_count,
        .cwd = "/",
        .has_stdin = c->input.len > 0,
        .flags = EXECUTOR_RUN_KILL_TREE_ON_EXIT,
    };
    const struct exec_run_events events = {on_output, NULL, on_ended, build, NULL};
    if (exec_run_start(build->table->gateway, &spec, &events, &build->program, &err)) {
        fail_build(build, err.text);
        return;
    }
    if (c->input.len > 0) {
        (void)exec_run_write(build->program, c->input);
        exec_run_close_input(build->program);
    }
}

static void on_sandbox(void *context, const struct executor_reply *reply)
{
    struct image_build *build = context;
    if (reply->err.status) {
        build->has_sandbox = false;
    }
    if (!is_alive(build)) {
        return;
    }
    if (reply->err.status || build->has_timed_out) {
        fail_build(build, reply->err.text);
        return;
    }
    start_program(build);
}

/* --- begin --- */

static struct executor_limits build_limits(struct gateway *g, struct arena *arena)
{
    const struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    struct store_list list;
    struct limit_sources sources = {.is_build = true};
    const struct executor_host_report *host = executor_link_host(g->executor);
    if (!store_list_all(g->store, STORE_CORDIUM_CONFIG, &filter, arena, &list, NULL) &&
        list.count > 0) {
        sources.cluster = (const Cordium__ClusterConfig *)list.items[0];
    }
    struct limit_values values = limit_effective(&sources);
    workspace_limit_cap(host, &values);
    struct executor_limits limits = {
        .memory_bytes = (uint64_t)values.memory_megabytes << 20,
        .disk_bytes = (uint64_t)values.storage_megabytes << 20,
        .cpu_millicores = values.cpu_millicores,
        .pids = BUILD_PIDS_MAX,
    };
    if (host && host->ceiling.pids > 0 && limits.pids > host->ceiling.pids) {
        limits.pids = host->ceiling.pids;
    }
    return limits;
}

static int create_sandbox(struct image_build *build, struct error *err)
{
    struct gateway *g = build->table->gateway;
    struct executor_sandbox_spec spec = {
        .profile = EXECUTOR_PROFILE_BUILD,
        .storage_is_ephemeral = true,
        .limits = build_limits(g, &build->arena),
        .uid = 1000, /* nobody runs as it: the image program is uid 0 of the sandbox */
        .gid = 1000,
        .home = "/build/home",
        .hostname = "build",
        .capabilities = UINT64_MAX, /* cut to what the executor gives the build profile */
        .network = {.mode = EXECUTOR_NETWORK_BUILD},
    };
    int rc = workspace_uuid_random(&build->sandbox, err);
    rc = rc ? rc : workspace_uuid_random(&spec.storage, err);
    struct executor_client *client = rc ? NULL : executor_link_client(g->executor, err);
    if (!client) {
        return rc ? rc : -STATUS_UNAVAILABLE;
    }
    spec.id = build->sandbox;
    rc = executor_sandbox_create(client, &spec, (struct executor_callback){on_sandbox, build}, err);
    build->has_sandbox = build->is_answer_due = !rc;
    return rc;
}

static void on_timer(uv_timer_t *timer)
{
    struct image_build *build = timer->data;
    build->has_timed_out = true;
    if (build->program) {
        exec_run_kill(build->program, EXECUTOR_KILL_DEADLINE);
    }
}

static int start_timer(struct image_build *build, struct error *err)
{
    struct gateway *g = build->table->gateway;
    unsigned seconds =
        g->config->build.timeout_seconds ? g->config->build.timeout_seconds : BUILD_TIMEOUT_SECONDS;
    build->timer = calloc(1, sizeof *build->timer);
    if (!build->timer) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The image cannot be built: no memory");
    }
    (void)uv_timer_init(g->loop, build->timer);
    build->timer->data = build;
    (void)uv_timer_start(build->timer, on_timer, (uint64_t)seconds * 1000, 0);
    return 0;
}

static int choose_id(struct image_build *build, struct error *err)
{
    static const char HEX[] = "0123456789abcdef";
    if (getrandom(build->digest.bytes, sizeof build->digest.bytes, 0) !=
        (ssize_t)sizeof build->digest.bytes) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "get random bytes");
    }
    for (size_t i = 0; i < sizeof build->digest.bytes; i++) {
        build->id[2 * i] = HEX[build->digest.bytes[i] >> 4];
        build->id[2 * i + 1] = HEX[build->digest.bytes[i] & 15];
    }
    return 0;
}

static int begin_build(struct image_table *table, const struct image_request *request,
                       struct image_build **ret, struct error *err)
{
    struct image_build *build = calloc(1, sizeof *build);
    if (!build) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The image cannot be built: no memory");
    }
    build->table = table;
    arena_init(&build->arena, 8 * 1024 * 1024);
    buf_init(&build->result, IMAGE_METADATA_MAX_BYTES);
    (void)snprintf(build->key, sizeof build->key, "%s", request->key);
    build->is_pull = image_state_of(request->image) == WORKSPACE_STATE(PULLING_IMAGE);
    build->log = workspace_log_new(build->key, "", "");
    int rc = image_command_make(table->gateway->config, request->image, request->secrets,
                                &build->arena, &build->command, err);
    rc = rc ? rc : choose_id(build, err);
    rc = rc ? rc : start_timer(build, err);
    rc = rc ? rc : create_sandbox(build, err);
    if (rc) {
        build_free(build);
        return rc;
    }
    build->next = table->builds;
    table->builds = build;
    *ret = build;
    return 0;
}

/* What was said before somebody came is for him too. */
static void replay_log(const struct image_build *build, struct workspace_log *to)
{
    struct workspace_log_entry entry;
    uint64_t position = 0;
    bool was_cut;
    while (build->log && to && workspace_log_read(build->log, &position, &entry, &was_cut)) {
        workspace_log_append(to, entry.at_ns, entry.type, entry.mode, entry.data);
    }
}

int image_table_request(struct image_table *table, const struct image_request *request,
                        struct image_waiter *waiter, struct error *err)
{
    unsigned count = 0;
    struct image_build *build = NULL;
    for (struct image_build *b = table->builds; b; b = b->next) {
        count++;
        if (strcmp(b->key, request->key) == 0) {
            build = b;
        }
    }
    if (!build && count >= BUILDS_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "%d images are being built already; try again later", BUILDS_MAX);
    }
    if (!build) {
        int rc = begin_build(table, request, &build, err);
        if (rc) {
            return rc;
        }
    }
    replay_log(build, waiter->log);
    waiter->next = build->waiters;
    build->waiters = waiter;
    return 0;
}

static void cancel(struct image_build *build)
{
    unlink_build(build);
    build->is_cancelled = true;
    if (build->program) {
        exec_run_abandon(build->program, EXECUTOR_KILL_CANCELLED);
        build->program = NULL;
    }
    if (!build->is_answer_due) {
        destroy_sandbox(build);
        build_free(build);
    }
}

void image_table_forget(struct image_table *table, struct image_waiter *waiter)
{
    struct image_build *build = table->builds;
    while (build) {
        struct image_build *next = build->next;
        for (struct image_waiter **at = &build->waiters; *at; at = &(*at)->next) {
            if (*at == waiter) {
                *at = waiter->next;
                if (!build->waiters) {
                    cancel(build);
                }
                return;
            }
        }
        build = next;
    }
}

void image_table_free(struct image_table *table)
{
    if (!table) {
        return;
    }
    while (table->builds) {
        table->builds->waiters = NULL;
        cancel(table->builds);
    }
    free(table);
}
