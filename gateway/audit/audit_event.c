#include "gateway/audit/audit_event.h"

#include <time.h>

#include "gateway/audit/audit_out.h"
#include "gateway/audit/denial_text.h"
#include "gateway/audit/hex.h"
#include "gateway/gateway.h"

static void put_http_common(struct json_out *j, const struct gateway *g,
                            const struct audit_http *facts)
{
    json_key(j, "common");
    json_begin_object(j);
    audit_put_time(j, "startedAt",
                   facts->started_at_ns ? facts->started_at_ns : gateway_wall_ns(g));
    if (facts->is_end) {
        audit_put_time(j, "endedAt", gateway_wall_ns(g));
    }
    json_member_string(j, "status", facts->is_allowed ? "ALLOWED" : "DENIED");
    json_member_string(j, "mode", "HTTP");
    json_key(j, "reason");
    json_begin_object(j);
    json_member_string(j, "type", facts->reason_type);
    json_end_object(j);
    audit_put_ref(j, "sessionRef", facts->session);
    audit_put_ref(j, "userRef", facts->user);
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
    audit_put_text(j, "method", method);
    audit_put_text(j, "path", path);
    json_end_object(j);
    if (http_status != 0) {
        json_key(j, "response");
        json_begin_object(j);
        json_member_int(j, "code", http_status);
        json_end_object(j);
    }
    json_end_object(j);
    json_end_object(j);
}

void audit_record_http(const struct gateway *g, const struct call *call,
                       const struct audit_http *facts, struct buf *out)
{
    struct json_out j = json_out_to(out);
    audit_begin_record(&j, "core/v1", "AccessLog");
    audit_begin_metadata(&j, gateway_wall_ns(g));
    audit_put_ref(&j, "actorRef", facts->session);
    json_end_object(&j);
    json_key(&j, "entry");
    json_begin_object(&j);
    put_http_common(&j, g, facts);
    put_http_info(&j, str_from(facts->method), str_from(facts->path), facts->http_status);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", facts->is_end ? "END" : "DECISION");
    if (facts->code) {
        json_member_string(&j, "code", facts->code);
    }
    if (facts->is_end) {
        json_key(&j, "durationMilliseconds");
        json_double(&j, (double)(facts->duration_ns / 1000) / 1000);
    }
    if (facts->request_id) {
        json_member_string(&j, "requestID", facts->request_id);
    }
    audit_put_outcome(&j, facts->outcome);
    audit_put_ref(&j, "credentialRef", facts->credential);
    if (call) {
        audit_put_text(&j, "peer", str_from(call_origin(call)->peer));
        audit_put_text(&j, "protocol", str_from(call_protocol(call)));
        audit_put_text(&j, "userAgent", call_header(call, "user-agent"));
    }
    audit_end_entry(&j);
}

void audit_record_refused(const struct gateway *g, const struct call_refusal *refusal,
                          struct buf *out)
{
    const struct audit_http facts = {.reason_type = refusal->reason};
    struct json_out j = json_out_to(out);
    audit_begin_record(&j, "core/v1", "AccessLog");
    audit_begin_metadata(&j, gateway_wall_ns(g));
    json_end_object(&j);
    json_key(&j, "entry");
    json_begin_object(&j);
    put_http_common(&j, g, &facts);
    put_http_info(&j, refusal->method, refusal->path, refusal->http_status);
    json_end_object(&j);
    json_key(&j, "cordium");
    json_begin_object(&j);
    json_member_string(&j, "event", "DECISION");
    json_member_string(&j, "requestID", refusal->request_id);
    if (refusal->status) {
        json_key(&j, "refusal");
        json_begin_object(&j);
        json_member_string(&j, "code", status_name(refusal->status));
        json_end_object(&j);
    }
    audit_put_text(&j, "peer", str_from(refusal->origin->peer));
    audit_put_text(&j, "protocol", str_from(refusal->protocol));
    audit_put_text(&j, "userAgent", refusal->user_agent);
    audit_end_entry(&j);
}

void audit_record_daemon(const struct audit_daemon *facts, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    audit_begin_event(&j, "DaemonLog", facts->event, wall_ns);
    json_member_string(&j, "daemon", facts->daemon);
    audit_put_text(&j, "version", str_from(facts->version));
    audit_put_text(&j, "configSHA256", str_from(facts->config_sha256));
    audit_put_text(&j, "detail", str_from(facts->detail));
    audit_end_entry(&j);
}

