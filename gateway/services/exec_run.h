#ifndef SERVICES_EXEC_RUN_H
#define SERVICES_EXEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "executor/client/executor_client.h"
#include "gateway/services/exec_outcome.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* One program in a sandbox, with the pipes to it: made here, the program's ends sent to the
 * executor, so that bytes flow straight from the program to us. Serves Exec, tasks and builds. */
struct gateway;
struct exec_run;

enum exec_stream { EXEC_STDOUT, EXEC_STDERR };

enum {
    EXEC_OUTPUT_MESSAGE_MAX_BYTES = 32 * 1024, /* what one `output` call brings at most */
    EXEC_STDIN_HIGH_BYTES = 128 * 1024,        /* queued input over which a writer should wait */
    EXEC_DRAIN_MS = 200, /* how long a background child may hold an ended program's output */
};

struct exec_run_spec {
    struct executor_uuid sandbox;
    /* Either argv, or a command for the first shell that the image has. */
    const char *const *argv;
    size_t argc;
    const char *command;
    /* Which shell works: 0 = not known yet, set once one did. May be NULL; the owner abandons the
     * run before this goes away. */
    unsigned *shell;
    const char *const *env;
    size_t env_count;
    const char *cwd;
    uint32_t uid;
    uint32_t gid;
    uint32_t flags;
    bool has_stdin;        /* false: /dev/null */
    uint64_t memory_bytes; /* of this program alone; 0 = only the sandbox's limit */
    uint32_t pids;         /* the same */
};

struct exec_run_events {
    /* True: stop reading until exec_run_resume_output(). Bytes are borrowed. */
    bool (*output)(void *context, enum exec_stream stream, struct str bytes);
    /* The queued input is gone to the program. May be NULL. */
    void (*input_drained)(void *context);
    /* Last event, after all output: the run frees itself afterwards. */
    void (*ended)(void *context, const struct exec_outcome *outcome);
    void *context;
    /* The executor has taken it and begins to count its time. May be NULL. */
    void (*started)(void *context);
};

/* Everything in spec is copied. UNAVAILABLE without an executor; a program that cannot be started
 * is an outcome, not an error. */
int exec_run_start(struct gateway *g, const struct exec_run_spec *spec,
                   const struct exec_run_events *events, struct exec_run **ret, struct error *err);

/* Kills the whole tree; `ended` still follows. The first reason counts. */
void exec_run_kill(struct exec_run *run, enum executor_kill_reason reason);

/* The time of the run is up: SIGTERM and SIGCONT to the program's process group, and an outcome
 * that says so however it ends, unless it turns out that it had ended before wall_limit_ms. The
 * owner kills with EXECUTOR_KILL_DEADLINE when it has waited long enough. */
void exec_run_terminate(struct exec_run *run, uint32_t wall_limit_ms);

/* The owner goes away: no more events; the tree is killed when reason is not KILL_NONE. */
void exec_run_abandon(struct exec_run *run, enum executor_kill_reason reason);

/* The owner wants nothing more of it but `ended`, which comes when the program is dead, or from
 * within when it is already: kills the tree and drops the output. */
void exec_run_mute(struct exec_run *run, enum executor_kill_reason reason);

void exec_run_resume_output(struct exec_run *run);

/* Queues input. True: wait for input_drained. Input for a program that closed its stdin vanishes.
 */
bool exec_run_write(struct exec_run *run, struct str bytes);

/* End of file for the program, after what is queued. */
void exec_run_close_input(struct exec_run *run);

/* For exec_run_spec.shell: the number of a shell by its path; 0 when it is none of the known ones.
 */
unsigned exec_shell_number(const char *path);

#endif
