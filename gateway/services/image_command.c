#include "gateway/services/image_command.h"

#include <string.h>

#include "gateway/config.h"

enum { ARGV_MAX = 512 };

/* Where the tools are in the build sandbox, then the host's own programs. */
#define BUILD_PATH                                                                                 \
    "/opt/cordium/bin:/opt/cordium:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* $1: the Dockerfile's URL; the rest is the image program's call. */
static const char FETCH_SCRIPT[] =
    "url=$1; shift\n"
    "file=$(mktemp) || exit\n"
    "curl --fail --silent --show-error --location --proto '=https,http' --max-filesize 1048576 "
    "--output \"$file\" -- \"$url\" || { echo \"cannot get the Dockerfile from $url\" >&2; exit 1; "
    "}\n"
    "exec \"$@\" --dockerfile \"$file\"\n";

/* $1: URL, $2: what to check out, $3: Dockerfile, $4: context, both beneath the repository. */
static const char CLONE_SCRIPT[] =
    "url=$1 checkout=$2 file=${3:-Dockerfile} context=${4:-.}; shift 4\n"
    "dir=$(mktemp -d) || exit\n"
    "git clone --progress -- \"$url\" \"$dir/repo\" || { echo \"cannot clone $url\" >&2; exit 1; "
    "}\n"
    "[ -z \"$checkout\" ] || git -C \"$dir/repo\" checkout \"$checkout\" -- || exit\n"
    "exec \"$@\" --dockerfile \"$dir/repo/$file\" --context \"$dir/repo/$context\"\n";

struct maker {
    const struct gateway_config *config;
    struct arena *arena;
    struct image_command *ret;
    struct workspace_env env;
    bool has_failed;
};

static void add(struct maker *m, const char *argument)
{
    if (!argument || m->ret->argc >= ARGV_MAX) {
        m->has_failed = true;
        return;
    }
    m->ret->argv[m->ret->argc++] = argument;
}

static void add_option(struct maker *m, const char *option, const char *value)
{
    add(m, option);
    add(m, value);
}

/* "10.0.0.1 pypi.org" is name and address the other way round here. */
static void add_host(struct maker *m, const char *line)
{
    size_t n = strcspn(line, " \t");
    const char *name = line + n + strspn(line + n, " \t");
    const char *address = arena_strndup(m->arena, line, n);
    if (name[0] && address) {
        add_option(m, "--add-host", arena_printf(m->arena, "%s:%s", name, address));
    }
}

static void add_settings(struct maker *m)
{
    const struct gateway_config *c = m->config;
    if (c->build.ca_bundle) {
        add_option(m, "--ca-bundle", c->build.ca_bundle);
    }
    if (c->build.pip_index_url) {
        add_option(m, "--build-env",
                   arena_printf(m->arena, "PIP_INDEX_URL=%s", c->build.pip_index_url));
    }
    for (size_t i = 0; i < c->build.mirror_count; i++) {
        add_option(m, "--mirror", c->build.mirrors[i]);
    }
    for (size_t i = 0; i < c->build.host_count; i++) {
        add_host(m, c->build.hosts[i]);
    }
}

static void make_env(struct maker *m)
{
    const struct gateway_config *c = m->config;
    workspace_env_init(&m->env, m->arena);
    workspace_env_set(&m->env, "PATH", BUILD_PATH);
    workspace_env_set(&m->env, "HOME", "/build/home");
    workspace_env_set(&m->env, "LANG", "C.UTF-8");
    if (c->build.proxy) {
        workspace_env_set(&m->env, "http_proxy", c->build.proxy);
        workspace_env_set(&m->env, "https_proxy", c->build.proxy);
    }
    if (c->build.no_proxy) {
        workspace_env_set(&m->env, "no_proxy", c->build.no_proxy);
    }
    if (c->build.ca_bundle) {
        workspace_env_set(&m->env, "CURL_CA_BUNDLE", c->build.ca_bundle);
        workspace_env_set(&m->env, "GIT_SSL_CAINFO", c->build.ca_bundle);
        workspace_env_set(&m->env, "SSL_CERT_FILE", c->build.ca_bundle);
    }
}

