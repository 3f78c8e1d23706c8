#include "gateway/services/spec_validation.h"

#include <string.h>

#include "gateway/services/limits.h"
#include "gateway/services/spec_check.h"

enum {
    DOCKERFILE_INLINE_MAX = 5000,
    REGISTRY_URL_MAX = 256,
    ENV_COUNT_MAX = 128,
    ENV_KEY_MAX = 64,
    ENV_VALUE_MAX = 1024,
    COMMAND_MAX = 1024,
    TASK_COUNT_MAX = 128,
    TASK_NAME_MAX = 128,
    TASK_RUN_MAX = 5000,
    CAPABILITY_COUNT_MAX = 100,
    FEATURE_COUNT_MAX = 100,
    SERVE_SERVICES_MAX = 128,
    REPOSITORY_COUNT_MAX = 32,
    GIT_TEXT_MAX = 256,
    APPLICATION_COUNT_MAX = 128,
    APPLICATION_DISPLAY_NAME_MAX = 128,
    VAR_COUNT_MAX = 128,
    VAR_NAME_MAX = 64,
    VAR_VALUE_MAX = 4096,
    SECRET_NAME_MAX = 128,
};

/* git and image tools read a leading '-' as an option. */
static int check_no_option(const char *value, const char *field, struct error *err)
{
    return value[0] == '-' ? spec_refuse(err, field, value, "begins with '-'") : 0;
}

static int check_git_text(const char *value, const char *field, struct error *err)
{
    if (!value[0]) {
        return 0;
    }
    int status = spec_check_ascii(value, GIT_TEXT_MAX, field, err);
    return status ? status : check_no_option(value, field, err);
}

static int check_secret_name(bool is_set, const char *name, const char *field, struct error *err)
{
    if (!is_set) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s is unset: give the name of a Secret",
                         field);
    }
    return spec_check_ascii(name, SECRET_NAME_MAX, field, err);
}

