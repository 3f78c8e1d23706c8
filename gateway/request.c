#include "gateway/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_record.h"
#include "gateway/authorize/authorize.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/plain_http.h"
#include "gateway/request_trace.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/run_service.h"
#include "gateway/telemetry/request_count.h"

enum {
    /* A message of the largest size, unpacked, and what a handler makes of it. */
    REQUEST_ARENA_MAX_BYTES = 96 * 1024 * 1024,
    MESSAGE_ARENA_MAX_BYTES = 64 * 1024 * 1024,
    REPLY_MAX_BYTES = 64 * 1024 * 1024,
    RECORD_MAX_BYTES = 512 * 1024, /* a command of 64 KiB may be six times as long when escaped */
};

enum step { STEP_NEXT, STEP_WAIT, STEP_REFUSE };

struct stage {
    const char *name;
    enum step (*run)(struct request *r, struct error *err);
};

static enum step authenticate(struct request *r, struct error *err);
static enum step await_message(struct request *r, struct error *err);
static enum step decode(struct request *r, struct error *err);
static enum step resolve(struct request *r, struct error *err);
static enum step authorize(struct request *r, struct error *err);
static enum step record(struct request *r, struct error *err);
static enum step handle(struct request *r, struct error *err);

/* The whole control flow of an RPC. A refusal goes on at `record`: nothing is answered, allowed or
 * not, before its line is in the audit log. */
static const struct stage stages[] = {
    {"authenticate", authenticate},
    {"message", await_message},
    {"decode", decode},
    {"resolve", resolve},
    {"authorize", authorize},
    {"record", record},
    {"handle", handle},
};
static_assert(sizeof stages / sizeof stages[0] <= REQUEST_TRACE_STAGES_MAX, "a place per stage");

enum { STAGE_MESSAGE = 1, STAGE_RECORD = 5, STAGE_COUNT = sizeof stages / sizeof stages[0] };

static void keep_refusal(struct request *r, const struct error *err)
{
    static const struct error no_memory = {
        .status = STATUS_RESOURCE_EXHAUSTED,
        .text = "the request needs more memory than one request may use",
    };
    const struct error *kept = arena_memdup(&r->arena, err, sizeof *err);
    r->refusal = kept ? kept : &no_memory;
}

static void trace_begin(struct request *r)
{
    const struct gateway_config *config = r->gateway->config;
    if (config && config->debug_trace) {
        r->trace = arena_zalloc(&r->arena, sizeof *r->trace);
    }
    if (r->trace) {
        request_trace_begin(r->trace, r->gateway->store, r->started_ns);
    }
}

static void trace_mark(struct request *r, unsigned stage)
{
    if (r->trace) {
        request_trace_mark(r->trace, stage, gateway_monotonic_ns(r->gateway));
    }
}

/* At the answer. What a handler still does after it is not in the line. */
static void trace_end(struct request *r)
{
    const char *names[STAGE_COUNT];
    if (!r->trace) {
        return;
    }
    for (unsigned i = 0; i < STAGE_COUNT; i++) {
        names[i] = stages[i].name;
    }
    trace_mark(r, r->stage < STAGE_COUNT ? r->stage : STAGE_COUNT - 1);
    request_trace_end(r->trace, r->gateway->store, call_path(r->call), names, STAGE_COUNT,
                      gateway_monotonic_ns(r->gateway));
    r->trace = NULL;
}

static void run_stages(struct request *r)
{
    request_hold(r);
    while (r->stage < STAGE_COUNT && !r->is_gone) {
        struct error err = {0};
        unsigned stage = r->stage;
        enum step step = stages[stage].run(r, &err);
        if (step != STEP_WAIT) {
            trace_mark(r, stage);
        }
        if (step == STEP_WAIT) {
            break;
        }
        if (step == STEP_REFUSE) {
            keep_refusal(r, &err);
            r->decision.is_allowed = false;
            r->stage = STAGE_RECORD;
        } else {
            r->stage++;
        }
    }
    request_release(r);
}

