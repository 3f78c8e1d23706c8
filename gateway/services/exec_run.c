#include "gateway/services/exec_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/exec_pipe.h"
#include "policy/base/arena.h"

/* Where images keep the shells that a command may be run with; the first that is there. By path,
 * so that the PATH of a request has no say. */
static const char *const SHELLS[] = {"/bin/bash",   "/usr/bin/bash", "/bin/sh",
                                     "/usr/bin/sh", "/bin/zsh",      "/usr/bin/zsh"};
enum {
    SHELL_COUNT = sizeof SHELLS / sizeof SHELLS[0],
    SPEC_ARENA_CAP_BYTES = 4 * 1024 * 1024, /* argv and env of one run, 2 MiB at most */
    STDIN_QUEUE_MAX_BYTES = 64 * 1024 * 1024,
    COMMAND_ARGUMENT_MAX_BYTES = 120 * 1024, /* under the kernel's limit for one string */
    /* A program opens its streams anew when it is told to use /dev/stdin or /dev/stderr. They
     * belong to our user, who is nobody inside: others get the program's end of each, and not ours.
     */
    INPUT_MODE = S_IRUSR | S_IWUSR | S_IROTH,
    OUTPUT_MODE = S_IRUSR | S_IWUSR | S_IWOTH,
};

/* The executor's answer to the SIGTERM of a time limit may come after the end of the run. */
struct limit_note {
    struct exec_run *run; /* NULL: gone */
};

struct exec_run {
    struct gateway *gateway;
    struct exec_run_events events;
    struct executor_run_watch watch;
    struct arena arena; /* of spec */
    struct exec_run_spec spec;
    unsigned shells_tried;
    unsigned shell_index;

    struct exec_pipe *output[2];
    int child_stdin; /* the program's end, kept while another shell may have to be tried; or -1 */
    int stdin_fd;    /* ours, or -1 */
    uv_poll_t *stdin_poll;
    struct buf input;
    size_t input_at; /* what lies before it was written: megabytes are not moved for each write */
    bool is_input_closing;
    bool is_input_polled;
    bool has_long_command;