static int make_dockerfile(struct maker *m,
                           const Cordium__Workspace__Spec__Image__Dockerfile *dockerfile,
                           struct error *err)
{
    if (dockerfile->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_INLINE) {
        const char *text = arena_strdup(m->arena, dockerfile->inline_);
        m->ret->input = str_from(text);
        add(m, "cordium-image");
        add(m, "build");
        add_settings(m);
        m->has_failed = m->has_failed || !text;
        return 0;
    }
    if (dockerfile->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_URL) {
        add(m, "/bin/sh");
        add(m, "-c");
        add(m, FETCH_SCRIPT);
        add(m, "fetch");
        add(m, arena_strdup(m->arena, dockerfile->url));
        add(m, "cordium-image");
        add(m, "build");
        add_settings(m);
        return 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "image.dockerfile is empty; set inline or url");
}

static void make_git(struct maker *m, const Cordium__Workspace__Spec__Image__Git *git)
{
    add(m, "/bin/sh");
    add(m, "-c");
    add(m, CLONE_SCRIPT);
    add(m, "clone");
    add(m, arena_strdup(m->arena, git->url));
    add(m, arena_strdup(m->arena, git->checkout));
    add(m, arena_strdup(m->arena, git->dockerfile));
    add(m, arena_strdup(m->arena, git->context));
    add(m, "cordium-image");
    add(m, "build");
    add_settings(m);
}

static int make_registry(struct maker *m, const Cordium__Workspace__Spec__Image__Registry *registry,
                         const struct workspace_secrets *secrets, struct error *err)
{
    const Cordium__Workspace__Spec__Image__Registry__Authentication *a = registry->authentication;
    if (a && a->username[0]) {
        const char *password = "";
        if (a->password && a->password->from_secret && a->password->from_secret[0]) {
            int rc =
                secrets->space_secret(secrets->context, a->password->from_secret, &password, err);
            if (rc) {
                return error_wrap(err, "image.registry.authentication");
            }
        }
        const char *both = arena_printf(m->arena, "%s:%s", a->username, password);
        m->has_failed = m->has_failed || !both;
        /* By the environment: arguments can be read by every process of the sandbox. */
        workspace_env_set(&m->env, "CORDIUM_IMAGE_CREDENTIALS", both ? both : "");
    }
    add(m, "cordium-image");
    add(m, "pull");
    add_settings(m);
    add(m, "--");
    add(m, arena_strdup(m->arena, registry->url));
    return 0;
}

int image_command_make(const struct gateway_config *config,
                       const Cordium__Workspace__Spec__Image *image,
                       const struct workspace_secrets *secrets, struct arena *arena,
                       struct image_command *ret, struct error *err)
{
    struct maker m = {.config = config, .arena = arena, .ret = ret};
    int rc = 0;
    memset(ret, 0, sizeof *ret);
    ret->argv = arena_calloc(arena, ARGV_MAX + 1, sizeof *ret->argv);
    if (!ret->argv) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The image's description is too large");
    }
    make_env(&m);
    switch ((int)image->type_case) {
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_DOCKERFILE:
        rc = make_dockerfile(&m, image->dockerfile, err);
        break;
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY:
        rc = make_registry(&m, image->registry, secrets, err);
        break;
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_GIT:
        make_git(&m, image->git);
        break;
    default:
        rc = error_set(err, STATUS_INVALID_ARGUMENT,
                       "Images from the repository itself (devcontainer, Dockerfile) are not "
                       "supported yet; set image.dockerfile, image.registry or image.git");
    }
    ret->env = m.env.entries;
    ret->env_count = m.env.count;
    if (!rc && (m.has_failed || m.env.has_failed)) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "The image's description is too large");
    }
    return rc;
}
