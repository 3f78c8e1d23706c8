#include <string.h>

#include "gateway/identity/token.h"
#include "gateway/rpc/codec_scalar.h"
#include "gateway/telemetry/audit_facts.h"
#include "gateway/telemetry/otlp_internal.h"
#include "gateway/telemetry/otlp_message.h"

enum {
    LINE_ARENA_MAX_BYTES = 64 * 1024 * 1024, /* the tree of the longest line */
    /* SeverityNumber */
    SEVERITY_INFO = 9,
    SEVERITY_WARN = 13,
    SEVERITY_ERROR = 17,
};

/* Field numbers of opentelemetry/proto/logs/v1/logs.proto and common.proto. */
enum {
    RECORD_TIME = 1,
    RECORD_SEVERITY_NUMBER = 2,
    RECORD_SEVERITY_TEXT = 3,
    RECORD_BODY = 5,
    RECORD_ATTRIBUTES = 6,
    RECORD_OBSERVED_TIME = 11,
    RECORD_EVENT_NAME = 12,
    VALUE_STRING = 1,
    VALUE_BOOL = 2,
    VALUE_INT = 3,
    VALUE_DOUBLE = 4,
    VALUE_ARRAY = 5,
    VALUE_KVLIST = 6,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    LIST_VALUES = 1,
};

static void put_value(struct proto_out *p, const struct tree_node *n);

static void put_number(struct proto_out *p, struct str text)
{
    int64_t whole;
    double real;
    if (!memchr(text.ptr, '.', text.len) && scalar_read_i64(text, &whole)) {
        proto_varint(p, VALUE_INT, (uint64_t)whole);
    } else if (scalar_read_double(text, &real)) {
        proto_double(p, VALUE_DOUBLE, real);
    } else {
        proto_text(p, VALUE_STRING, text);
    }
}

static void put_members(struct proto_out *p, const struct tree_node *map)
{
    for (const struct tree_node *n = map->first; n; n = n->next) {
        proto_begin(p, LIST_VALUES);
        proto_text(p, KEY_VALUE_KEY, n->key);
        proto_begin(p, KEY_VALUE_VALUE);
        put_value(p, n);
        proto_end(p);
        proto_end(p);
    }
}

static void put_items(struct proto_out *p, const struct tree_node *list)
{
    for (const struct tree_node *n = list->first; n; n = n->next) {
        proto_begin(p, LIST_VALUES);
        put_value(p, n);
        proto_end(p);
    }
}

/* The content of an AnyValue; an empty one is null. The reader's depth limit is in force, and the
 * audit log's own objects are far below it. */
static void put_value(struct proto_out *p, const struct tree_node *n)
{
    switch (n->type) {
    case TREE_NULL:
        return;
    case TREE_BOOL:
        proto_varint(p, VALUE_BOOL, str_is(n->text, "true"));
        return;
    case TREE_NUMBER:
        put_number(p, n->text);
        return;
    case TREE_STRING:
        proto_text(p, VALUE_STRING, n->text);
        return;
    case TREE_LIST:
        proto_begin(p, VALUE_ARRAY);
        put_items(p, n);
        proto_end(p);
        return;
    case TREE_MAP:
        proto_begin(p, VALUE_KVLIST);
        put_members(p, n);
        proto_end(p);
        return;
    }
}

static void put_int(struct proto_out *p, const char *key, struct str digits)
{
    int64_t v;
    if (scalar_read_i64(digits, &v)) {
        otlp_put_int(p, RECORD_ATTRIBUTES, key, v);
    }
}

static void put_text(struct proto_out *p, const char *key, struct str value)
{
    if (value.len > 0) {
        otlp_put_text(p, RECORD_ATTRIBUTES, key, value);
    }
}

/* "192.0.2.7:4711", "[2001:db8::1]:4711"; a workspace's own socket has no address. */
static void put_peer(struct proto_out *p, struct str peer)
{
    size_t colon = peer.len;
    while (colon > 0 && peer.ptr[colon - 1] != ':') {
        colon--;
    }
    if (colon < 2 || str_starts_with(peer, STR("unix:"))) {
        return;
    }
    struct str host = str_make(peer.ptr, colon - 1);
    if (host.len > 2 && host.ptr[0] == '[') {
        host = str_make(host.ptr + 1, host.len - 2);
    }
    put_text(p, "client.address", host);
    put_int(p, "client.port", str_make(peer.ptr + colon, peer.len - colon));
}