    uv_timer_t *drain_timer;
    bool is_start_pending;
    bool is_running;
    bool has_ended;
    bool is_abandoned;
    bool is_muted; /* only its end is told */
    bool is_output_paused;
    bool is_delivering; /* an event of ours is on the stack */
    enum executor_kill_reason kill_reason;
    uint64_t wall_limit_ns;        /* set when the time was up; else 0 */
    bool heard_limit;              /* the program was alive when it was told so */
    struct limit_note *limit_note; /* while the answer is due */
    struct exec_outcome outcome;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_input(struct exec_run *run)
{
    if (run->stdin_poll) {
        (void)uv_poll_stop(run->stdin_poll);
        uv_close((uv_handle_t *)run->stdin_poll, free_handle);
        run->stdin_poll = NULL;
    }
    if (run->stdin_fd >= 0) {
        (void)close(run->stdin_fd);
        run->stdin_fd = -1;
    }
}

static void close_child_stdin(struct exec_run *run)
{
    if (run->child_stdin >= 0) {
        (void)close(run->child_stdin);
        run->child_stdin = -1;
    }
}

static void run_free(struct exec_run *run)
{
    if (run->limit_note) {
        run->limit_note->run = NULL;
    }
    exec_pipe_free(run->output[0]);
    exec_pipe_free(run->output[1]);
    close_input(run);
    close_child_stdin(run);
    if (run->drain_timer) {
        (void)uv_timer_stop(run->drain_timer);
        uv_close((uv_handle_t *)run->drain_timer, free_handle);
    }
    buf_free(&run->input);
    arena_free(&run->arena);
    free(run);
}

/* --- the end --- */

static void finish(struct exec_run *run)
{
    if (!run->is_abandoned) {
        run->events.ended(run->events.context, &run->outcome);
    }
    run_free(run);
}

/* True when the run is over for good and was freed. */
static bool finish_when_drained(struct exec_run *run)
{
    if (run->has_ended && !run->is_delivering && !run->output[0] && !run->output[1]) {
        finish(run);
        return true;
    }
    return false;
}

static void on_drain_timer(uv_timer_t *timer)
{
    struct exec_run *run = timer->data;
    if (run->is_output_paused) {
        (void)uv_timer_start(timer, on_drain_timer, EXEC_DRAIN_MS, 0);
        return;
    }
    finish(run);
}

static void drain(struct exec_run *run)
{
    run->is_delivering = true;
    for (int i = 0; i < 2; i++) {
        if (run->output[i]) {
            exec_pipe_drain(run->output[i]);
        }
    }
    run->is_delivering = false;
}

static void end_run(struct exec_run *run)
{
    run->has_ended = true;
    run->is_running = false;
    close_input(run);
    close_child_stdin(run);
    if (run->is_abandoned || run->is_muted) {
        finish(run);
        return;
    }
    drain(run);
    if (finish_when_drained(run)) {
        return;
    }
    run->drain_timer = calloc(1, sizeof *run->drain_timer);
    if (!run->drain_timer) {
        finish(run);
        return;
    }
    (void)uv_timer_init(run->gateway->loop, run->drain_timer);
    run->drain_timer->data = run;
    (void)uv_timer_start(run->drain_timer, on_drain_timer, EXEC_DRAIN_MS, 0);
}

/* Ends a run that never started, or whose fate nobody can tell. */
static void end_unknown(struct exec_run *run, enum exec_outcome_kind kind, const char *text)
{
    run->outcome.kind = kind;
    run->outcome.code = kind == EXEC_NOT_STARTED ? 126 : -1;
    (void)snprintf(run->outcome.text, sizeof run->outcome.text, "%.300s", text);
    end_run(run);
}

/* --- what happened --- */

static int start_attempt(struct exec_run *run, struct error *err);

/* A shell that the image lacks: the next one. False when there is none left. */
static bool try_next_shell(struct exec_run *run, const struct executor_run_exit *event)
{
    if (run->spec.argc > 0 || run->is_abandoned || run->child_stdin < 0 ||
        event->stage != EXECUTOR_STAGE_EXEC ||
        (event->error_number != ENOENT && event->error_number != EACCES) ||
        run->kill_reason != EXECUTOR_KILL_NONE || run->shells_tried >= SHELL_COUNT) {
        return false;
    }
    run->shell_index = (run->shell_index + 1) % SHELL_COUNT;
    struct error err = {0};
    if (start_attempt(run, &err)) {
        end_unknown(run, EXEC_LOST, err.text);
    }
    return true;
}

static void on_exited(struct executor_run_watch *watch, const struct executor_run_exit *event)
{
    struct exec_run *run = (struct exec_run *)((char *)watch - offsetof(struct exec_run, watch));
    run->is_running = false;
    if (!event) {
        end_unknown(run, EXEC_LOST, "the connection to the executor was lost");
        return;
    }
    if (try_next_shell(run, event)) {
        return;
    }
    if (run->spec.argc == 0 && run->spec.shell && event->stage == EXECUTOR_STAGE_RAN &&
        !run->is_abandoned) {
        *run->spec.shell = run->shell_index + 1;
    }
    const struct exec_asked asked = {
        .cwd = run->spec.cwd,
        .program = run->spec.argc > 0 ? run->spec.argv[0] : SHELLS[run->shell_index],
        .is_by_shell = run->spec.argc == 0,
        .wall_limit_ns = run->wall_limit_ns,
        .heard_limit = run->heard_limit,
    };
    exec_outcome_judge(event, &asked, &run->outcome);
    end_run(run);
}

static void send_kill(struct exec_run *run);

static void on_started(void *context, const struct executor_reply *reply)
{
    struct exec_run *run = context;
    run->is_start_pending = false;
    if (reply->err.status) {
        end_unknown(run, EXEC_LOST, reply->err.text);
        return;
    }
    run->is_running = true;
    run->watch.run = reply->started.run;
    run->watch.exited = on_exited;
    executor_link_watch(run->gateway->executor, &run->watch);
    if (run->kill_reason != EXECUTOR_KILL_NONE) {
        send_kill(run);
    }
    if (run->events.started && !run->is_abandoned) {
        run->events.started(run->events.context);
    }
}

/* --- output --- */

static bool on_data(struct exec_run *run, enum exec_stream stream, struct str bytes)
{
    if (run->is_abandoned || run->is_muted) {
        return false; /* read and dropped, so that the program does not block until it is dead */
    }
    bool pause = run->events.output(run->events.context, stream, bytes);
    if (pause && !run->is_output_paused) {
        run->is_output_paused = true;
        for (int i = 0; i < 2; i++) {
            if (run->output[i]) {
                exec_pipe_pause(run->output[i]);
            }
        }
    }
    return run->is_output_paused;
}

static bool on_stdout(void *context, struct str bytes)
{
    return on_data(context, EXEC_STDOUT, bytes);
}

static bool on_stderr(void *context, struct str bytes)
{
    return on_data(context, EXEC_STDERR, bytes);
}

static void on_output_end(struct exec_run *run, int which)
{
    exec_pipe_free(run->output[which]);
    run->output[which] = NULL;
    (void)finish_when_drained(run);
}

static void on_stdout_end(void *context)
{
    on_output_end(context, 0);
}

static void on_stderr_end(void *context)
{
    on_output_end(context, 1);
}

void exec_run_resume_output(struct exec_run *run)
{
    if (!run->is_output_paused) {
        return;
    }
    run->is_output_paused = false;
    for (int i = 0; i < 2; i++) {
        if (run->output[i]) {
            exec_pipe_resume(run->output[i]);
        }
    }
    if (run->has_ended) {
        drain(run);
        (void)finish_when_drained(run);
    }
}

/* --- input --- */

static void on_stdin_poll(uv_poll_t *poll, int status, int events);

static size_t queued_input(const struct exec_run *run)
{
    return run->input.len - run->input_at;
}

static void drop_input(struct exec_run *run)
{
    buf_free(&run->input);
    run->input_at = 0;
}

/* Writes what the pipe takes. */
static void pump_input(struct exec_run *run)
{
    while (queued_input(run) > 0 && run->stdin_fd >= 0) {
        ssize_t n = write(run->stdin_fd, run->input.ptr + run->input_at, queued_input(run));
        if (n > 0) {
            run->input_at += (size_t)n;
        } else if (n == -1 && errno == EAGAIN) {
            break;
        } else if (n == -1 && errno != EINTR) {
            drop_input(run); /* EPIPE: the program does not read; its business */
            close_input(run);
        }
    }
    if (run->input_at > 0 && queued_input(run) == 0) {
        drop_input(run);
    }
    if (run->stdin_fd >= 0 && queued_input(run) == 0 && run->is_input_closing) {
        close_input(run);
    }
    if (run->stdin_poll && run->is_input_polled != (queued_input(run) > 0)) {
        run->is_input_polled = queued_input(run) > 0;
        if (run->is_input_polled) {
            (void)uv_poll_start(run->stdin_poll, UV_WRITABLE, on_stdin_poll);
        } else {
            (void)uv_poll_stop(run->stdin_poll);
        }
    }
}

static void on_stdin_poll(uv_poll_t *poll, int status, int events)
{
    struct exec_run *run = poll->data;
    (void)status;
    (void)events;
    pump_input(run);
    if (queued_input(run) == 0 && run->events.input_drained && !run->is_abandoned) {
        run->events.input_drained(run->events.context);
    }
}

bool exec_run_write(struct exec_run *run, struct str bytes)
{
    if (run->stdin_fd < 0 || run->is_input_closing) {
        return false;
    }
    /* The common case: the pipe takes it at once and nothing is copied. */
    if (queued_input(run) == 0) {
        ssize_t n = write(run->stdin_fd, bytes.ptr, bytes.len);
        if (n > 0) {
            bytes.ptr += n;
            bytes.len -= (size_t)n;
        }
    }
    if (bytes.len > 0) {
        buf_add_str(&run->input, bytes);
        pump_input(run);
    }
    return queued_input(run) > 0;
}

void exec_run_close_input(struct exec_run *run)
{
    run->is_input_closing = true;
    if (run->stdin_fd >= 0) {
        pump_input(run);
    }
}

/* --- start --- */

static int make_output(struct exec_run *run, int ret_child[2], struct error *err)
{
    const struct exec_pipe_events events[2] = {{on_stdout, on_stdout_end, run},
                                               {on_stderr, on_stderr_end, run}};
    for (int i = 0; i < 2; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) == -1) {
            return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "make a pipe");
        }
        ret_child[i] = fds[1];
        (void)fchmod(fds[1], OUTPUT_MODE);
        (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
        run->output[i] =
            exec_pipe_new(run->gateway->loop, fds[0], EXEC_OUTPUT_MESSAGE_MAX_BYTES, &events[i]);
        if (!run->output[i]) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read a program's output: no memory");
        }
    }
    return 0;
}

