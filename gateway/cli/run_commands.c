/* run-code, runs: a program run once in a sandbox of its own, and what became of earlier ones. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/ext.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/field.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/output.h"
#include "gateway/cli/run_report.h"

#define RUN_SERVICE "/cordium.ext.v1.RunService/"

enum { EXIT_NO_CODE = 255, COLUMNS = 7, TIMEOUT_MAX_SECONDS = UINT32_MAX / 1000 };

/* --- the request --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* By the ending of the file's name; "" when it tells nothing. */
static const char *language_of(const char *file)
{
    static const char *const ENDINGS[][2] = {{".py", "python"}, {".sh", "sh"},   {".bash", "bash"},
                                             {".js", "node"},   {".rb", "ruby"}, {".pl", "perl"},
                                             {".php", "php"},   {".lua", "lua"}};
    const char *dot = strrchr(base_name(file), '.');
    for (size_t i = 0; dot && i < sizeof ENDINGS / sizeof ENDINGS[0]; i++) {
        if (strcmp(dot, ENDINGS[i][0]) == 0) {
            return ENDINGS[i][1];
        }
    }
    return "";
}

static char *text_of(struct cli *cli, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    char *copy = cli_alloc(cli, n + 1);
    if (n > 0) {
        memcpy(copy, text, n);
    }
    return copy;
}

static int add_code(struct cli *cli, const struct arguments *args, Ext__RunRequest *request,
                    struct error *err)
{
    struct str code;
    if (local_file_read(args->file, &cli->arena, &code, err) < 0) {
        return -err->status;
    }
    const char *language = args->language ? args->language : language_of(args->file);
    if (!language[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "the language of '%s' is not known by its name; give --language",
                         args->file);
    }
    if (code.len == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is empty", args->file);
    }
    request->language = text_of(cli, language);
    request->code_bytes = (ProtobufCBinaryData){code.len, (uint8_t *)(uintptr_t)code.ptr};
    return 0;
}

static int add_files(struct cli *cli, const struct arguments *args, Ext__RunRequest *request,
                     struct error *err)
{
    request->files = cli_alloc(cli, (args->sent_files.count + 1) * sizeof *request->files);
    for (size_t i = 0; i < args->sent_files.count; i++) {
        struct str bytes;
        if (local_file_read(args->sent_files.items[i], &cli->arena, &bytes, err) < 0) {
            return -err->status;
        }
        Ext__RunFile *file = CLI_NEW(cli, Ext__RunFile, ext__run_file);
        file->path = text_of(cli, base_name(args->sent_files.items[i]));
        file->data = (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr};
        file->is_executable = access(args->sent_files.items[i], X_OK) == 0;
        request->files[request->n_files++] = file;
    }
    return 0;
}

static int add_env(struct cli *cli, const struct arguments *args, Ext__RunRequest *request,
                   struct error *err)
{
    request->env = cli_alloc(cli, (args->env.count + 1) * sizeof *request->env);
    for (size_t i = 0; i < args->env.count; i++) {
        const char *item = args->env.items[i];
        const char *equals = strchr(item, '=');
        if (!equals || equals == item) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "--env '%s': expected NAME=VALUE", item);
        }
        Ext__RunRequest__EnvEntry *entry =
            CLI_NEW(cli, Ext__RunRequest__EnvEntry, ext__run_request__env_entry);
        entry->key = cli_printf(cli, "%.*s", (int)(equals - item), item);
        entry->value = text_of(cli, equals + 1);
        request->env[request->n_env++] = entry;
    }
    return 0;
}

static char **texts_of(struct cli *cli, const struct argument_list *list, size_t *ret_count)
{
    char **texts = cli_alloc(cli, (list->count + 1) * sizeof *texts);
    for (size_t i = 0; i < list->count; i++) {
        texts[i] = text_of(cli, list->items[i]);
    }
    *ret_count = list->count;
    return texts;
}

/* What is piped in is the program's input; a terminal is not. */
static int add_input(struct cli *cli, const struct arguments *args, Ext__RunRequest *request,
                     struct error *err)
{
    struct str input;
    bool is_code = args->file && strcmp(args->file, "-") == 0;
    if (args->no_stdin || is_code || isatty(STDIN_FILENO)) {
        return 0;
    }
    if (local_file_read("-", &cli->arena, &input, err) < 0) {
        return -err->status;
    }
    request->stdin_bytes = (ProtobufCBinaryData){input.len, (uint8_t *)(uintptr_t)input.ptr};
    return 0;
}

