#include "gateway/authorize/activation.h"

#include <stdio.h>

#include "gateway/authorize/message_view.h"
#include "policy/base/utf8.h"

struct activation;

/* A map whose members are made by functions: 1 and a value, 0 when absent, or a negative status. */
struct member {
    const char *name;
    int (*make)(const struct activation *a, struct arena *arena, struct policy_value *ret);
};

struct member_map {
    struct policy_map map;
    const struct activation *activation;
    const struct member *members;
    size_t count;
};

struct activation {
    struct member_map root;
    struct member_map service;
    struct member_map service_metadata;
    struct member_map service_spec;
    struct member_map namespace_;
    struct member_map namespace_metadata;
    struct member_map request;
    struct member_map grpc;
    struct member_map http;
    struct member_map headers;
    struct member_map run;
    const struct request *r;
};

static const struct policy_map_ops member_map_ops;
static const struct policy_map_ops header_map_ops;

static size_t member_map_size(const struct policy_map *self)
{
    const struct member_map *m = (const struct member_map *)self;
    char memory[512];
    size_t size = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct arena arena;
        struct policy_value ignored;
        arena_init_with(&arena, memory, sizeof memory, 1 << 20);
        size += m->members[i].make(m->activation, &arena, &ignored) == 1;
        arena_free(&arena);
    }
    return size;
}

static int member_map_get(const struct policy_map *self, struct policy_value key,
                          struct arena *arena, struct policy_value *ret)
{
    const struct member_map *m = (const struct member_map *)self;
    if (key.kind != POLICY_STRING) {
        return 0;
    }
    for (size_t i = 0; i < m->count; i++) {
        if (str_is(policy_value_str(key), m->members[i].name)) {
            return m->members[i].make(m->activation, arena, ret);
        }
    }
    return 0;
}

static int member_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                           struct policy_value *ret_key, struct policy_value *ret_value)
{
    const struct member_map *m = (const struct member_map *)self;
    while (*cursor < m->count) {
        const struct member *member = &m->members[(*cursor)++];
        struct policy_value value;
        int rc = member->make(m->activation, arena, &value);
        if (rc < 0) {
            return rc;
        }
        if (rc == 1) {
            *ret_key = policy_cstring(member->name);
            if (ret_value) {
                *ret_value = value;
            }
            return 1;
        }
    }
    return 0;
}

static const struct policy_map_ops member_map_ops = {
    .size = member_map_size, .get = member_map_get, .next = member_map_next};

/* Text of the client: absent when empty, and when it is no UTF-8, which a string must be. */
static int text(struct str s, struct policy_value *ret)
{
    if (s.len == 0 || !utf8_is_valid(s)) {
        return 0;
    }
    *ret = policy_string(s);
    return 1;
}

static int constant(const char *s, struct policy_value *ret)
{
    *ret = policy_cstring(s);
    return 1;
}

static int submap(const struct member_map *m, struct policy_value *ret)
{
    *ret = policy_map(&m->map);
    return 1;
}

static int message(const void *m, struct arena *arena, struct policy_value *ret)
{
    int rc = message_view_make(m, arena, ret);
    return rc < 0 ? rc : ret->kind != POLICY_ABSENT;
}

#define MEMBER(name)                                                                               \
    static int name(const struct activation *a __attribute__((unused)),                            \
                    struct arena *arena __attribute__((unused)), struct policy_value *ret)

MEMBER(make_user)
{
    return message(a->r->actor.user, arena, ret);
}

MEMBER(make_session)
{
    return message(a->r->actor.session, arena, ret);
}

MEMBER(make_groups)
{
    const struct actor *actor = &a->r->actor;
    int rc = message_view_make_list((const ProtobufCMessage *const *)actor->groups,
                                    actor->group_count, arena, ret);
    return rc < 0 ? rc : ret->kind != POLICY_ABSENT;
}

MEMBER(make_space)
{
    return message(a->r->touched.space, arena, ret);
}

MEMBER(make_template)
{
    return message(a->r->touched.template_, arena, ret);
}

MEMBER(make_workspace)
{
    return message(a->r->touched.workspace, arena, ret);
}

MEMBER(make_service)
{
    return submap(&a->service, ret);
}

MEMBER(make_namespace)
{
    return submap(&a->namespace_, ret);
}

MEMBER(make_request)
{
    return submap(&a->request, ret);
}

MEMBER(make_run)
{
    return a->r->run ? submap(&a->run, ret) : 0;
}

MEMBER(make_api_version)
{
    return constant("core/v1", ret);
}

MEMBER(make_kind_service)
{
    return constant("Service", ret);
}

MEMBER(make_kind_namespace)
{
    return constant("Namespace", ret);
}

MEMBER(make_service_metadata)
{
    return submap(&a->service_metadata, ret);
}

MEMBER(make_service_spec)
{
    return submap(&a->service_spec, ret);
}

MEMBER(make_namespace_metadata)
{
    return submap(&a->namespace_metadata, ret);
}

MEMBER(make_service_name)
{
    return constant(ACTIVATION_SERVICE_NAME, ret);
}

