#ifndef SERVICES_WORKSPACE_SPEC_H
#define SERVICES_WORKSPACE_SPEC_H

#include "api/cordium.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/services/limits.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* What a run is made of, by pure functions: the template's and the workspace's spec in one, its
 * variables replaced, and its translation for the executor. */

/* Template, then workspace, merged as protobuf merges: scalars of the workspace win, lists are
 * joined with the template's part first, a oneof is replaced. template_ may be NULL. The result is
 * a copy in the arena. RESOURCE_EXHAUSTED: the arena is full. */
int workspace_spec_merge(const Cordium__Template__Spec *template_,
                         const Cordium__Workspace__Spec *workspace, struct arena *arena,
                         Cordium__Workspace__Spec **ret, struct error *err);

/* Variables by name; of several with one name the last counts. An unknown one is empty text. */
struct workspace_vars {
    Cordium__Workspace__Spec__Var *const *list;
    size_t count;
};

/* text with each ${{ vars.NAME }} replaced; text itself when there is none. NULL: the arena is
 * full. What is not of that form stays as it is. */
const char *workspace_vars_expand(const struct workspace_vars *vars, const char *text,
                                  struct arena *arena);

/* Replaces in: registry and Dockerfile URL, git fields, repository URL, branch and checkout,
 * environment values, and the tasks' run, working_dir and environment. The vars of the spec come
 * first, those of the start request (may be NULL) win. */
int workspace_spec_expand(Cordium__Workspace__Spec *spec,
                          const Cordium__StartWorkspaceRequest__Config *config, struct arena *arena,
                          struct error *err);

/* The same for tasks that come from elsewhere: a space, a user's config. */
int workspace_tasks_expand(const struct workspace_vars *vars, size_t count,
                           Cordium__Workspace__Spec__Runtime__Task **tasks, struct arena *arena,
                           struct error *err);

/* SHA-256 of the image's source in 64 hex digits: two specs with one key want one image. */
enum { WORKSPACE_IMAGE_KEY_SIZE = 65 };
int workspace_image_key(const Cordium__Workspace__Spec__Image *image,
                        char ret[WORKSPACE_IMAGE_KEY_SIZE], struct error *err);

/* Egress rules for the executor; arrays live in the arena. DENY without rules is no network at all.
 * INVALID_ARGUMENT: a CIDR that cannot be read. */
int workspace_network(const Cordium__Workspace__Spec__Runtime__Network *network,
                      struct arena *arena, struct executor_network *ret, struct error *err);

/* What the host gives at most counts too, so that the limit that is shown is the one in force. host
 * may be NULL. */
void workspace_limit_cap(const struct executor_host_report *host, struct limit_values *values);

/* Capabilities that uid 0 of the sandbox may keep: those added by cluster, space and spec, in that
 * order, less those dropped anywhere. Names without CAP_; "ALL" is all. Any may be NULL. */
uint64_t workspace_capabilities(const Cordium__Workspace__Spec__Runtime__Capabilities *cluster,
                                const Cordium__Workspace__Spec__Runtime__Capabilities *space,
                                const Cordium__Workspace__Spec__Runtime__Capabilities *spec);

#endif
