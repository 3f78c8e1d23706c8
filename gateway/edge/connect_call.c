#include "gateway/edge/call_internal.h"

#include "gateway/edge/connection.h"
#include "gateway/edge/envelope.h"
#include "gateway/edge/header_text.h"
#include "policy/base/json_out.h"

/* The Connect protocol (connectrpc.com/docs/protocol): unary calls are plain HTTP with a
 * status; streams are envelopes whose last one is JSON. */

static const struct {
    const char *name;
    int http_status;
} codes[STATUS_COUNT] = {
    [STATUS_OK] = {"ok", 200},
    [STATUS_CANCELLED] = {"canceled", 499},
    [STATUS_UNKNOWN] = {"unknown", 500},
    [STATUS_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [STATUS_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [STATUS_NOT_FOUND] = {"not_found", 404},
    [STATUS_ALREADY_EXISTS] = {"already_exists", 409},
    [STATUS_PERMISSION_DENIED] = {"permission_denied", 403},
    [STATUS_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [STATUS_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [STATUS_ABORTED] = {"aborted", 409},
    [STATUS_OUT_OF_RANGE] = {"out_of_range", 400},
    [STATUS_UNIMPLEMENTED] = {"unimplemented", 501},
    [STATUS_INTERNAL] = {"internal", 500},
    [STATUS_UNAVAILABLE] = {"unavailable", 503},
    [STATUS_DATA_LOSS] = {"data_loss", 500},
    [STATUS_UNAUTHENTICATED] = {"unauthenticated", 401},
};

int connect_http_status(int status)
{
    return codes[status].http_status;
}

static void put_error(struct json_out *j, int status, struct str message)
{
    json_begin_object(j);
    json_member_string(j, "code", codes[status].name);
    if (message.len > 0) {
        json_key(j, "message");
        json_string(j, message);
    }
    json_end_object(j);
}

void connect_error_json(struct buf *out, int status, struct str message)
{
    struct json_out j = json_out_to(out);
    put_error(&j, status, message);
}

/* ---- unary ---- */

/* One answer: the head cannot leave before the outcome is known. */
static void unary_send(struct call *call, uint8_t flags, struct str payload)
{
    buf_clear(&call->unary);
    buf_add_str(&call->unary, payload);
    /* Small answers travel uncompressed; the content-encoding follows what was done. */
    call->gzip_answer = flags & ENVELOPE_COMPRESSED;
}

static void unary_finish(struct call *call, int status, struct str message)
{
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    if (status != 0) {
        buf_clear(&call->unary);
        connect_error_json(&call->unary, status, message);
        wire_add(wire, &count, "content-type", STR("application/json"));
    } else {
        wire_add(wire, &count, "content-type",
                 str_from(call->protocol->content_types[call->codec]));
        if (call->gzip_answer) {
            wire_add(wire, &count, "content-encoding", STR("gzip"));
        }
    }
    wire_add_list(wire, &count, &call->headers);
    for (size_t i = 0; i < call->trailers.count; i++) {
        const struct header *t = &call->trailers.items[i];
        wire_add(wire, &count, call_text(call, "trailer-%.*s", STR_ARG(t->name)).ptr, t->value);
    }
    const struct call_transport *transport = call->connection->transport;
    transport->send_head(call, connect_http_status(status), wire, count, (int64_t)call->unary.len);
    if (call->unary.len > 0) {
        transport->send_data(call, buf_str(&call->unary), STR_NONE);
    }
    transport->send_end(call);
    buf_free(&call->unary);
}

/* ---- streams ---- */

static void stream_head(struct call *call)
{
    if (call->has_head) {
        return;
    }
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    wire_add(wire, &count, "content-type", str_from(call->protocol->content_types[call->codec]));
    if (call->gzip_answer) {
        wire_add(wire, &count, "connect-content-encoding", STR("gzip"));
    }
    wire_add(wire, &count, "connect-accept-encoding", STR("identity,gzip"));
    wire_add_list(wire, &count, &call->headers);
    call->connection->transport->send_head(call, 200, wire, count, -1);
}

static void stream_send(struct call *call, uint8_t flags, struct str payload)
{
    uint8_t head[ENVELOPE_HEAD_BYTES];
    stream_head(call);
    envelope_write_head(head, flags, payload.len);
    call->connection->transport->send_data(call, str_make(head, sizeof head), payload);
}

static void stream_finish(struct call *call, int status, struct str message)
{
    struct buf text;
    buf_init(&text, CALL_ARENA_BYTES_MAX);
    struct json_out j = json_out_to(&text);
    json_begin_object(&j);
    if (status != 0) {
        json_key(&j, "error");
        put_error(&j, status, message);
    }
    if (call->trailers.count > 0) {
        json_key(&j, "metadata");
        json_begin_object(&j);
        for (size_t i = 0; i < call->trailers.count; i++) {
            json_key_str(&j, call->trailers.items[i].name);
            json_begin_array(&j);
            json_string(&j, call->trailers.items[i].value);
            json_end_array(&j);
        }
        json_end_object(&j);
    }
    json_end_object(&j);
    stream_send(call, ENVELOPE_CONNECT_END, buf_str(&text));
    buf_free(&text);
    call->connection->transport->send_end(call);
}

const struct call_protocol connect_unary_protocol = {
    .name = "connect",
    .content_types =
        {[CALL_CODEC_PROTO] = "application/proto", [CALL_CODEC_JSON] = "application/json"},
    .request_encoding = "content-encoding",
    .accept_encoding = "accept-encoding",
    .timeout = "connect-timeout-ms",
    .parse_timeout = header_text_parse_connect_timeout,
    .send = unary_send,
    .finish = unary_finish,
};

const struct call_protocol connect_stream_protocol = {
    .name = "connect-stream",
    .content_types = {[CALL_CODEC_PROTO] = "application/connect+proto",
                      [CALL_CODEC_JSON] = "application/connect+json"},
    .request_encoding = "connect-content-encoding",
    .accept_encoding = "connect-accept-encoding",
    .timeout = "connect-timeout-ms",
    .parse_timeout = header_text_parse_connect_timeout,
    .is_enveloped = true,
    .flags_known = ENVELOPE_COMPRESSED,
    .send = stream_send,
    .finish = stream_finish,
};
