#include "gateway/audit/audit_record.h"

#include <string.h>

#include "gateway/audit/audit_out.h"
#include "gateway/audit/hex.h"
#include "gateway/authorize/activation.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/text/json_reader.h"

enum {
    ENV_NAMES_MAX = 256,
    DECISION_ARENA_MAX_BYTES = 64 << 20,
    COMMAND_MAX_BYTES = 64 * 1024, /* of a command's text, where it is wanted */
};

static void put_metadata(struct json_out *j, const struct request *r)
{
    const struct touched *t = &r->touched;
    const void *target = t->target      ? (const void *)t->target
                         : t->workspace ? (const void *)t->workspace
                         : t->template_ ? (const void *)t->template_
                                        : (const void *)t->space;
    audit_begin_metadata(j, gateway_wall_ns(r->gateway));
    audit_put_ref(j, "actorRef", r->actor.session);
    audit_put_ref(j, "targetRef", target);
    json_end_object(j);
}

static void put_policy_match(struct json_out *j, const struct decision *d)
{
    json_key(j, "policyMatch");
    json_begin_object(j);
    if (d->is_inline) {
        json_key(j, "inlinePolicy");
        json_begin_object(j);
        audit_put_text(j, "name", str_from(d->policy_name));
        audit_put_text(j, "attachedTo", str_from(d->attached_to));
        json_end_object(j);
    } else {
        json_key(j, "policy");
        json_begin_object(j);
        audit_put_ref_parts(j, "policyRef", "core/v1", "Policy", d->policy_uid, d->policy_name,
                            d->policy_resource_version);
        json_end_object(j);
    }
    audit_put_text(j, "ruleName", str_from(d->rule_name));
    if (d->priority != 0) {
        json_member_int(j, "priority", d->priority);
    }
    json_end_object(j);
}

static void put_reason(struct json_out *j, const struct request *r)
{
    const struct decision *d = &r->decision;
    json_key(j, "reason");
    json_begin_object(j);
    json_member_string(j, "type", d->reason_type ? d->reason_type : "UNKNOWN");
    const Core__Session *session = r->actor.session;
    bool is_state = d->reason_type && strcmp(d->reason_type, "SESSION_NOT_ACTIVE") == 0;
    if (d->policy_name || (is_state && session && session->spec)) {
        json_key(j, "details");
        json_begin_object(j);
        if (d->policy_name) {
            put_policy_match(j, d);
        } else {
            const ProtobufCEnumValue *state = protobuf_c_enum_descriptor_get_value(
                &core__session__spec__state__descriptor, (int)session->spec->state);
            json_member_string(j, "state", state ? state->name : "STATE_UNKNOWN");
        }
        json_end_object(j);
    }
    json_end_object(j);
}

static void put_common(struct json_out *j, const struct request *r, int64_t ended_at_ns)
{
    json_key(j, "common");
    json_begin_object(j);
    audit_put_time(j, "startedAt", r->started_at_ns);
    if (ended_at_ns) {
        audit_put_time(j, "endedAt", ended_at_ns);
    }
    json_member_string(j, "status", r->decision.is_allowed ? "ALLOWED" : "DENIED");
    json_member_string(j, "mode", "GRPC");
    put_reason(j, r);
    audit_put_ref(j, "sessionRef", r->actor.session);
    audit_put_ref(j, "userRef", r->actor.user);
    audit_put_ref_parts(j, "serviceRef", "core/v1", "Service", "", ACTIVATION_SERVICE_NAME, "");
    audit_put_ref_parts(j, "namespaceRef", "core/v1", "Namespace", "", ACTIVATION_NAMESPACE_NAME,
                        "");
    if (r->gateway->config && r->gateway->config->region) {
        audit_put_ref_parts(j, "regionRef", "core/v1", "Region", "", r->gateway->config->region,
                            "");
    }
    json_member_bool(j, "isPublic", true);
    json_end_object(j);
}

