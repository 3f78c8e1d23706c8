#include "gateway/services/workspace_task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/gateway.h"
#include "gateway/services/exec_run.h"
#include "gateway/services/workspace_secret.h"

enum {
    JOBS_MAX = 512, /* 3 lists of at most 128 tasks, and 33 repositories */
    TASKS_FRESH_TIMEOUT_MS = 60 * 60 * 1000,
    TASKS_TIMEOUT_MS = 20 * 60 * 1000,
    JOB_ARGS_MAX = 12,
};

typedef Cordium__Workspace__Spec__Runtime__Task task_message;
#define TASK_TYPE(name) CORDIUM__WORKSPACE__SPEC__RUNTIME__TASK__TYPE__##name

struct job {
    const task_message *task; /* NULL: a clone */
    const char *argv[JOB_ARGS_MAX];
    size_t argc;
    const char *repository_name; /* of an additional repository; NULL: the main one */
    const char *password;        /* of the clone; "" */
};

struct workspace_task_runner {
    struct workspace_run *run;
    struct arena arena;
    struct job *jobs;
    size_t job_count;
    size_t next;
    struct exec_run *program;
    uv_timer_t *timer;
    workspace_tasks_done *done;
    bool has_timed_out;
};

/* A background task, or one whose runner is gone: its output still goes to the log. */
struct background {
    struct gateway *gateway;
    struct workspace_log *log;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void runner_free(struct workspace_task_runner *runner)
{
    if (runner->timer) {
        (void)uv_timer_stop(runner->timer);
        uv_close((uv_handle_t *)runner->timer, free_handle);
    }
    if (runner->run->tasks == runner) {
        runner->run->tasks = NULL;
    }
    arena_free(&runner->arena);
    free(runner);
}

static void end_sequence(struct workspace_task_runner *runner,
                         const struct workspace_failure *failure)
{
    struct workspace_run *run = runner->run;
    workspace_tasks_done *done = runner->done;
    runner->run->tasks = NULL;
    done(run, failure);
    arena_free(&runner->arena);
    if (runner->timer) {
        (void)uv_timer_stop(runner->timer);
        uv_close((uv_handle_t *)runner->timer, free_handle);
    }
    free(runner);
}

/* --- output --- */

static Cordium__ListenLogResponse__Mode mode_of(enum exec_stream stream)
{
    return stream == EXEC_STDOUT ? CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDOUT
                                 : CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR;
}

static bool on_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct workspace_task_runner *runner = context;
    const struct job *job = &runner->jobs[runner->next - 1];
    workspace_log_append(runner->run->log, gateway_wall_ns(runner->run->gateway),
                         job->task ? CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK
                                   : CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_CLONING_REPO,
                         mode_of(stream), bytes);
    return false;
}

static bool on_background_output(void *context, enum exec_stream stream, struct str bytes)
{
    struct background *b = context;
    workspace_log_append(b->log, gateway_wall_ns(b->gateway),
                         CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK, mode_of(stream), bytes);
    return false;
}

static void on_background_ended(void *context, const struct exec_outcome *outcome)
{
    struct background *b = context;
    (void)outcome; /* a background task's end has no effect, whatever on_failure says */
    workspace_log_unref(b->log);
    free(b);
}

/* --- one job --- */

/* The workspace's environment, then the task's own, HOME of root, and a clone's password (which
 * must not be in argv, where every process of the sandbox could read it). */
static const char *const *job_env(struct workspace_task_runner *runner, const struct job *job,
                                  size_t *ret_count)
{
    struct workspace_env env = {.arena = &runner->arena};
    for (size_t i = 0; i < runner->run->env.count; i++) {
        const char *entry = runner->run->env.entries[i];
        const char *eq = strchr(entry, '=');
        char *name = arena_strndup(&runner->arena, entry, (size_t)(eq - entry));
        if (!name) {
            return NULL;
        }
        workspace_env_set(&env, name, eq + 1);
    }
    for (size_t i = 0; job->task && i < job->task->n_env_vars; i++) {
        workspace_env_set(&env, job->task->env_vars[i]->key, job->task->env_vars[i]->value);
    }
    if (job->task && job->task->run_as_root) {
        workspace_env_set(&env, "HOME", "/root");
    }
    if (!job->task) {
        workspace_env_set(&env, "GIT_TERMINAL_PROMPT", "0");
        workspace_env_set(&env, "CORDIUM_GIT_PASSWORD", job->password ? job->password : "");
    }
    *ret_count = env.count;
    return env.has_failed ? NULL : env.entries;
}

