#ifndef CLI_EXEC_STREAM_H
#define CLI_EXEC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/cli/cli.h"

/* One program run in a workspace, with our standard streams or a caller's. */
struct exec_stream {
    const char *workspace; /* name or uid */
    const char *command;   /* for the shell */
    const char *working_dir;
    const struct argument_list *env; /* NAME=VALUE; NULL for none */
    bool as_root;
    int input_fd;     /* what the program reads; -1 = nothing, it sees end of file at once */
    int interrupt_fd; /* readable: end the program; 0 = none (transport_stream_handler) */
    /* Where its output goes; false ends the run. NULL: to our standard output. */
    bool (*on_stdout)(void *state, const uint8_t *bytes, size_t n);
    void *state;

    /* Results. */
    int exit_code; /* -1: ended by a signal */
    bool has_exited;
    char outcome[64]; /* "exited", "oom_killed" …; "" when the server did not say */
};

/* Errors are those of the call; a program that failed is no error. */
int exec_stream_run(struct cli *cli, struct exec_stream *exec, struct error *err);

/* The exit code that our own process should end with: 255 for a death by signal or anything else
 * that has no code of its own, and a word about it on standard error. */
int exec_stream_exit_code(const struct exec_stream *exec);

/* Joins words for a shell, each quoted as needed. */
char *exec_quote_words(struct cli *cli, const char *const *words, size_t count);

#endif
