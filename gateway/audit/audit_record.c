#include "gateway/audit/audit_record.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "gateway/audit/hex.h"
#include "gateway/audit/wall_time.h"
#include "gateway/authorize/activation.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/state/resource.h"
#include "policy/base/json_out.h"

enum {
    TEXT_MAX_BYTES = 1024, /* of any text from outside */
    ENV_NAMES_MAX = 256,
    TOKEN_TAIL_MIN_BYTES = 16, /* as long as this after a token's prefix, it is masked */
};

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Length of the token that begins at s, 0 when there is none. The prefixes are those of
 * identity/token.h; a bearer token of somebody else's issuing is not for us to know. */
static size_t token_at(struct str s)
{
    static const char *const prefixes[] = {"cat_", "crt_", "cauth_", "csec_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        struct str prefix = str_from(prefixes[i]);
        if (!str_starts_with(s, prefix)) {
            continue;
        }
        size_t n = prefix.len;
        while (n < s.len && is_token_char(s.ptr[n])) {
            n++;
        }
        if (n - prefix.len >= TOKEN_TAIL_MIN_BYTES) {
            return n;
        }
    }
    return 0;
}

/* The one door for text that somebody else wrote. */
static void put_text(struct json_out *j, const char *key, struct str s)
{
    static const char mask[] = "[redacted]";
    char text[TEXT_MAX_BYTES + sizeof mask];
    size_t n = 0;
    if (s.len == 0) {
        return;
    }
    for (size_t i = 0; i < s.len && n < TEXT_MAX_BYTES;) {
        size_t token = token_at(str_make(s.ptr + i, s.len - i));
        if (token > 0) {
            memcpy(text + n, mask, sizeof mask - 1);
            n += sizeof mask - 1;
            i += token;
        } else {
            text[n++] = s.ptr[i++];
        }
    }
    if (key) {
        json_key(j, key);
    }
    json_string(j, str_make(text, n));
}

static void put_time(struct json_out *j, const char *key, int64_t ns)
{
    char text[WALL_TIME_TEXT_SIZE];
    wall_time_format_ns(ns, text);
    json_key(j, key);
    json_cstring(j, text);
}

/* Octelium's form of a log id: groups of 4-4-24-4-4 hex digits. */
static void put_id(struct json_out *j)
{
    uint8_t b[20] = {0};
    char hex[41];
    char id[48];
    /* Without random bytes the id repeats; sequence and prev still tell the lines apart. */
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b) {
        memset(b, 0, sizeof b);
    }
    hex_encode(b, sizeof b, hex);
    (void)snprintf(id, sizeof id, "%.4s-%.4s-%.24s-%.4s-%.4s", hex, hex + 4, hex + 8, hex + 32,
                   hex + 36);
    json_key(j, "id");
    json_cstring(j, id);
}

static void put_ref_parts(struct json_out *j, const char *key, const char *api_version,
                          const char *kind, const char *uid, const char *name, const char *version)
{
    json_key(j, key);
    json_begin_object(j);
    put_text(j, "apiVersion", str_from(api_version));
    put_text(j, "kind", str_from(kind));
    put_text(j, "uid", str_from(uid));
    put_text(j, "name", str_from(name));
    put_text(j, "resourceVersion", str_from(version));
    json_end_object(j);
}

static const char *api_version_of(const ProtobufCMessage *m)
{
    return strncmp(m->descriptor->package_name, "octelium.api.main.core.", 23) == 0 ? "core/v1"
                                                                                    : "cordium/v1";
}

/* `message` is a resource or NULL. */
static void put_ref(struct json_out *j, const char *key, const void *message)
{
    const ProtobufCMessage *m = message;
    const Meta__Metadata *metadata = m ? resource_metadata(m) : NULL;
    if (metadata) {
        put_ref_parts(j, key, api_version_of(m), m->descriptor->short_name, metadata->uid,
                      metadata->name, metadata->resource_version);
    }
}

static void begin_record(struct json_out *j, const char *api_version, const char *kind)
{
    json_begin_object(j);
    json_member_string(j, "apiVersion", api_version);
    json_member_string(j, "kind", kind);
}

static void put_metadata(struct json_out *j, const struct request *r)
{
    const struct touched *t = &r->touched;
    const void *target = t->target      ? (const void *)t->target
                         : t->workspace ? (const void *)t->workspace
                         : t->template_ ? (const void *)t->template_
                                        : (const void *)t->space;
    json_key(j, "metadata");
    json_begin_object(j);
    put_id(j);
    put_time(j, "createdAt", gateway_wall_ns(r->gateway));
    put_ref(j, "actorRef", r->actor.session);
    put_ref(j, "targetRef", target);
    json_end_object(j);
}

