#ifndef SERVICES_EXEC_OUTCOME_H
#define SERVICES_EXEC_OUTCOME_H

#include <stdbool.h>

#include "api/ext.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/telemetry/metrics.h"
#include "policy/base/json_out.h"

/* What became of a program: the executor's facts in the closed set of words that people and clients
 * see. Never guessed from an exit code: 137 is an exit status like any other. */

enum exec_outcome_kind {
    EXEC_EXITED,
    EXEC_SIGNALED,
    EXEC_TIMED_OUT,
    EXEC_CPU_LIMIT,
    EXEC_OOM_KILLED,
    EXEC_OUTPUT_LIMIT,
    EXEC_CANCELLED,
    EXEC_LOST,        /* the sandbox or the connection to the executor went away */
    EXEC_NOT_STARTED, /* the program could not be started: see text */
};

struct exec_outcome {
    enum exec_outcome_kind kind;
    int code;       /* exit status; -1 for anything but EXITED and NOT_STARTED (126, 127) */
    int signal;     /* 0 unless a signal ended the program */
    char text[320]; /* for a person; empty for EXITED and SIGNALED */
    bool has_event;
    struct executor_run_exit event; /* usage and counters, when has_event */
};

/* What was asked for, for the texts. */
struct exec_asked {
    const char *cwd;
    const char *program;
    bool is_by_shell; /* program is the last shell that was tried */
    /* Not 0: the program was told to end when this time was over by our clock. */
    uint64_t wall_limit_ns;
    bool heard_limit; /* it was alive when it was told */
};

/* Fills *ret from the executor's report. */
void exec_outcome_judge(const struct executor_run_exit *event, const struct exec_asked *asked,
                        struct exec_outcome *ret);

/* Its place among the outcomes that are counted. */
enum metric_outcome exec_outcome_metric(const struct exec_outcome *outcome);

/* "exited", "oom_killed" …: the closed set of outcomes. */
const char *exec_outcome_name(const struct exec_outcome *outcome);

/* The facts as one JSON object: code, signal, counters, usage. */
void exec_outcome_write_json(const struct exec_outcome *outcome, struct buf *out);

/* What the kernel cannot tell stays unset; disk_bytes is not of the report. */
void exec_outcome_fill_usage(const struct executor_run_exit *event, Ext__RunUsage *usage);

/* Members of the object that is open; what is unset is not there, rather than 0. */
void exec_outcome_write_known_usage(const Ext__RunUsage *usage, struct json_out *j);

#endif
