#ifndef SERVICES_EXEC_SERVICE_H
#define SERVICES_EXEC_SERVICE_H

#include "gateway/request.h"

/* WorkspaceService/Exec: one command in a running workspace, over one stream.
 *
 * The first message is the request; `write_data` and `kill` may follow. The client's half-close is
 * the end of the command's input; without has_stdin it reads /dev/null. Output comes as it is
 * written, at most 32 KiB a message, then `exit`, always. A command that a signal ended, ours too,
 * has code -1; one that could not be started has 126 or 127 and a text on stderr. A client that
 * goes away takes the command's whole process tree with it. The trailers cordium-outcome and
 * cordium-facts tell what happened. */
int exec_resolve(struct request *r, struct error *err);
void exec_handle(struct request *r);

enum {
    EXEC_COMMAND_MAX_BYTES = 1024 * 1024,
    EXEC_ENV_MAX = 128,
    EXEC_ENV_NAME_MAX = 64,
    EXEC_ENV_VALUE_MAX_BYTES =
        128 * 1024, /* the kernel's own limit for one string (MAX_ARG_STRLEN) */
    EXEC_WORKING_DIR_MAX = 1000,
};

#endif
