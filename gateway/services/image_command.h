#ifndef SERVICES_IMAGE_COMMAND_H
#define SERVICES_IMAGE_COMMAND_H

#include "api/cordium.pb-c.h"
#include "gateway/services/workspace_env.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

struct gateway_config;

/* How the image program of the build sandbox is called: see executor/image/README.md. */
struct image_command {
    const char **argv;
    size_t argc;
    const char *const *env;
    size_t env_count;
    struct str input; /* its standard input: the Dockerfile */
};

/* Everything lives in the arena, the input too. INVALID_ARGUMENT: a kind of image that cannot be
 * made here; NOT_FOUND: the registry's secret. */
int image_command_make(const struct gateway_config *config,
                       const Cordium__Workspace__Spec__Image *image,
                       const struct workspace_secrets *secrets, struct arena *arena,
                       struct image_command *ret, struct error *err);

#endif