static int start_program(struct workspace_task_runner *runner, const struct job *job,
                         const struct exec_run_events *events, struct exec_run **ret,
                         struct error *err)
{
    struct workspace_run *run = runner->run;
    bool as_root = job->task && job->task->run_as_root;
    size_t env_count;
    const char *const *env = job_env(runner, job, &env_count);
    if (!env) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The environment is too large");
    }
    const struct exec_run_spec spec = {
        .sandbox = run->sandbox,
        .argv = job->argv,
        .argc = job->argc,
        .command = job->task ? job->task->run : NULL,
        .shell = NULL,
        .env = env,
        .env_count = env_count,
        .cwd = job->task && job->task->working_dir[0] ? job->task->working_dir : WORKSPACE_DIR,
        .uid = as_root ? 0 : run->image.uid,
        .gid = as_root ? 0 : run->image.gid,
    };
    return exec_run_start(run->gateway, &spec, events, ret, err);
}

static void start_background(struct workspace_task_runner *runner, const struct job *job)
{
    struct background *b = calloc(1, sizeof *b);
    if (!b) {
        return;
    }
    b->gateway = runner->run->gateway;
    b->log = workspace_log_ref(runner->run->log);
    const struct exec_run_events events = {on_background_output, NULL, on_background_ended, b,
                                           NULL};
    struct exec_run *program;
    struct error err = {0};
    if (start_program(runner, job, &events, &program, &err)) {
        workspace_log_append(b->log, gateway_wall_ns(b->gateway),
                             CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK,
                             CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR, str_from(err.text));
        on_background_ended(b, NULL);
    }
}

static struct workspace_failure describe(struct workspace_task_runner *runner,
                                         const struct job *job, int code, const char *text)
{
    struct workspace_failure f = {.exit_code = code};
    if (job->task) {
        f.kind = WORKSPACE_FAILURE(TASK);
        f.name = job->task->name;
        f.message = arena_printf(&runner->arena, "Task '%s' failed with exit code %d%s%s",
                                 job->task->name, code, text[0] ? ": " : "", text);
    } else if (job->repository_name) {
        f.kind = WORKSPACE_FAILURE(ADDITIONAL_REPO_CLONE);
        f.name = job->repository_name;
        f.message = arena_printf(&runner->arena,
                                 "Repository '%s' could not be cloned (exit code %d%s%s); see the "
                                 "workspace's log",
                                 job->repository_name, code, text[0] ? ": " : "", text);
    } else {
        f.kind = WORKSPACE_FAILURE(REPO_CLONE);
        f.message = arena_printf(&runner->arena,
                                 "The repository could not be cloned (exit code %d%s%s); see the "
                                 "workspace's log. The image needs git",
                                 code, text[0] ? ": " : "", text);
    }
    f.message = f.message ? f.message : "A task failed";
    return f;
}

static void run_next(struct workspace_task_runner *runner);

static void on_ended(void *context, const struct exec_outcome *outcome)
{
    struct workspace_task_runner *runner = context;
    const struct job *job = &runner->jobs[runner->next - 1];
    runner->program = NULL;
    bool aborts = !job->task || runner->has_timed_out ||
                  job->task->on_failure ==
                      CORDIUM__WORKSPACE__SPEC__RUNTIME__TASK__ON_FAILURE__ON_FAILURE_ABORT;
    if (outcome->code != 0 && aborts) {
        const char *text = runner->has_timed_out ? "the tasks took too long" : outcome->text;
        const struct workspace_failure failure = describe(runner, job, outcome->code, text);
        end_sequence(runner, &failure);
        return;
    }
    run_next(runner);
}

static void run_next(struct workspace_task_runner *runner)
{
    while (runner->next < runner->job_count) {
        const struct job *job = &runner->jobs[runner->next++];
        if (job->task && job->task->is_background) {
            if (!runner->run->is_build) {
                start_background(runner, job);
            }
            continue;
        }
        const struct exec_run_events events = {on_output, NULL, on_ended, runner, NULL};
        struct error err = {0};
        if (start_program(runner, job, &events, &runner->program, &err)) {
            const struct workspace_failure failure = describe(runner, job, -1, err.text);
            end_sequence(runner, &failure);
        }
        return;
    }
    end_sequence(runner, NULL);
}