static int make_request(struct cli *cli, const struct arguments *args, Ext__RunRequest *request,
                        struct error *err)
{
    if (!args->file && args->words.count == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "there is nothing to run: give --file=FILE, or a program after '--'");
    }
    if (args->timeout_seconds > TIMEOUT_MAX_SECONDS) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--timeout takes at most %d seconds",
                         TIMEOUT_MAX_SECONDS);
    }
    if (args->collect.count > 0 && args->into && !args->output &&
        access(args->into, W_OK | X_OK) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "write below '%s'",
                               args->into);
    }
    request->template_ = text_of(cli, args->template_);
    request->image = text_of(cli, args->image);
    request->working_dir = text_of(cli, args->working_dir);
    request->idempotency_key = text_of(cli, args->key);
    request->run_as_root = args->as_root;
    request->cancel_on_disconnect = true;
    request->argv = texts_of(cli, &args->words, &request->n_argv);
    request->collect = texts_of(cli, &args->collect, &request->n_collect);
    request->limits = CLI_NEW(cli, Ext__RunLimits, ext__run_limits);
    request->limits->cpu_millicores = args->cpu;
    request->limits->memory_megabytes = args->memory;
    request->limits->disk_megabytes = args->storage;
    request->limits->wall_ms = args->timeout_seconds * 1000;
    int status = args->file ? add_code(cli, args, request, err) : 0;
    status = status < 0 ? status : add_files(cli, args, request, err);
    status = status < 0 ? status : add_env(cli, args, request, err);
    return status < 0 ? status : add_input(cli, args, request, err);
}

/* --- the answer --- */

static struct str bytes_of(const char *text, ProtobufCBinaryData data)
{
    return data.len > 0 ? str_make(data.data, data.len) : str_from(text);
}

/* The program's text lies in /workspace as main.py or the like, and a pattern such as "*" matches
 * it, too: that must not go over a main.py of the user's own. */
static bool is_own_code(const Ext__RunCollected *file, const Ext__RunRequest *request)
{
    struct str code = str_make(request->code_bytes.data, request->code_bytes.len);
    return code.len > 0 && strncmp(file->path, "main.", strlen("main.")) == 0 &&
           str_eq(bytes_of(file->text, file->data), code);
}

static int write_files(const Ext__RunResult *r, const struct arguments *args,
                       const Ext__RunRequest *request, struct error *err)
{
    struct error one;
    int status = 0;
    for (size_t i = 0; i < r->n_files; i++) {
        const Ext__RunCollected *file = r->files[i];
        if (file->skipped[0]) {
            run_report_skipped(file);
        } else if (!is_own_code(file, request) &&
                   local_file_write_below(args->into ? args->into : ".", file->path, file->mode,
                                          bytes_of(file->text, file->data), &one) < 0 &&
                   status == 0) {
            status = error_set(err, one.status, "%s", one.text); /* the others are written */
        }
    }
    if (r->files_left_out > 0) {
        run_report_left_out(r->files_left_out);
    }
    return status;
}

static int exit_code_of(const Ext__RunResult *r)
{
    bool has_code = r->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE;
    return has_code && r->exit_code >= 0 && r->exit_code <= 255 ? r->exit_code : EXIT_NO_CODE;
}

struct flow {
    struct cli *cli;
    const struct arguments *args;
    const Ext__RunRequest *request;
    bool has_result;
    bool has_failed;
    int exit_code;
    uint64_t shown[2]; /* bytes of each stream */
    bool is_in_line;   /* what was shown last beside our lines had no newline at its end */
    struct error err;
};

static bool show(struct flow *f, FILE *to, struct str bytes)
{
    if (bytes.len == 0) {
        return true;
    }
    if (to == stderr || (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))) {
        f->is_in_line = bytes.ptr[bytes.len - 1] != '\n';
    }
    return fwrite(bytes.ptr, 1, bytes.len, to) == bytes.len && fflush(to) == 0;
}

/* Our own lines are not the end of a program's. */
static void begin_line(struct flow *f)
{
    if (f->is_in_line) {
        fputc('\n', stderr);
        f->is_in_line = false;
    }
}

/* What was streamed is the beginning, as far as the limit goes; the result has the end of what was
 * cut. Of a repeated run nothing was streamed: all is in the result. */
