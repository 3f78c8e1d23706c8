#include "gateway/cli/exec_stream.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/cordium.pb-c.h"
#include "gateway/cli/field.h"
#include "gateway/cli/local_file.h"
#include "gateway/rpc/codec.h"
#include "policy/base/bytes.h"

enum { COMMAND_MAX_BYTES = 1024 * 1024, EXIT_SIGNALED = 255 };

struct flow {
    struct exec_stream *exec;
    struct cli *cli;
    Cordium__ExecRequest input;
    Cordium__ExecRequest__WriteData data;
    bool output_failed;
};

static bool on_message(void *state, const ProtobufCMessage *message)
{
    struct flow *f = state;
    struct exec_stream *x = f->exec;
    const Cordium__ExecResponse *r = (const Cordium__ExecResponse *)message;
    bool ok = true;
    if (r->type_case == CORDIUM__EXEC_RESPONSE__TYPE_STDOUT) {
        ProtobufCBinaryData d = r->stdout->data;
        ok = x->on_stdout ? x->on_stdout(x->state, d.data, d.len)
                          : local_file_write_all(STDOUT_FILENO, str_make(d.data, d.len));
    } else if (r->type_case == CORDIUM__EXEC_RESPONSE__TYPE_STDERR) {
        ok = local_file_write_all(STDERR_FILENO,
                                  str_make(r->stderr->data.data, r->stderr->data.len));
    } else if (r->type_case == CORDIUM__EXEC_RESPONSE__TYPE_EXIT) {
        x->exit_code = r->exit->code;
        x->has_exited = true;
    }
    f->output_failed = !ok;
    return ok;
}

static void on_header(void *state, struct str name, struct str value)
{
    struct flow *f = state;
    if (str_is(name, "cordium-outcome")) {
        (void)snprintf(f->exec->outcome, sizeof f->exec->outcome, "%.*s", STR_ARG(value));
    }
}

static const ProtobufCMessage *on_input(void *state, const uint8_t *bytes, size_t n)
{
    struct flow *f = state;
    if (n == 0) {
        return NULL; /* the half-close that follows is the program's end of file */
    }
    cordium__exec_request__init(&f->input);
    cordium__exec_request__write_data__init(&f->data);
    f->data.data = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
    f->input.type_case = CORDIUM__EXEC_REQUEST__TYPE_WRITE_DATA;
    f->input.write_data = &f->data;
    return &f->input.base;
}

static int add_env(struct cli *cli, ProtobufCMessage *first, const struct argument_list *env,
                   struct error *err)
{
    for (size_t i = 0; env && i < env->count; i++) {
        const char *equals = strchr(env->items[i], '=');
        if (!equals || equals == env->items[i]) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "--env '%s': expected NAME=VALUE",
                             env->items[i]);
        }
        ProtobufCMessage *m = field_add_message(first, "request.env_vars", &cli->arena);
        if (!m) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        }
        (void)field_set_text(m, "key",
                             cli_printf(cli, "%.*s", (int)(equals - env->items[i]), env->items[i]),
                             &cli->arena);
        (void)field_set_text(m, "value", equals + 1, &cli->arena);
    }
    return 0;
}

int exec_stream_run(struct cli *cli, struct exec_stream *x, struct error *err)
{
    struct arena *arena = &cli->arena;
    ProtobufCMessage *first = cli_new(cli, &cordium__exec_request__descriptor);
    if (!field_set_text(first, "request.workspace_ref.name", x->workspace, arena) ||
        !field_set_text(first, "request.command", x->command, arena) ||
        !field_set_bool(first, "request.run_as_root", x->as_root, arena) ||
        !field_set_bool(first, "request.has_stdin", x->input_fd >= 0, arena) ||
        (x->working_dir && !field_set_text(first, "request.working_dir", x->working_dir, arena))) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (add_env(cli, first, x->env, err) < 0) {
        return -err->status;
    }
    struct flow flow = {.exec = x, .cli = cli};
    struct transport_stream_handler handler = {
        .on_message = on_message,
        .on_header = on_header,
        .on_input = on_input,
        .state = &flow,
        .input_fd = x->input_fd,
        .interrupt_fd = x->interrupt_fd,
    };
    if (transport_stream(cli->transport, CORDIUM_WORKSPACE "Exec", first, &handler, err) < 0) {
        return -err->status;
    }
    if (flow.output_failed) {
        return error_set(err, STATUS_CANCELLED,
                         "the output could not be written; the program was ended");
    }
    return x->has_exited
               ? 0
               : error_set(err, STATUS_UNAVAILABLE, "the call ended before the program did");
}

int exec_stream_exit_code(const struct exec_stream *x)
{
    if (x->exit_code >= 0 && x->exit_code <= 255) {
        return x->exit_code;
    }
    fprintf(stderr, "cordium: the program did not exit by itself%s%s\n", x->outcome[0] ? ": " : "",
            x->outcome);
    return EXIT_SIGNALED;
}

static bool word_is_plain(const char *w)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./-_";
    return w[0] && w[strspn(w, plain)] == '\0';
}

char *exec_quote_words(struct cli *cli, const char *const *words, size_t count)
{
    struct buf b;
    buf_init(&b, COMMAND_MAX_BYTES);
    for (size_t i = 0; i < count; i++) {
        buf_add_cstr(&b, i ? " " : "");
        if (word_is_plain(words[i])) {
            buf_add_cstr(&b, words[i]);
            continue;
        }
        buf_add_u8(&b, '\'');
        for (const char *p = words[i]; *p; p++) {
            if (*p == '\'') {
                buf_add_cstr(&b, "'\\''");
            } else {
                buf_add_u8(&b, (uint8_t)*p);
            }
        }
        buf_add_u8(&b, '\'');
    }
    char *text = cli_alloc(cli, b.len + 1);
    if (b.len) {
        memcpy(text, b.ptr, b.len);
    }
    bool failed = b.failed;
    buf_free(&b);
    return failed ? NULL : text;
}
