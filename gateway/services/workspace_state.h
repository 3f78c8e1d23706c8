#ifndef SERVICES_WORKSPACE_STATE_H
#define SERVICES_WORKSPACE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* What each step of a workspace's life changes in its status. Pure functions on the message; what
 * they add lives in the arena. -RESOURCE_EXHAUSTED when it is full. */

typedef Cordium__Workspace__Status__State workspace_state;
#define WORKSPACE_STATE(name) CORDIUM__WORKSPACE__STATUS__STATE__##name
typedef Cordium__Workspace__Status__StoppingReason workspace_stopping_reason;
#define WORKSPACE_STOPPING(name) CORDIUM__WORKSPACE__STATUS__STOPPING_REASON__STOPPING_REASON_##name
typedef Cordium__Workspace__Status__Failure__TypeCase workspace_failure_kind;
#define WORKSPACE_FAILURE(name) CORDIUM__WORKSPACE__STATUS__FAILURE__TYPE_##name

enum { WORKSPACE_LAST_RUNS_MAX = 100, WORKSPACE_RUN_ID_LEN = 6 };

const char *workspace_state_name(workspace_state state);

/* INIT_REQUEST to STARTING_RUNTIME: no command can be run yet. */
bool workspace_state_is_starting(workspace_state state);
bool workspace_state_is_stopping(workspace_state state);

/* May a run go from one to the other? Each state only leads to later ones; some may be skipped. */
bool workspace_state_may_follow(workspace_state from, workspace_state to);

/* The state and its times; RUNNING counts a successful run, STOPPING adds to the total duration,
 * STOPPED clears session, region and hostname. */
int workspace_enter(Cordium__Workspace *workspace, workspace_state state, int64_t wall_ns,
                    struct arena *arena);

struct workspace_begin {
    const char *run_id;
    const Cordium__StartWorkspaceRequest__Config *config; /* may be NULL */
    const Cordium__Workspace__Spec__Limit *limit;
    Meta__ObjectReference *session_ref;
    Meta__ObjectReference *region_ref;
    const char *hostname;
};

/* A new run: state INIT_REQUEST, the previous run moves to last_runs, failure and stopping reason
 * are cleared. Everything given must live in the arena. */
int workspace_begin_run(Cordium__Workspace *workspace, const struct workspace_begin *begin,
                        int64_t wall_ns, struct arena *arena);

struct workspace_failure {
    workspace_failure_kind kind;
    const char *message;
    const char *name;  /* of the task, repository or volume; or NULL */
    int32_t exit_code; /* of a task */
};

/* Into status.failure and run.failure, with stopping reason ERROR. */
int workspace_set_failure(Cordium__Workspace *workspace, const struct workspace_failure *failure,
                          struct arena *arena);

/* The message of a failure alone, for builds. NULL when the arena is full. */
Cordium__Workspace__Status__Failure *workspace_make_failure(const struct workspace_failure *failure,
                                                            struct arena *arena);

/* The store's columns for a workspace; texts are those of the message. */
struct store_index workspace_index(const Cordium__Workspace *workspace);

#endif
