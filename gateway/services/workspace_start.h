#ifndef SERVICES_WORKSPACE_START_H
#define SERVICES_WORKSPACE_START_H

#include "gateway/services/workspace_run.h"

/* From STOPPED to RUNNING:
 *
 *   begin → image (found, pulled or built) → sandbox → repositories → ON_CREATE
 *         → POST_START → RUNNING
 *
 * and back (workspace_stop.c). Each step calls the next when its answer has come; a stop or a
 * failure takes the run out of the sequence at the next step. */

struct workspace_start {
    const Cordium__Workspace *workspace; /* as in the store, STOPPED */
    const Cordium__Template *template_;  /* may be NULL */
    const Cordium__Space *space;         /* may be NULL */
    const Core__User *user;
    const Cordium__StartWorkspaceRequest__Config *config; /* may be NULL */
    const char *build_id; /* of a template's build; NULL otherwise */
    bool is_new;          /* the workspace is not in the store yet: a build */
};

/* Begins. On return the workspace is INIT_REQUEST or later, durably, or nothing has happened:
 * UNAVAILABLE without an executor; ALREADY_EXISTS. The rest happens later; the run may even have
 * failed and ended already: ask workspace_run_find(). */
int workspace_start_begin(struct gateway *g, const struct workspace_start *start,
                          struct error *err);

/* Keeps for the audit line at the end of the request which limits the run that it began has, and
 * who set each. */
void workspace_start_note_limits(struct request *r, const char *uid);

/* Steps of a start that a program's one-shot run takes too, with a struct workspace_run that is in
 * no table: spec merged and expanded; image_id from what is there (not found is no error); env from
 * `image`; the sandbox. workspace_start_discard() frees such a struct. */
int workspace_start_prepare(struct workspace_run *run, const struct workspace_start *start,
                            struct error *err);
int workspace_start_find_image(struct workspace_run *run, bool *ret_is_found, struct error *err);
int workspace_start_environment(struct workspace_run *run, struct error *err);
int workspace_start_describe(struct workspace_run *run, struct executor_sandbox_spec *spec,
                             struct error *err);
void workspace_start_discard(struct workspace_run *run);

/* All foreground tasks are done, or one of them aborted the start. */
void workspace_start_prepared(struct workspace_run *run, const struct workspace_failure *failure);

/* Ends a run in an orderly way: PRE_STOP tasks when it was RUNNING, then the sandbox, then STOPPED.
 * A run that is stopping already goes on doing so. */
void workspace_stop(struct workspace_run *run, workspace_stopping_reason reason);

/* Ends it because something went wrong; tasks are not run. */
void workspace_stop_failed(struct workspace_run *run, const struct workspace_failure *failure);

/* Ends it because the workspace was deleted (from the store, by the caller): no state changes, no
 * tasks; storage goes. `gone` is called when all processes are dead. */
void workspace_stop_deleted(struct workspace_run *run, void (*gone)(void *context), void *context);

/* The sandbox is gone by itself. */
void workspace_stop_lost(struct workspace_run *run, const char *why);

/* PRE_STOP tasks are done or were given up. */
void workspace_stop_continue(struct workspace_run *run);

/* Marks what an earlier gateway left running as STOPPED, with a failure that says so. */
int workspace_stop_leftovers(struct gateway *g, struct error *err);

#endif
