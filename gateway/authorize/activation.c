#include "gateway/authorize/activation.h"

#include <stdio.h>

#include "api/schema_index.h"
#include "gateway/audit/hex.h"
#include "gateway/authorize/ctx_members.h"
#include "gateway/authorize/message_view.h"
#include "policy/base/utf8.h"

struct activation;

/* A map whose members are made by functions: the value, ABSENT, or policy_unreadable(). */
struct member {
    struct str name;
    struct policy_value (*make)(const struct activation *a, struct arena *arena);
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
        arena_init_with(&arena, memory, sizeof memory, 1 << 20);
        size += m->members[i].make(m->activation, &arena).kind != POLICY_ABSENT;
        arena_free(&arena);
    }
    return size;
}

static struct policy_value member_map_get(const struct policy_map *self, struct policy_value key,
                                          struct arena *arena)
{
    const struct member_map *m = (const struct member_map *)self;
    if (key.kind != POLICY_STRING) {
        return policy_absent();
    }
    const struct member *end = m->members + m->count;
    for (const struct member *member = m->members; member < end; member++) {
        if (member->name.len == key.len && str_same_bytes(member->name.ptr, key.as.text, key.len)) {
            return member->make(m->activation, arena);
        }
    }
    return policy_absent();
}

static int member_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                           struct policy_value *ret_key, struct policy_value *ret_value)
{
    const struct member_map *m = (const struct member_map *)self;
    while (*cursor < m->count) {
        const struct member *member = &m->members[(*cursor)++];
        struct policy_value value = member->make(m->activation, arena);
        if (policy_value_status(value)) {
            return policy_value_status(value);
        }
        if (value.kind != POLICY_ABSENT) {
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
static struct policy_value text(struct str s)
{
    return s.len > 0 && utf8_is_valid(s) ? policy_string(s) : policy_absent();
}

static struct policy_value submap(const struct member_map *m)
{
    return policy_map(&m->map);
}

static struct policy_value message(const void *m, size_t schema_index, struct arena *arena)
{
    return message_view_make_as(m, schema_message_at(schema_index), arena);
}

#define MEMBER(name)                                                                               \
    static struct policy_value name(const struct activation *a __attribute__((unused)),            \
                                    struct arena *arena __attribute__((unused)))

MEMBER(make_user)
{
    return message(a->r->actor.user, SCHEMA_INDEX_core__user, arena);
}

MEMBER(make_session)
{
    return message(a->r->actor.session, SCHEMA_INDEX_core__session, arena);
}

MEMBER(make_groups)
{
    const struct actor *actor = &a->r->actor;
    return message_view_make_list((const ProtobufCMessage *const *)actor->groups,
                                  actor->group_count, arena);
}

MEMBER(make_space)
{
    return message(a->r->touched.space, SCHEMA_INDEX_cordium__space, arena);
}

MEMBER(make_template)
{
    return message(a->r->touched.template_, SCHEMA_INDEX_cordium__template, arena);
}

MEMBER(make_workspace)
{
    return message(a->r->touched.workspace, SCHEMA_INDEX_cordium__workspace, arena);
}

MEMBER(make_service)
{
    return submap(&a->service);
}

MEMBER(make_namespace)
{
    return submap(&a->namespace_);
}

MEMBER(make_request)
{
    return submap(&a->request);
}

MEMBER(make_run)
{
    return a->r->run ? submap(&a->run) : policy_absent();
}

MEMBER(make_api_version)
{
    return policy_cstring("core/v1");
}

MEMBER(make_kind_service)
{
    return policy_cstring("Service");
}

MEMBER(make_kind_namespace)
{
    return policy_cstring("Namespace");
}

MEMBER(make_service_metadata)
{
    return submap(&a->service_metadata);
}

MEMBER(make_service_spec)
{
    return submap(&a->service_spec);
}

MEMBER(make_namespace_metadata)
{
    return submap(&a->namespace_metadata);
}

MEMBER(make_service_name)
{
    return policy_cstring(ACTIVATION_SERVICE_NAME);
}

MEMBER(make_namespace_name)
{
    return policy_cstring(ACTIVATION_NAMESPACE_NAME);
}

MEMBER(make_true)
{
    return policy_bool(true);
}

MEMBER(make_mode)
{
    return policy_cstring("GRPC");
}

/* What the audit log does not keep is not absent: whoever reads it gets an error. */
static struct policy_value unknown(void)
{
    return policy_unreadable(-STATUS_UNAVAILABLE);
}

MEMBER(make_ip)
{
    if (a->r->past) {
        return text(activation_peer_ip(a->r->past->peer.ptr));
    }
    return a->r->call ? text(activation_peer_ip(call_origin(a->r->call)->peer)) : policy_absent();
}

MEMBER(make_grpc)
{
    return a->r->method ? submap(&a->grpc) : policy_absent();
}

MEMBER(make_http)
{
    return submap(&a->http);
}

MEMBER(make_body)
{
    if (a->r->past) {
        return unknown();
    }
    return a->r->method ? message_view_make_as(a->r->message, a->r->method->schema->request, arena)
                        : policy_absent();
}

MEMBER(make_grpc_service)
{
    return policy_cstring(a->r->method->schema->service_name);
}

MEMBER(make_grpc_service_full)
{
    return policy_cstring(a->r->method->schema->service);
}

MEMBER(make_grpc_package)
{
    return policy_cstring(a->r->method->schema->package);
}

MEMBER(make_grpc_method)
{
    return policy_cstring(a->r->method->schema->name);
}

MEMBER(make_http_method)
{
    return policy_cstring("POST");
}

MEMBER(make_http_path)
{
    return a->r->method ? policy_cstring(a->r->method->schema->path) : policy_absent();
}

MEMBER(make_http_scheme)
{
    bool is_tls = a->r->call && call_origin(a->r->call)->is_tls;
    return policy_cstring(is_tls ? "https" : "http");
}

MEMBER(make_http_host)
{
    if (!a->r->call) {
        return a->r->past ? unknown() : policy_absent();
    }
    return text(call_header(a->r->call, "host"));
}

MEMBER(make_headers)
{
    return a->r->past ? unknown() : a->r->call ? submap(&a->headers) : policy_absent();
}

/* Text that is not UTF-8 cannot be a CEL string; it fails the rule instead of vanishing from it. */
MEMBER(make_command)
{
    if (a->r->past) {
        return unknown();
    }
    if (!utf8_is_valid(a->r->run->command)) {
        return policy_unreadable(-STATUS_INVALID_ARGUMENT);
    }
    return policy_string(a->r->run->command);
}

MEMBER(make_run_sha256)
{
    const uint8_t *hash = a->r->run->command_sha256;
    char *hex = arena_alloc(arena, 65);
    if (!hex) {
        return policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
    }
    hex_encode(hash, 32, hex);
    return policy_cstring(hex);
}

MEMBER(make_run_size)
{
    return policy_int((int64_t)a->r->run->command.len);
}

MEMBER(make_run_user)
{
    return policy_cstring(a->r->run->as_root ? "root" : "default");
}

MEMBER(make_run_is_root)
{
    return policy_bool(a->r->run->as_root);
}

MEMBER(make_run_has_stdin)
{
    return policy_bool(a->r->run->has_stdin);
}

MEMBER(make_run_is_terminal)
{
    return policy_bool(a->r->run->is_terminal);
}

MEMBER(make_run_working_dir)
{
    struct str dir = str_from(a->r->run->working_dir);
    if (!utf8_is_valid(dir)) {
        return policy_unreadable(-STATUS_INVALID_ARGUMENT);
    }
    return policy_string(dir);
}

MEMBER(make_run_env)
{
    const struct run_request *run = a->r->run;
    struct policy_value *names = arena_calloc(arena, run->env_name_count, sizeof *names);
    if (!names) {
        return policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
    }
    for (size_t i = 0; i < run->env_name_count; i++) {
        struct str name = str_from(run->env_names[i]);
        if (!utf8_is_valid(name)) {
            return policy_unreadable(-STATUS_INVALID_ARGUMENT);
        }
        names[i] = policy_string(name);
    }
    const struct policy_list *list = policy_list_build(arena, names, run->env_name_count);
    if (!list) {
        return policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
    }
    return policy_list(list);
}

/* The limits in force of the workspace, or those its spec asks for while it has none yet. */
MEMBER(make_run_limits)
{
    const Cordium__Workspace *w = a->r->touched.workspace;
    const Cordium__Workspace__Spec__Limit *limit = w && w->status ? w->status->limit : NULL;
    limit = limit || !w || !w->spec ? limit : w->spec->limit;
    limit = a->r->run->limit ? a->r->run->limit : limit;
    if (limit) {
        return message(limit, SCHEMA_INDEX_cordium__workspace__spec__limit, arena);
    }
    const struct policy_map *empty;
    int rc = policy_map_build(arena, NULL, 0, &empty);
    return rc ? policy_unreadable(rc) : policy_map(empty);
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

static struct policy_value header_get(const struct policy_map *self, struct policy_value key,
                                      struct arena *arena)
{
    const struct member_map *m = (const struct member_map *)self;
    struct str name = policy_value_str(key);
    if (key.kind != POLICY_STRING || name.len == 0 || name.len > 256 || name.ptr[0] == ':' ||
        str_has_nul(name) || header_is_secret(name)) {
        return policy_absent();
    }
    char *copy = arena_strndup(arena, name.ptr, name.len);
    return copy ? text(call_header(m->activation->r->call, copy))
                : policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
}

static int header_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                       struct policy_value *ret_key, struct policy_value *ret_value)
{
    while (*cursor < sizeof listed_headers / sizeof listed_headers[0]) {
        *ret_key = policy_cstring(listed_headers[(*cursor)++]);
        struct policy_value value = header_get(self, *ret_key, arena);
        if (policy_value_status(value)) {
            return policy_value_status(value);
        }
        if (value.kind != POLICY_ABSENT) {
            if (ret_value) {
                *ret_value = value;
            }
            return 1;
        }
    }
    return 0;
}

static size_t header_size(const struct policy_map *self)
{
    const struct member_map *m = (const struct member_map *)self;
    size_t size = 0;
    for (size_t i = 0; i < sizeof listed_headers / sizeof listed_headers[0]; i++) {
        size += text(call_header(m->activation->r->call, listed_headers[i])).kind != POLICY_ABSENT;
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