MEMBER(make_namespace_name)
{
    return constant(ACTIVATION_NAMESPACE_NAME, ret);
}

MEMBER(make_true)
{
    *ret = policy_bool(true);
    return 1;
}

MEMBER(make_mode)
{
    return constant("GRPC", ret);
}

MEMBER(make_ip)
{
    return a->r->call ? text(activation_peer_ip(call_origin(a->r->call)->peer), ret) : 0;
}

MEMBER(make_grpc)
{
    return a->r->method ? submap(&a->grpc, ret) : 0;
}

MEMBER(make_http)
{
    return submap(&a->http, ret);
}

MEMBER(make_body)
{
    return message(a->r->message, arena, ret);
}

MEMBER(make_grpc_service)
{
    const char *full = a->r->method->schema->service;
    const char *dot = strrchr(full, '.');
    return constant(dot ? dot + 1 : full, ret);
}

MEMBER(make_grpc_service_full)
{
    return constant(a->r->method->schema->service, ret);
}

MEMBER(make_grpc_package)
{
    return constant(a->r->method->schema->package, ret);
}

MEMBER(make_grpc_method)
{
    return constant(a->r->method->schema->name, ret);
}

MEMBER(make_http_method)
{
    return constant("POST", ret);
}

MEMBER(make_http_path)
{
    return a->r->method ? constant(a->r->method->schema->path, ret) : 0;
}

MEMBER(make_http_scheme)
{
    bool is_tls = a->r->call && call_origin(a->r->call)->is_tls;
    return constant(is_tls ? "https" : "http", ret);
}

MEMBER(make_http_host)
{
    if (!a->r->call) {
        return 0;
    }
    struct str authority = call_header(a->r->call, ":authority");
    return text(authority.len ? authority : call_header(a->r->call, "host"), ret);
}

MEMBER(make_headers)
{
    return a->r->call ? submap(&a->headers, ret) : 0;
}

/* Text that is not UTF-8 cannot be a CEL string; it fails the rule instead of vanishing from it. */
MEMBER(make_command)
{
    if (!utf8_is_valid(a->r->run->command)) {
        return -STATUS_INVALID_ARGUMENT;
    }
    *ret = policy_string(a->r->run->command);
    return 1;
}

MEMBER(make_run_sha256)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *hash = a->r->run->command_sha256;
    char *hex = arena_alloc(arena, 65);
    if (!hex) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < 32; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
    return constant(hex, ret);
}

MEMBER(make_run_size)
{
    *ret = policy_int((int64_t)a->r->run->command.len);
    return 1;
}

MEMBER(make_run_user)
{
    return constant(a->r->run->as_root ? "root" : "default", ret);
}

MEMBER(make_run_is_root)
{
    *ret = policy_bool(a->r->run->as_root);
    return 1;
}

MEMBER(make_run_has_stdin)
{
    *ret = policy_bool(a->r->run->has_stdin);
    return 1;
}

MEMBER(make_run_is_terminal)
{
    *ret = policy_bool(a->r->run->is_terminal);
    return 1;
}

MEMBER(make_run_working_dir)
{
    struct str dir = str_from(a->r->run->working_dir);
    if (!utf8_is_valid(dir)) {
        return -STATUS_INVALID_ARGUMENT;
    }
    *ret = policy_string(dir);
    return 1;
}

MEMBER(make_run_env)
{
    const struct run_request *run = a->r->run;
    struct policy_value *names = arena_calloc(arena, run->env_name_count, sizeof *names);
    if (!names) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < run->env_name_count; i++) {
        struct str name = str_from(run->env_names[i]);
        if (!utf8_is_valid(name)) {
            return -STATUS_INVALID_ARGUMENT;
        }
        names[i] = policy_string(name);
    }
    const struct policy_list *list = policy_list_build(arena, names, run->env_name_count);
    if (!list) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    *ret = policy_list(list);
    return 1;
}

/* The limits in force of the workspace, or those its spec asks for while it has none yet. */
MEMBER(make_run_limits)
{
    const Cordium__Workspace *w = a->r->touched.workspace;
    const Cordium__Workspace__Spec__Limit *limit = w && w->status ? w->status->limit : NULL;
    limit = limit || !w || !w->spec ? limit : w->spec->limit;
    if (limit) {
        return message(limit, arena, ret);
    }
    const struct policy_map *empty;
    int rc = policy_map_build(arena, NULL, 0, &empty);
    if (rc) {
        return rc;
    }
    *ret = policy_map(empty);
    return 1;
}

