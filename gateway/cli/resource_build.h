#ifndef CLI_RESOURCE_BUILD_H
#define CLI_RESOURCE_BUILD_H

#include "api/cordium.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/kinds.h"

/* Makes the request of a Create method from a file and options. Unknown YAML fields are refused
 * with their line. */
int resource_build(struct cli *cli, const struct kind *kind, const struct schema_method *method,
                   const struct arguments *args, ProtobufCMessage **ret, struct error *err);

/* Changes a resource that was read: the file's spec replaces its spec. */
int resource_change(struct cli *cli, ProtobufCMessage *resource, const struct arguments *args,
                    struct error *err);

/* A new Workspace as the options say; also for `run`. */
int resource_build_workspace(struct cli *cli, Cordium__Workspace *workspace,
                             const struct arguments *args, struct error *err);

/* Asks for a new credential's secret and prints it: the only time that it can be seen. */
int resource_print_token(struct cli *cli, const ProtobufCMessage *credential,
                         const struct arguments *args, struct error *err);
int resource_start_workspace(struct cli *cli, const ProtobufCMessage *workspace, struct error *err);

#endif