static enum step authenticate(struct request *r, struct error *err)
{
    if (!r->is_routed) {
        r->decision.reason_type = "METHOD_UNKNOWN";
        struct str path = call_path(r->call);
        error_set(err, STATUS_UNIMPLEMENTED, "no method '%.*s' here", STR_ARG(path));
        return STEP_REFUSE;
    }
    if (r->method->access == METHOD_PUBLIC) {
        return STEP_NEXT;
    }
    r->open.changes = open_calls_changes(r->gateway);
    if (authenticate_request(r, err) < 0) {
        r->decision.reason_type = "UNAUTHENTICATED";
        return STEP_REFUSE;
    }
    return STEP_NEXT;
}

static enum step await_message(struct request *r, struct error *err)
{
    if (r->incoming.ptr) {
        return STEP_NEXT;
    }
    if (r->is_half_closed) {
        r->decision.reason_type = "MALFORMED";
        error_set(err, STATUS_INVALID_ARGUMENT, "the call ended without a request message");
        return STEP_REFUSE;
    }
    return STEP_WAIT;
}

/* Newer clients of Cordium may say more than we know. What is our own is written by hand: a limit
 * or a filter whose name is mistyped must not be none. */
static unsigned json_flags_of(const ProtobufCMessageDescriptor *type)
{
    return strcmp(type->package_name, "cordium.ext.v1") == 0 ? CODEC_STRICT : CODEC_LENIENT;
}

static int decode_bytes(struct request *r, struct str bytes, struct arena *arena,
                        ProtobufCMessage **ret, struct error *err)
{
    const ProtobufCMessageDescriptor *type = r->method->schema->request->descriptor;
    if (call_codec(r->call) != CALL_CODEC_JSON) {
        return codec_decode_wire(type, bytes, arena, ret, err);
    }
    int status = codec_decode_json(type, bytes, json_flags_of(type), arena, ret, err);
    if (status < 0 && err->line > 0) {
        const struct error said = *err; /* an answer has but one text */
        (void)error_set(err, said.status, "%s (line %u, column %u)", said.text, said.line,
                        said.column);
    }
    return status;
}

static enum step decode(struct request *r, struct error *err)
{
    ProtobufCMessage *message = NULL;
    if (decode_bytes(r, r->incoming, &r->arena, &message, err) < 0) {
        r->decision.reason_type = "MALFORMED";
        return STEP_REFUSE;
    }
    r->message = message;
    /* What follows belongs to the handler, which does not exist yet. */
    call_pause_reading(r->call);
    return STEP_NEXT;
}

static enum step resolve(struct request *r, struct error *err)
{
    /* What the request names may not exist or not be the caller's; that is told after the
     * decision, so that a denied caller learns nothing. */
    if (r->method->resolve && r->method->resolve(r, err) < 0) {
        keep_refusal(r, err);
    }
    return STEP_NEXT;
}

static enum step authorize(struct request *r, struct error *err)
{
    if (r->method->access == METHOD_PUBLIC) {
        r->decision.is_allowed = true;
        r->decision.reason_type = "PUBLIC_METHOD";
        return STEP_NEXT;
    }
    uint64_t began_ns = gateway_monotonic_ns(r->gateway);
    int status = authorize_request(r, err);
    request_count_decision(r, gateway_monotonic_ns(r->gateway) - began_ns);
    return status < 0 ? STEP_REFUSE : STEP_NEXT;
}

/* A second line is due when it has ended. */
static bool will_end(const struct request *r)
{
    return !r->refusal && r->method->audit != METHOD_AUDIT_READ;
}

/* Allowed and written down, but the client went away before it was done: the log must not leave
 * open what became of it. */
static void record_undone(struct request *r)
{
    struct buf line;
    if (!r->is_recorded || !will_end(r)) {
        return;
    }
    buf_init(&line, RECORD_MAX_BYTES);
    audit_record_end(
        r, r->end_status == STATUS_DEADLINE_EXCEEDED ? CALL_END_DEADLINE : CALL_END_CANCELLED,
        &line);
    (void)audit_log_append(r->gateway->audit, &line, NULL, NULL);
    buf_free(&line);
}