/* --- the list of jobs --- */

/* $1 url, $2 folder, $3 branch, $4 depth or 0, $5 "1" = single branch, $6 what to check out,
 * $7 user name. A folder that is there already was cloned by an earlier try. */
static const char CLONE_SCRIPT[] =
    "command -v git >/dev/null 2>&1 || { echo 'git is not installed in the image' >&2; exit 127; "
    "}\n"
    "url=$1 dir=$2 branch=$3 depth=$4 single=$5 checkout=$6 user=$7\n"
    "[ -e \"$dir/.git\" ] && exit 0\n"
    "set --\n"
    "[ -n \"$user$CORDIUM_GIT_PASSWORD\" ] && { export CORDIUM_GIT_USERNAME=\"$user\"; set -- -c "
    "'credential.helper=!f() { echo \"username=$CORDIUM_GIT_USERNAME\"; echo "
    "\"password=$CORDIUM_GIT_PASSWORD\"; }; f'; }\n"
    "set -- \"$@\" clone --progress\n"
    "[ -n \"$branch\" ] && set -- \"$@\" --branch \"$branch\"\n"
    "[ \"$depth\" != 0 ] && set -- \"$@\" --depth \"$depth\"\n"
    "[ \"$single\" = 1 ] && set -- \"$@\" --single-branch\n"
    "git \"$@\" -- \"$url\" \"$dir\" || exit\n"
    "[ -z \"$checkout\" ] || git -C \"$dir\" checkout \"$checkout\" --\n";

static int add_clone(struct workspace_task_runner *runner,
                     const Cordium__Workspace__Spec__Repository *repository, const char *name,
                     const char *path, struct error *err)
{
    struct job *job = &runner->jobs[runner->job_count];
    const Cordium__Workspace__Spec__Repository__CloneOptions *o = repository->clone_options;
    const char *user = "";
    const char *password = "";
    if (repository->authentication && repository->authentication->http) {
        const Cordium__Workspace__Spec__Repository__Authentication__HTTP *http =
            repository->authentication->http;
        user = http->username[0] ? http->username : "git";
        if (http->password && http->password->from_secret) {
            int rc = workspace_secret_of_space(runner->run, http->password->from_secret,
                                               &runner->arena, &password, err);
            if (rc) {
                return rc;
            }
        }
    }
    const char *argv[] = {"/bin/sh",
                          "-c",
                          CLONE_SCRIPT,
                          "clone",
                          repository->url,
                          path,
                          o ? o->branch : "",
                          arena_printf(&runner->arena, "%u", o ? o->depth : 0),
                          o && o->single_branch ? "1" : "0",
                          o ? o->checkout : "",
                          user};
    memcpy(job->argv, argv, sizeof argv);
    job->argc = sizeof argv / sizeof argv[0];
    job->repository_name = name;
    job->password = password;
    runner->job_count++;
    return 0;
}