static bool show_rest(struct flow *f, FILE *to, int stream, const Ext__RunOutput *o)
{
    if (!o) {
        return true;
    }
    if (f->shown[stream] == 0) {
        struct str head = bytes_of(o->text, o->data);
        f->shown[stream] = head.len;
        if (!show(f, to, head)) {
            return false;
        }
    }
    struct str tail = bytes_of(o->tail_text, o->tail_data);
    uint64_t tail_at = o->total_bytes - tail.len;
    if (tail_at > f->shown[stream]) {
        begin_line(f);
        run_report_dropped(tail_at - f->shown[stream]);
    } else {
        uint64_t again = f->shown[stream] - tail_at;
        again = again < tail.len ? again : tail.len;
        tail.ptr += again;
        tail.len -= (size_t)again;
    }
    return show(f, to, tail);
}

static bool take_result(struct flow *f, const Ext__RunResult *r)
{
    f->has_result = true;
    f->exit_code = exit_code_of(r);
    if (f->args->output) {
        return output_message(&r->base, f->args->output, &f->err) == 0;
    }
    if (!show_rest(f, stdout, 0, r->stdout) || !show_rest(f, stderr, 1, r->stderr)) {
        return false;
    }
    begin_line(f);
    bool is_fine = write_files(r, f->args, f->request, &f->err) == 0;
    if (f->exit_code != 0 || r->detail[0] || isatty(STDERR_FILENO)) {
        run_report_fate(r);
    }
    return is_fine;
}

static bool on_message(void *state, const ProtobufCMessage *message)
{
    struct flow *f = state;
    const Ext__RunEvent *event = (const Ext__RunEvent *)message;
    bool is_fine = true;
    if (event->type_case == EXT__RUN_EVENT__TYPE_OUTPUT && !f->args->output) {
        bool is_error = event->output->stream == EXT__RUN_RESULT__CHUNK__STREAM__STDERR;
        struct str bytes = bytes_of(event->output->text, event->output->data);
        f->shown[is_error] += bytes.len;
        is_fine = show(f, is_error ? stderr : stdout, bytes);
    } else if (event->type_case == EXT__RUN_EVENT__TYPE_RESULT) {
        is_fine = take_result(f, event->result);
    }
    f->has_failed = f->has_failed || !is_fine;
    return is_fine;
}

static int run_code_body(struct cli *cli, const struct arguments *args, int *exit_code,
                         struct error *err)
{
    Ext__RunRequest *request = CLI_NEW(cli, Ext__RunRequest, ext__run_request);
    struct flow flow = {.cli = cli, .args = args, .request = request, .exit_code = EXIT_NO_CODE};
    const struct transport_stream_handler handler = {
        .on_message = on_message, .state = &flow, .input_fd = -1};
    if (make_request(cli, args, request, err) < 0 ||
        transport_stream(cli->transport, RUN_SERVICE "RunStream", &request->base, &handler, err) <
            0) {
        return -err->status;
    }
    if (flow.err.status) {
        return error_set(err, flow.err.status, "%s", flow.err.text);
    }
    if (flow.has_failed || !flow.has_result) {
        return error_set(err, flow.has_failed ? STATUS_CANCELLED : STATUS_UNAVAILABLE,
                         flow.has_failed ? "the output could not be written"
                                         : "the call ended before the program did");
    }
    *exit_code = flow.exit_code;
    return 0;
}

/* --- runs --- */

static int show_run(struct cli *cli, const struct arguments *args, struct error *err)
{
    Ext__GetRunRequest *request = CLI_NEW(cli, Ext__GetRunRequest, ext__get_run_request);
    ProtobufCMessage *reply = NULL;
    request->run_id = text_of(cli, args->words.items[0]);
    if (cli_call(cli, RUN_SERVICE "GetRun", &request->base, &reply, err) < 0) {
        return -err->status;
    }
    return output_message(reply, args->output, err);
}

static int cancel_run(struct cli *cli, const struct arguments *args, struct error *err)
{
    Ext__CancelRunRequest *request = CLI_NEW(cli, Ext__CancelRunRequest, ext__cancel_run_request);
    ProtobufCMessage *reply = NULL;
    request->run_id = text_of(cli, args->words.items[0]);
    if (cli_call(cli, RUN_SERVICE "CancelRun", &request->base, &reply, err) < 0) {
        return -err->status;
    }
    fprintf(stderr, "%s\n",
            ((const Ext__CancelRunResponse *)reply)->is_cancelled ? "Cancelled the run"
                                                                  : "The run had ended already");
    return 0;
}

