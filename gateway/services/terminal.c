#include "gateway/services/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/exec_pipe.h"
#include "gateway/services/terminal_table.h"

/* Shells for terminals, after the user's own. */
static const char *const SHELLS[] = {"/bin/zsh", "/usr/bin/zsh", "/bin/bash", "/usr/bin/bash",
                                     "/bin/sh"};
enum {
    SHELL_COUNT = sizeof SHELLS / sizeof SHELLS[0],
    INPUT_QUEUE_MAX_BYTES = 4 * 1024 * 1024,
    LISTENER_QUEUE_MAX_BYTES = 8 * 1024 * 1024,
};

/* Lives as long as its run in the executor may still say something: is_closed marks one that is
 * gone for everybody else. */
struct terminal {
    struct terminal *next; /* in the workspace */
    struct gateway *gateway;
    char id[24];
    char workspace_uid[37];
    char owner_uid[37];
    struct arena arena; /* environment, until a shell has started */
    const char *const *env;
    size_t env_count;
    struct executor_uuid sandbox;
    uint32_t uid;
    uint32_t gid;
    const char *home;
    const char *first_shell; /* of /etc/passwd; "" */
    unsigned shells_tried;

    struct executor_run_watch watch;
    struct exec_pipe *output;
    int fd; /* a duplicate for writing; -1 */
    uv_poll_t *write_poll;
    struct buf input;
    struct buf scrollback;
    uint16_t columns;
    uint16_t rows;
    struct terminal_listener *listeners;
    struct request *creator; /* waits for the start */
    bool is_running;
    bool is_start_due;
    bool is_closed;
};

struct terminal_listener {
    struct terminal *terminal; /* NULL once it is closed */
    struct request *request;
    struct terminal_listener *next;
};

/* --- messages to listeners --- */

static void send_stdout(struct terminal_listener *l, const uint8_t *bytes, size_t n)
{
    Cordium__ListenTerminalResponse message = CORDIUM__LISTEN_TERMINAL_RESPONSE__INIT;
    Cordium__ListenTerminalResponse__Stdout out = CORDIUM__LISTEN_TERMINAL_RESPONSE__STDOUT__INIT;
    out.data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    message.type_case = CORDIUM__LISTEN_TERMINAL_RESPONSE__TYPE_STDOUT;
    message.stdout = &out;
    (void)request_send(l->request, &message.base);
}

static void send_size(struct terminal_listener *l, const struct terminal *t)
{
    Cordium__ListenTerminalResponse message = CORDIUM__LISTEN_TERMINAL_RESPONSE__INIT;
    Cordium__ListenTerminalResponse__WindowSize size =
        CORDIUM__LISTEN_TERMINAL_RESPONSE__WINDOW_SIZE__INIT;
    size.cols = t->columns;
    size.rows = t->rows;
    message.type_case = CORDIUM__LISTEN_TERMINAL_RESPONSE__TYPE_WINDOW_SIZE;
    message.window_size = &size;
    (void)request_send(l->request, &message.base);
}

static void send_close(struct terminal_listener *l)
{
    Cordium__ListenTerminalResponse message = CORDIUM__LISTEN_TERMINAL_RESPONSE__INIT;
    Cordium__ListenTerminalResponse__Close end = CORDIUM__LISTEN_TERMINAL_RESPONSE__CLOSE__INIT;
    message.type_case = CORDIUM__LISTEN_TERMINAL_RESPONSE__TYPE_CLOSE;
    message.close = &end;
    (void)request_send(l->request, &message.base);
    request_finish(l->request);
}

static void unlink_listener(struct terminal_listener *l)
{
    struct terminal *t = l->terminal;
    for (struct terminal_listener **at = t ? &t->listeners : NULL; at && *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    l->terminal = NULL;
}

/* --- a terminal's end --- */

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_pty(struct terminal *t)
{
    exec_pipe_free(t->output);
    t->output = NULL;
    if (t->write_poll) {
        (void)uv_poll_stop(t->write_poll);
        uv_close((uv_handle_t *)t->write_poll, free_handle);
        t->write_poll = NULL;
    }
    if (t->fd >= 0) {
        (void)close(t->fd);
        t->fd = -1;
    }
}

static void terminal_free(struct terminal *t)
{
    close_pty(t);
    buf_free(&t->input);
    buf_free(&t->scrollback);
    arena_free(&t->arena);
    free(t);
}

static void unlink_terminal(struct terminal *t)
{
    struct workspace_run *run = workspace_run_find(t->gateway->workspaces, t->workspace_uid);
    for (struct terminal **at = run ? &run->terminals : NULL; at && *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            run->terminal_count--;
            return;
        }
    }
}