static int add_clones(struct workspace_task_runner *runner, struct error *err)
{
    const Cordium__Workspace__Spec *spec = runner->run->spec;
    if (spec->repository && spec->repository->url[0]) {
        int rc = add_clone(runner, spec->repository, NULL, WORKSPACE_DIR "/repo", err);
        if (rc) {
            return rc;
        }
    }
    for (size_t i = 0; i < spec->n_additional_repositories && i < 32; i++) {
        const Cordium__Workspace__Spec__AdditionalRepository *more =
            spec->additional_repositories[i];
        const char *path =
            more->clone_path[0]
                ? more->clone_path
                : arena_printf(&runner->arena, WORKSPACE_DIR "/additional-repos/%s", more->name);
        if (!more->repository || !path) {
            continue;
        }
        int rc = add_clone(runner, more->repository, more->name, path, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static void add_list(struct workspace_task_runner *runner, int type, size_t count,
                     task_message **tasks)
{
    for (size_t i = 0; i < count && runner->job_count < JOBS_MAX; i++) {
        if ((int)tasks[i]->type == type) {
            runner->jobs[runner->job_count++].task = tasks[i];
        }
    }
}

/* The spec's tasks, then the user's, then the space's. */
static void add_tasks(struct workspace_task_runner *runner, int type)
{
    const struct workspace_run *run = runner->run;
    if (run->spec->runtime) {
        add_list(runner, type, run->spec->runtime->n_tasks, run->spec->runtime->tasks);
    }
    if (run->user_config && run->user_config->spec) {
        add_list(runner, type, run->user_config->spec->n_tasks, run->user_config->spec->tasks);
    }
    if (run->space && run->space->spec && run->space->spec->runtime) {
        add_list(runner, type, run->space->spec->runtime->n_tasks,
                 run->space->spec->runtime->tasks);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct workspace_task_runner *runner = timer->data;
    runner->has_timed_out = true;
    if (runner->program) {
        exec_run_kill(runner->program, EXECUTOR_KILL_DEADLINE);
    }
}

static struct workspace_task_runner *runner_new(struct workspace_run *run,
                                                workspace_tasks_done *done, unsigned timeout_ms)
{
    struct workspace_task_runner *runner = calloc(1, sizeof *runner);
    if (!runner) {
        return NULL;
    }
    runner->run = run;
    runner->done = done;
    arena_init(&runner->arena, 64 * 1024 * 1024); /* an environment for each job */
    runner->jobs = arena_calloc(&runner->arena, JOBS_MAX, sizeof *runner->jobs);
    runner->timer = calloc(1, sizeof *runner->timer);
    if (runner->timer) {
        (void)uv_timer_init(run->gateway->loop, runner->timer);
        runner->timer->data = runner;
        (void)uv_timer_start(runner->timer, on_timer, timeout_ms, 0);
    }
    if (!runner->jobs || !runner->timer) {
        runner_free(runner);
        return NULL;
    }
    run->tasks = runner;
    return runner;
}

static bool has_tasks(const struct workspace_run *run)
{
    return (run->spec->runtime && run->spec->runtime->n_tasks > 0) ||
           (run->user_config && run->user_config->spec && run->user_config->spec->n_tasks > 0) ||
           (run->space && run->space->spec && run->space->spec->runtime &&
            run->space->spec->runtime->n_tasks > 0);
}

static void fail_at_once(struct workspace_run *run, workspace_tasks_done *done, const char *text)
{
    const struct workspace_failure failure = {.kind = WORKSPACE_FAILURE(UNKNOWN), .message = text};
    done(run, &failure);
}

void workspace_tasks_prepare(struct workspace_run *run, workspace_tasks_done *done)
{
    bool clones = run->is_fresh && ((run->spec->repository && run->spec->repository->url[0]) ||
                                    run->spec->n_additional_repositories > 0);
    if (!clones && !has_tasks(run)) {
        done(run, NULL);
        return;
    }
    struct workspace_task_runner *runner =
        runner_new(run, done, run->is_fresh ? TASKS_FRESH_TIMEOUT_MS : TASKS_TIMEOUT_MS);
    if (!runner) {
        fail_at_once(run, done, "The tasks could not be started: no memory");
        return;
    }
    struct error err = {0};
    if (clones && add_clones(runner, &err)) {
        const struct workspace_failure failure = {.kind = WORKSPACE_FAILURE(REPO_CLONE),
                                                  .message = err.text};
        end_sequence(runner, &failure);
        return;
    }
    if (run->is_fresh) {
        add_tasks(runner, TASK_TYPE(ON_CREATE));
    }
    add_tasks(runner, TASK_TYPE(POST_START));
    run_next(runner);
}

void workspace_tasks_stop(struct workspace_run *run, workspace_tasks_done *done)
{
    struct workspace_task_runner *runner =
        has_tasks(run) ? runner_new(run, done, TASKS_TIMEOUT_MS) : NULL;
    if (!runner) {
        done(run, NULL);
        return;
    }
    add_tasks(runner, TASK_TYPE(PRE_STOP));
    run_next(runner);
}

void workspace_tasks_cancel(struct workspace_run *run)
{
    struct workspace_task_runner *runner = run->tasks;
    if (!runner) {
        return;
    }
    if (runner->program) {
        exec_run_abandon(runner->program, EXECUTOR_KILL_CANCELLED);
    }
    runner_free(runner);
}