static void put_rpc_code(struct proto_out *p, struct str name)
{
    for (int status = 0; status < STATUS_COUNT; status++) {
        if (str_is(name, status_name(status))) {
            otlp_put_int(p, RECORD_ATTRIBUTES, "rpc.grpc.status_code", status);
            return;
        }
    }
}

static void put_attributes(struct proto_out *p, const struct audit_facts *f)
{
    put_int(p, "cordium.audit.sequence", f->sequence);
    put_text(p, "cordium.audit.kind", f->kind);
    put_text(p, "cordium.audit.event", f->event);
    put_text(p, "cordium.decision", f->decision);
    put_text(p, "cordium.decision.reason", f->reason);
    put_text(p, "cordium.request.id", f->request_id);
    put_text(p, "user.name", f->user_name);
    put_text(p, "user.id", f->user_uid);
    put_text(p, "session.id", f->session_uid);
    if (f->rpc_method.len > 0) {
        put_text(p, "rpc.system", STR("grpc"));
        put_text(p, "rpc.service", f->rpc_service);
        put_text(p, "rpc.method", f->rpc_method);
        put_rpc_code(p, f->code);
    }
    put_text(p, "http.request.method", f->http_method);
    put_text(p, "url.path", f->http_path);
    put_int(p, "http.response.status_code", f->http_status);
    put_peer(p, f->peer);
    put_text(p, "user_agent.original", f->user_agent);
}

static void put_severity(struct proto_out *p, const struct audit_facts *f)
{
    bool is_gap = str_is(f->kind, "AuditGap");
    bool is_denied = str_is(f->decision, "DENIED");
    proto_varint(p, RECORD_SEVERITY_NUMBER,
                 is_gap      ? SEVERITY_ERROR
                 : is_denied ? SEVERITY_WARN
                             : SEVERITY_INFO);
    proto_text(p, RECORD_SEVERITY_TEXT,
               is_gap      ? STR("ERROR")
               : is_denied ? STR("WARN")
                           : STR("INFO"));
}

static void put_sha256(struct proto_out *p, struct str line)
{
    char hex[TOKEN_DIGEST_HEX_SIZE];
    token_sha256_hex(line, hex);
    put_text(p, "cordium.audit.sha256", str_from(hex));
}

static void put_record(struct proto_out *p, struct str line, int64_t observed_wall_ns)
{
    struct arena arena;
    struct audit_facts facts = {0};
    struct error ignored;
    arena_init(&arena, LINE_ARENA_MAX_BYTES);
    bool is_object = audit_facts_read(line, &arena, &facts, &ignored) == 0;
    proto_begin(p, OTLP_SCOPE_RECORDS);
    proto_fixed64(p, RECORD_TIME, (uint64_t)(facts.wall_ns ? facts.wall_ns : observed_wall_ns));
    proto_fixed64(p, RECORD_OBSERVED_TIME, (uint64_t)observed_wall_ns);
    put_severity(p, &facts);
    proto_text(p, RECORD_EVENT_NAME, STR("cordium.audit"));
    proto_begin(p, RECORD_BODY);
    if (is_object) {
        put_value(p, facts.line);
    } else {
        proto_text(p, VALUE_STRING, line);
    }
    proto_end(p);
    put_attributes(p, &facts);
    put_sha256(p, line);
    proto_end(p);
    arena_free(&arena);
}

void otlp_message_logs(const struct otlp_source *source, const struct str *lines, size_t count,
                       int64_t observed_wall_ns, struct buf *out)
{
    struct proto_out p = proto_out_to(out);
    otlp_begin(&p, source, "cordium.audit");
    for (size_t i = 0; i < count; i++) {
        put_record(&p, lines[i], observed_wall_ns);
    }
    otlp_end(&p);
}