/* Tells the listeners and whoever waits for its start. Freed when the executor has nothing more to
 * say of it. */
static void close_terminal(struct terminal *t, const char *why)
{
    if (t->is_closed) {
        return;
    }
    t->is_closed = true;
    unlink_terminal(t);
    close_pty(t);
    if (t->creator) {
        if (!request_is_over(t->creator)) {
            request_fail_with(t->creator, STATUS_UNAVAILABLE,
                              "The terminal could not be started: %s", why);
        }
        request_release(t->creator);
        t->creator = NULL;
    }
    while (t->listeners) {
        struct terminal_listener *l = t->listeners;
        t->listeners = l->next;
        l->terminal = NULL;
        if (!request_is_over(l->request)) {
            send_close(l);
        }
    }
    if (!t->is_running && !t->is_start_due) {
        terminal_free(t);
    }
}

static void ignore_reply(void *context, const struct executor_reply *reply)
{
    (void)context;
    (void)reply;
}

static void kill_shell(struct terminal *t)
{
    struct executor_client *client = executor_link_client(t->gateway->executor, NULL);
    if (t->is_running && client) {
        (void)executor_run_kill(client, t->watch.run, EXECUTOR_KILL_ASKED,
                                (struct executor_callback){ignore_reply, NULL}, NULL);
    }
}

void terminal_close_all(struct workspace_run *run)
{
    while (run->terminals) {
        struct terminal *t = run->terminals;
        kill_shell(t);
        close_terminal(t, "the workspace is stopping");
    }
}

/* --- output --- */

static bool on_output(void *context, struct str bytes)
{
    struct terminal *t = context;
    if (t->scrollback.len + bytes.len > TERMINAL_SCROLLBACK_BYTES) {
        /* A quarter at once, since dropping moves the rest. */
        size_t drop = t->scrollback.len < TERMINAL_SCROLLBACK_BYTES / 4
                          ? t->scrollback.len
                          : TERMINAL_SCROLLBACK_BYTES / 4;
        buf_consume(&t->scrollback, drop);
    }
    buf_add_str(&t->scrollback, bytes);
    t->scrollback.failed = false;
    for (struct terminal_listener *l = t->listeners; l; l = l->next) {
        if (request_is_over(l->request)) {
            continue;
        }
        if (call_queued_bytes(l->request->call) > LISTENER_QUEUE_MAX_BYTES) {
            request_fail_with(l->request, STATUS_RESOURCE_EXHAUSTED,
                              "You read the terminal too slowly; listen again");
            continue;
        }
        send_stdout(l, (const uint8_t *)bytes.ptr, bytes.len);
    }
    return false;
}

static void on_output_end(void *context)
{
    struct terminal *t = context;
    exec_pipe_free(t->output);
    t->output = NULL; /* the run's end closes the terminal */
}

/* --- input --- */

static void on_writable(uv_poll_t *poll, int status, int events);

static void pump_input(struct terminal *t)
{
    while (t->input.len > 0 && t->fd >= 0) {
        ssize_t n = write(t->fd, t->input.ptr, t->input.len);
        if (n > 0) {
            buf_consume(&t->input, (size_t)n);
        } else if (n == -1 && errno == EAGAIN) {
            break;
        } else if (n == -1 && errno != EINTR) {
            buf_clear(&t->input);
        }
    }
    if (t->write_poll) {
        if (t->input.len > 0) {
            (void)uv_poll_start(t->write_poll, UV_WRITABLE, on_writable);
        } else {
            (void)uv_poll_stop(t->write_poll);
        }
    }
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump_input(poll->data);
}

/* --- start --- */

static int send_start(struct terminal *t, struct error *err);

