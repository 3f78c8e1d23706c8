#ifndef SERVICES_BUILD_RUN_H
#define SERVICES_BUILD_RUN_H

#include "gateway/request.h"
#include "gateway/services/workspace_run.h"

/* Builds of templates: a hidden workspace goes through its whole start, then its storage is copied
 * for later workspaces to begin with. */

/* The build's sandbox is gone: copies the storage, or notes the failure, in the template; ends the
 * run. */
void build_run_ended(struct workspace_run *run);

/* Builds that an earlier gateway left RUNNING become FAILED. Within the caller's transaction. */
int build_run_fail_leftovers(struct gateway *g, struct arena *arena, struct error *err);

int build_template_resolve(struct request *r, struct error *err);
void build_template_handle(struct request *r);
int cancel_build_template_resolve(struct request *r, struct error *err);
void cancel_build_template_handle(struct request *r);

#endif
