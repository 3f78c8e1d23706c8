/* run, exec, start, stop, logs: what is done with a workspace. */
#include "gateway/cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/cordium.pb-c.h"
#include "gateway/cli/exec_stream.h"
#include "gateway/cli/field.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/kinds.h"
#include "gateway/cli/output.h"
#include "gateway/cli/resource_build.h"
#include "gateway/cli/workspace_wait.h"

static int exec_words(struct cli *cli, const char *workspace, const struct arguments *args,
                      size_t first_word, int interrupt_fd, int *exit_code, struct error *err)
{
    char *command =
        exec_quote_words(cli, args->words.items + first_word, args->words.count - first_word);
    if (!command) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "the command is longer than 1 MiB");
    }
    struct exec_stream x = {
        .workspace = workspace,
        .command = command,
        .working_dir = args->working_dir,
        .env = &args->env,
        .as_root = args->as_root,
        .input_fd = args->no_stdin ? -1 : STDIN_FILENO,
        .interrupt_fd = interrupt_fd,
    };
    if (exec_stream_run(cli, &x, err) < 0) {
        return -err->status;
    }
    *exit_code = exec_stream_exit_code(&x);
    return 0;
}

static int exec_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    return exec_words(cli, args->words.items[0], args, 1, 0, exit_code, err);
}

static int run_exec(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, exec_body);
}

static int make_and_start(struct cli *cli, const struct arguments *args, const char **ret_name,
                          struct error *err)
{
    Cordium__Workspace *w = CLI_NEW(cli, Cordium__Workspace, cordium__workspace);
    ProtobufCMessage *made = NULL;
    /* -e of `run` is for the workspace: every program in it sees it. */
    if (resource_build_workspace(cli, w, args, err) < 0 ||
        cli_call(cli, CORDIUM_MAIN "CreateWorkspace", &w->base, &made, err) < 0) {
        return -err->status;
    }
    *ret_name = field_text(made, "metadata.name", &cli->arena);
    int status = resource_start_workspace(cli, made, err);
    return status < 0 ? status : workspace_wait_running(cli, *ret_name, err);
}

static int delete_workspace(struct cli *cli, const char *name, struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, &meta__delete_options__descriptor);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "name", name, &cli->arena);
    return cli_call(cli, CORDIUM_MAIN "DeleteWorkspace", request, &reply, err);
}

static int run_body(struct cli *cli, const struct arguments *args, int *exit_code,
                    struct error *err)
{
    const char *name = NULL;
    /* With --rm an interrupt must not end us before the workspace is gone. */
    int interrupt_fd = args->remove_after ? interrupt_open() : 0;
    int status = make_and_start(cli, args, &name, err);
    if (status == 0 && args->words.count > 0) {
        struct arguments without_env = *args;
        without_env.env.count = 0;
        status = exec_words(cli, name, &without_env, 0, interrupt_fd, exit_code, err);
    } else if (status == 0) {
        printf("%s\n", name);
    }
    if (name && args->remove_after && (args->words.count > 0 || status < 0)) {
        struct error second;
        if (delete_workspace(cli, name, &second) < 0) {
            *exit_code = cli_report(&second);
        }
    }
    return status;
}

static int run_run(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, run_body);
}

static int call_with_workspace(struct cli *cli, const char *method,
                               const ProtobufCMessageDescriptor *type, const char *name,
                               struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, type);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "workspace_ref.name", name, &cli->arena);
    return cli_call(cli, method, request, &reply, err);
}

static int start_body(struct cli *cli, const struct arguments *args, int *exit_code,
                      struct error *err)
{
    (void)exit_code;
    const char *name = args->words.items[0];
    if (call_with_workspace(cli, CORDIUM_MAIN "StartWorkspace",
                            &cordium__start_workspace_request__descriptor, name, err) < 0 ||
        (!args->no_wait && workspace_wait_running(cli, name, err) < 0)) {
        return -err->status;
    }
    fprintf(stderr, "Successfully started the Workspace: %s\n", name);
    return 0;
}