static void put_info(struct json_out *j, const struct request *r)
{
    json_key(j, "info");
    json_begin_object(j);
    json_key(j, "grpc");
    json_begin_object(j);
    if (r->method) {
        const struct schema_method *m = r->method->schema;
        const char *dot = strrchr(m->service, '.');
        json_member_string(j, "service", dot ? dot + 1 : m->service);
        json_member_string(j, "serviceFullName", m->service);
        json_member_string(j, "package", m->package);
        json_member_string(j, "method", m->name);
        json_member_string(j, "path", m->path);
    } else if (r->call) {
        audit_put_text(j, "path", call_path(r->call));
    }
    json_end_object(j);
    json_end_object(j);
}

static void put_run_limits(struct json_out *j, const struct run_request *run)
{
    if (run->limit_count == 0) {
        return;
    }
    json_key(j, "limits");
    json_begin_object(j);
    for (size_t i = 0; i < run->limit_count; i++) {
        json_key(j, run->limits[i].name);
        json_begin_object(j);
        json_member_uint(j, "value", run->limits[i].value);
        json_member_string(j, "setBy", run->limits[i].set_by);
        json_end_object(j);
    }
    json_end_object(j);
}

/* The text only where the administrator asked for it, since it may hold anything, and only once. */
static void put_command(struct json_out *j, const struct request *r, bool is_decision)
{
    const struct run_request *run = r->run;
    char hex[2 * sizeof run->command_sha256 + 1];
    hex_encode(run->command_sha256, sizeof run->command_sha256, hex);
    json_member_string(j, "commandSHA256", hex);
    json_member_uint(j, "commandBytes", run->command.len);
    if (is_decision && r->gateway->config && r->gateway->config->audit_command_text) {
        audit_put_long_text(j, "command", run->command, COMMAND_MAX_BYTES);
    }
}

static void put_run(struct json_out *j, const struct request *r, bool is_decision)
{
    const struct run_request *run = r->run;
    if (!run) {
        return;
    }
    json_key(j, "run");
    json_begin_object(j);
    put_command(j, r, is_decision);
    audit_put_text(j, "workingDir", str_from(run->working_dir));
    json_member_bool(j, "asRoot", run->as_root);
    json_member_bool(j, "hasStdin", run->has_stdin);
    json_member_bool(j, "isTerminal", run->is_terminal);
    json_key(j, "envNames");
    json_begin_array(j);
    for (size_t i = 0; i < run->env_name_count && i < ENV_NAMES_MAX; i++) {
        audit_put_text(j, NULL, str_from(run->env_names[i]));
    }
    json_end_array(j);
    if (run->env_name_count > ENV_NAMES_MAX) {
        json_member_uint(j, "envNameCount", run->env_name_count);
    }
    put_run_limits(j, run);
    json_end_object(j);
}

static void put_limits(struct json_out *j, const Cordium__Workspace *w)
{
    const Cordium__Workspace__Spec__Limit *limit = w && w->status ? w->status->limit : NULL;
    limit = limit || !w || !w->spec ? limit : w->spec->limit;
    if (!limit) {
        return;
    }
    json_key(j, "limits");
    json_begin_object(j);
    if (limit->cpu) {
        json_member_int(j, "cpuMillicores", limit->cpu->millicores);
    }
    if (limit->memory) {
        json_member_int(j, "memoryMegabytes", limit->memory->megabytes);
    }
    if (limit->storage) {
        json_member_int(j, "storageMegabytes", limit->storage->megabytes);
    }
    json_end_object(j);
}

static void put_connection(struct json_out *j, const struct request *r)
{
    json_member_string(j, "requestID", r->id);
    json_member_bool(j, "inWorkspace", r->actor.is_workspace);
    if (r->origin) {
        audit_put_text(j, "peer", r->origin->peer);
        audit_put_text(j, "protocol", r->origin->protocol);
        audit_put_text(j, "userAgent", r->origin->user_agent);
    } else if (r->call) {
        audit_put_text(j, "peer", str_from(call_origin(r->call)->peer));
        audit_put_text(j, "protocol", str_from(call_protocol(r->call)));
        audit_put_text(j, "userAgent", call_header(r->call, "user-agent"));
    }
}

