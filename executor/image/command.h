#ifndef EXECUTOR_IMAGE_COMMAND_H
#define EXECUTOR_IMAGE_COMMAND_H

#include "executor/image/build_log.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* A program that this one runs. */
struct command {
    const char *const *argv; /* argv[0] is looked up in PATH; ends with NULL */
    const char *const *env;  /* NULL means as ours */
    int stdin_fd;            /* -1 means /dev/null */
    struct build_log *log;   /* gets standard error, and standard output without capture */
    struct buf *capture;     /* gets standard output; NULL for none */
};

/* Runs it to its end. *ret_exit_code is 128 + N for a death by signal N. UNAVAILABLE when it cannot
 * be run at all, RESOURCE_EXHAUSTED when the capture is full. */
int command_run(const struct command *command, int *ret_exit_code, struct error *err);

#endif