static void put_policy_match(struct json_out *j, const struct decision *d)
{
    json_key(j, "policyMatch");
    json_begin_object(j);
    if (d->is_inline) {
        json_key(j, "inlinePolicy");
        json_begin_object(j);
        put_text(j, "name", str_from(d->policy_name));
        put_text(j, "attachedTo", str_from(d->attached_to));
        json_end_object(j);
    } else {
        json_key(j, "policy");
        json_begin_object(j);
        put_ref_parts(j, "policyRef", "core/v1", "Policy", d->policy_uid, d->policy_name,
                      d->policy_resource_version);
        json_end_object(j);
    }
    put_text(j, "ruleName", str_from(d->rule_name));
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
    put_time(j, "startedAt", r->started_at_ns);
    if (ended_at_ns) {
        put_time(j, "endedAt", ended_at_ns);
    }
    json_member_string(j, "status", r->decision.is_allowed ? "ALLOWED" : "DENIED");
    json_member_string(j, "mode", "GRPC");
    put_reason(j, r);
    put_ref(j, "sessionRef", r->actor.session);
    put_ref(j, "userRef", r->actor.user);
    put_ref_parts(j, "serviceRef", "core/v1", "Service", "", ACTIVATION_SERVICE_NAME, "");
    put_ref_parts(j, "namespaceRef", "core/v1", "Namespace", "", ACTIVATION_NAMESPACE_NAME, "");
    if (r->gateway->config && r->gateway->config->region) {
        put_ref_parts(j, "regionRef", "core/v1", "Region", "", r->gateway->config->region, "");
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
        put_text(j, "path", call_path(r->call));
    }
    json_end_object(j);
    json_end_object(j);
}

static void put_run(struct json_out *j, const struct run_request *run)
{
    if (!run) {
        return;
    }
    json_key(j, "run");
    json_begin_object(j);
    char hex[2 * sizeof run->command_sha256 + 1];
    hex_encode(run->command_sha256, sizeof run->command_sha256, hex);
    json_member_string(j, "commandSHA256", hex);
    json_member_int(j, "commandBytes", (int64_t)run->command.len);
    put_text(j, "workingDir", str_from(run->working_dir));
    json_member_bool(j, "asRoot", run->as_root);
    json_member_bool(j, "hasStdin", run->has_stdin);
    json_member_bool(j, "isTerminal", run->is_terminal);
    json_key(j, "envNames");
    json_begin_array(j);
    for (size_t i = 0; i < run->env_name_count && i < ENV_NAMES_MAX; i++) {
        put_text(j, NULL, str_from(run->env_names[i]));
    }
    json_end_array(j);
    if (run->env_name_count > ENV_NAMES_MAX) {
        json_member_int(j, "envNameCount", (int64_t)run->env_name_count);
    }
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
    if (r->call) {
        put_text(j, "peer", str_from(call_origin(r->call)->peer));
        put_text(j, "protocol", str_from(call_protocol(r->call)));
        put_text(j, "userAgent", call_header(r->call, "user-agent"));
    }
}

static void put_objects(struct json_out *j, const struct request *r)
{
    put_ref(j, "credentialRef", r->actor.credential);
    put_ref(j, "spaceRef", r->touched.space);
    put_ref(j, "templateRef", r->touched.template_);
    put_ref(j, "workspaceRef", r->touched.workspace);
    put_run(j, r->run);
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
        put_text(j, "text", str_from(refusal->text));
    }
    if (refusal->line) {
        json_member_int(j, "line", refusal->line);
        json_member_int(j, "column", refusal->column);
    }
    json_end_object(j);
}

static void begin_entry(struct json_out *j, const struct request *r, int64_t ended_at_ns)
{
    begin_record(j, "core/v1", "AccessLog");
    put_metadata(j, r);
    json_key(j, "entry");
    json_begin_object(j);
    put_common(j, r, ended_at_ns);
    put_info(j, r);
    json_end_object(j);
    json_key(j, "cordium");
    json_begin_object(j);
}

static void end_entry(struct json_out *j)
{
    json_end_object(j);
    json_end_object(j);
}

void audit_record_decision(const struct request *r, const struct error *refusal, struct buf *out)
{
    const struct decision *d = &r->decision;
    struct json_out j = json_out_to(out);
    begin_entry(&j, r, 0);
    json_member_string(&j, "event", "DECISION");
    if (d->set_version > 0) {
        json_key(&j, "policySetVersion");
        json_uint(&j, d->set_version);
    }
    put_text(&j, "attachedTo", str_from(d->attached_to));
    put_text(&j, "detail", str_from(d->detail));
    put_refusal(&j, r, refusal);
    put_connection(&j, r);
    put_objects(&j, r);
    end_entry(&j);
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
    int code = r->is_answered             ? r->end_status
               : end == CALL_END_DEADLINE ? STATUS_DEADLINE_EXCEEDED
                                          : STATUS_CANCELLED;
    json_member_string(&j, "code", status_name(code));
    json_key(&j, "durationMilliseconds");
    json_double(&j, (double)(duration_ns / 1000) / 1000);
    json_key(&j, "bytesOut");
    json_uint(&j, r->bytes_out);
    bool has_outcome = r->outcome_facts.len >= 2 && r->outcome_facts.ptr[0] == '{' &&
                       !memchr(r->outcome_facts.ptr, '\n', r->outcome_facts.len);
    if (has_outcome) {
        json_key(&j, "outcome");
        json_raw(&j, r->outcome_facts);
    }
    put_connection(&j, r);
    put_objects(&j, r);
    end_entry(&j);
}

