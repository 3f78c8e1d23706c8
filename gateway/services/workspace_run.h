#ifndef SERVICES_WORKSPACE_RUN_H
#define SERVICES_WORKSPACE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/executor_link.h"
#include "gateway/identity/authenticate.h"
#include "gateway/services/image_metadata.h"
#include "gateway/services/workspace_env.h"
#include "gateway/services/workspace_log.h"
#include "gateway/services/workspace_state.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Workspaces that are not STOPPED: what the store cannot hold of them. A struct workspace_run
 * lives from StartWorkspace to STOPPED (or to the end of DeleteWorkspace); there is at most one
 * for a workspace. Its `workspace` is the truth about the status; the store gets it at the start,
 * at RUNNING and at the end, so that a start costs two durable writes and not seven. A gateway
 * that comes up again stops whatever the store says is not STOPPED. */
struct workspace_table;
struct workspace_run;
struct workspace_task_runner;
struct image_waiter;
struct audit_layer;
struct terminal;
struct edge_listener;
struct gateway;
struct request;

/* How a start went, told once to whoever waits for it. failed: the run ended before RUNNING. */
struct workspace_start_waiter {
    void (*settled)(struct workspace_start_waiter *waiter, bool is_running);
    struct workspace_start_waiter *next;
};

struct workspace_run {
    struct listener_identity identity; /* first: what a socket in the sandbox stands for */
    struct gateway *gateway;
    struct workspace_table *table;
    struct workspace_run *next_in_bucket;
    char uid[37];
    char owner_uid[37];

    struct arena arena; /* of `workspace`; a new one with each change */
    Cordium__Workspace *workspace;

    /* Fixed for the run: made from template, workspace and start config. */
    struct arena spec_arena;
    Cordium__Workspace__Spec *spec;
    const Cordium__Space *space;            /* as it was at the start; may be NULL */
    const Cordium__UserConfig *user_config; /* may be NULL */
    const Cordium__ClusterConfig *cluster;  /* may be NULL */
    const Cordium__Template *template_;     /* may be NULL */
    struct image_metadata image;
    struct workspace_env env; /* of every program */
    bool is_fresh;            /* the storage is new and empty: ON_CREATE runs */
    bool is_ephemeral;
    bool is_build; /* the hidden workspace of a template's build */
    char build_id[8];

    const struct audit_layer
        *layers; /* what keeps its programs in, once the sandbox was asked for */
    size_t layer_count;

    struct executor_uuid sandbox;
    struct executor_uuid storage;
    struct executor_uuid storage_from; /* zero: an empty one */
    char image_key[65];
    char image_id[65];           /* hex digits of the executor's digest; "" while not known */
    bool has_sandbox;            /* asked for, and not known to be gone */
    struct edge_listener *proxy; /* the workspace's own socket */
    unsigned shell;              /* see struct exec_run_spec */

    struct workspace_log *log; /* a reference */
    struct workspace_task_runner *tasks;
    struct terminal *terminals;
    unsigned terminal_count;
    unsigned exec_count; /* commands that run now: the workspace is not idle */
    struct workspace_start_waiter *waiters;
    struct image_waiter *image_waiter; /* while an image is awaited */

    unsigned pending;   /* answers of the executor that are due: the struct stays until they came */
    bool was_running;   /* reached RUNNING: PRE_STOP tasks have a meaning */
    bool is_stopping;   /* no step of the start may go on */
    bool is_destroying; /* the sandbox is being taken down */
    bool is_over;       /* out of the table, to be freed */
    bool is_deleted;    /* gone from the store; the rest is being taken down */
    bool image_was_retried;
    bool storage_is_gone;        /* the executor was asked to delete it */
    void (*gone)(void *context); /* told when nothing of the run is left */
    void *gone_context;
    uint64_t start_ns;  /* monotonic: its beginning; 0 once it is known how the start went */
    uint64_t state_ns;  /* monotonic: since when in this state */
    uint64_t active_ns; /* last use by a person: exec, terminal */
};

/* Also stops, in the store, what an earlier gateway left running: the store must be open. */
int workspace_table_new(struct gateway *g, struct workspace_table **ret, struct error *err);

/* Drops everything without a word to the executor: its sandboxes end with the next gateway's
 * first look. */
void workspace_table_free(struct workspace_table *table);

/* For executor_link_new(): what the workspaces do when the executor comes, goes or loses one. */
struct executor_link_events workspace_executor_events(struct gateway *g);

/* The functions behind it. `up` also takes down sandboxes that nobody knows and
 * runs whose sandbox is gone. */
void workspace_table_executor_up(struct gateway *g);
void workspace_table_executor_down(struct gateway *g);
void workspace_table_sandbox_gone(struct gateway *g, const struct executor_sandbox_gone *event);

/* NULL when the workspace is STOPPED or unknown. */
struct workspace_run *workspace_run_find(struct workspace_table *table, const char *uid);

/* Of one user, builds included. */
unsigned workspace_run_count_of(const struct workspace_table *table, const char *owner_uid);

/* The log of the current or, when stopped, of the last run; NULL when there is none any more. Also
 * by the name of the workspace, since builds leave nothing but their log behind. */
struct workspace_log *workspace_log_find(struct workspace_table *table, const char *uid);
struct workspace_log *workspace_log_find_by_name(struct workspace_table *table, const char *name);

/* Commands and terminals can be started: PREPARING or RUNNING. The sandbox is there then. */
bool workspace_run_is_ready(const struct workspace_run *run);

/* The workspace was used just now. */
void workspace_run_touch(struct workspace_run *run);

/* --- For the steps of a run (workspace_start.c, workspace_stop.c) --- */

/* One change of the status: begin, change `next` by the functions of workspace_state.h, then apply
 * or abandon. A change that found no memory has next = NULL, and apply fails. */
struct workspace_change {
    struct arena arena;
    Cordium__Workspace *next;
    int64_t wall_ns;
    bool has_failed;
};

void workspace_change_begin(struct workspace_run *run, struct workspace_change *change);
void workspace_change_abandon(struct workspace_change *change);

/* Stamps the change, stores it when asked to, and tells the watchers. When storing fails nothing
 * has changed. */
int workspace_change_apply(struct workspace_run *run, struct workspace_change *change,
                           bool is_stored, struct error *err);

/* A change of state alone; not stored. One that may not follow is left out. */
void workspace_run_enter(struct workspace_run *run, workspace_state state);

/* Into the table. ALREADY_EXISTS. */
int workspace_run_insert(struct workspace_table *table, struct workspace_run *run,
                         struct error *err);

/* Allocates, with the message copied. */
struct workspace_run *workspace_run_new(struct gateway *g, const Cordium__Workspace *workspace);

/* Out of the table; frees now or when the last answer has come. */
void workspace_run_finish(struct workspace_run *run);

/* An answer of the executor came; false when the run is over (it may be freed then). */
bool workspace_run_answered(struct workspace_run *run);

/* Tells all who wait for the start. */
void workspace_run_settle(struct workspace_run *run, bool is_running);

/* Calls visit for each run; the visitor may end runs, but only later ones may then be missed. */
void workspace_table_each(struct workspace_table *table,
                          void (*visit)(struct workspace_run *run, void *context), void *context);

/* Text forms of uids as the executor takes them: false when it is no UUID. */
bool workspace_uuid_parse(const char *text, struct executor_uuid *ret);
int workspace_uuid_random(struct executor_uuid *ret, struct error *err);

#endif