static int make_input(struct exec_run *run, struct error *err)
{
    if (!run->spec.has_stdin) {
        run->child_stdin = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return run->child_stdin >= 0
                   ? 0
                   : error_set_errno(err, STATUS_INTERNAL, errno, "open /dev/null");
    }
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "make a pipe");
    }
    run->child_stdin = fds[0];
    run->stdin_fd = fds[1];
    (void)fchmod(fds[0], INPUT_MODE);
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
    run->stdin_poll = calloc(1, sizeof *run->stdin_poll);
    if (!run->stdin_poll || uv_poll_init(run->gateway->loop, run->stdin_poll, fds[1])) {
        free(run->stdin_poll);
        run->stdin_poll = NULL;
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "write a program's input: no memory");
    }
    run->stdin_poll->data = run;
    return 0;
}

static int send_start(struct exec_run *run, const int child[2], struct error *err)
{
    const char *shell_argv[] = {SHELLS[run->shell_index], "-c", run->spec.command};
    bool by_shell = run->spec.argc == 0;
    struct executor_client *client = executor_link_client(run->gateway->executor, err);
    if (!client) {
        return -STATUS_UNAVAILABLE;
    }
    const struct executor_run_spec spec = {
        .sandbox = run->spec.sandbox,
        .argv = by_shell ? shell_argv : run->spec.argv,
        .argc = by_shell ? 3 : run->spec.argc,
        .env = run->spec.env,
        .env_count = run->spec.env_count,
        .cwd = run->spec.cwd,
        .uid = run->spec.uid,
        .gid = run->spec.gid,
        .flags = run->spec.flags,
        .memory_bytes = run->spec.memory_bytes,
        .pids = run->spec.pids,
        .fds = {run->child_stdin, child[0], child[1]},
    };
    return executor_run_start(client, &spec, (struct executor_callback){on_started, run}, err);
}

