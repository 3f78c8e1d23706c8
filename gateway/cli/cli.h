#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <protobuf-c/protobuf-c.h>

#include "gateway/cli/arguments.h"
#include "gateway/cli/settings.h"
#include "gateway/cli/transport.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

#define CORDIUM_MAIN "/octelium.api.main.cordium.v1.MainService/"
#define CORDIUM_WORKSPACE "/octelium.api.main.cordium.v1.WorkspaceService/"
#define CORDIUM_MANAGEMENT "/octelium.api.main.cordium.v1.ManagementService/"
#define CORE_MAIN "/octelium.api.main.core.v1.MainService/"

/* What a command works with; made by cli_open(), dies with the command. */
struct cli {
    struct arena arena;
    struct settings settings;
    struct transport_options transport_options;
    struct transport *transport;
};

/* Reads the settings, connects lazily and logs in; the second does all but the log-in. Close it
 * also after an error. */
int cli_open_transport(struct cli *cli, const struct arguments *args, struct error *err);
int cli_open(struct cli *cli, const struct arguments *args, struct error *err);
void cli_close(struct cli *cli);

/* One unary call. */
int cli_call(struct cli *cli, const char *path, const ProtobufCMessage *request,
             ProtobufCMessage **ret, struct error *err);

/* A message from the arena, or the program ends: a client has no better answer to a full memory. */
ProtobufCMessage *cli_new(struct cli *cli, const ProtobufCMessageDescriptor *descriptor);
#define CLI_NEW(cli, type, prefix) ((type *)cli_new(cli, &prefix##__descriptor))
char *cli_printf(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *cli_alloc(struct cli *cli, size_t size);

/* Prints "cordium: text" with the status and its place; gives the exit code for it. */
int cli_report(const struct error *err);

/* Runs a command's body between open and close: what nearly every command's run() is. */
int cli_run(const struct arguments *args, int (*body)(struct cli *cli, const struct arguments *args,
                                                      int *exit_code, struct error *err));

enum { CLI_EXIT_FAILED = 1, CLI_EXIT_USAGE = 64 };

#endif