static void on_exited(struct executor_run_watch *watch, const struct executor_run_exit *event)
{
    struct terminal *t = (struct terminal *)((char *)watch - offsetof(struct terminal, watch));
    struct error err = {0};
    t->is_running = false;
    bool lacks_shell = event && event->stage == EXECUTOR_STAGE_EXEC && !t->is_closed;
    if (lacks_shell && t->shells_tried <= SHELL_COUNT) {
        close_pty(t);
        if (send_start(t, &err) == 0) {
            return;
        }
    }
    if (t->is_closed) {
        terminal_free(t);
        return;
    }
    if (t->output) {
        exec_pipe_drain(t->output);
    }
    close_terminal(t, lacks_shell ? "the image has no shell" : "its shell ended");
}

static int adopt_pty(struct terminal *t, int pty_fd)
{
    const struct exec_pipe_events events = {on_output, on_output_end, t};
    t->fd = dup(pty_fd);
    t->output = exec_pipe_new(t->gateway->loop, pty_fd, TERMINAL_PIECE_BYTES, &events);
    t->write_poll = calloc(1, sizeof *t->write_poll);
    if (!t->output || t->fd < 0 || !t->write_poll ||
        uv_poll_init(t->gateway->loop, t->write_poll, t->fd)) {
        free(t->write_poll);
        t->write_poll = NULL;
        return -1;
    }
    t->write_poll->data = t;
    pump_input(t);
    return 0;
}

/* The terminal is there: whoever made it may know its name. */
static void tell_creator(struct terminal *t)
{
    Cordium__CreateTerminalResponse answer = CORDIUM__CREATE_TERMINAL_RESPONSE__INIT;
    struct request *r = t->creator;
    if (!r) {
        return;
    }
    t->creator = NULL;
    if (!request_is_over(r)) {
        answer.id = t->id;
        request_reply(r, &answer.base);
    }
    request_release(r);
}

static void on_started(void *context, const struct executor_reply *reply)
{
    struct terminal *t = context;
    t->is_start_due = false;
    if (reply->err.status) {
        if (t->is_closed) {
            terminal_free(t);
        } else {
            close_terminal(t, reply->err.text);
        }
        return;
    }
    t->is_running = true;
    t->watch.run = reply->started.run;
    t->watch.exited = on_exited;
    executor_link_watch(t->gateway->executor, &t->watch);
    if (t->is_closed) {
        (void)close(reply->started.pty_fd);
        kill_shell(t);
        return;
    }
    if (adopt_pty(t, reply->started.pty_fd)) {
        kill_shell(t);
        close_terminal(t, "no memory");
        return;
    }
    tell_creator(t);
}

static int send_start(struct terminal *t, struct error *err)
{
    struct executor_client *client = executor_link_client(t->gateway->executor, err);
    unsigned at = t->shells_tried++;
    if (!client || at > SHELL_COUNT) {
        return -STATUS_UNAVAILABLE;
    }
    const char *argv[] = {at == 0 ? t->first_shell : SHELLS[at - 1], "-l"};
    const struct executor_run_spec spec = {
        .sandbox = t->sandbox,
        .argv = argv,
        .argc = 2,
        .env = t->env,
        .env_count = t->env_count,
        .cwd = t->home,
        .uid = t->uid,
        .gid = t->gid,
        .flags = EXECUTOR_RUN_TTY,
        .columns = t->columns,
        .rows = t->rows,
        .fds = {-1, -1, -1},
    };
    int rc = executor_run_start(client, &spec, (struct executor_callback){on_started, t}, err);
    t->is_start_due = !rc;
    return rc;
}

static int make_env(struct terminal *t, const struct workspace_run *run)
{
    struct workspace_env env;
    workspace_env_init(&env, &t->arena);
    size_t room = run->env.count + 8;
    env.entries = arena_calloc(&t->arena, room, sizeof *env.entries);
    if (!env.entries) {
        return -1;
    }
    env.room = room;
    for (size_t i = 0; i < run->env.count; i++) {
        env.entries[i] = arena_strdup(&t->arena, run->env.entries[i]);
        env.has_failed = env.has_failed || !env.entries[i];
    }
    if (env.has_failed) {
        return -1;
    }
    env.count = run->env.count;
    workspace_env_set(&env, "TERM", "xterm-256color");
    workspace_env_set(&env, "COLORTERM", "truecolor");
    if (run->image.shell[0]) {
        workspace_env_set(&env, "SHELL", run->image.shell);
    }
    t->env = env.entries;
    t->env_count = env.count;
    t->home = arena_strdup(&t->arena, run->image.home);
    t->first_shell = arena_strdup(&t->arena, run->image.shell);
    return env.has_failed || !t->home || !t->first_shell ? -1 : 0;
}