/* Output pipes are new for each shell that is tried, or their end would never be seen; input stays
 * the same, since some may have been written already. */
static int start_attempt(struct exec_run *run, struct error *err)
{
    int child[2] = {-1, -1};
    for (int i = 0; i < 2; i++) {
        exec_pipe_free(run->output[i]);
        run->output[i] = NULL;
    }
    run->shells_tried++;
    int rc = make_output(run, child, err);
    if (!rc) {
        rc = send_start(run, child, err);
    }
    for (int i = 0; i < 2; i++) {
        if (child[i] >= 0) {
            (void)close(child[i]);
        }
    }
    bool may_try_again = run->spec.argc == 0 && !(run->spec.shell && *run->spec.shell);
    if (!rc && !may_try_again) {
        close_child_stdin(run);
    }
    run->is_start_pending = !rc;
    return rc;
}

/* A command that is too long for an argument goes ahead of the input. head reads no byte too many:
 * what follows is the command's own input. */
static int send_long_command(struct exec_run *run, const struct exec_run_spec *spec)
{
    size_t n = strlen(spec->command);
    run->spec.command = arena_printf(&run->arena, "eval \"$(head -c %zu)\"", n);
    if (!run->spec.command) {
        return -1;
    }
    buf_add(&run->input, spec->command, n);
    run->is_input_closing = !spec->has_stdin;
    return 0;
}

static const char *const *copy_list(struct arena *arena, const char *const *from, size_t count)
{
    const char **list = arena_calloc(arena, count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++) {
        list[i] = arena_strdup(arena, from[i]);
        if (!list[i]) {
            return NULL;
        }
    }
    return list;
}

static int copy_spec(struct exec_run *run, const struct exec_run_spec *spec)
{
    run->spec = *spec;
    run->spec.argv = copy_list(&run->arena, spec->argv, spec->argc);
    run->spec.env = copy_list(&run->arena, spec->env, spec->env_count);
    run->spec.cwd = arena_strdup(&run->arena, spec->cwd ? spec->cwd : "");
    run->spec.command = "";
    run->has_long_command = spec->command && strlen(spec->command) > COMMAND_ARGUMENT_MAX_BYTES;
    if (run->has_long_command) {
        run->spec.has_stdin = true;
    } else if (spec->command) {
        run->spec.command = arena_strdup(&run->arena, spec->command);
    }
    run->shell_index = spec->shell && *spec->shell > 0 ? (*spec->shell - 1) % SHELL_COUNT : 0;
    return run->spec.argv && run->spec.env && run->spec.cwd && run->spec.command ? 0 : -1;
}

