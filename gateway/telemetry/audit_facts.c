#include "gateway/telemetry/audit_facts.h"

#include <stdarg.h>

#include "gateway/rpc/codec_scalar.h"
#include "gateway/text/json_reader.h"

/* The text of the scalar below `node` at the given keys; the last argument is NULL. */
static struct str text_at(const struct tree_node *node, ...)
{
    va_list keys;
    va_start(keys, node);
    const char *key;
    while (node && (key = va_arg(keys, const char *))) {
        node = tree_member(node, key);
    }
    va_end(keys);
    bool is_scalar = node && (node->type == TREE_STRING || node->type == TREE_NUMBER);
    return is_scalar ? node->text : STR_NONE;
}

static int64_t wall_ns_of(struct str text)
{
    int64_t seconds;
    int32_t nanos;
    if (!scalar_read_timestamp(text, &seconds, &nanos) || seconds < 0 ||
        seconds > INT64_MAX / 1000000000 - 1) {
        return 0;
    }
    return seconds * 1000000000 + nanos;
}

static struct str first_of(struct str a, struct str b)
{
    return a.len > 0 ? a : b;
}

int audit_facts_read(struct str line, struct arena *arena, struct audit_facts *ret,
                     struct error *err)
{
    const struct tree_node *n = NULL;
    int rc = json_read(line, arena, &n, err);
    if (rc) {
        return rc;
    }
    if (n->type != TREE_MAP) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "a line of the audit log is no object");
    }
    const struct tree_node *cordium = tree_member(n, "cordium");
    const struct tree_node *entry = tree_member(n, "entry");
    const struct tree_node *common = tree_member(entry, "common");
    const struct tree_node *info = tree_member(entry, "info");
    const struct tree_node *grpc = tree_member(info, "grpc");
    const struct tree_node *http = tree_member(info, "http");
    *ret = (struct audit_facts){
        .line = n,
        .sequence = text_at(n, "sequence", NULL),
        .kind = text_at(n, "kind", NULL),
        .event = text_at(cordium, "event", NULL),
        .decision = text_at(common, "status", NULL),
        .reason = text_at(common, "reason", "type", NULL),
        .code = first_of(text_at(cordium, "code", NULL), text_at(cordium, "refusal", "code", NULL)),
        .request_id = text_at(cordium, "requestID", NULL),
        .user_name = text_at(common, "userRef", "name", NULL),
        .user_uid =
            first_of(text_at(common, "userRef", "uid", NULL), text_at(cordium, "userUID", NULL)),
        .session_uid = text_at(common, "sessionRef", "uid", NULL),
        .rpc_service = text_at(grpc, "serviceFullName", NULL),
        .rpc_method = text_at(grpc, "method", NULL),
        .http_method = text_at(http, "request", "method", NULL),
        .http_path = text_at(http, "request", "path", NULL),
        .http_status = text_at(http, "response", "code", NULL),
        .peer = text_at(cordium, "peer", NULL),
        .user_agent = text_at(cordium, "userAgent", NULL),
        .wall_ns = wall_ns_of(text_at(n, "metadata", "createdAt", NULL)),
    };
    return 0;
}