static void put_http_common(struct json_out *j, const struct gateway *g,
                            const struct audit_http *facts)
{
    json_key(j, "common");
    json_begin_object(j);
    put_time(j, "startedAt", gateway_wall_ns(g));
    json_member_string(j, "status", facts->is_allowed ? "ALLOWED" : "DENIED");
    json_member_string(j, "mode", "HTTP");
    json_key(j, "reason");
    json_begin_object(j);
    json_member_string(j, "type", facts->reason_type);
    json_end_object(j);
    put_ref(j, "sessionRef", facts->session);
    put_ref(j, "userRef", facts->user);
    json_member_bool(j, "isPublic", true);
    json_end_object(j);
}

static void put_http_info(struct json_out *j, struct str method, struct str path, int http_status)
{
    json_key(j, "info");
    json_begin_object(j);
    json_key(j, "http");
    json_begin_object(j);
    json_key(j, "request");
    json_begin_object(j);
    put_text(j, "method", method);
    put_text(j, "path", path);
    json_end_object(j);
    json_key(j, "response");
    json_begin_object(j);
    json_member_int(j, "code", http_status);
    json_end_object(j);
    json_end_object(j);
    json_end_object(j);
}

void audit_record_http(const struct gateway *g, const struct call *call,
                       const struct audit_http *facts, struct buf *out)
{
    struct json_out j = json_out_to(out);
    begin_record(&j, "core/v1", "AccessLog");
    json_key(&j, "metadata");
    json_begin_object(&j);
    put_id(&j);
    put_time(&j, "createdAt", gateway_wall_ns(g));
    put_ref(&j, "actorRef", facts->session);
    json_end_object(&j);
    json_key(&j, "entry");
    json_begin_object(&j);
    put_http_common(&j, g, facts);
    put_http_info(&j, str_from(facts->method), str_from(facts->path), facts->http_status);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", "DECISION");
    put_ref(&j, "credentialRef", facts->credential);
    if (call) {
        put_text(&j, "peer", str_from(call_origin(call)->peer));
        put_text(&j, "userAgent", call_header(call, "user-agent"));
    }
    end_entry(&j);
}

void audit_record_refused(const struct gateway *g, const struct call_refusal *refusal,
                          struct buf *out)
{
    const struct audit_http facts = {.reason_type = refusal->reason};
    struct json_out j = json_out_to(out);
    begin_record(&j, "core/v1", "AccessLog");
    json_key(&j, "metadata");
    json_begin_object(&j);
    put_id(&j);
    put_time(&j, "createdAt", gateway_wall_ns(g));
    json_end_object(&j);
    json_key(&j, "entry");
    json_begin_object(&j);
    put_http_common(&j, g, &facts);
    put_http_info(&j, refusal->method, refusal->path, refusal->http_status);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", "DECISION");
    if (refusal->status) {
        json_key(&j, "refusal");
        json_begin_object(&j);
        json_member_string(&j, "code", status_name(refusal->status));
        json_end_object(&j);
    }
    put_text(&j, "peer", str_from(refusal->origin->peer));
    put_text(&j, "protocol", str_from(refusal->protocol));
    put_text(&j, "userAgent", refusal->user_agent);
    end_entry(&j);
}

void audit_record_daemon(const char *event, const char *version, const char *config_sha256,
                         const char *detail, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    begin_record(&j, "cordium.ext/v1", "DaemonLog");
    json_key(&j, "metadata");
    json_begin_object(&j);
    put_id(&j);
    put_time(&j, "createdAt", wall_ns);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", event);
    put_text(&j, "version", str_from(version));
    put_text(&j, "configSHA256", str_from(config_sha256));
    put_text(&j, "detail", str_from(detail));
    end_entry(&j);
}

void audit_record_run(const char *user_uid, struct str facts, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    begin_record(&j, "cordium.ext/v1", "RunLog");
    json_key(&j, "metadata");
    json_begin_object(&j);
    put_id(&j);
    put_time(&j, "createdAt", wall_ns);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", "RUN_END");
    put_text(&j, "userUID", str_from(user_uid));
    json_key(&j, "outcome");
    json_raw(&j, facts);
    end_entry(&j);
}

void audit_record_gap(struct buf *out)
{
    struct timespec now;
    struct json_out j = json_out_to(out);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    begin_record(&j, "cordium.ext/v1", "AuditGap");
    json_key(&j, "metadata");
    json_begin_object(&j);
    put_id(&j);
    put_time(&j, "createdAt", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    json_end_object(&j);
    json_member_string(&j, "reason",
                       "the line before this one was cut: the machine or the process stopped while "
                       "it was written, and nobody was told that it had been recorded");
    json_end_object(&j);
}
