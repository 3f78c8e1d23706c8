#ifndef SERVICES_WORKSPACE_RUN_H
#define SERVICES_WORKSPACE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/services/image_metadata.h"
#include "gateway/services/workspace_log.h"
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
struct exec_call;
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
    struct gateway *gateway;
    struct workspace_run *next_in_bucket;

    struct arena arena; /* of `workspace`; replaced by a copy when it has grown */
    Cordium__Workspace *workspace;
    char uid[37];
    char owner_uid[37];
    char session_uid[37];

    /* Fixed for the run: made from template, workspace and start config. */
    struct arena spec_arena;
    Cordium__Workspace__Spec *spec;
    const struct image_metadata *image; /* in spec_arena */
    const char *const *env;             /* NAME=value, of every program; in spec_arena */
    size_t env_count;
    bool is_fresh;       /* the storage is new and not from a snapshot: ON_CREATE runs */
    bool is_build;
    char template_uid[37];
    char build_id[8];

    struct executor_uuid sandbox;
    struct executor_uuid storage;
    struct executor_uuid storage_from;
    struct executor_digest image_id;
    char image_key[65];
    bool has_sandbox;     /* asked for, and not known to be gone */
    bool is_sandbox_ready;
    struct edge_listener *proxy; /* the workspace's own socket */
    unsigned shell;              /* first shell of the image that worked */

    struct workspace_log *log; /* a reference */
    struct workspace_task_runner *tasks;
    struct exec_call *execs;
    struct terminal *terminals;
    unsigned terminal_count;
    struct workspace_start_waiter *waiters;

    bool is_stop_wanted;
    bool is_deleted; /* gone from the store; the rest is being taken down */
    bool is_settling; /* the sandbox is being taken down */
    bool image_retried;
    void *image_waiter;   /* struct image_waiter, while an image is awaited */
    void (*gone)(void *context); /* DeleteWorkspace waits for the end */
    void *gone_context;
    void *calls; /* struct workspace_call: answers of the executor that are due */
    uint64_t started_ns;
    uint64_t active_ns; /* last use: exec, terminal */
};

int workspace_table_new(struct gateway *g, struct workspace_table **ret, struct error *err);

/* Drops everything without a word to the executor: its sandboxes end with the next gateway's
 * first look. */
void workspace_table_free(struct workspace_table *table);

/* To be called as the executor link's events; context is the table. */
void workspace_table_executor_up(void *table);
void workspace_table_executor_down(void *table);
void workspace_table_sandbox_gone(void *table, const struct executor_sandbox_gone *event);

/* NULL when the workspace is STOPPED or unknown. */
struct workspace_run *workspace_run_find(struct workspace_table *table, const char *uid);

/* Of one user, builds included. */
unsigned workspace_run_count_of(const struct workspace_table *table, const char *owner_uid);

/* The log of the current or, when stopped, of the last run; NULL when there is none any more. Also
 * by the name of the workspace, since builds leave nothing but their log behind. */
struct workspace_log *workspace_log_find(struct workspace_table *table, const char *uid);
struct workspace_log *workspace_log_find_by_name(struct workspace_table *table, const char *name);

/* uid of the Session that a workspace's own socket stands for; run is the listener_owner of
 * call_origin(). */
const char *workspace_run_session_uid(const struct workspace_run *run);

/* Commands and terminals can be started: PREPARING or RUNNING, and a sandbox is there. */
bool workspace_run_is_ready(const struct workspace_run *run);

/* The workspace was used just now. */
void workspace_run_touch(struct workspace_run *run);

#endif