static int run_start(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, start_body);
}

static int stop_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    const char *name = args->words.items[0];
    if (call_with_workspace(cli, CORDIUM_MAIN "StopWorkspace",
                            &cordium__stop_workspace_request__descriptor, name, err) < 0 ||
        (!args->no_wait && workspace_wait_stopped(cli, name, err) < 0)) {
        return -err->status;
    }
    fprintf(stderr, "Successfully stopped the Workspace: %s\n", name);
    return 0;
}

static int run_stop(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, stop_body);
}

static int logs_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    return workspace_follow_log(cli, args->words.items[0], args->timestamps, err);
}

static int run_logs(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, logs_body);
}

#define ARG_WORKDIR                                                                                \
    {                                                                                              \
        "workdir", 'w', "DIR", 0, "working directory of the program", 0                            \
    }
#define ARG_ROOT                                                                                   \
    {                                                                                              \
        "root", OPT_ROOT, NULL, 0, "run as root of the workspace", 0                               \
    }
#define ARG_NO_STDIN                                                                               \
    {                                                                                              \
        "no-stdin", OPT_NO_STDIN, NULL, 0, "the program reads nothing", 0                          \
    }
#define ARG_NO_WAIT                                                                                \
    {                                                                                              \
        "no-wait", OPT_NO_WAIT, NULL, 0, "return at once", 0                                       \
    }

static const struct argp_option exec_options[] = {ARG_WORKDIR, ARG_ENV, ARG_ROOT, ARG_NO_STDIN,
                                                  ARG_END};

static const struct argp_option run_options[] = {
    {"template", OPT_TEMPLATE, "TEMPLATE", 0, "make it from this Template", 0},
    {"image", OPT_IMAGE, "URL", 0, "image of a registry", 0},
    {"dockerfile", OPT_DOCKERFILE, "FILE", 0, "build this file", 0},
    {"cpu", OPT_CPU, "MILLICORES", 0, "limit", 0},
    {"memory", OPT_MEMORY, "MEGABYTES", 0, "limit", 0},
    {"storage", OPT_STORAGE, "MEGABYTES", 0, "limit", 0},
    {"read-only", OPT_READ_ONLY, NULL, 0, "read-only root file system", 0},
    {"no-network", OPT_NO_NETWORK, NULL, 0, "no network beyond loopback", 0},
    {"var", OPT_VAR, "NAME=VALUE", 0, "variable of the spec (may be repeated)", 0},
    {"ephemeral", OPT_EPHEMERAL, NULL, 0, "storage goes when it stops", 0},
    {"rm", OPT_RM, NULL, 0, "delete it when the command has ended", 0},
    ARG_WORKDIR,
    ARG_ENV,
    ARG_ROOT,
    ARG_NO_STDIN,
    ARG_END,
};

static const struct argp_option wait_options[] = {ARG_NO_WAIT, ARG_END};
static const struct argp_option logs_options[] = {
    {"timestamps", 't', NULL, 0, "show the time of each line", 0}, ARG_END};

const struct command workspace_commands[] = {
    {"run", "Make and start a Workspace, and run a command in it.", "[-- COMMAND...]", run_options,
     0, 0, ARGUMENTS_LIST_MAX, run_run},
    {"exec", "Run a command in a Workspace; its exit code is ours.", "WORKSPACE [--] COMMAND...",
     exec_options, 1, 2, ARGUMENTS_LIST_MAX, run_exec},
    {"start", "Start a Workspace.", "WORKSPACE", wait_options, 0, 1, 1, run_start},
    {"stop", "Stop a Workspace.", "WORKSPACE", wait_options, 0, 1, 1, run_stop},
    {"logs", "Follow the log of a Workspace: pulls, builds, tasks.", "WORKSPACE", logs_options, 0,
     1, 1, run_logs},
    {0},
};
