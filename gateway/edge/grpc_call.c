#include "gateway/edge/call_internal.h"

#include "gateway/edge/connection.h"
#include "gateway/edge/envelope.h"
#include "gateway/edge/header_text.h"

/* gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), and gRPC-Web in its binary form
 * (PROTOCOL-WEB.md), where the trailers travel as one more message. */

static struct str content_type(const struct call *call)
{
    return str_from(call->protocol->content_types[call->codec]);
}

static void send_head(struct call *call)
{
    if (call->has_head) {
        return;
    }
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    wire_add(wire, &count, "content-type", content_type(call));
    if (call->gzip_answer) {
        wire_add(wire, &count, "grpc-encoding", STR("gzip"));
    }
    wire_add(wire, &count, "grpc-accept-encoding", STR("identity,gzip"));
    wire_add_list(wire, &count, &call->headers);
    call->connection->transport->send_head(call, 200, wire, count, -1);
}

static void grpc_send(struct call *call, uint8_t flags, struct str payload)
{
    uint8_t head[ENVELOPE_HEAD_BYTES];
    send_head(call);
    envelope_write_head(head, flags, payload.len);
    call->connection->transport->send_data(call, str_make(head, sizeof head), payload);
}

static void add_status(struct call *call, struct header *wire, size_t *count, int status,
                       struct str message)
{
    wire_add(wire, count, "grpc-status", status == 0 ? STR("0") : call_text(call, "%d", status));
    if (status != 0 && message.len > 0) {
        struct buf text;
        buf_init(&text, CALL_ARENA_BYTES_MAX);
        header_text_add_percent_encoded(&text, message);
        char *copy = arena_strndup(&call->arena, (const char *)text.ptr, text.len);
        wire_add(wire, count, "grpc-message", str_make(copy, copy ? text.len : 0));
        buf_free(&text);
    }
}

static void grpc_finish(struct call *call, int status, struct str message)
{
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    if (!call->has_head && status != 0) {
        /* "Trailers-Only": the status travels in the one header block. */
        wire_add(wire, &count, "content-type", content_type(call));
        add_status(call, wire, &count, status, message);
        wire_add_list(wire, &count, &call->headers);
        wire_add_list(wire, &count, &call->trailers);
        call->connection->transport->send_head(call, 200, wire, count, 0);
        call->connection->transport->send_end(call);
        return;
    }
    send_head(call);
    add_status(call, wire, &count, status, message);
    wire_add_list(wire, &count, &call->trailers);
    call_set_wire_trailers(call, wire, count);
    call->connection->transport->send_end(call);
}

static void web_finish(struct call *call, int status, struct str message)
{
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    send_head(call);
    add_status(call, wire, &count, status, message);
    wire_add_list(wire, &count, &call->trailers);
    struct buf text;
    buf_init(&text, CALL_ARENA_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        buf_add_str(&text, wire[i].name);
        buf_add_cstr(&text, ": ");
        buf_add_str(&text, wire[i].value);
        buf_add_cstr(&text, "\r\n");
    }
    grpc_send(call, ENVELOPE_WEB_TRAILER, buf_str(&text));
    buf_free(&text);
    call->connection->transport->send_end(call);
}

const struct call_protocol grpc_protocol = {
    .name = "grpc",
    .content_types = {[CALL_CODEC_PROTO] = "application/grpc+proto",
                      [CALL_CODEC_JSON] = "application/grpc+json"},
    .request_encoding = "grpc-encoding",
    .accept_encoding = "grpc-accept-encoding",
    .timeout = "grpc-timeout",
    .parse_timeout = header_text_parse_grpc_timeout,
    .is_enveloped = true,
    .needs_http2 = true,
    .flags_known = ENVELOPE_COMPRESSED,
    .send = grpc_send,
    .finish = grpc_finish,
};

const struct call_protocol grpc_web_protocol = {
    .name = "grpc-web",
    .content_types = {[CALL_CODEC_PROTO] = "application/grpc-web+proto",
                      [CALL_CODEC_JSON] = "application/grpc-web+json"},
    .request_encoding = "grpc-encoding",
    .accept_encoding = "grpc-accept-encoding",
    .timeout = "grpc-timeout",
    .parse_timeout = header_text_parse_grpc_timeout,
    .is_enveloped = true,
    .flags_known = ENVELOPE_COMPRESSED,
    .send = grpc_send,
    .finish = web_finish,
};
