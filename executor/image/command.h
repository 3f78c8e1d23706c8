#ifndef EXECUTOR_IMAGE_COMMAND_H
#define EXECUTOR_IMAGE_COMMAND_H

#include <stdbool.h>

#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* Programs that this one runs. What they write goes line by line through a log, which passes it
 * on to standard error and keeps the last lines for the report of a failure. */

enum {
    LOG_LINE_MAX = 4096, /* bytes; a longer line is passed on in pieces */
    LOG_KEPT_LINES = 20,
    LOG_KEPT_LINE_MAX = 1000, /* bytes kept of a line */
    STEP_TEXT_MAX = 1000,
};

struct build_log {
    /* How many instructions were put after each FROM, to be left out of the count: the steps
     * shown are those of the author's file. */
    unsigned added_steps;
    bool in_added_step;

    unsigned step; /* the last that began; 0 before the first */
    unsigned step_count;
    char step_text[STEP_TEXT_MAX]; /* "RUN false" */
    int exit_code;                 /* of the RUN step that failed; 0 when it was no RUN */

    char kept[LOG_KEPT_LINES][LOG_KEPT_LINE_MAX];
    unsigned kept_next;
    unsigned kept_count;

    char line[LOG_LINE_MAX];
    size_t line_length;
};

void build_log_init(struct build_log *log, unsigned added_steps);

/* Takes output as it comes. */
void build_log_write(struct build_log *log, const char *bytes, size_t n);

/* Ends a line that has no end of line. */
void build_log_flush(struct build_log *log);

/* The i-th of the kept lines, oldest first; NULL past the last. */
const char *build_log_kept(const struct build_log *log, unsigned i);

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
