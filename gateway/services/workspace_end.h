#ifndef SERVICES_WORKSPACE_END_H
#define SERVICES_WORKSPACE_END_H

#include "gateway/services/workspace_run.h"

/* The audit log's line of an end that no request waits for. What it tells has happened already; a
 * log that cannot be written reports that itself. */

/* After the workspace's end was stored; its status tells why. */
void workspace_end_record(const struct workspace_run *run);

/* Of a build; failure NULL: it is ready. */
void workspace_end_record_build(const struct workspace_run *run,
                                const Cordium__Workspace__Status__Failure *failure);

#endif
