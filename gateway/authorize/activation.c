#include "gateway/authorize/activation.h"

#include <stdio.h>

#include "gateway/audit/hex.h"
#include "gateway/authorize/ctx_members.h"
#include "gateway/authorize/message_view.h"
#include "policy/base/utf8.h"

struct activation;

/* A map whose members are made by functions: 1 and a value, 0 when absent, or a negative status. */
struct member {
    struct str name;
    int (*make)(const struct activation *a, struct arena *arena, struct policy_value *ret);
};

struct member_map {
    struct policy_map map;
    const struct activation *activation;
    const struct member *members;
    size_t count;
};

/* The views of whole messages, made once per decision. ABSENT: not made yet. */
enum view {
    VIEW_USER,
    VIEW_SESSION,
    VIEW_SPACE,
    VIEW_TEMPLATE,
    VIEW_WORKSPACE,
    VIEW_BODY,
    VIEW_COUNT
};

struct view_cache {
    struct policy_value values[VIEW_COUNT];
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
    struct arena *arena; /* of the whole decision, for what rules ask for again and again */
    struct view_cache *views;
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
    const struct member *end = m->members + m->count;
    for (const struct member *member = m->members; member < end; member++) {
        if (member->name.len == key.len && member->name.ptr[0] == key.as.text[0] &&
            str_eq(policy_value_str(key), member->name)) {
            return member->make(m->activation, arena, ret);
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
            *ret_key = policy_string(member->name);
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

static int cached(const struct activation *a, enum view view, const void *m,
                  struct policy_value *ret)
{
    struct policy_value *kept = &a->views->values[view];
    int rc = kept->kind == POLICY_ABSENT ? message(m, a->arena, kept) : 1;
    *ret = *kept;
    return rc;
}

#define MEMBER(name)                                                                               \
    static int name(const struct activation *a __attribute__((unused)),                            \
                    struct arena *arena __attribute__((unused)), struct policy_value *ret)

MEMBER(make_user)
{
    return cached(a, VIEW_USER, a->r->actor.user, ret);
}

MEMBER(make_session)
{
    return cached(a, VIEW_SESSION, a->r->actor.session, ret);
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
    return cached(a, VIEW_SPACE, a->r->touched.space, ret);
}

MEMBER(make_template)
{
    return cached(a, VIEW_TEMPLATE, a->r->touched.template_, ret);
}

MEMBER(make_workspace)
{
    return cached(a, VIEW_WORKSPACE, a->r->touched.workspace, ret);
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

/* What the audit log does not keep is not absent: whoever reads it gets an error. */
static int unknown(void)
{
    return -STATUS_UNAVAILABLE;
}

MEMBER(make_ip)
{
    if (a->r->past) {
        return text(activation_peer_ip(a->r->past->peer.ptr), ret);
    }
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
    return a->r->past ? unknown() : cached(a, VIEW_BODY, a->r->message, ret);
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
        return a->r->past ? unknown() : 0;
    }
    return text(call_header(a->r->call, "host"), ret);
}

MEMBER(make_headers)
{
    return a->r->past ? unknown() : a->r->call ? submap(&a->headers, ret) : 0;
}

/* Text that is not UTF-8 cannot be a CEL string; it fails the rule instead of vanishing from it. */
MEMBER(make_command)
{
    if (a->r->past) {
        return unknown();
    }
    if (!utf8_is_valid(a->r->run->command)) {
        return -STATUS_INVALID_ARGUMENT;
    }
    *ret = policy_string(a->r->run->command);
    return 1;
}

MEMBER(make_run_sha256)
{
    const uint8_t *hash = a->r->run->command_sha256;
    char *hex = arena_alloc(arena, 65);
    if (!hex) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    hex_encode(hash, 32, hex);
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
    limit = a->r->run->limit ? a->r->run->limit : limit;
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

#define NAMED(text_, make_, kind_, of_, presence_) {{text_, sizeof(text_) - 1}, make_},

static const struct member root_members[] = {CTX_ROOT(NAMED)};
static const struct member service_members[] = {CTX_SERVICE(NAMED)};
static const struct member service_metadata_members[] = {CTX_SERVICE_METADATA(NAMED)};
static const struct member service_spec_members[] = {CTX_SERVICE_SPEC(NAMED)};
static const struct member namespace_members[] = {CTX_NAMESPACE(NAMED)};
static const struct member namespace_metadata_members[] = {CTX_NAMESPACE_METADATA(NAMED)};
static const struct member request_members[] = {CTX_REQUEST(NAMED)};
static const struct member grpc_members[] = {CTX_GRPC(NAMED)};
static const struct member http_members[] = {CTX_HTTP(NAMED)};
static const struct member run_members[] = {CTX_RUN(NAMED)};

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
    struct view_cache *views = arena_zalloc(arena, sizeof *views);
    if (!a || !views) {
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
        .arena = arena,
        .views = views,
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
