#ifndef SERVICES_WORKSPACE_ACCESS_H
#define SERVICES_WORKSPACE_ACCESS_H

#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Finding workspaces for requests: as they are now (a live run knows more than the store), and only
 * for their owner. */

struct gateway;

/* The workspace as it is now, in the arena. NOT_FOUND; INVALID_ARGUMENT: neither uid nor name. */
int workspace_load(struct gateway *g, const char *uid, const char *name, struct arena *arena,
                   Cordium__Workspace **ret, struct error *err);

/* Replaces status and version by those of the live run, if there is one. */
int workspace_overlay(struct gateway *g, Cordium__Workspace **workspace, struct arena *arena,
                      struct error *err);

/* Fills r->touched with the workspace, its space and template, and the actor's membership, as far
 * as they exist. PERMISSION_DENIED for another user's workspace. */
int workspace_access(struct request *r, const char *uid, const char *name, struct error *err);
int workspace_access_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err);

#endif