static int check_dockerfile(const Cordium__Workspace__Spec__Image__Dockerfile *dockerfile,
                            struct error *err)
{
    switch ((int)dockerfile->type_case) {
    case CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_INLINE:
        return spec_check_length(dockerfile->inline_, 1, DOCKERFILE_INLINE_MAX,
                                 "spec.image.dockerfile.inline", err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_URL:
        return spec_check_https_url(dockerfile->url, "spec.image.dockerfile.url", err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE__NOT_SET:
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.image.dockerfile is empty: write inline or url");
    }
}

static int check_registry(const Cordium__Workspace__Spec__Image__Registry *registry,
                          struct error *err)
{
    static const char field[] = "spec.image.registry.url";
    int status = spec_check_ascii(registry->url, REGISTRY_URL_MAX, field, err);
    if (!status) {
        status = check_no_option(registry->url, field, err);
    }
    if (!status && !spec_has_variable(registry->url) && strchr(registry->url, ' ')) {
        status = spec_refuse(err, field, registry->url, "holds a space");
    }
    const Cordium__Workspace__Spec__Image__Registry__Authentication *login =
        registry->authentication;
    if (status || !login) {
        return status;
    }
    static const char login_field[] = "spec.image.registry.authentication";
    status = spec_check_ascii(login->username, GIT_TEXT_MAX,
                              spec_path("%s.username", login_field).text, err);
    if (status) {
        return status;
    }
    bool is_set =
        login->password &&
        login->password->type_case ==
            CORDIUM__WORKSPACE__SPEC__IMAGE__REGISTRY__AUTHENTICATION__PASSWORD__TYPE_FROM_SECRET;
    return check_secret_name(is_set, is_set ? login->password->from_secret : "",
                             spec_path("%s.password.fromSecret", login_field).text, err);
}

static int check_image_git(const Cordium__Workspace__Spec__Image__Git *git, struct error *err)
{
    int status = spec_check_https_url(git->url, "spec.image.git.url", err);
    if (!status) {
        status = check_git_text(git->checkout, "spec.image.git.checkout", err);
    }
    if (!status) {
        status = check_git_text(git->dockerfile, "spec.image.git.dockerfile", err);
    }
    return status ? status : check_git_text(git->context, "spec.image.git.context", err);
}

static int check_image_repository(const Cordium__Workspace__Spec__Image__Repository *repository,
                                  struct error *err)
{
    switch ((int)repository->type_case) {
    case CORDIUM__WORKSPACE__SPEC__IMAGE__REPOSITORY__TYPE_DEVCONTAINER:
        return check_git_text(repository->devcontainer->dir_path,
                              "spec.image.repository.devcontainer.dirPath", err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__REPOSITORY__TYPE_DOCKERFILE: {
        int status = check_git_text(repository->dockerfile->path,
                                    "spec.image.repository.dockerfile.path", err);
        return status ? status
                      : check_git_text(repository->dockerfile->context,
                                       "spec.image.repository.dockerfile.context", err);
    }
    case CORDIUM__WORKSPACE__SPEC__IMAGE__REPOSITORY__TYPE__NOT_SET:
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.image.repository is empty: write devcontainer or dockerfile");
    }
}

static int check_image(const Cordium__Workspace__Spec__Image *image, struct error *err)
{
    if (!image) {
        return 0;
    }
    switch ((int)image->type_case) {
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_DOCKERFILE:
        return check_dockerfile(image->dockerfile, err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY:
        return check_registry(image->registry, err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_GIT:
        return check_image_git(image->git, err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REPOSITORY:
        return check_image_repository(image->repository, err);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE__NOT_SET:
    default:
        return 0;
    }
}

static int check_http_login(const Cordium__Workspace__Spec__Repository__Authentication *login,
                            const char *field, struct error *err)
{
    if (!login ||
        login->type_case != CORDIUM__WORKSPACE__SPEC__REPOSITORY__AUTHENTICATION__TYPE_HTTP) {
        return 0;
    }
    const Cordium__Workspace__Spec__Repository__Authentication__HTTP__Password *password =
        login->http->password;
    bool is_set =
        password &&
        password->type_case ==
            CORDIUM__WORKSPACE__SPEC__REPOSITORY__AUTHENTICATION__HTTP__PASSWORD__TYPE_FROM_SECRET;
    int status = check_git_text(login->http->username,
                                spec_path("%s.authentication.http.username", field).text, err);
    return status ? status
                  : check_secret_name(
                        is_set, is_set ? password->from_secret : "",
                        spec_path("%s.authentication.http.password.fromSecret", field).text, err);
}

static int check_repository(const Cordium__Workspace__Spec__Repository *repository,
                            const char *field, struct error *err)
{
    if (!repository) {
        return 0;
    }
    int status = spec_check_https_url(repository->url, spec_path("%s.url", field).text, err);
    const Cordium__Workspace__Spec__Repository__CloneOptions *options = repository->clone_options;
    if (!status && options) {
        status =
            check_git_text(options->branch, spec_path("%s.cloneOptions.branch", field).text, err);
        if (!status) {
            status = check_git_text(options->checkout,
                                    spec_path("%s.cloneOptions.checkout", field).text, err);
        }
    }
    return status ? status : check_http_login(repository->authentication, field, err);
}

static int check_additional(size_t count, Cordium__Workspace__Spec__AdditionalRepository **list,
                            struct error *err)
{
    static const char field[] = "spec.additionalRepositories";
    int status = spec_check_count(count, REPOSITORY_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        struct spec_path name = spec_path("%s[%zu].name", field, i);
        status = spec_check_ascii(list[i]->name, GIT_TEXT_MAX, name.text, err);
        if (!status && strchr(list[i]->name, '/')) {
            status = spec_refuse(err, name.text, list[i]->name, "holds a '/'");
        }
        for (size_t j = 0; !status && j < i; j++) {
            if (strcmp(list[i]->name, list[j]->name) == 0) {
                status = spec_refuse(err, name.text, list[i]->name, "is used twice");
            }
        }
        if (!status) {
            status = spec_check_working_dir(list[i]->clone_path,
                                            spec_path("%s[%zu].clonePath", field, i).text, err);
        }
        if (!status && !list[i]->repository) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "%s[%zu].repository is unset: give its url", field, i);
        }
        if (!status) {
            status = check_repository(list[i]->repository,
                                      spec_path("%s[%zu].repository", field, i).text, err);
        }
    }
    return status;
}

static int check_env_key(const char *key, const char *field, struct error *err)
{
    int status = spec_check_ascii(key, ENV_KEY_MAX, field, err);
    if (!status && (strchr(key, '=') || strchr(key, ' '))) {
        status = spec_refuse(err, field, key, "holds '=' or a space");
    }
    return status;
}

static int check_env(size_t count, Cordium__Workspace__Spec__Runtime__EnvVar **env,
                     const char *field, struct error *err)
{
    int status = spec_check_count(count, ENV_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        status = check_env_key(env[i]->key, spec_path("%s[%zu].key", field, i).text, err);
        if (status) {
            return status;
        }
        if (env[i]->type_case == CORDIUM__WORKSPACE__SPEC__RUNTIME__ENV_VAR__TYPE_FROM_SECRET) {
            status = check_secret_name(true, env[i]->from_secret,
                                       spec_path("%s[%zu].fromSecret", field, i).text, err);
        } else {
            bool is_set =
                env[i]->type_case == CORDIUM__WORKSPACE__SPEC__RUNTIME__ENV_VAR__TYPE_VALUE;
            status = spec_check_length(is_set ? env[i]->value : "", 1, ENV_VALUE_MAX,
                                       spec_path("%s[%zu].value", field, i).text, err);
        }
    }
    return status;
}

static int check_task(const Cordium__Workspace__Spec__Runtime__Task *task, const char *field,
                      struct error *err)
{
    if (task->type < CORDIUM__WORKSPACE__SPEC__RUNTIME__TASK__TYPE__ON_CREATE ||
        task->type > CORDIUM__WORKSPACE__SPEC__RUNTIME__TASK__TYPE__PRE_STOP) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.type is unset: write ON_CREATE, POST_START or PRE_STOP", field);
    }
    if ((unsigned)task->on_failure >
        CORDIUM__WORKSPACE__SPEC__RUNTIME__TASK__ON_FAILURE__ON_FAILURE_CONTINUE) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.onFailure: write ON_FAILURE_ABORT or ON_FAILURE_CONTINUE", field);
    }
    int status =
        spec_check_length(task->name, 0, TASK_NAME_MAX, spec_path("%s.name", field).text, err);
    if (!status) {
        status =
            spec_check_length(task->run, 1, TASK_RUN_MAX, spec_path("%s.run", field).text, err);
    }
    if (!status) {
        status =
            spec_check_working_dir(task->working_dir, spec_path("%s.workingDir", field).text, err);
    }
    if (!status) {
        status = spec_check_count(task->n_env_vars, ENV_COUNT_MAX,
                                  spec_path("%s.envVars", field).text, err);
    }
    for (size_t i = 0; !status && i < task->n_env_vars; i++) {
        status = check_env_key(task->env_vars[i]->key,
                               spec_path("%s.envVars[%zu].key", field, i).text, err);
        if (!status) {
            status = spec_check_length(task->env_vars[i]->value, 1, ENV_VALUE_MAX,
                                       spec_path("%s.envVars[%zu].value", field, i).text, err);
        }
    }
    return status;
}

int spec_validate_tasks(size_t count, Cordium__Workspace__Spec__Runtime__Task **tasks,
                        const char *field, struct error *err)
{
    int status = spec_check_count(count, TASK_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        status = check_task(tasks[i], spec_path("%s[%zu]", field, i).text, err);
    }
    return status;
}

static int check_capability(const char *name, const char *field, struct error *err)
{
    size_t len = strlen(name);
    bool ok = len >= 1 && len <= 30 && name[0] >= 'A' && name[0] <= 'Z';
    for (size_t i = 1; ok && i < len; i++) {
        char c = name[i];
        ok = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    }
    if (!ok || strncmp(name, "CAP_", 4) == 0) {
        return spec_refuse(err, field, name,
                           "is not a capability: write ALL or a name such as NET_RAW, in upper "
                           "case and without CAP_");
    }
    return 0;
}

static int check_capability_list(size_t count, char **names, const char *field, struct error *err)
{
    int status = spec_check_count(count, CAPABILITY_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        status = check_capability(names[i], spec_path("%s[%zu]", field, i).text, err);
    }
    return status;
}

int spec_validate_capabilities(const Cordium__Workspace__Spec__Runtime__Capabilities *capabilities,
                               const char *field, struct error *err)
{
    if (!capabilities) {
        return 0;
    }
    int status = check_capability_list(capabilities->n_add, capabilities->add,
                                       spec_path("%s.add", field).text, err);
    return status ? status
                  : check_capability_list(capabilities->n_drop, capabilities->drop,
                                          spec_path("%s.drop", field).text, err);
}

/* Features, served services and the time-out mode. */
static int check_runtime_extras(const Cordium__Workspace__Spec__Runtime *runtime, const char *field,
                                struct error *err)
{
    int status = 0;
    if (runtime->devcontainers) {
        status = spec_check_count(runtime->devcontainers->n_features, FEATURE_COUNT_MAX,
                                  spec_path("%s.devcontainers.features", field).text, err);
        for (size_t i = 0; !status && i < runtime->devcontainers->n_features; i++) {
            status = spec_check_ascii(
                runtime->devcontainers->features[i]->reference, GIT_TEXT_MAX,
                spec_path("%s.devcontainers.features[%zu].reference", field, i).text, err);
        }
    }
    if (!status && runtime->octelium) {
        status = spec_check_count(runtime->octelium->n_serve_services, SERVE_SERVICES_MAX,
                                  spec_path("%s.octelium.serveServices", field).text, err);
    }
    if (!status && runtime->timeout &&
        (unsigned)runtime->timeout->mode >
            CORDIUM__WORKSPACE__SPEC__RUNTIME__TIMEOUT__MODE__DISABLED) {
        status = error_set(err, STATUS_INVALID_ARGUMENT,
                           "%s.timeout.mode is %d: write DEFAULT or DISABLED", field,
                           (int)runtime->timeout->mode);
    }
    return status;
}

int spec_validate_runtime(const Cordium__Workspace__Spec__Runtime *runtime, const char *field,
                          struct error *err)
{
    if (!runtime) {
        return 0;
    }
    int status =
        check_env(runtime->n_env_vars, runtime->env_vars, spec_path("%s.envVars", field).text, err);
    if (!status) {
        status = spec_validate_tasks(runtime->n_tasks, runtime->tasks,
                                     spec_path("%s.tasks", field).text, err);
    }
    if (!status) {
        status =
            spec_check_length(runtime->cmd, 0, COMMAND_MAX, spec_path("%s.cmd", field).text, err);
    }
    if (!status) {
        status = spec_check_length(runtime->entrypoint, 0, COMMAND_MAX,
                                   spec_path("%s.entrypoint", field).text, err);
    }
    if (!status) {
        status = check_runtime_extras(runtime, field, err);
    }
    if (!status) {
        status = spec_validate_network(runtime->network, spec_path("%s.network", field).text, err);
    }
    if (!status) {
        status = spec_validate_capabilities(runtime->capabilities,
                                            spec_path("%s.capabilities", field).text, err);
    }
    return status ? status
                  : spec_validate_mounts(runtime->n_volume_mounts, runtime->volume_mounts,
                                         spec_path("%s.volumeMounts", field).text, err);
}

static int check_applications(size_t count, Cordium__Workspace__Spec__Application **list,
                              struct error *err)
{
    static const char field[] = "spec.applications";
    int status = spec_check_count(count, APPLICATION_COUNT_MAX, field, err);
    const char *default_name = NULL;
    for (size_t i = 0; !status && i < count; i++) {
        struct spec_path name = spec_path("%s[%zu].name", field, i);
        status = spec_check_ascii(list[i]->name, ENV_KEY_MAX, name.text, err);
        for (size_t j = 0; !status && j < i; j++) {
            if (strcmp(list[i]->name, list[j]->name) == 0) {
                status = spec_refuse(err, name.text, list[i]->name, "is used twice");
            }
        }
        if (!status && (list[i]->port < 1 || list[i]->port > 65535)) {
            status = error_set(err, STATUS_INVALID_ARGUMENT,
                               "%s[%zu].port is %d: 1 to 65535 is needed", field, i, list[i]->port);
        }
        if (!status) {
            status = spec_check_length(list[i]->display_name, 0, APPLICATION_DISPLAY_NAME_MAX,
                                       spec_path("%s[%zu].displayName", field, i).text, err);
        }
        if (!status && list[i]->is_default) {
            if (default_name) {
                status = error_set(err, STATUS_INVALID_ARGUMENT,
                                   "%s: '%s' and '%s' are both the default, one can be", field,
                                   default_name, list[i]->name);
            }
            default_name = list[i]->name;
        }
    }
    return status;
}

int spec_validate_vars(size_t count, Cordium__Workspace__Spec__Var **vars, const char *field,
                       struct error *err)
{
    int status = spec_check_count(count, VAR_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        status = spec_check_ascii(vars[i]->name, VAR_NAME_MAX,
                                  spec_path("%s[%zu].name", field, i).text, err);
        if (!status) {
            status = spec_check_length(vars[i]->value, 0, VAR_VALUE_MAX,
                                       spec_path("%s[%zu].value", field, i).text, err);
        }
    }
    return status;
}

static int spec_is_unset(const char *kind, struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT, "The spec of the %s is unset", kind);
}

int spec_validate_workspace(const Cordium__Workspace__Spec *spec, struct error *err)
{
    if (!spec) {
        return spec_is_unset("Workspace", err);
    }
    int status = check_image(spec->image, err);
    if (!status) {
        status = spec_validate_runtime(spec->runtime, "spec.runtime", err);
    }
    if (!status) {
        status = check_repository(spec->repository, "spec.repository", err);
    }
    if (!status) {
        status =
            check_additional(spec->n_additional_repositories, spec->additional_repositories, err);
    }
    if (!status) {
        status = check_applications(spec->n_applications, spec->applications, err);
    }
    if (!status) {
        status = limit_validate(spec->limit, "spec.limit", err);
    }
    return status ? status : spec_validate_vars(spec->n_vars, spec->vars, "spec.vars", err);
}

static int check_no_variable(const char *value, const char *field, struct error *err)
{
    return spec_has_variable(value)
               ? spec_refuse(err, field, value, "holds '${{' that is not ${{ vars.NAME }}")
               : 0;
}

/* Texts that are let through unchecked while they hold a variable must not hold one any more. */
static int check_no_variables(const Cordium__Workspace__Spec *spec, struct error *err)
{
    const Cordium__Workspace__Spec__Image *image = spec->image;
    int status = 0;
    if (image && image->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY) {
        status = check_no_variable(image->registry->url, "spec.image.registry.url", err);
    } else if (image && image->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_GIT) {
        status = check_no_variable(image->git->url, "spec.image.git.url", err);
    } else if (image && image->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_DOCKERFILE &&
               image->dockerfile->type_case ==
                   CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_URL) {
        status = check_no_variable(image->dockerfile->url, "spec.image.dockerfile.url", err);
    }
    if (!status && spec->repository) {
        status = check_no_variable(spec->repository->url, "spec.repository.url", err);
    }
    for (size_t i = 0; !status && i < spec->n_additional_repositories; i++) {
        const Cordium__Workspace__Spec__Repository *repository =
            spec->additional_repositories[i]->repository;
        struct spec_path at = spec_path("spec.additionalRepositories[%zu].repository.url", i);
        status = repository ? check_no_variable(repository->url, at.text, err) : 0;
    }
    return status;
}

/* Lists may be as long as a template's and a workspace's together, texts as long as their variables
 * made them; a text that became empty means "unset". What is refused here is what later steps rely
 * on. */
int spec_validate_merged(const Cordium__Workspace__Spec *spec, struct error *err)
{
    const Cordium__Workspace__Spec__Runtime *runtime = spec->runtime;
    int status = check_no_variables(spec, err);
    if (!status) {
        status = check_image(spec->image, err);
    }
    if (!status) {
        status = check_repository(spec->repository, "spec.repository", err);
    }
    if (!status) {
        status =
            check_additional(spec->n_additional_repositories, spec->additional_repositories, err);
    }
    if (status || !runtime) {
        return status;
    }
    status = spec_check_count(runtime->n_tasks, TASK_COUNT_MAX, "spec.runtime.tasks", err);
    for (size_t i = 0; !status && i < runtime->n_tasks; i++) {
        status =
            spec_check_working_dir(runtime->tasks[i]->working_dir,
                                   spec_path("spec.runtime.tasks[%zu].workingDir", i).text, err);
    }
    if (!status) {
        status = spec_validate_network(runtime->network, "spec.runtime.network", err);
    }
    return status ? status
                  : spec_validate_mounts(runtime->n_volume_mounts, runtime->volume_mounts,
                                         "spec.runtime.volumeMounts", err);
}

int spec_validate_template(const Cordium__Template__Spec *spec, struct error *err)
{
    if (!spec) {
        return spec_is_unset("Template", err);
    }
    int status = check_image(spec->image, err);
    if (!status) {
        status = spec_validate_runtime(spec->runtime, "spec.runtime", err);
    }
    if (!status) {
        status = check_repository(spec->repository, "spec.repository", err);
    }
    if (!status) {
        status =
            check_additional(spec->n_additional_repositories, spec->additional_repositories, err);
    }
    if (!status) {
        status = limit_validate(spec->limit, "spec.limit", err);
    }
    return status ? status : spec_validate_vars(spec->n_vars, spec->vars, "spec.vars", err);
}

int spec_validate_space(const Cordium__Space__Spec *spec, bool is_organization, struct error *err)
{
    if (!spec) {
        return spec_is_unset("Space", err);
    }
    const Cordium__Space__Spec__Limit *limit = spec->limit;
    if (limit && (limit->default_limit || limit->max_limit) && !is_organization) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "spec.limit: a Space of a user cannot carry limits; use an organization "
                         "Space (NAME.cordium) or the ClusterConfig");
    }
    int status = limit ? limit_validate(limit->default_limit, "spec.limit.defaultLimit", err) : 0;
    if (!status && limit) {
        status = limit_validate(limit->max_limit, "spec.limit.maxLimit", err);
    }
    const Cordium__Space__Spec__Runtime *runtime = spec->runtime;
    if (status || !runtime) {
        return status;
    }
    status = check_env(runtime->n_env_vars, runtime->env_vars, "spec.runtime.envVars", err);
    if (!status) {
        status = spec_validate_tasks(runtime->n_tasks, runtime->tasks, "spec.runtime.tasks", err);
    }
    return status ? status
                  : spec_validate_capabilities(runtime->capabilities, "spec.runtime.capabilities",
                                               err);
}