struct terminal *terminal_new(struct workspace_run *run, const char *id, uint16_t columns,
                              uint16_t rows)
{
    struct terminal *t = calloc(1, sizeof *t);
    if (!t) {
        return NULL;
    }
    t->gateway = run->gateway;
    t->fd = -1;
    t->sandbox = run->sandbox;
    t->uid = run->image.uid;
    t->gid = run->image.gid;
    t->columns = columns;
    t->rows = rows;
    (void)snprintf(t->id, sizeof t->id, "%s", id);
    memcpy(t->workspace_uid, run->uid, sizeof t->workspace_uid);
    memcpy(t->owner_uid, run->owner_uid, sizeof t->owner_uid);
    arena_init(&t->arena, 8 * 1024 * 1024);
    buf_init(&t->input, INPUT_QUEUE_MAX_BYTES);
    buf_init(&t->scrollback, TERMINAL_SCROLLBACK_BYTES + TERMINAL_PIECE_BYTES);
    if (make_env(t, run)) {
        terminal_free(t);
        return NULL;
    }
    t->shells_tried = t->first_shell[0] ? 0 : 1; /* no shell of his own: the list begins at once */
    t->next = run->terminals;
    run->terminals = t;
    run->terminal_count++;
    return t;
}

void terminal_start(struct terminal *t, struct request *creator)
{
    struct error err = {0};
    t->creator = creator;
    request_hold(creator);
    if (send_start(t, &err)) {
        close_terminal(t, err.text);
    }
}

const char *terminal_id(const struct terminal *t)
{
    return t->id;
}

struct terminal *terminal_next(const struct terminal *t)
{
    return t->next;
}

void terminal_remove(struct terminal *t)
{
    kill_shell(t);
    close_terminal(t, "it was removed");
}

int terminal_write(struct terminal *t, struct str bytes, struct error *err)
{
    if (t->input.len + bytes.len > INPUT_QUEUE_MAX_BYTES) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "Terminal '%s' does not read its input; %zu bytes are waiting", t->id,
                         t->input.len);
    }
    buf_add_str(&t->input, bytes);
    if (t->input.failed) {
        t->input.failed = false;
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Terminal '%s': no memory", t->id);
    }
    pump_input(t);
    return 0;
}

void terminal_resize(struct terminal *t, uint16_t columns, uint16_t rows)
{
    struct executor_client *client = executor_link_client(t->gateway->executor, NULL);
    t->columns = columns;
    t->rows = rows;
    if (client && t->is_running) {
        (void)executor_run_resize(client, t->watch.run, columns, rows,
                                  (struct executor_callback){ignore_reply, NULL}, NULL);
    }
    for (struct terminal_listener *l = t->listeners; l; l = l->next) {
        if (!request_is_over(l->request)) {
            send_size(l, t);
        }
    }
}

static void on_listener_gone(struct request *r)
{
    struct terminal_listener *l = r->state;
    unlink_listener(l);
    free(l);
    r->state = NULL;
}

int terminal_listen(struct terminal *t, struct request *r, struct error *err)
{
    unsigned count = 0;
    for (struct terminal_listener *l = t->listeners; l; l = l->next) {
        count++;
    }
    if (count >= TERMINAL_LISTENERS_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "Terminal '%s' has %d listeners already; close one of them", t->id,
                         TERMINAL_LISTENERS_MAX);
    }
    struct terminal_listener *l = calloc(1, sizeof *l);
    if (!l) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Terminal '%s': no memory", t->id);
    }
    l->terminal = t;
    l->request = r;
    l->next = t->listeners;
    t->listeners = l;
    r->state = l;
    r->on_gone = on_listener_gone;
    send_size(l, t);
    if (t->scrollback.len > 0) {
        send_stdout(l, t->scrollback.ptr, t->scrollback.len);
    }
    return 0;
}
