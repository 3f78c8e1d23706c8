#include "gateway/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/telemetry/endpoint.h"
#include "gateway/text/yaml_reader.h"

enum { CONFIG_MAX_BYTES = 256 * 1024, HOSTS_MAX = 256 };

enum setting_type {
    SETTING_TEXT,
    SETTING_PATH,
    SETTING_NUMBER,
    SETTING_PORT,
    SETTING_BOOL,
    SETTING_LIST,
    SETTING_OTLP_ENDPOINT,
    SETTING_SYSLOG_TARGET,
    SETTING_METRICS_LISTEN,
};

struct setting {
    const char *section; /* NULL: top level */
    const char *key;
    enum setting_type type;
    size_t offset;
    uint32_t min, max; /* numbers */
};

#define AT(member) offsetof(struct gateway_config, member)

static const struct setting settings[] = {
    {NULL, "domain", SETTING_TEXT, AT(domain), 0, 0},
    {NULL, "region", SETTING_TEXT, AT(region), 0, 0},
    {NULL, "defaultImage", SETTING_TEXT, AT(default_image), 0, 0},
    {NULL, "stateDir", SETTING_PATH, AT(state_dir), 0, 0},
    {NULL, "executorSocket", SETTING_PATH, AT(executor_socket), 0, 0},
    {"listen", "host", SETTING_TEXT, AT(listen_host), 0, 0},
    {"listen", "port", SETTING_PORT, AT(listen_port), 0, 65535},
    {"tls", "certificate", SETTING_PATH, AT(certificate), 0, 0},
    {"tls", "key", SETTING_PATH, AT(certificate_key), 0, 0},
    {"audit", "dir", SETTING_PATH, AT(audit_dir), 0, 0},
    {"audit", "rotateMebibytes", SETTING_NUMBER, AT(audit_rotate_mebibytes), 1, 65536},
    {"audit", "checkpointLines", SETTING_NUMBER, AT(audit_checkpoint_lines), 1, 1000000},
    {"audit", "checkpointSeconds", SETTING_NUMBER, AT(audit_checkpoint_seconds), 1, 86400},
    {"audit", "retentionDays", SETTING_NUMBER, AT(audit_retention_days), 0, 36500},
    {"audit", "retentionMebibytes", SETTING_NUMBER, AT(audit_retention_mebibytes), 0, 1U << 30},
    {"audit", "readersGroup", SETTING_TEXT, AT(audit_readers_group), 0, 0},
    {"audit", "commandText", SETTING_BOOL, AT(audit_command_text), 0, 0},
    {"policy", "strict", SETTING_BOOL, AT(policy_strict), 0, 0},
    {"limits", "workspacesPerUser", SETTING_NUMBER, AT(workspaces_per_user_max), 1, 1000000},
    {"limits", "activeWorkspacesPerUser", SETTING_NUMBER, AT(active_workspaces_per_user_max), 1,
     1000000},
    {"limits", "outputBytes", SETTING_NUMBER, AT(output_bytes_max), 1024, 1U << 30},
    {"limits", "startWaitMs", SETTING_NUMBER, AT(start_wait_ms), 0, 25000},
    {"runs", "retentionSeconds", SETTING_NUMBER, AT(runs.retention_seconds), 1, 366 * 86400},
    {"runs", "resultsKept", SETTING_NUMBER, AT(runs.results_max), 1, 1000000},
    {"runs", "megabytesKept", SETTING_NUMBER, AT(runs.megabytes_max), 1, 1024 * 1024},
    {"runs", "keepInputs", SETTING_BOOL, AT(runs.keep_inputs), 0, 0},
    {"debug", "trace", SETTING_BOOL, AT(debug_trace), 0, 0},
    {"build", "caBundle", SETTING_PATH, AT(build.ca_bundle), 0, 0},
    {"build", "pipIndexURL", SETTING_TEXT, AT(build.pip_index_url), 0, 0},
    {"build", "proxy", SETTING_TEXT, AT(build.proxy), 0, 0},
    {"build", "noProxy", SETTING_TEXT, AT(build.no_proxy), 0, 0},
    {"build", "mirrors", SETTING_LIST, AT(build.mirrors), 0, 0},
    {"build", "hosts", SETTING_LIST, AT(build.hosts), 0, 0},
    {"build", "timeoutSeconds", SETTING_NUMBER, AT(build.timeout_seconds), 10, 86400},
    {"telemetry", "metricsListen", SETTING_METRICS_LISTEN, AT(telemetry.metrics_listen), 0, 0},
    {"telemetry", "metricsTokenFile", SETTING_PATH, AT(telemetry.metrics_token_file), 0, 0},
    {"telemetry", "otlpEndpoint", SETTING_OTLP_ENDPOINT, AT(telemetry.otlp_endpoint), 0, 0},
    {"telemetry", "otlpCABundle", SETTING_PATH, AT(telemetry.otlp_ca_bundle), 0, 0},
    {"telemetry", "otlpHeadersFile", SETTING_PATH, AT(telemetry.otlp_headers_file), 0, 0},
    {"telemetry", "otlpMetricsSeconds", SETTING_NUMBER, AT(telemetry.otlp_metrics_seconds), 0,
     86400},
    {"telemetry", "syslogTarget", SETTING_SYSLOG_TARGET, AT(telemetry.syslog_target), 0, 0},
    {"telemetry", "syslogFacility", SETTING_NUMBER, AT(telemetry.syslog_facility), 0, 23},
    {"telemetry", "allowPlaintext", SETTING_BOOL, AT(telemetry.allow_plaintext), 0, 0},
    {"telemetry", "queueMebibytes", SETTING_NUMBER, AT(telemetry.queue_mebibytes), 1, 1024},
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

static const struct gateway_config defaults = {
    .domain = "localhost",
    .region = "default",
    .listen_host = "127.0.0.1",
    .listen_port = 8443,
    .workspaces_per_user_max = 1000,
    .active_workspaces_per_user_max = 128,
    .output_bytes_max = 1024 * 1024,
    .start_wait_ms = 500,
    .runs = {.retention_seconds = 86400, .results_max = 10000, .megabytes_max = 512},
    .audit_readers_group = "auditors",
    .audit_rotate_mebibytes = 64,
    .audit_checkpoint_lines = 1000,
    .audit_checkpoint_seconds = 60,
    .build.timeout_seconds = 3600,
    .telemetry = {.otlp_metrics_seconds = 60, .syslog_facility = 13, .queue_mebibytes = 16},
};

struct reading {
    const char *path;
    const char *folder; /* of the file, for relative paths */
    struct arena *arena;
    struct gateway_config *config;
};

static int bad(const struct reading *in, const struct tree_node *n, const char *what,
               struct error *err)
{
    return error_set_at(err, STATUS_INVALID_ARGUMENT, n->key_line, n->key_column,
                        "%s:%u: '%.*s': %s", in->path, n->key_line, STR_ARG(n->key), what);
}

static const char *absolute(const struct reading *in, const char *path)
{
    return path[0] == '/' ? path : arena_printf(in->arena, "%s/%s", in->folder, path);
}

static int set_text(const struct reading *in, const struct setting *s, const struct tree_node *n,
                    struct error *err)
{
    const char **to = (const char **)((char *)in->config + s->offset);
    if (n->type == TREE_LIST || n->type == TREE_MAP || n->text.len == 0) {
        return bad(in, n, "expected a text", err);
    }
    *to = s->type == SETTING_PATH ? absolute(in, n->text.ptr) : n->text.ptr;
    return *to ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* Kept as the text that it is; here it is only found out whether it is one. */
static int set_endpoint(const struct reading *in, const struct setting *s,
                        const struct tree_node *n, struct error *err)
{
    struct endpoint ignored;
    struct error what;
    if (set_text(in, s, n, err) < 0) {
        return -err->status;
    }
    int (*parse)(const char *, struct endpoint *, struct error *) =
        s->type == SETTING_OTLP_ENDPOINT   ? endpoint_parse_otlp
        : s->type == SETTING_SYSLOG_TARGET ? endpoint_parse_syslog
                                           : endpoint_parse_listen;
    return parse(n->text.ptr, &ignored, &what) < 0 ? bad(in, n, what.text, err) : 0;
}

static int set_number(const struct reading *in, const struct setting *s, const struct tree_node *n,
                      struct error *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long v = n->text.len ? strtoull(n->text.ptr, &end, 10) : 0;
    if (n->type != TREE_NUMBER || errno || !end || *end || v < s->min || v > s->max) {
        char text[96];
        (void)snprintf(text, sizeof text, "expected a whole number from %u to %u", s->min, s->max);
        return bad(in, n, text, err);
    }
    if (s->type == SETTING_PORT) {
        *(uint16_t *)((char *)in->config + s->offset) = (uint16_t)v;
    } else {
        *(unsigned *)((char *)in->config + s->offset) = (unsigned)v;
    }
    return 0;
}

/* A list of texts; the setting's offset is that of the pointer, its count follows right after. */
static int set_list(const struct reading *in, const struct setting *s, const struct tree_node *n,
                    struct error *err)
{
    static_assert(AT(build.host_count) == AT(build.hosts) + sizeof(void *) &&
                      AT(build.mirror_count) == AT(build.mirrors) + sizeof(void *),
                  "a list and its count stand side by side");
    if (n->type != TREE_LIST || n->count > HOSTS_MAX) {
        return bad(in, n, "expected a list of texts", err);
    }
    const char **hosts = arena_calloc(in->arena, n->count + 1, sizeof *hosts);
    if (!hosts) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    size_t count = 0;
    for (const struct tree_node *item = n->first; item; item = item->next) {
        if (item->type != TREE_STRING || memchr(item->text.ptr, '\n', item->text.len)) {
            return bad(in, n, "expected a list of one-line texts", err);
        }
        hosts[count++] = item->text.ptr;
    }
    *(const char *const **)((char *)in->config + s->offset) = hosts;
    *(size_t *)((char *)in->config + s->offset + sizeof(void *)) = count;
    return 0;
}

static int set_one(const struct reading *in, const struct setting *s, const struct tree_node *n,
                   struct error *err)
{
    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_PATH:
        return set_text(in, s, n, err);
    case SETTING_NUMBER:
    case SETTING_PORT:
        return set_number(in, s, n, err);
    case SETTING_BOOL:
        *(bool *)((char *)in->config + s->offset) = str_is(n->text, "true");
        return n->type == TREE_BOOL ? 0 : bad(in, n, "expected true or false", err);
    case SETTING_LIST:
        return set_list(in, s, n, err);
    case SETTING_OTLP_ENDPOINT:
    case SETTING_SYSLOG_TARGET:
    case SETTING_METRICS_LISTEN:
        return set_endpoint(in, s, n, err);
    }
    return 0;
}

static bool is_section(struct str key)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (settings[i].section && str_is(key, settings[i].section)) {
            return true;
        }
    }
    return false;
}