static void on_recorded(void *arg, int status)
{
    struct request *r = arg;
    r->is_recorded = status == 0;
    trace_mark(r, STAGE_RECORD);
    if (status != 0) {
        struct error err;
        error_set(&err, STATUS_UNAVAILABLE,
                  "the audit log cannot be written, so nothing is done; tell the administrator");
        keep_refusal(r, &err);
    }
    r->stage++;
    if (r->is_gone) {
        record_undone(r);
    }
    run_stages(r);
    request_release(r);
}

static enum step record(struct request *r, struct error *err)
{
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    audit_record_decision(r, r->refusal, &line);
    request_hold(r);
    if (will_end(r)) {
        audit_log_begin_open(r->gateway->audit, &r->unended);
    }
    int status = audit_log_append(r->gateway->audit, &line, on_recorded, r);
    buf_free(&line);
    if (status < 0) {
        request_release(r);
        error_set(err, STATUS_UNAVAILABLE,
                  "the audit log takes no more lines, so nothing is done; try again later");
        keep_refusal(r, err);
        return STEP_NEXT;
    }
    return STEP_WAIT;
}

static enum step handle(struct request *r, struct error *err)
{
    bool is_watched =
        r->method && r->method->access == METHOD_SESSION && r->method->audit == METHOD_AUDIT_STREAM;
    if (!r->refusal && is_watched && open_calls_add(r, err) < 0) {
        keep_refusal(r, err);
    }
    if (r->refusal) {
        request_fail(r, r->refusal);
        return STEP_NEXT;
    }
    r->is_handled = true;
    r->method->handle(r);
    if (r->is_answered || r->is_gone) {
        return STEP_NEXT;
    }
    call_resume_reading(r->call);
    if (r->is_half_closed && r->on_half_close) {
        r->on_half_close(r);
    }
    return STEP_NEXT;
}

static void *request_begin(void *owner, struct call *call)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r) {
        call_finish(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    r->gateway = owner;
    r->call = call;
    r->holds = 1;
    r->started_ns = gateway_monotonic_ns(r->gateway);
    r->started_at_ns = gateway_wall_ns(r->gateway);
    r->is_rpc = true;
    r->method = method_find(call_path(call));
    r->is_routed = r->method != NULL;
    arena_init(&r->arena, REQUEST_ARENA_MAX_BYTES);
    arena_init(&r->message_arena, MESSAGE_ARENA_MAX_BYTES);
    memcpy(r->id, call_request_id(call), sizeof r->id);
    trace_begin(r);
    request_count_begin(r);
    run_stages(r);
    return r;
}

struct request *request_begin_http(struct gateway *g, struct call *call)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r) {
        return NULL;
    }
    r->gateway = g;
    r->call = call;
    r->holds = 1;
    r->started_ns = gateway_monotonic_ns(g);
    r->started_at_ns = gateway_wall_ns(g);
    arena_init(&r->arena, REQUEST_ARENA_MAX_BYTES);
    arena_init(&r->message_arena, MESSAGE_ARENA_MAX_BYTES);
    memcpy(r->id, call_request_id(call), sizeof r->id);
    /* It has no stages, and writes its own audit lines. */
    r->stage = STAGE_COUNT;
    r->is_recorded = true;
    call_set_state(call, r);
    return r;
}

static void deliver_later_message(struct request *r, struct str bytes)
{
    if (!r->on_message) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT, "the method takes one message only");
        return;
    }
    struct error err;
    ProtobufCMessage *message = NULL;
    if (decode_bytes(r, bytes, &r->message_arena, &message, &err) < 0) {
        request_fail(r, &err);
    } else {
        r->on_message(r, message);
    }
    arena_reset(&r->message_arena);
}

static void request_message(void *state, struct str bytes)
{
    struct request *r = state;
    if (r->is_answered) {
        return;
    }
    r->bytes_in += bytes.len;
    request_hold(r);
    if (r->is_handled) {
        deliver_later_message(r, bytes);
    } else if (r->stage == STAGE_MESSAGE) {
        /* A refused request may be waiting for its line in the audit log: that goes on by itself.
         */
        r->incoming = bytes.ptr ? bytes : STR("");
        run_stages(r);
        r->incoming = STR_NONE;
    }
    request_release(r);
}

