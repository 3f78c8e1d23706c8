#include "gateway/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/cli/output.h"
#include "gateway/cli/session.h"
#include "gateway/rpc/codec.h"

enum { CLI_ARENA_MAX_BYTES = 512 * 1024 * 1024, UNARY_TIMEOUT_MS = 120000 };

int cli_open_transport(struct cli *cli, const struct arguments *args, struct error *err)
{
    *cli = (struct cli){0};
    arena_init(&cli->arena, CLI_ARENA_MAX_BYTES);
    struct settings_options options = {args->domain, args->server, args->ca_file, args->home};
    if (settings_load(&options, &cli->arena, &cli->settings, err) < 0) {
        return -err->status;
    }
    cli->transport_options = (struct transport_options){
        .domain = cli->settings.domain,
        .server = cli->settings.server,
        .unix_socket = cli->settings.unix_socket,
        .ca_file = cli->settings.ca_file,
        .is_insecure = cli->settings.is_insecure,
        .timeout_ms = UNARY_TIMEOUT_MS,
    };
    return transport_new(&cli->transport_options, &cli->transport, err);
}

int cli_open(struct cli *cli, const struct arguments *args, struct error *err)
{
    int status = cli_open_transport(cli, args, err);
    return status < 0 ? status : session_ensure(cli->transport, &cli->settings, &cli->arena, err);
}

void cli_close(struct cli *cli)
{
    transport_free(cli->transport);
    arena_free(&cli->arena);
}

int cli_call(struct cli *cli, const char *path, const ProtobufCMessage *request,
             ProtobufCMessage **ret, struct error *err)
{
    return transport_unary(cli->transport, path, request, &cli->arena, ret, err);
}

static void *must(void *p)
{
    if (!p) {
        fputs("cordium: out of memory\n", stderr);
        exit(CLI_EXIT_FAILED);
    }
    return p;
}

ProtobufCMessage *cli_new(struct cli *cli, const ProtobufCMessageDescriptor *descriptor)
{
    return must(codec_new(descriptor, &cli->arena));
}

void *cli_alloc(struct cli *cli, size_t size)
{
    return must(arena_zalloc(&cli->arena, size));
}

char *cli_printf(struct cli *cli, const char *format, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return must(n < 0 || (size_t)n >= sizeof text ? NULL : arena_strdup(&cli->arena, text));
}

int cli_report(const struct error *err)
{
    output_note("%s (%s)", err->text, status_name(err->status));
    return CLI_EXIT_FAILED;
}

int cli_run(const struct arguments *args, int (*body)(struct cli *cli, const struct arguments *args,
                                                      int *exit_code, struct error *err))
{
    struct cli cli;
    struct error err = {0};
    int exit_code = 0;
    int status = cli_open(&cli, args, &err);
    if (status == 0) {
        status = body(&cli, args, &exit_code, &err);
    }
    if (status < 0) {
        exit_code = cli_report(&err);
    }
    cli_close(&cli);
    return exit_code;
}