static const struct member root_members[] = {
    {"user", make_user},       {"session", make_session},     {"groups", make_groups},
    {"service", make_service}, {"namespace", make_namespace}, {"request", make_request},
    {"space", make_space},     {"template", make_template},   {"workspace", make_workspace},
    {"run", make_run},
};
static const struct member service_members[] = {
    {"apiVersion", make_api_version},
    {"kind", make_kind_service},
    {"metadata", make_service_metadata},
    {"spec", make_service_spec},
};
static const struct member service_metadata_members[] = {
    {"name", make_service_name},
    {"isSystem", make_true},
};
static const struct member service_spec_members[] = {
    {"mode", make_mode},
    {"isPublic", make_true},
    {"isTLS", make_true},
};
static const struct member namespace_members[] = {
    {"apiVersion", make_api_version},
    {"kind", make_kind_namespace},
    {"metadata", make_namespace_metadata},
};
static const struct member namespace_metadata_members[] = {
    {"name", make_namespace_name},
    {"isSystem", make_true},
};
static const struct member request_members[] = {
    {"ip", make_ip},
    {"grpc", make_grpc},
    {"http", make_http},
    {"body", make_body},
};
static const struct member grpc_members[] = {
    {"service", make_grpc_service},
    {"serviceFullName", make_grpc_service_full},
    {"package", make_grpc_package},
    {"method", make_grpc_method},
    {"http", make_http},
};
static const struct member http_members[] = {
    {"method", make_http_method}, {"path", make_http_path},  {"host", make_http_host},
    {"scheme", make_http_scheme}, {"headers", make_headers},
};
static const struct member run_members[] = {
    {"command", make_command},
    {"sha256", make_run_sha256},
    {"size", make_run_size},
    {"user", make_run_user},
    {"isRoot", make_run_is_root},
    {"env", make_run_env},
    {"workingDir", make_run_working_dir},
    {"hasStdin", make_run_has_stdin},
    {"isTerminal", make_run_is_terminal},
    {"limits", make_run_limits},
};

/* The edge finds headers by name and does not list them, so these are the ones that are listed. */
static const char *const listed_headers[] = {
    "accept", "accept-encoding", "content-type",    "grpc-timeout", "origin",
    "te",     "user-agent",      "x-forwarded-for", "x-request-id",
};
static const char *const secret_headers[] = {
    "authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token",
};

static bool header_is_secret(struct str name)
{
    for (size_t i = 0; i < sizeof secret_headers / sizeof secret_headers[0]; i++) {
        if (str_is(name, secret_headers[i])) {
            return true;
        }
    }
    return str_starts_with(name, STR("x-octelium-"));
}

static int header_get(const struct policy_map *self, struct policy_value key, struct arena *arena,
                      struct policy_value *ret)
{
    const struct member_map *m = (const struct member_map *)self;
    struct str name = policy_value_str(key);
    if (key.kind != POLICY_STRING || name.len == 0 || name.len > 256 || name.ptr[0] == ':' ||
        str_has_nul(name) || header_is_secret(name)) {
        return 0;
    }
    char *copy = arena_strndup(arena, name.ptr, name.len);
    if (!copy) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    return text(call_header(m->activation->r->call, copy), ret);
}

static int header_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                       struct policy_value *ret_key, struct policy_value *ret_value)
{
    while (*cursor < sizeof listed_headers / sizeof listed_headers[0]) {
        struct policy_value value;
        *ret_key = policy_cstring(listed_headers[(*cursor)++]);
        int rc = header_get(self, *ret_key, arena, &value);
        if (rc == 1 && ret_value) {
            *ret_value = value;
        }
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static size_t header_size(const struct policy_map *self)
{
    const struct member_map *m = (const struct member_map *)self;
    size_t size = 0;
    for (size_t i = 0; i < sizeof listed_headers / sizeof listed_headers[0]; i++) {
        struct policy_value ignored;
        size += text(call_header(m->activation->r->call, listed_headers[i]), &ignored) == 1;
    }
    return size;
}

static const struct policy_map_ops header_map_ops = {
    .size = header_size, .get = header_get, .next = header_next};

#define MEMBERS(a, table)                                                                          \
    (struct member_map)                                                                            \
    {                                                                                              \
        {&member_map_ops}, (a), (table), sizeof(table) / sizeof(table)[0]                          \
    }

int activation_make(const struct request *r, struct arena *arena, struct policy_value *ret)
{
    struct activation *a = arena_alloc(arena, sizeof *a);
    if (!a) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    *a = (struct activation){
        .root = MEMBERS(a, root_members),
        .service = MEMBERS(a, service_members),
        .service_metadata = MEMBERS(a, service_metadata_members),
        .service_spec = MEMBERS(a, service_spec_members),
        .namespace_ = MEMBERS(a, namespace_members),
        .namespace_metadata = MEMBERS(a, namespace_metadata_members),
        .request = MEMBERS(a, request_members),
        .grpc = MEMBERS(a, grpc_members),
        .http = MEMBERS(a, http_members),
        .headers = {{&header_map_ops}, a, NULL, 0},
        .run = MEMBERS(a, run_members),
        .r = r,
    };
    *ret = policy_map(&a->root.map);
    return 0;
}

struct str activation_peer_ip(const char *peer)
{
    struct str s = str_from(peer);
    if (str_starts_with(s, STR("unix:"))) {
        return STR_NONE;
    }
    if (s.len > 0 && s.ptr[0] == '[') {
        const char *end = memchr(s.ptr, ']', s.len);
        return end ? str_make(s.ptr + 1, (size_t)(end - s.ptr) - 1) : STR_NONE;
    }
    const char *colon = strrchr(peer, ':');
    return colon ? str_make(s.ptr, (size_t)(colon - s.ptr)) : s;
}
