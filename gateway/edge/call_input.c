#include "gateway/edge/call_internal.h"

#include <string.h>
#include <uv.h>

#include "gateway/edge/compression.h"
#include "gateway/edge/connection.h"
#include "gateway/edge/envelope.h"
#include "gateway/edge/header_text.h"

/* From a request's head to the protocol that it speaks, and from bytes to messages. */

static const char accept_post[] = "application/grpc, application/grpc-web, application/json, "
                                  "application/proto, application/connect+json, "
                                  "application/connect+proto";

#define TYPE(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct {
    struct str content_type;
    const struct call_protocol *protocol;
    enum call_codec codec;
} content_types[] = {
    {TYPE("application/grpc"), &grpc_protocol, CALL_CODEC_PROTO},
    {TYPE("application/grpc+proto"), &grpc_protocol, CALL_CODEC_PROTO},
    {TYPE("application/grpc+json"), &grpc_protocol, CALL_CODEC_JSON},
    {TYPE("application/grpc-web"), &grpc_web_protocol, CALL_CODEC_PROTO},
    {TYPE("application/grpc-web+proto"), &grpc_web_protocol, CALL_CODEC_PROTO},
    {TYPE("application/grpc-web+json"), &grpc_web_protocol, CALL_CODEC_JSON},
    {TYPE("application/json"), &connect_unary_protocol, CALL_CODEC_JSON},
    {TYPE("application/proto"), &connect_unary_protocol, CALL_CODEC_PROTO},
    {TYPE("application/connect+json"), &connect_stream_protocol, CALL_CODEC_JSON},
    {TYPE("application/connect+proto"), &connect_stream_protocol, CALL_CODEC_PROTO},
};

/* "/package.Service/Method": two segments, the first with a dot and not hidden. */
static bool is_rpc_path(struct str path)
{
    if (path.len < 4 || path.ptr[1] == '.') {
        return false;
    }
    struct str rest = str_make(path.ptr + 1, path.len - 1);
    const char *slash = memchr(rest.ptr, '/', rest.len);
    if (!slash || slash == rest.ptr || !memchr(rest.ptr, '.', (size_t)(slash - rest.ptr))) {
        return false;
    }
    size_t left = rest.len - (size_t)(slash - rest.ptr) - 1;
    return left > 0 && !memchr(slash + 1, '/', left);
}

static bool choose_protocol(struct call *call)
{
    struct str type = call_header(call, "content-type");
    const char *semicolon = type.len > 0 ? memchr(type.ptr, ';', type.len) : NULL;
    if (semicolon) {
        type.len = (size_t)(semicolon - type.ptr);
    }
    type = header_text_trim(type);
    for (size_t i = 0; i < sizeof content_types / sizeof content_types[0]; i++) {
        if (type.len == content_types[i].content_type.len &&
            header_text_is_nocase(type, content_types[i].content_type.ptr)) {
            call->protocol = content_types[i].protocol;
            call->codec = content_types[i].codec;
        }
    }
    const struct call_protocol *p = call->protocol;
    bool is_streaming = call->kind != CALL_KIND_ANY && call->kind != CALL_KIND_UNARY;
    if (!p || (p->needs_http2 && call->connection->phase != CONNECTION_HTTP2) ||
        (p == &connect_unary_protocol && is_streaming) ||
        (p == &connect_stream_protocol && call->kind == CALL_KIND_UNARY)) {
        call->protocol = NULL;
        return false;
    }
    return true;
}

static void refuse_http(struct call *call, int http_status, const char *reason)
{
    call_tell_refused(call, http_status, 0, reason);
    call_refuse_http(call, http_status, NULL, NULL);
}

static void refuse_rpc(struct call *call, int status, const char *reason, const char *text)
{
    bool is_unary = call->protocol == &connect_unary_protocol;
    call_tell_refused(call, is_unary ? connect_http_status(status) : 200, status, reason);
    call_finish(call, status, text);
}

/* False when the call was answered. */
static bool apply_encodings(struct call *call)
{
    struct str encoding = call_header(call, call->protocol->request_encoding);
    struct str accepted = call_header(call, call->protocol->accept_encoding);
    call->gzip_request = header_text_is_nocase(encoding, "gzip");
    if (encoding.len > 0 && !call->gzip_request && !header_text_is_nocase(encoding, "identity")) {
        call_add_header(call, call->protocol->accept_encoding, STR("identity,gzip"));
        refuse_rpc(call, STATUS_UNIMPLEMENTED, "UNKNOWN_COMPRESSION",
                   call_text(call, "compression '%.*s' is not supported: use identity or gzip",
                             (int)(encoding.len < 32 ? encoding.len : 32), encoding.ptr)
                       .ptr);
        return false;
    }
    /* As the client does: who compresses its requests wants compressed answers. */
    call->gzip_answer = call->gzip_request && header_text_list_has(accepted, "gzip");
    return true;
}