static void fill_row(struct cli *cli, const Ext__ListRunsResponse__Item *item, const char **row)
{
    static const char *const STATES[] = {"", "preparing", "running", "ended"};
    bool has_code =
        item->has_exit_code_case == EXT__LIST_RUNS_RESPONSE__ITEM__HAS_EXIT_CODE_EXIT_CODE;
    row[0] = item->run_id;
    row[1] = item->started_at ? field_text(&item->base, "started_at", &cli->arena) : "";
    row[2] = item->program;
    row[3] = (unsigned)item->state < 4 && item->state != EXT__RUN_RESULT__STATE__ENDED
                 ? STATES[item->state]
                 : item->outcome;
    row[4] = has_code       ? cli_printf(cli, "%d", item->exit_code)
             : item->signal ? cli_printf(cli, "signal %d", item->signal)
                            : "";
    row[5] = cli_printf(cli, "%.3f s", (double)item->wall_ms / 1000);
    row[6] = item->template_;
}

static int list_runs(struct cli *cli, const struct arguments *args, struct error *err)
{
    static const char *const TITLES[COLUMNS] = {"Run",  "Started", "Program", "Outcome",
                                                "Code", "Time",    "Template"};
    Ext__ListRunsRequest *request = CLI_NEW(cli, Ext__ListRunsRequest, ext__list_runs_request);
    ProtobufCMessage *reply = NULL;
    if (cli_call(cli, RUN_SERVICE "ListRuns", &request->base, &reply, err) < 0) {
        return -err->status;
    }
    const Ext__ListRunsResponse *list = (const Ext__ListRunsResponse *)reply;
    if (args->output && strcmp(args->output, "table") != 0) {
        return output_message(reply, args->output, err);
    }
    const char **cells = cli_alloc(cli, (list->n_items + 1) * COLUMNS * sizeof *cells);
    for (size_t i = 0; i < list->n_items; i++) {
        fill_row(cli, list->items[i], cells + i * COLUMNS);
    }
    output_table(TITLES, COLUMNS, cells, list->n_items);
    return 0;
}

static int runs_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    if (args->words.count == 0) {
        return args->cancel ? error_set(err, STATUS_INVALID_ARGUMENT, "--cancel needs a run's id")
                            : list_runs(cli, args, err);
    }
    return args->cancel ? cancel_run(cli, args, err) : show_run(cli, args, err);
}

static int run_code(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, run_code_body);
}

static int run_runs(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, runs_body);
}

static const struct argp_option run_code_options[] = {
    ARG_FILE("the program's text ('-': standard input)"),
    ARG_ENV,
    ARG_OUTPUT,
    {"language", OPT_LANGUAGE, "NAME", 0, "python, sh, bash, node …; by the file's name", 0},
    {"template", OPT_TEMPLATE, "TEMPLATE", 0, "what the sandbox is made from", 0},
    {"image", OPT_IMAGE, "URL", 0, "image of a registry instead of the Template's", 0},
    {"timeout", OPT_TIMEOUT, "SECONDS", 0, "the program ends after that", 0},
    {"cpu", OPT_CPU, "MILLICORES", 0, "limit", 0},
    {"memory", OPT_MEMORY, "MEGABYTES", 0, "limit", 0},
    {"storage", OPT_STORAGE, "MEGABYTES", 0, "limit", 0},
    {"send", OPT_SEND, "FILE", 0, "put this file into /workspace (may be repeated)", 0},
    {"collect", OPT_COLLECT, "PATTERN", 0, "bring these files back (may be repeated)", 0},
    {"into", OPT_INTO, "FOLDER", 0, "where they go; else the folder that one is in", 0},
    {"key", OPT_KEY, "TEXT", 0, "the same key runs it once", 0},
    {"workdir", 'w', "DIR", 0, "working directory of the program", 0},
    {"root", OPT_ROOT, NULL, 0, "run as root of the sandbox", 0},
    {"no-stdin", OPT_NO_STDIN, NULL, 0, "the program reads nothing", 0},
    ARG_END,
};

static const struct argp_option runs_options[] = {
    ARG_OUTPUT,
    {"cancel", OPT_CANCEL, NULL, 0, "end the run", 0},
    ARG_END,
};

const struct command run_commands[] = {
    {"run-code", "Run a program once in a sandbox of its own; its exit code is ours.",
     "[-f FILE] [-- ARGUMENT...]", run_code_options, 0, 0, ARGUMENTS_LIST_MAX, run_code},
    {"runs", "List earlier runs, or show what became of one.", "[RUN-ID]", runs_options, 0, 0, 1,
     run_runs},
    {0},
};
