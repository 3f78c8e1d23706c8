#include "gateway/services/workspace_env.h"

#include <stdio.h>
#include <string.h>

void workspace_env_init(struct workspace_env *env, struct arena *arena)
{
    memset(env, 0, sizeof *env);
    env->arena = arena;
}

static size_t find(const struct workspace_env *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->entries[i], name, n) == 0 && env->entries[i][n] == '=') {
            return i;
        }
    }
    return env->count;
}

static bool make_room(struct workspace_env *env)
{
    if (env->count + 1 < env->room) {
        return true; /* one is kept for a NULL at the end */
    }
    size_t room = env->room ? env->room * 2 : 64;
    const char **entries =
        room > 2 * WORKSPACE_ENV_MAX ? NULL : arena_calloc(env->arena, room, sizeof *entries);
    if (!entries) {
        return false;
    }
    if (env->count > 0) {
        memcpy(entries, env->entries, env->count * sizeof *entries);
    }
    env->entries = entries;
    env->room = room;
    return true;
}

void workspace_env_set(struct workspace_env *env, const char *name, const char *value)
{
    size_t at = find(env, name);
    const char *entry = arena_printf(env->arena, "%s=%s", name, value);
    if (!entry || (at == env->count && !make_room(env))) {
        env->has_failed = true;
        return;
    }
    env->entries[at] = entry;
    if (at == env->count) {
        env->count++;
    }
}

const char *workspace_env_get(const struct workspace_env *env, const char *name)
{
    size_t at = find(env, name);
    return at < env->count ? env->entries[at] + strlen(name) + 1 : NULL;
}

void workspace_env_set_default(struct workspace_env *env, const char *name, const char *value)
{
    if (!workspace_env_get(env, name)) {
        workspace_env_set(env, name, value);
    }
}

/* An image's entries come from outside; one without a name is left out. */
static void add_image(struct workspace_env *env, const struct image_metadata *image)
{
    for (size_t i = 0; i < image->env_count; i++) {
        const char *eq = strchr(image->env[i], '=');
        char *name = eq && eq > image->env[i]
                         ? arena_strndup(env->arena, image->env[i], (size_t)(eq - image->env[i]))
                         : NULL;
        if (name) {
            workspace_env_set(env, name, eq + 1);
        }
    }
}

static int add_list(struct workspace_env *env, size_t count,
                    Cordium__Workspace__Spec__Runtime__EnvVar **list,
                    const struct workspace_secrets *secrets, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = "";
        if (list[i]->type_case == CORDIUM__WORKSPACE__SPEC__RUNTIME__ENV_VAR__TYPE_FROM_SECRET) {
            int rc = secrets->space_secret(secrets->context, list[i]->from_secret, &value, err);
            if (rc) {
                return error_wrap(err, "Environment variable '%s'", list[i]->key);
            }
        } else if (list[i]->type_case == CORDIUM__WORKSPACE__SPEC__RUNTIME__ENV_VAR__TYPE_VALUE) {
            value = list[i]->value;
        }
        workspace_env_set(env, list[i]->key, value);
    }
    return 0;
}

static int add_user_config(struct workspace_env *env, const Cordium__UserConfig *config,
                           const struct workspace_secrets *secrets, struct error *err)
{
    size_t count = config && config->spec ? config->spec->n_env_vars : 0;
    for (size_t i = 0; i < count; i++) {
        const Cordium__UserConfig__Spec__EnvVar *var = config->spec->env_vars[i];
        const char *value = "";
        if (var->type_case == CORDIUM__USER_CONFIG__SPEC__ENV_VAR__TYPE_FROM_USER_SECRET) {
            int rc = secrets->user_secret(secrets->context, var->from_user_secret, &value, err);
            if (rc) {
                return error_wrap(err, "Environment variable '%s' of your UserConfig", var->key);
            }
        } else if (var->type_case == CORDIUM__USER_CONFIG__SPEC__ENV_VAR__TYPE_VALUE) {
            value = var->value;
        }
        workspace_env_set(env, var->key, value);
    }
    return 0;
}

/* Numeric libraries start a thread for each CPU of the host, not of the limit: with 2 CPUs of 64
 * they would spend their time on the throttle. */
static void add_thread_counts(struct workspace_env *env,
                              const Cordium__Workspace__Spec__Limit *limit)
{
    static const char *const NAMES[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                        "MKL_NUM_THREADS"};
    char text[16];
    uint32_t millicores = limit && limit->cpu ? limit->cpu->millicores : 1000;
    uint32_t cpus = millicores / 1000 + (millicores % 1000 != 0);
    (void)snprintf(text, sizeof text, "%u", cpus > 0 ? cpus : 1);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        workspace_env_set_default(env, NAMES[i], text);
    }
}

static void add_path(struct workspace_env *env)
{
    const char *path = workspace_env_get(env, "PATH");
    if (!path || !path[0]) {
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    }
    const char *longer = strstr(path, WORKSPACE_TOOLS_PATH)
                             ? path
                             : arena_printf(env->arena, "%s:%s", path, WORKSPACE_TOOLS_PATH);
    workspace_env_set(env, "PATH", longer ? longer : path);
    env->has_failed = env->has_failed || !longer;
}

static void add_fixed(struct workspace_env *env, const struct workspace_env_sources *s)
{
    const char *home = s->image->home;
    const char *cache = arena_printf(env->arena, "%s/.config/matplotlib", home);
    workspace_env_set_default(env, "LANG", "C.UTF-8");
    workspace_env_set_default(env, "TZ", "UTC");
    workspace_env_set_default(env, "MPLCONFIGDIR", cache ? cache : "/tmp");
    add_thread_counts(env, s->limit);
    add_path(env);
    workspace_env_set(env, "HOME", home);
    if (s->image->user[0]) {
        workspace_env_set_default(env, "USER", s->image->user);
        workspace_env_set_default(env, "LOGNAME", s->image->user);
        workspace_env_set(env, "USERNAME", s->image->user);
    }
    workspace_env_set(env, "OCTELIUM_AUTH_PROXY_SOCKET", WORKSPACE_PROXY_SOCKET);
    workspace_env_set(env, "OCTELIUM_DOMAIN", s->domain);
    workspace_env_set(env, "OCTELIUM_HOME", "mem");
    workspace_env_set(env, "CORDIUM_NAME", s->workspace_name);
    workspace_env_set(env, "CORDIUM_HOSTNAME", s->hostname);
}

int workspace_env_build(const struct workspace_env_sources *s, struct workspace_env *env,
                        struct error *err)
{
    const Cordium__Space__Spec__Runtime *space =
        s->space && s->space->spec ? s->space->spec->runtime : NULL;
    const Cordium__Workspace__Spec__Runtime *runtime = s->spec->runtime;
    add_image(env, s->image);
    int rc = add_user_config(env, s->user_config, s->secrets, err);
    if (!rc && space) {
        rc = add_list(env, space->n_env_vars, space->env_vars, s->secrets, err);
    }
    if (!rc && runtime) {
        rc = add_list(env, runtime->n_env_vars, runtime->env_vars, s->secrets, err);
    }
    if (rc) {
        return rc;
    }
    add_fixed(env, s);
    return env->has_failed
               ? error_set(err, STATUS_RESOURCE_EXHAUSTED,
                           "The workspace's environment is too large (at most %d variables)",
                           WORKSPACE_ENV_MAX)
               : 0;
}
