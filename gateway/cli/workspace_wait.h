#ifndef CLI_WORKSPACE_WAIT_H
#define CLI_WORKSPACE_WAIT_H

#include <stdbool.h>

#include "api/cordium.pb-c.h"
#include "gateway/cli/cli.h"

/* Waits for a state, with a line of progress on a terminal. FAILED_PRECONDITION with the run's
 * failure when the workspace stopped instead. */
int workspace_wait_running(struct cli *cli, const char *name, struct error *err);
int workspace_wait_stopped(struct cli *cli, const char *name, struct error *err);

/* Copies the log to standard output and error until the run ends. */
int workspace_follow_log(struct cli *cli, const char *name, bool with_times, struct error *err);

/* What went wrong, for a person; "" when the message says nothing and no kind is set. */
const char *workspace_failure_text(struct cli *cli, const Cordium__Workspace__Status__Failure *f);

#endif
