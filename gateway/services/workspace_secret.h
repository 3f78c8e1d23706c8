#ifndef SERVICES_WORKSPACE_SECRET_H
#define SERVICES_WORKSPACE_SECRET_H

#include "gateway/services/workspace_env.h"
#include "gateway/services/workspace_run.h"

/* Values of secrets that a spec names, for use inside of the sandbox only: never in a status, a log
 * or an answer. */

/* A Secret of the run's space, by its full or short name. NOT_FOUND; INVALID_ARGUMENT: it holds
 * something that is no text. */
int workspace_secret_of_space(const struct workspace_run *run, const char *name,
                              struct arena *arena, const char **ret, struct error *err);

/* A UserSecret of the run's owner. */
int workspace_secret_of_user(const struct workspace_run *run, const char *name, struct arena *arena,
                             const char **ret, struct error *err);

/* Both as an environment takes them; values live in the run's spec_arena. */
struct workspace_secrets workspace_secrets_of(struct workspace_run *run);

#endif
