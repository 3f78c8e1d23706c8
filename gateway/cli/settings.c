#include "gateway/cli/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/cli/local_file.h"
#include "gateway/text/yaml_reader.h"

static const char *first_set(const char *a, const char *b, const char *c)
{
    return a && a[0] ? a : b && b[0] ? b : c && c[0] ? c : NULL;
}

static bool is_true(const char *s)
{
    return s && (strcmp(s, "true") == 0 || strcmp(s, "1") == 0);
}

static int apply_member(const struct tree_node *m, const char *path, struct settings *s,
                        struct error *err)
{
    const struct {
        const char *key;
        const char **to;
    } texts[] = {
        {"domain", &s->domain},        {"server", &s->server}, {"caFile", &s->ca_file},
        {"authToken", &s->auth_token}, {"home", &s->home},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (str_is(m->key, texts[i].key)) {
            *texts[i].to = m->text.ptr;
            return 0;
        }
    }
    if (str_is(m->key, "insecureTLS")) {
        s->is_insecure = is_true(m->text.ptr);
        return 0;
    }
    return error_set_at(
        err, STATUS_INVALID_ARGUMENT, m->key_line, m->key_column,
        "%s:%u: unknown setting '%.*s'; known are domain, server, caFile, authToken, "
        "home and insecureTLS",
        path, m->key_line, STR_ARG(m->key));
}

static int read_config(const char *path, bool must_exist, struct arena *arena, struct settings *s,
                       struct error *err)
{
    struct str text;
    if (access(path, F_OK) == -1 && errno == ENOENT && !must_exist) {
        return 0;
    }
    const struct tree_node *tree = NULL;
    if (local_file_read(path, arena, &text, err) < 0) {
        return -err->status;
    }
    if (text.len == 0) {
        return 0;
    }
    if (yaml_read(text, arena, &tree, err) < 0) {
        return error_wrap(err, "%s:%u", path, err->line);
    }
    if (tree->type != TREE_MAP) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: expected lines of `name: value`", path);
    }
    for (const struct tree_node *m = tree->first; m; m = m->next) {
        if (apply_member(m, path, s, err) < 0) {
            return -err->status;
        }
    }
    return 0;
}

static int load_file(struct arena *arena, struct settings *s, struct error *err)
{
    const char *named = getenv("CORDIUM_CONFIG");
    if (named && named[0]) {
        return read_config(named, true, arena, s, err);
    }
    const char *home = getenv("HOME");
    const char *base = getenv("XDG_CONFIG_HOME");
    if (!first_set(base, home, NULL)) {
        return 0;
    }
    const char *path = base && base[0]
                           ? arena_printf(arena, "%s/cordium/config.yaml", base)
                           : arena_printf(arena, "%s/.config/cordium/config.yaml", home);
    if (!path) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    return read_config(path, false, arena, s, err);
}

static void set_defaults(struct settings *s, struct arena *arena)
{
    if (!s->domain) {
        s->domain = "localhost";
    }
    if (!s->server && strcmp(s->domain, "localhost") == 0) {
        s->server = "127.0.0.1:8443";
    }
    if (!s->home && getenv("HOME")) {
        s->home = arena_printf(arena, "%s/.octelium", getenv("HOME"));
    }
    if (s->home && strcmp(s->home, "mem") == 0) {
        s->home = NULL;
    }
}

int settings_load(const struct settings_options *options, struct arena *arena, struct settings *ret,
                  struct error *err)
{
    struct settings s = {0};
    if (load_file(arena, &s, err) < 0) {
        return -err->status;
    }
    s.domain =
        first_set(options->domain,
                  first_set(getenv("CORDIUM_DOMAIN"), getenv("OCTELIUM_DOMAIN"), NULL), s.domain);
    s.server = first_set(options->server, getenv("CORDIUM_SERVER"), s.server);
    s.ca_file = first_set(options->ca_file, getenv("CORDIUM_CA_FILE"), s.ca_file);
    s.home = first_set(options->home, getenv("OCTELIUM_HOME"), s.home);
    s.access_token = first_set(getenv("OCTELIUM_ACCESS_TOKEN"), NULL, NULL);
    s.auth_token = first_set(getenv("OCTELIUM_AUTH_TOKEN"), getenv("OCTELIUM_AUTHENTICATION_TOKEN"),
                             s.auth_token);
    s.unix_socket = first_set(getenv("OCTELIUM_AUTH_PROXY_SOCKET"), NULL, NULL);
    s.is_insecure = s.is_insecure || is_true(getenv("OCTELIUM_INSECURE_TLS"));
    set_defaults(&s, arena);
    *ret = s;
    return 0;
}