static void request_half_close(void *state)
{
    struct request *r = state;
    r->is_half_closed = true;
    request_hold(r);
    if (r->is_handled) {
        if (r->on_half_close && !r->is_answered) {
            r->on_half_close(r);
        }
    } else if (r->stage == STAGE_MESSAGE) {
        run_stages(r);
    }
    request_release(r);
}

static void request_writable(void *state)
{
    struct request *r = state;
    if (r->on_writable && !r->is_answered) {
        request_hold(r);
        r->on_writable(r);
        request_release(r);
    }
}

/* Why there was no decision. */
static void describe_early_end(struct request *r, enum call_end end, struct error *err)
{
    switch (end) {
    case CALL_END_FINISHED:
        r->decision.reason_type = "MALFORMED";
        error_set(err, STATUS_INVALID_ARGUMENT, "the message could not be read");
        return;
    case CALL_END_DEADLINE:
        r->decision.reason_type = "DEADLINE";
        error_set(err, STATUS_DEADLINE_EXCEEDED, "the deadline passed before the decision");
        return;
    case CALL_END_CANCELLED:
    case CALL_END_WITHDRAWN: /* only of a call that was decided */
        break;
    }
    r->decision.reason_type = "CANCELLED";
    error_set(err, STATUS_CANCELLED, "the client went away before the decision");
}

/* A call that ends before its decision line was due still leaves one. */
static void record_end(struct request *r, enum call_end end)
{
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    if (!r->is_recorded && r->stage < STAGE_RECORD) {
        struct error err;
        describe_early_end(r, end, &err);
        audit_record_decision(r, &err, &line);
        (void)audit_log_append(r->gateway->audit, &line, NULL, NULL);
    } else if (r->is_handled && r->method->audit != METHOD_AUDIT_READ) {
        audit_record_end(r, end, &line);
        (void)audit_log_append(r->gateway->audit, &line, NULL, NULL);
    }
    buf_free(&line);
}

static struct str keep_text(struct request *r, struct str text)
{
    const char *copy = arena_strndup(&r->arena, text.ptr, text.len);
    return copy ? str_make(copy, text.len) : STR_NONE;
}

/* The call is gone before the record is due that tells of it. Without memory it tells less. */
static void keep_origin(struct request *r)
{
    struct request_origin *origin = arena_calloc(&r->arena, 1, sizeof *origin);
    if (origin) {
        *origin = (struct request_origin){
            .peer = keep_text(r, str_from(call_origin(r->call)->peer)),
            .protocol = keep_text(r, str_from(call_protocol(r->call))),
            .user_agent = keep_text(r, call_header(r->call, "user-agent")),
        };
    }
    r->origin = origin;
}

/* True when the end record is left to request_end_late(). */
static bool ends_late(struct request *r)
{
    bool has_answer = r->is_answered && r->end != CALL_END_WITHDRAWN;
    if (!r->is_handled || has_answer || !r->on_cancel) {
        return false;
    }
    keep_origin(r);
    request_hold(r);
    if (r->on_cancel(r)) {
        return true;
    }
    request_release(r);
    return false;
}

void request_end_late(struct request *r)
{
    record_end(r, r->end);
    request_release(r);
}

static void request_gone(void *state, enum call_end end)
{
    struct request *r = state;
    r->is_gone = true;
    r->end = end;
    open_calls_remove(r);
    if (!r->is_answered && end != CALL_END_FINISHED) {
        r->end_status = end == CALL_END_DEADLINE ? STATUS_DEADLINE_EXCEEDED : STATUS_CANCELLED;
    }
    if (!ends_late(r)) {
        record_end(r, end);
    }
    if (r->is_rpc) {
        request_count_end(r, end);
    }
    if (r->on_gone) {
        r->on_gone(r);
    }
    r->call = NULL;
    request_release(r);
}

void request_hold(struct request *r)
{
    r->holds++;
}

