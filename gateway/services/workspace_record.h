#ifndef SERVICES_WORKSPACE_RECORD_H
#define SERVICES_WORKSPACE_RECORD_H

#include "gateway/services/workspace_run.h"

/* The audit log's lines of what no request waits for. What they tell has happened already; a log
 * that cannot be written reports that itself. */

/* Keeps for the line below what the executor was asked for. RESOURCE_EXHAUSTED when the run's arena
 * is full. */
int workspace_note_layers(struct workspace_run *run, const struct executor_sandbox_spec *sandbox);

/* Programs may be started now: on which image, and what keeps them in. */
void workspace_record_running(const struct workspace_run *run);

/* After the workspace's end was stored; its status tells why. */
void workspace_record_end(const struct workspace_run *run);

/* Of one that an earlier gateway left: its status has the failure already. Nothing when the log has
 * its end, by an earlier start. UNAVAILABLE: the log does not take it. */
int workspace_record_leftover(struct gateway *g, const Cordium__Workspace *workspace,
                              struct error *err);

/* Of a build; failure NULL: it is ready. */
void workspace_record_build_end(const struct workspace_run *run,
                                const Cordium__Workspace__Status__Failure *failure);

#endif