int exec_run_start(struct gateway *g, const struct exec_run_spec *spec,
                   const struct exec_run_events *events, struct exec_run **ret, struct error *err)
{
    struct exec_run *run = calloc(1, sizeof *run);
    if (!run) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start a program: no memory");
    }
    run->gateway = g;
    run->events = *events;
    run->child_stdin = run->stdin_fd = -1;
    arena_init(&run->arena, SPEC_ARENA_CAP_BYTES);
    buf_init(&run->input, STDIN_QUEUE_MAX_BYTES);
    int rc = copy_spec(run, spec)
                 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "start a program: no memory")
                 : make_input(run, err);
    if (!rc && run->has_long_command && send_long_command(run, spec)) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "start a program: no memory");
    }
    if (!rc) {
        rc = start_attempt(run, err);
    }
    if (!rc) {
        pump_input(run);
    }
    if (rc) {
        run_free(run);
        return rc;
    }
    *ret = run;
    return 0;
}

/* --- kill --- */

static void on_killed(void *context, const struct executor_reply *reply)
{
    /* The end of the run tells; a run that ended meanwhile is NOT_FOUND here. */
    (void)context;
    (void)reply;
}

static void send_kill(struct exec_run *run)
{
    struct executor_client *client = executor_link_client(run->gateway->executor, NULL);
    if (client) {
        (void)executor_run_kill(client, run->watch.run, run->kill_reason,
                                (struct executor_callback){on_killed, NULL}, NULL);
    }
}

void exec_run_kill(struct exec_run *run, enum executor_kill_reason reason)
{
    if (run->has_ended || run->kill_reason != EXECUTOR_KILL_NONE) {
        return;
    }
    run->kill_reason = reason;
    if (run->is_running) {
        send_kill(run);
    }
}

static void on_limit_told(void *context, const struct executor_reply *reply)
{
    struct limit_note *note = context;
    if (note->run) {
        note->run->heard_limit = reply->err.status == 0;
        note->run->limit_note = NULL;
    }
    free(note);
}

void exec_run_terminate(struct exec_run *run, uint32_t wall_limit_ms)
{
    struct executor_client *client = executor_link_client(run->gateway->executor, NULL);
    if (run->has_ended || run->kill_reason != EXECUTOR_KILL_NONE) {
        return;
    }
    run->wall_limit_ns = (uint64_t)wall_limit_ms * 1000000;
    struct limit_note *note = client && run->is_running ? calloc(1, sizeof *note) : NULL;
    if (!note) {
        return; /* the kill that follows does without */
    }
    note->run = run;
    if (executor_run_signal(client, run->watch.run, SIGTERM, true,
                            (struct executor_callback){on_limit_told, note}, NULL)) {
        free(note);
        return;
    }
    run->limit_note = note;
    /* A stopped program hears nothing before it goes on. */
    (void)executor_run_signal(client, run->watch.run, SIGCONT, true,
                              (struct executor_callback){on_killed, NULL}, NULL);
}

void exec_run_abandon(struct exec_run *run, enum executor_kill_reason reason)
{
    run->is_abandoned = true;
    if (run->has_ended) {
        run_free(run);
        return;
    }
    if (reason != EXECUTOR_KILL_NONE) {
        exec_run_kill(run, reason);
    }
    close_input(run);
    exec_run_resume_output(run);
}

void exec_run_mute(struct exec_run *run, enum executor_kill_reason reason)
{
    run->is_muted = true;
    if (run->has_ended) {
        finish(run);
        return;
    }
    exec_run_kill(run, reason);
    close_input(run);
    exec_run_resume_output(run);
}

unsigned exec_shell_number(const char *path)
{
    for (unsigned i = 0; i < SHELL_COUNT; i++) {
        if (strcmp(SHELLS[i], path) == 0) {
            return i + 1;
        }
    }
    return 0;
}