static void put_objects(struct json_out *j, const struct request *r, bool is_decision)
{
    audit_put_ref(j, "credentialRef", r->actor.credential);
    audit_put_ref(j, "spaceRef", r->touched.space);
    audit_put_ref(j, "templateRef", r->touched.template_);
    audit_put_ref(j, "workspaceRef", r->touched.workspace);
    put_run(j, r, is_decision);
    put_limits(j, r->touched.workspace);
}

/* The text of an error about a message may quote what is in the message, and that of a failed
 * log-in what was sent as a token: these leave with code and place only. */
static bool text_may_quote(const struct request *r)
{
    const char *reason = r->decision.reason_type ? r->decision.reason_type : "";
    return strcmp(reason, "MALFORMED") == 0 || strcmp(reason, "UNAUTHENTICATED") == 0 ||
           strcmp(reason, "PUBLIC_METHOD") == 0;
}

static void put_refusal(struct json_out *j, const struct request *r, const struct error *refusal)
{
    if (!refusal) {
        return;
    }
    json_key(j, "refusal");
    json_begin_object(j);
    json_member_string(j, "code", status_name(refusal->status));
    if (!text_may_quote(r)) {
        audit_put_text(j, "text", str_from(refusal->text));
    }
    if (refusal->line) {
        json_member_int(j, "line", refusal->line);
        json_member_int(j, "column", refusal->column);
    }
    json_end_object(j);
}

static void begin_entry(struct json_out *j, const struct request *r, int64_t ended_at_ns)
{
    audit_begin_record(j, "core/v1", "AccessLog");
    put_metadata(j, r);
    json_key(j, "entry");
    json_begin_object(j);
    put_common(j, r, ended_at_ns);
    put_info(j, r);
    json_end_object(j);
    json_key(j, "cordium");
    json_begin_object(j);
}

void audit_record_decision(const struct request *r, const struct error *refusal, struct buf *out)
{
    const struct decision *d = &r->decision;
    struct json_out j = json_out_to(out);
    begin_entry(&j, r, 0);
    json_member_string(&j, "event", "DECISION");
    if (d->set_version > 0) {
        json_member_uint(&j, "policySetVersion", d->set_version);
    }
    audit_put_text(&j, "attachedTo", str_from(d->attached_to));
    audit_put_text(&j, "detail", str_from(d->detail));
    put_refusal(&j, r, refusal);
    put_connection(&j, r);
    put_objects(&j, r, true);
    audit_end_entry(&j);
}

static const char *end_name(enum call_end end)
{
    switch (end) {
    case CALL_END_FINISHED:
        return "FINISHED";
    case CALL_END_CANCELLED:
        return "CANCELLED";
    case CALL_END_DEADLINE:
        return "DEADLINE";
    case CALL_END_WITHDRAWN:
        return "WITHDRAWN";
    }
    return "UNKNOWN";
}

void audit_record_end(const struct request *r, enum call_end end, struct buf *out)
{
    struct json_out j = json_out_to(out);
    uint64_t duration_ns = gateway_monotonic_ns(r->gateway) - r->started_ns;
    begin_entry(&j, r, gateway_wall_ns(r->gateway));
    json_member_string(&j, "event", "END");
    json_member_string(&j, "end", end_name(end));
    audit_put_text(&j, "endReason", str_from(r->withdrawn_for));
    int code = r->is_answered             ? r->end_status
               : end == CALL_END_DEADLINE ? STATUS_DEADLINE_EXCEEDED
                                          : STATUS_CANCELLED;
    json_member_string(&j, "code", status_name(code));
    json_key(&j, "durationMilliseconds");
    json_double(&j, (double)(duration_ns / 1000) / 1000);
    json_member_uint(&j, "bytesIn", r->bytes_in);
    json_member_uint(&j, "bytesOut", r->bytes_out);
    audit_put_outcome(&j, r->outcome_facts);
    put_connection(&j, r);
    put_objects(&j, r, false);
    audit_end_entry(&j);
}

