#ifndef SERVICES_WORKSPACE_ENV_H
#define SERVICES_WORKSPACE_ENV_H

#include <stdbool.h>

#include "api/cordium.pb-c.h"
#include "gateway/services/image_metadata.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Environment variables by name: later settings replace earlier ones. Lives in an arena. */
struct workspace_env {
    struct arena *arena;
    const char **entries; /* NAME=value */
    size_t count;
    size_t room;
    bool has_failed; /* the arena was full: check once at the end */
};

enum { WORKSPACE_ENV_MAX = 1024 };

void workspace_env_init(struct workspace_env *env, struct arena *arena);
void workspace_env_set(struct workspace_env *env, const char *name, const char *value);
void workspace_env_set_default(struct workspace_env *env, const char *name, const char *value);
const char *workspace_env_get(const struct workspace_env *env, const char *name); /* or NULL */

/* Where the values of secrets come from: NOT_FOUND when there is none. */
struct workspace_secrets {
    int (*space_secret)(void *context, const char *name, const char **ret, struct error *err);
    int (*user_secret)(void *context, const char *name, const char **ret, struct error *err);
    void *context;
};

struct workspace_env_sources {
    const struct image_metadata *image;
    const Cordium__UserConfig *user_config; /* may be NULL */
    const Cordium__Space *space;            /* may be NULL */
    const Cordium__Workspace__Spec *spec;   /* merged and expanded */
    const Cordium__Workspace__Spec__Limit *limit;
    const char *workspace_name;
    const char *hostname;
    const char *domain;
    const struct workspace_secrets *secrets;
};

/* The environment of a workspace's programs. Low to high: image, user's config, space, merged spec;
 * then what is always the same (OCTELIUM_*, CORDIUM_*, HOME). LANG, TZ, MPLCONFIGDIR, the thread
 * counts of numeric libraries and PATH get sane values when nobody set them. Errors: a secret that
 * is missing (NOT_FOUND), RESOURCE_EXHAUSTED. */
int workspace_env_build(const struct workspace_env_sources *sources, struct workspace_env *env,
                        struct error *err);

#define WORKSPACE_TOOLS_PATH "/opt/cordium/bin"
#define WORKSPACE_PROXY_SOCKET "/var/run/octelium-proxy.sock"
#define WORKSPACE_DIR "/workspace"

#endif
