#ifndef SERVICES_WORKSPACE_RECONCILE_H
#define SERVICES_WORKSPACE_RECONCILE_H

#include "gateway/services/workspace_run.h"

/* What the gateway believes and what there is, brought together: after a start of either daemon,
 * and by the clock (idle workspaces, starts and stops that take too long). */
struct workspace_timers;

int workspace_timers_new(struct gateway *g, struct workspace_table *table,
                         struct workspace_timers **ret, struct error *err);
void workspace_timers_free(struct workspace_timers *timers);

/* How long the run may go without use and in all, in seconds; 0: for ever. */
struct workspace_time_limits {
    int64_t idle_seconds;
    int64_t active_seconds;
};
struct workspace_time_limits workspace_time_limits(const Cordium__ClusterConfig *cluster,
                                                   const Cordium__Workspace__Spec__Runtime *runtime,
                                                   Cordium__Space__Status__Type space_type);

#endif
