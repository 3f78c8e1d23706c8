#ifndef EXECUTOR_IMAGE_BUILD_LOG_H
#define EXECUTOR_IMAGE_BUILD_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* What the programs of a build write: passed on line by line to standard error, with the author's
 * numbers of steps, and the last lines kept for the report of a failure. */

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

#endif
