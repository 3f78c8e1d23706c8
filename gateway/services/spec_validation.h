#ifndef SERVICES_SPEC_VALIDATION_H
#define SERVICES_SPEC_VALIDATION_H

#include <stdbool.h>

#include "api/cordium.pb-c.h"
#include "policy/base/status.h"

/* The rules for what people write in specs. All errors are INVALID_ARGUMENT and name the field by
 * its path ("spec.runtime.tasks[2].run"), the value and the remedy. NULL specs are refused. What
 * needs the store (do secrets, volumes exist?) is checked by the services. */
int spec_validate_workspace(const Cordium__Workspace__Spec *spec, struct error *err);
int spec_validate_template(const Cordium__Template__Spec *spec, struct error *err);

/* What a run is made of: the template's and the workspace's spec in one, variables replaced. Each
 * part was valid by itself; the whole may have too many rules or mounts, or a URL that its
 * variables made into something else. */
int spec_validate_merged(const Cordium__Workspace__Spec *spec, struct error *err);

/* PERMISSION_DENIED for limits on a USER space. */
int spec_validate_space(const Cordium__Space__Spec *spec, bool is_organization, struct error *err);
int spec_validate_user_config(const Cordium__UserConfig__Spec *spec, struct error *err);
int spec_validate_git_provider(const Cordium__GitProvider__Spec *spec, struct error *err);
int spec_validate_cluster_config(const Cordium__ClusterConfig__Spec *spec, struct error *err);

/* Parts; `field` is the path of the part. NULL parts are fine. */
int spec_validate_runtime(const Cordium__Workspace__Spec__Runtime *runtime, const char *field,
                          struct error *err);
int spec_validate_network(const Cordium__Workspace__Spec__Runtime__Network *network,
                          const char *field, struct error *err);
int spec_validate_mounts(size_t count, Cordium__Workspace__Spec__Runtime__VolumeMount **mounts,
                         const char *field, struct error *err);
int spec_validate_capabilities(const Cordium__Workspace__Spec__Runtime__Capabilities *capabilities,
                               const char *field, struct error *err);
int spec_validate_tasks(size_t count, Cordium__Workspace__Spec__Runtime__Task **tasks,
                        const char *field, struct error *err);
int spec_validate_vars(size_t count, Cordium__Workspace__Spec__Var **vars, const char *field,
                       struct error *err);

/* Names used for secrets anywhere in the message: calls visit for each string field with that name
 * ("from_secret", "from_user_secret"), stops at its first failure. */
int spec_visit_strings(const ProtobufCMessage *message, const char *field_name,
                       int (*visit)(void *arg, const char *value, struct error *err), void *arg,
                       struct error *err);

#endif