static int read_section(const struct reading *in, const char *section, const struct tree_node *map,
                        struct error *err)
{
    for (const struct tree_node *n = map->first; n; n = n->next) {
        const struct setting *found = NULL;
        for (size_t i = 0; i < SETTING_COUNT && !found; i++) {
            bool same_section = cstr_eq(settings[i].section, section);
            found = same_section && str_is(n->key, settings[i].key) ? &settings[i] : NULL;
        }
        if (found) {
            if (set_one(in, found, n, err) < 0) {
                return -err->status;
            }
        } else if (!section && is_section(n->key) && n->type == TREE_MAP) {
            if (read_section(in, n->key.ptr, n, err) < 0) {
                return -err->status;
            }
        } else {
            return bad(in, n, "no such setting; gateway/README.md lists them", err);
        }
    }
    return 0;
}

static int read_text(const char *path, struct arena *arena, struct str *ret, struct error *err)
{
    char *text = arena_alloc(arena, CONFIG_MAX_BYTES);
    if (!text) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    ssize_t n = fd_read_file(AT_FDCWD, path, text, CONFIG_MAX_BYTES);
    if (n < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, (int)-n, "cannot read '%s'", path);
    }
    if (n == CONFIG_MAX_BYTES - 1) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is larger than %d bytes", path,
                         CONFIG_MAX_BYTES - 2);
    }
    *ret = str_make(text, (size_t)n);
    return 0;
}

