#ifndef SERVICES_WORKSPACE_TASK_H
#define SERVICES_WORKSPACE_TASK_H

#include "gateway/services/workspace_run.h"

/* Programs that belong to a run's life: clones of repositories and tasks, one after the other,
 * their output in the run's log. At most one sequence runs at a time. */
struct workspace_task_runner;

/* How the sequence ended: failure is NULL, or what aborted it (borrowed). */
typedef void workspace_tasks_done(struct workspace_run *run,
                                  const struct workspace_failure *failure);

/* Clones, then ON_CREATE (both only for a fresh run), then POST_START. `done` may be called before
 * this returns. */
void workspace_tasks_prepare(struct workspace_run *run, workspace_tasks_done *done);

/* PRE_STOP. */
void workspace_tasks_stop(struct workspace_run *run, workspace_tasks_done *done);

/* Kills what runs; done is not called. */
void workspace_tasks_cancel(struct workspace_run *run);

#endif