/* ---- from a decision's line ---- */

static void put_tree(struct json_out *j, const struct tree_node *node);

static bool is_among(const char *key, const char *const *keys)
{
    while (*keys && strcmp(*keys, key) != 0) {
        keys++;
    }
    return *keys != NULL;
}

static void put_members(struct json_out *j, const struct tree_node *map, const char *const *except)
{
    for (const struct tree_node *n = map ? map->first : NULL; n; n = n->next) {
        if (!is_among(n->key.ptr, except)) {
            json_key_str(j, n->key);
            put_tree(j, n);
        }
    }
}

/* The depth is bounded by the reader's. */
static void put_tree(struct json_out *j, const struct tree_node *node)
{
    static const char *const nothing[] = {NULL};
    switch (node->type) {
    case TREE_NULL:
        json_null(j);
        break;
    case TREE_BOOL:
        json_bool(j, tree_is_true(node));
        break;
    case TREE_NUMBER:
        json_raw(j, node->text);
        break;
    case TREE_STRING:
        json_string(j, node->text);
        break;
    case TREE_LIST:
        json_begin_array(j);
        for (const struct tree_node *n = node->first; n; n = n->next) {
            put_tree(j, n);
        }
        json_end_array(j);
        break;
    case TREE_MAP:
        json_begin_object(j);
        put_members(j, node, nothing);
        json_end_object(j);
        break;
    }
}

static void put_lost_outcome(struct json_out *j, bool is_program)
{
    json_key(j, "outcome");
    json_begin_object(j);
    if (is_program) {
        json_member_string(j, "outcome", "lost");
    }
    json_member_string(j, "detail",
                       "the gateway was killed before this ended; how far it came is not known");
    json_end_object(j);
}

/* What belongs to the decision alone stays there. */
static void put_lost(struct json_out *j, const struct tree_node *decision, int64_t wall_ns)
{
    static const char *const of_this_line[] = {"id", "createdAt", NULL};
    static const char *const of_the_decision[] = {
        "event", "policySetVersion", "attachedTo", "detail", "run", NULL};
    static const char *const text[] = {"command", NULL};
    const struct tree_node *own = tree_member(decision, "cordium");
    const struct tree_node *run = tree_member(own, "run");
    audit_begin_record(j, "core/v1", "AccessLog");
    audit_begin_metadata(j, wall_ns);
    put_members(j, tree_member(decision, "metadata"), of_this_line);
    json_end_object(j);
    json_key(j, "entry");
    put_tree(j, tree_member(decision, "entry"));
    json_key(j, "cordium");
    json_begin_object(j);
    json_member_string(j, "event", "END");
    json_member_string(j, "end", "LOST");
    put_lost_outcome(j, run != NULL);
    put_members(j, own, of_the_decision);
    if (run) {
        json_key(j, "run");
        json_begin_object(j);
        put_members(j, run, text);
        json_end_object(j);
    }
    audit_end_entry(j);
}

bool audit_record_lost(struct str decision, int64_t wall_ns, struct buf *out)
{
    struct arena arena;
    const struct tree_node *tree = NULL;
    struct error err;
    arena_init(&arena, DECISION_ARENA_MAX_BYTES);
    bool ok = json_read(decision, &arena, &tree, &err) == 0 && tree_member(tree, "entry");
    if (ok) {
        struct json_out j = json_out_to(out);
        put_lost(&j, tree, wall_ns);
    }
    arena_free(&arena);
    return ok && !out->failed;
}