/* The lines tell who did what: they do not cross a network in the clear by oversight. */
static int check_plaintext(const struct reading *in, struct error *err)
{
    const struct gateway_config *c = in->config;
    struct endpoint e;
    const char *name = NULL;
    if (c->telemetry.otlp_endpoint &&
        endpoint_parse_otlp(c->telemetry.otlp_endpoint, &e, NULL) == 0 && !endpoint_is_safe(&e)) {
        name = "telemetry.otlpEndpoint";
    }
    if (c->telemetry.syslog_target &&
        endpoint_parse_syslog(c->telemetry.syslog_target, &e, NULL) == 0 && !endpoint_is_safe(&e)) {
        name = "telemetry.syslogTarget";
    }
    if (name && !c->telemetry.allow_plaintext) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: %s would send the audit log over the network unencrypted: use https, "
                         "or a receiver on this machine, or set telemetry.allowPlaintext",
                         in->path, name);
    }
    return 0;
}

static int fill_in(const struct reading *in, struct error *err)
{
    struct gateway_config *c = in->config;
    if (!c->state_dir || !c->executor_socket) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: '%s' must be set", in->path,
                         c->state_dir ? "executorSocket" : "stateDir");
    }
    if (!c->certificate != !c->certificate_key) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: tls.certificate and tls.key go together: set both or neither",
                         in->path);
    }
    if (check_plaintext(in, err) < 0) {
        return -err->status;
    }
    if (!c->audit_dir) {
        c->audit_dir = arena_printf(in->arena, "%s/audit", c->state_dir);
    }
    return c->audit_dir ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

int gateway_config_load(const char *path, struct arena *arena, struct gateway_config *ret,
                        struct error *err)
{
    struct str text;
    const struct tree_node *tree = NULL;
    struct gateway_config config = defaults;
    char *real = realpath(path, NULL);
    if (!real) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "cannot open '%s'", path);
    }
    *strrchr(real, '/') = '\0';
    struct reading in = {path, arena_strdup(arena, real), arena, &config};
    free(real);
    if (!in.folder || read_text(path, arena, &text, err) < 0) {
        return in.folder ? -err->status
                         : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (yaml_read(text, arena, &tree, err) < 0) {
        return error_wrap(err, "%s:%u", path, err->line);
    }
    if (tree->type != TREE_MAP) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: expected `name: value` lines", path);
    }
    if (read_section(&in, NULL, tree, err) < 0 || fill_in(&in, err) < 0) {
        return -err->status;
    }
    *ret = config;
    return 0;
}