void request_release(struct request *r)
{
    if (--r->holds > 0) {
        return;
    }
    if (r->unended.sequence > 0) {
        audit_log_end_open(r->gateway->audit, &r->unended);
    }
    arena_free(&r->message_arena);
    arena_free(&r->arena);
    free(r);
}

bool request_is_over(const struct request *r)
{
    return r->is_gone || r->is_answered;
}

static bool encode_and_send(struct request *r, const ProtobufCMessage *message, struct error *err,
                            bool *ret_is_full)
{
    struct buf out;
    buf_init(&out, REPLY_MAX_BYTES);
    int status = call_codec(r->call) == CALL_CODEC_JSON
                     ? codec_encode_json(message, &out, err)
                     : codec_encode_wire_mended(message, &out, err);
    if (status == 0) {
        r->bytes_out += out.len;
        *ret_is_full = call_send(r->call, buf_str(&out));
    }
    buf_free(&out);
    return status == 0;
}

bool request_send(struct request *r, const ProtobufCMessage *message)
{
    bool is_full = false;
    if (request_is_over(r)) {
        return false;
    }
    struct error err;
    if (!encode_and_send(r, message, &err, &is_full)) {
        request_fail(r, &err);
        return false;
    }
    return is_full;
}

void request_finish(struct request *r)
{
    if (request_is_over(r)) {
        return;
    }
    r->is_answered = true;
    r->end_status = STATUS_OK;
    trace_end(r);
    call_finish(r->call, STATUS_OK, "");
}

void request_reply(struct request *r, const ProtobufCMessage *message)
{
    if (!message) {
        request_fail_memory(r);
        return;
    }
    (void)request_send(r, message);
    request_finish(r);
}

void request_reply_empty(struct request *r)
{
    request_reply(r, codec_new(r->method->schema->response->descriptor, &r->arena));
}

static void fail(struct request *r, const struct error *err,
                 void (*end)(struct call *call, int status, const char *message))
{
    r->is_answered = true;
    r->end_status = err->status;
    trace_end(r);
    if (err->status != STATUS_INTERNAL && err->status != STATUS_UNKNOWN) {
        end(r->call, err->status, err->text);
        return;
    }
    char text[64];
    log_error("request %s: %s", r->id, err->text);
    (void)snprintf(text, sizeof text, "Internal error (request %s)", r->id);
    end(r->call, STATUS_INTERNAL, text);
}

void request_fail(struct request *r, const struct error *err)
{
    if (!request_is_over(r)) {
        fail(r, err, call_finish);
    }
}

void request_withdraw(struct request *r, const char *reason, const struct error *err)
{
    if (!request_is_over(r)) {
        r->withdrawn_for = reason;
        fail(r, err, call_withdraw);
    }
}

void request_fail_with(struct request *r, int status, const char *format, ...)
{
    struct error err;
    va_list ap;
    va_start(ap, format);
    error_vset(&err, status, format, ap);
    va_end(ap);
    request_fail(r, &err);
}

void request_fail_memory(struct request *r)
{
    request_fail_with(r, STATUS_RESOURCE_EXHAUSTED,
                      "the request needs more memory than one request may use");
}

void request_set_outcome(struct request *r, struct str json)
{
    r->outcome_facts = keep_text(r, json);
}

static enum call_kind request_kind(void *owner, struct str path)
{
    (void)owner;
    const struct schema_method *m = schema_method_find(path);
    if (!m) {
        return CALL_KIND_ANY;
    }
    if (m->client_streams) {
        return m->server_streams ? CALL_KIND_BIDI : CALL_KIND_CLIENT_STREAM;
    }
    return m->server_streams ? CALL_KIND_SERVER_STREAM : CALL_KIND_UNARY;
}

static struct str request_alias(void *owner, struct str path)
{
    (void)owner;
    return run_service_alias(path);
}

const struct call_events request_events = {
    .begin = request_begin,
    .message = request_message,
    .half_close = request_half_close,
    .writable = request_writable,
    .gone = request_gone,
    .http = plain_http_request,
    .kind = request_kind,
    .refused = plain_http_refused,
    .alias = request_alias,
};