static bool apply_timeout(struct call *call)
{
    const struct header *h = call_find_header(call, call->protocol->timeout);
    if (!h) {
        return true;
    }
    uint64_t timeout_ns;
    if (!call->protocol->parse_timeout(h->value, &timeout_ns)) {
        refuse_rpc(call, STATUS_INVALID_ARGUMENT, "BAD_TIMEOUT",
                   call_text(call, "header %s is malformed", call->protocol->timeout).ptr);
        return false;
    }
    if (timeout_ns == 0) {
        refuse_rpc(call, STATUS_DEADLINE_EXCEEDED, "DEADLINE", "the call's deadline passed");
        return false;
    }
    struct edge_server *server = call->connection->server;
    if (__builtin_add_overflow(uv_hrtime(), timeout_ns, &call->deadline_ns)) {
        call->deadline_ns = UINT64_MAX;
    }
    timer_set_add(&server->timers, &call->deadline,
                  edge_server_now_ms(server) + timeout_ns / 1000000 + 1);
    return true;
}

void call_begin(struct call *call)
{
    struct edge_server *server = call->connection->server;
    if (call->headers_too_large) {
        refuse_http(call, 431, "HEADERS_TOO_LARGE");
        return;
    }
    if (server->events->alias) {
        struct str rpc = server->events->alias(server->owner, call->path);
        call->path = rpc.len > 0 ? rpc : call->path;
    }
    if (!is_rpc_path(call->path)) {
        call->was_offered = true;
        return;
    }
    if (!str_is(call->method, "POST")) {
        call_add_header(call, "allow", STR("POST"));
        refuse_http(call, 405, "METHOD_NOT_ALLOWED");
        return;
    }
    call->kind =
        server->events->kind ? server->events->kind(server->owner, call->path) : CALL_KIND_ANY;
    if (!choose_protocol(call)) {
        call_add_header(call, "accept-post", str_from(accept_post));
        refuse_http(call, 415, "UNKNOWN_CONTENT_TYPE");
        return;
    }
    if (!apply_encodings(call) || !apply_timeout(call)) {
        return;
    }
    call->was_offered = true;
    call->state = server->events->begin(server->owner, call);
    if (!call->state) {
        call_finish(call, STATUS_INTERNAL, "the call was not taken");
    }
}

/* What the connection and the server count is memory, so it follows the buffer's room. */
static void count_input(struct call *call)
{
    struct connection *c = call->connection;
    size_t now = call->in.room;
    c->counted_bytes = c->counted_bytes - call->counted_bytes + now;
    c->server->counted_bytes = c->server->counted_bytes - call->counted_bytes + now;
    call->counted_bytes = now;
}

static void deliver(struct call *call, bool is_compressed, struct str bytes)
{
    if (call->messages_in > 0 &&
        (call->kind == CALL_KIND_UNARY || call->kind == CALL_KIND_SERVER_STREAM)) {
        call_finish(call, STATUS_UNIMPLEMENTED, "the method takes one message, and more came");
        return;
    }
    const struct call_events *events = call->connection->server->events;
    call->messages_in++;
    if (!is_compressed) {
        events->message(call->state, bytes);
        return;
    }
    if (!call->gzip_request) {
        call_finish(call, STATUS_INTERNAL, "a compressed message came without an encoding");
        return;
    }
    struct buf plain;
    struct error err;
    buf_init(&plain, CALL_MESSAGE_MAX_BYTES);
    int rc = compression_gunzip(&plain, bytes, &err);
    if (rc) {
        call_finish(call, -rc, err.text);
    } else {
        events->message(call->state, buf_str(&plain));
    }
    buf_free(&plain);
}

/* Delivers the whole messages at the cursor, until the handler wants no more. */
static void deliver_messages(struct call *call, struct bytes *in)
{
    while (!call->is_finished && !call->is_paused && !call->connection->is_dead) {
        struct envelope e;
        size_t announced_bytes = 0;
        switch (envelope_read(in, CALL_MESSAGE_MAX_BYTES, &e, &announced_bytes)) {
        case ENVELOPE_SHORT:
            return;
        case ENVELOPE_TOO_LARGE:
            call_finish_format(call, STATUS_RESOURCE_EXHAUSTED,
                               "message of %zu bytes is over the limit of %d", announced_bytes,
                               CALL_MESSAGE_MAX_BYTES);
            return;
        case ENVELOPE_WHOLE:
            break;
        }
        if (e.flags & ~call->protocol->flags_known) {
            call_finish_format(call, STATUS_INTERNAL, "message with unknown flags 0x%02x", e.flags);
            return;
        }
        deliver(call, e.flags & ENVELOPE_COMPRESSED, e.payload);
    }
}

static void drop_input(struct call *call)
{
    buf_free(&call->in);
    count_input(call);
}

static void keep_input(struct call *call, const struct bytes *rest)
{
    buf_add(&call->in, rest->next, bytes_left(rest));
    bool is_too_much = call->in.failed;
    count_input(call);
    is_too_much = is_too_much ||
                  call->connection->counted_bytes > EDGE_CONNECTION_BUFFERED_BYTES_MAX ||
                  call->connection->server->counted_bytes > EDGE_BUFFERED_BYTES_MAX;
    if (is_too_much) {
        call_finish(call, STATUS_RESOURCE_EXHAUSTED,
                    "too many large messages at once: send fewer or smaller ones at a time");
        drop_input(call);
    }
}

