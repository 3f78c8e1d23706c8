#include "gateway/services/workspace_access.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/workspace_run.h"
#include "gateway/state/resource.h"

int workspace_overlay(struct gateway *g, Cordium__Workspace **workspace, struct arena *arena,
                      struct error *err)
{
    const struct workspace_run *run =
        g->workspaces ? workspace_run_find(g->workspaces, (*workspace)->metadata->uid) : NULL;
    if (!run || run->is_deleted) {
        return 0;
    }
    Cordium__Workspace *copy = CODEC_COPY(arena, Cordium__Workspace, run->workspace);
    if (!copy) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The workspace is too large to be read");
    }
    *workspace = copy;
    return 0;
}

int workspace_load(struct gateway *g, const char *uid, const char *name, struct arena *arena,
                   Cordium__Workspace **ret, struct error *err)
{
    ProtobufCMessage *found;
    int rc = resource_find(g->store, STORE_WORKSPACE, uid, name, arena, &found, err);
    if (rc) {
        return rc;
    }
    Cordium__Workspace *workspace = (Cordium__Workspace *)found;
    rc = workspace_overlay(g, &workspace, arena, err);
    if (!rc) {
        *ret = workspace;
    }
    return rc;
}

/* What is gone by now stays NULL: a workspace outlives its template. */
static int fill_around(struct request *r, const Cordium__Workspace *workspace, struct error *err)
{
    struct store *store = r->gateway->store;
    const Cordium__Workspace__Status *status = workspace->status;
    ProtobufCMessage *found;
    if (resource_ref_is_set(status->space_ref)) {
        int rc =
            store_get_by_uid(store, STORE_SPACE, status->space_ref->uid, &r->arena, &found, err);
        if (rc && rc != -STATUS_NOT_FOUND) {
            return rc;
        }
        r->touched.space = rc ? NULL : (Cordium__Space *)found;
    }
    if (resource_ref_is_set(status->template_ref)) {
        int rc = store_get_by_uid(store, STORE_TEMPLATE, status->template_ref->uid, &r->arena,
                                  &found, err);
        if (rc && rc != -STATUS_NOT_FOUND) {
            return rc;
        }
        r->touched.template_ = rc ? NULL : (Cordium__Template *)found;
    }
    if (r->touched.space) {
        int rc = access_membership(r, r->touched.space->metadata->uid, access_user_uid(r),
                                   &r->touched.membership, err);
        if (rc && rc != -STATUS_NOT_FOUND) {
            return rc;
        }
    }
    if (err) {
        err->status = 0;
        err->text[0] = '\0';
    }
    return 0;
}

int workspace_access(struct request *r, const char *uid, const char *name, struct error *err)
{
    Cordium__Workspace *workspace;
    int rc = workspace_load(r->gateway, uid, name, &r->arena, &workspace, err);
    if (rc) {
        return rc;
    }
    if (strcmp(workspace->status->user_ref->uid, access_user_uid(r)) != 0) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Workspace '%s' belongs to another User; only its owner may use it",
                         workspace->metadata->name);
    }
    r->touched.workspace = workspace;
    r->touched.target = &workspace->base;
    return fill_around(r, workspace, err);
}

int workspace_access_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err)
{
    if (!resource_ref_is_set(ref)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "workspaceRef is missing; give the Workspace's name or uid");
    }
    return workspace_access(r, ref->uid, ref->name, err);
}