static void put_destination(struct json_out *j, const struct executor_denial *denial)
{
    char address[DENIAL_ADDRESS_SIZE];
    denial_address_format(denial, address);
    json_begin_object(j);
    json_member_string(j, "address", address);
    json_member_int(j, "port", denial->port);
    json_member_string(j, "protocol", denial_protocol(denial));
    json_member_string(j, "reason", denial_reason(denial));
    json_member_uint(j, "packets", denial->packets);
    json_end_object(j);
}

static void put_owner(struct json_out *j, const Meta__ObjectReference *owner)
{
    if (owner) {
        audit_put_text(j, "userUID", str_from(owner->uid));
        audit_put_ref_parts(j, "userRef", owner->api_version, owner->kind, owner->uid, owner->name,
                            owner->resource_version);
    }
}

void audit_record_run(const struct audit_run_end *facts, int64_t wall_ns, struct buf *out)
{
    struct json_out j = json_out_to(out);
    audit_begin_event(&j, "RunLog", "RUN_END", wall_ns);
    put_owner(&j, facts->owner);
    audit_put_ref(&j, "spaceRef", facts->space);
    audit_put_ref(&j, "templateRef", facts->template_);
    json_key(&j, "outcome");
    json_raw(&j, facts->outcome);
    audit_end_entry(&j);
}

void audit_record_network(const struct audit_network *facts, int64_t wall_ns, struct buf *out)
{
    const struct executor_network_denied *denied = facts->denied;
    char sandbox[2 * sizeof denied->sandbox.bytes + 1];
    struct json_out j = json_out_to(out);
    hex_encode(denied->sandbox.bytes, sizeof denied->sandbox.bytes, sandbox);
    audit_begin_event(&j, "NetworkLog", "NETWORK_DENIED", wall_ns);
    put_owner(&j, facts->owner);
    audit_put_text(&j, "runId", str_from(facts->run_id));
    audit_put_ref(&j, "workspaceRef", facts->workspace);
    audit_put_ref(&j, "spaceRef", facts->space);
    audit_put_ref(&j, "templateRef", facts->template_);
    json_member_string(&j, "sandbox", sandbox);
    json_key(&j, "destinations");
    json_begin_array(&j);
    for (size_t i = 0; i < denied->count; i++) {
        put_destination(&j, &denied->entries[i]);
    }
    json_end_array(&j);
    json_member_uint(&j, "others", denied->others);
    audit_end_entry(&j);
}

static void put_failure(struct json_out *j, const Cordium__Workspace__Status__Failure *failure)
{
    if (!failure) {
        return;
    }
    const ProtobufCFieldDescriptor *type = protobuf_c_message_descriptor_get_field(
        failure->base.descriptor, (unsigned)failure->type_case);
    json_key(j, "failure");
    json_begin_object(j);
    json_member_string(j, "type", type ? type->name : "unknown");
    audit_put_text(j, "message", str_from(failure->message));
    json_end_object(j);
}

static void put_layers(struct json_out *j, const struct audit_workspace *facts)
{
    if (facts->layer_count == 0) {
        return;
    }
    json_key(j, "isolation");
    json_begin_array(j);
    for (size_t i = 0; i < facts->layer_count; i++) {
        json_begin_object(j);
        json_member_string(j, "name", facts->layers[i].name);
        audit_put_text(j, "detail", str_from(facts->layers[i].detail));
        json_member_string(j, "setBy", facts->layers[i].set_by);
        json_end_object(j);
    }
    json_end_array(j);
}

/* The object as it was, or what the workspace says of it. */
static void put_object(struct json_out *j, const char *key, const void *message,
                       const Meta__ObjectReference *ref)
{
    if (message) {
        audit_put_ref(j, key, message);
    } else if (ref) {
        audit_put_ref_parts(j, key, ref->api_version, ref->kind, ref->uid, ref->name,
                            ref->resource_version);
    }
}

void audit_record_workspace(const struct audit_workspace *facts, int64_t wall_ns, struct buf *out)
{
    const Cordium__Workspace__Status *status = facts->workspace->status;
    struct json_out j = json_out_to(out);
    audit_begin_event(&j, "WorkspaceLog", facts->event, wall_ns);
    put_owner(&j, status ? status->user_ref : NULL);
    audit_put_ref(&j, "workspaceRef", facts->workspace);
    put_object(&j, "spaceRef", facts->space, status ? status->space_ref : NULL);
    put_object(&j, "templateRef", facts->template_, status ? status->template_ref : NULL);
    audit_put_text(&j, "buildID", str_from(facts->build_id));
    audit_put_text(&j, "stopReason", str_from(facts->reason));
    put_failure(&j, facts->failure);
    audit_put_text(&j, "image", str_from(facts->image));
    put_layers(&j, facts);
    audit_end_entry(&j);
}