/* Messages from what was kept. */
static void deliver_kept(struct call *call)
{
    struct bytes in = bytes_over(call->in.ptr, call->in.len);
    deliver_messages(call, &in);
    if (call->is_finished) {
        drop_input(call);
        return;
    }
    buf_consume(&call->in, call->in.len - bytes_left(&in));
    if (call->in.len == 0 && call->in.room > EDGE_READ_BYTES) {
        drop_input(call);
    }
}

static void release_held(struct call *call)
{
    if (!call->is_paused && call->held_bytes > 0) {
        call->connection->transport->consumed(call, call->held_bytes);
        call->held_bytes = 0;
    }
}

/* A body without envelopes: Connect unary, plain HTTP. */
static void input_body(struct call *call, struct str bytes)
{
    size_t body_bytes_max = call->protocol ? CALL_MESSAGE_MAX_BYTES : CALL_HTTP_BODY_MAX_BYTES;
    struct bytes rest = bytes_over(bytes.ptr, bytes.len);
    if (call->in.len + bytes.len <= body_bytes_max) {
        keep_input(call, &rest);
    } else if (call->protocol) {
        call_finish_format(call, STATUS_RESOURCE_EXHAUSTED, "message is over the limit of %d bytes",
                           CALL_MESSAGE_MAX_BYTES);
    } else {
        refuse_http(call, 413, "BODY_TOO_LARGE");
    }
}

void call_input(struct call *call, struct str bytes)
{
    if (call->is_finished || !call->was_offered) {
        return;
    }
    call->held_bytes += bytes.len;
    if (!call_can_stream(call)) {
        input_body(call, bytes);
    } else if (call->in.len == 0 && !call->is_paused) {
        /* The common case: whole messages, delivered from where they lie. */
        struct bytes in = bytes_over(bytes.ptr, bytes.len);
        deliver_messages(call, &in);
        if (!call->is_finished && bytes_left(&in) > 0) {
            keep_input(call, &in);
        }
    } else {
        struct bytes in = bytes_over(bytes.ptr, bytes.len);
        keep_input(call, &in);
        if (!call->is_finished && !call->is_paused) {
            deliver_kept(call);
        }
    }
    release_held(call);
}

static void deliver_http(struct call *call)
{
    struct edge_server *server = call->connection->server;
    call->body_delivered = true;
    if (!server->events->http ||
        !server->events->http(server->owner, call, call->method, call->path, buf_str(&call->in))) {
        refuse_http(call, 404, "NOT_FOUND");
    } else if (!call->is_finished && !call->state) {
        call_refuse_http(call, 500, NULL, NULL);
    }
}

static void deliver_end(struct call *call)
{
    if (call->is_finished || call->is_paused || call->end_delivered || !call->input_ended ||
        !call->was_offered || call->connection->is_dead) {
        return;
    }
    if (!call->protocol) {
        if (!call->body_delivered) {
            deliver_http(call);
        }
        return;
    }
    if (!call->protocol->is_enveloped && !call->body_delivered) {
        call->body_delivered = true;
        deliver(call, call->gzip_request && call->in.len > 0, buf_str(&call->in));
        drop_input(call);
    } else if (call->in.len > 0) {
        call_finish(call, STATUS_INVALID_ARGUMENT, "the last message is incomplete");
    } else if (call->messages_in == 0 &&
               (call->kind == CALL_KIND_UNARY || call->kind == CALL_KIND_SERVER_STREAM)) {
        call_finish(call, STATUS_UNIMPLEMENTED, "the method takes one message, and none came");
    }
    if (!call->is_finished && !call->is_paused) {
        call->end_delivered = true;
        call->connection->server->events->half_close(call->state);
    }
}

void call_input_end(struct call *call)
{
    call->input_ended = true;
    /* A handler that resumed has messages waiting for the next flush: they come before the end. */
    if (call->in.len > 0 && !call->is_finished && !call->is_paused && call_can_stream(call)) {
        deliver_kept(call);
    }
    deliver_end(call);
}

void call_attend(struct call *call)
{
    if (call->needs_attention) {
        call->needs_attention = false;
        call->connection->attention_count--;
        if (!call->is_finished && call_can_stream(call)) {
            deliver_kept(call);
        }
        release_held(call);
        deliver_end(call);
    }
    if (call->is_over_high && call_queued_bytes(call) < CALL_QUEUE_LOW_BYTES) {
        call->is_over_high = false;
        call->connection->attention_count--;
        if (!call->is_finished && call->state) {
            call->connection->server->events->writable(call->state);
        }
        if (call->out.len == 0 && call->out.room > CALL_KEPT_OUT_BYTES) {
            buf_free(&call->out);
        }
    }
}
