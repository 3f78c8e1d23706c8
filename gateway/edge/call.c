#include "gateway/edge/call.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/edge/call_internal.h"
#include "gateway/edge/compression.h"
#include "gateway/edge/connection.h"
#include "gateway/edge/envelope.h"
#include "gateway/edge/header_text.h"

enum { GZIP_ANSWER_BYTES_MIN = 256, FINISH_TEXT_BYTES_MAX = 1024 };

/* ---- life ---- */

static void deadline_fired(struct edge_timer *timer);

struct call *call_new(struct connection *connection, int32_t stream_id)
{
    struct edge_server *server = connection->server;
    struct call *call = server->spare_calls;
    if (call) {
        server->spare_calls = call->next;
        server->spare_call_count--;
    } else {
        call = malloc(sizeof *call);
    }
    if (!call) {
        return NULL;
    }
    memset(call, 0, offsetof(struct call, first_block));
    call->connection = connection;
    call->stream_id = stream_id;
    call->deadline.fire = deadline_fired;
    arena_init_with(&call->arena, call->first_block, sizeof call->first_block,
                    CALL_ARENA_BYTES_MAX);
    buf_init(&call->in, (size_t)CALL_MESSAGE_MAX_BYTES + 2 * 1024 * 1024);
    buf_init(&call->out, CALL_OUT_BYTES_MAX);
    buf_init(&call->unary, CALL_OUT_BYTES_MAX);
    call->next = connection->calls;
    if (connection->calls) {
        connection->calls->prev = call;
    }
    connection->calls = call;
    connection->call_count++;
    return call;
}

static void leave_connection(struct call *call)
{
    struct connection *c = call->connection;
    if (call->prev) {
        call->prev->next = call->next;
    } else {
        c->calls = call->next;
    }
    if (call->next) {
        call->next->prev = call->prev;
    }
    c->call_count--;
    c->attention_count -= call->needs_attention ? 1 : 0;
    c->attention_count -= call->is_over_high ? 1 : 0;
    c->counted_bytes -= call->counted_bytes;
    c->server->counted_bytes -= call->counted_bytes;
    c->idle_since_ms = edge_server_now_ms(c->server);
}

static void tell_gone(struct call *call, enum call_end end)
{
    if (!call->is_gone && call->state) {
        call->is_gone = true;
        call->connection->server->events->gone(call->state,
                                               call->is_withdrawn ? CALL_END_WITHDRAWN : end);
    }
    call->is_gone = true;
}

/* AddressSanitizer is to see each call die. */
static bool keeps_spare(const struct edge_server *server)
{
#ifdef __SANITIZE_ADDRESS__
    (void)server;
    return false;
#else
    return server->spare_call_count < CALL_SPARES_MAX;
#endif
}

void call_tell_refused(struct call *call, int http_status, int status, const char *reason)
{
    struct edge_server *server = call->connection->server;
    if (call->was_refused || !server->events->refused) {
        return;
    }
    call->was_refused = true;
    const struct call_refusal refusal = {
        .origin = &call->connection->origin,
        .method = call->method,
        .path = call->path,
        .user_agent = call_header(call, "user-agent"),
        .request_id = call_request_id(call),
        .protocol = call_protocol(call),
        .http_status = http_status,
        .status = status,
        .reason = reason,
    };
    server->events->refused(server->owner, &refusal);
}

void call_close(struct call *call, enum call_end end)
{
    struct edge_server *server = call->connection->server;
    if (!call->was_offered && call->path.len > 0) {
        /* Not one of ours: the library reset the stream, RFC 9113 §8.1.1. */
        call_tell_refused(call, 0, 0, "MALFORMED");
    }
    call->is_finished = true;
    tell_gone(call, end);
    timer_set_remove(&server->timers, &call->deadline);
    leave_connection(call);
    buf_free(&call->in);
    buf_free(&call->out);
    buf_free(&call->unary);
    arena_free(&call->arena);
    if (keeps_spare(server)) {
        call->next = server->spare_calls;
        server->spare_calls = call;
        server->spare_call_count++;
    } else {
        free(call);
    }
}

void call_free_spares(struct edge_server *server)
{
    while (server->spare_calls) {
        struct call *call = server->spare_calls;
        server->spare_calls = call->next;
        free(call);
    }
}

/* The client's time is up, or the call was withdrawn: the client gets the status, the owner hears
 * of it, and the answer has a moment to leave before the stream is cut. */
static void deadline_fired(struct edge_timer *timer)
{
    struct call *call = (struct call *)(void *)((char *)timer - offsetof(struct call, deadline));
    if (call->is_gone || (call->is_sent && !call->is_withdrawn)) {
        call->connection->transport->reset(call);
        return;
    }
    if (!call->is_finished) {
        call_finish(call, STATUS_DEADLINE_EXCEEDED, "the call's deadline passed");
    }
    tell_gone(call, CALL_END_DEADLINE);
    struct edge_server *server = call->connection->server;
    timer_set_add(&server->timers, &call->deadline, edge_server_now_ms(server) + CALL_LINGER_MS);
}

/* ---- the request's head ---- */

static bool list_add(struct arena *arena, struct header_list *list, size_t count_max,
                     struct header header)
{
    if (list->count == list->room) {
        struct header *items =
            arena_grow(arena, list->items, list->count, &list->room, sizeof *items, 8);
        if (!items || list->count >= count_max) {
            return false;
        }
        list->items = items;
    }
    list->items[list->count++] = header;
    return true;
}

static bool copy_text(struct arena *arena, struct str s, struct str *ret)
{
    char *p = arena_strndup(arena, s.ptr, s.len);
    *ret = str_make(p, p ? s.len : 0);
    return p != NULL;
}

void call_take_header(struct call *call, struct str name, struct str value)
{
    /* RFC 9113 §6.5.2: 32 bytes of overhead a field. */
    call->request_header_bytes += name.len + value.len + 32;
    struct header h;
    if (call->request_header_bytes > CALL_REQUEST_HEADER_BYTES_MAX ||
        call->request_headers.count >= CALL_REQUEST_HEADERS_MAX ||
        !copy_text(&call->arena, name, &h.name) || !copy_text(&call->arena, value, &h.value) ||
        !list_add(&call->arena, &call->request_headers, CALL_REQUEST_HEADERS_MAX, h)) {
        call->headers_too_large = true;
        return;
    }
    char *lower = (char *)(uintptr_t)h.name.ptr; /* our own copy */
    for (size_t i = 0; i < h.name.len; i++) {
        lower[i] = lower[i] >= 'A' && lower[i] <= 'Z' ? (char)(lower[i] + 32) : lower[i];
    }
}

void call_take_method(struct call *call, struct str method)
{
    call->request_header_bytes += method.len + 32;
    call->headers_too_large =
        call->headers_too_large || !copy_text(&call->arena, method, &call->method);
    call->is_head_method = str_is(call->method, "HEAD");
}

void call_take_target(struct call *call, struct str target)
{
    call->request_header_bytes += target.len + 32;
    struct str copy;
    if (call->request_header_bytes > CALL_REQUEST_HEADER_BYTES_MAX ||
        !copy_text(&call->arena, target, &copy)) {
        call->headers_too_large = true;
        return;
    }
    const char *mark = copy.len > 0 ? memchr(copy.ptr, '?', copy.len) : NULL;
    size_t path_len = mark ? (size_t)(mark - copy.ptr) : copy.len;
    call->path = str_make(copy.ptr, path_len);
    call->query = mark ? str_make(mark + 1, copy.len - path_len - 1) : STR_NONE;
}

const struct header *call_find_header(const struct call *call, const char *name)
{
    for (size_t i = 0; i < call->request_headers.count; i++) {
        if (str_is(call->request_headers.items[i].name, name)) {
            return &call->request_headers.items[i];
        }
    }
    return NULL;
}

/* ---- what the request layer asks ---- */

struct str call_path(const struct call *call)
{
    return call->path;
}

struct str call_query(const struct call *call)
{
    return call->query;
}

enum call_codec call_codec(const struct call *call)
{
    return call->codec;
}

struct str call_header(const struct call *call, const char *name)
{
    const struct header *h = call_find_header(call, name);
    return h ? h->value : STR_NONE;
}

const struct call_origin *call_origin(const struct call *call)
{
    return &call->connection->origin;
}

uint64_t call_deadline_ns(const struct call *call)
{
    return call->deadline_ns;
}

const char *call_protocol(const struct call *call)
{
    return call->protocol ? call->protocol->name : "http";
}

bool call_can_stream(const struct call *call)
{
    return call->protocol && call->protocol->is_enveloped;
}

size_t call_queued_bytes(const struct call *call)
{
    size_t own = call->out.len - call->out_at;
    return call->connection->phase == CONNECTION_HTTP1
               ? connection_out_bytes(call->connection) + own
               : own;
}

/* ---- what the request layer does ---- */

static void note_queue(struct call *call)
{
    if (!call->is_over_high && call_queued_bytes(call) > CALL_QUEUE_HIGH_BYTES) {
        call->is_over_high = true;
        call->connection->attention_count++;
    }
}

bool call_send(struct call *call, struct str bytes)
{
    if (call->is_finished || !call->protocol) {
        return false;
    }
    call->messages_out++;
    struct buf packed;
    buf_init(&packed, CALL_OUT_BYTES_MAX);
    uint8_t flags = 0;
    if (call->gzip_answer && bytes.len >= GZIP_ANSWER_BYTES_MIN &&
        compression_gzip(&packed, bytes, NULL) == 0) {
        flags = ENVELOPE_COMPRESSED;
        bytes = buf_str(&packed);
    }
    call->protocol->send(call, flags, bytes);
    buf_free(&packed);
    note_queue(call);
    return call->is_over_high;
}

static void add_answer_header(struct call *call, struct header_list *list, const char *name,
                              struct str value)
{
    struct header h = {.name = str_from(name)};
    struct buf text;
    buf_init(&text, CALL_ARENA_BYTES_MAX);
    if (str_ends_with(h.name, STR("-bin"))) {
        header_text_add_base64(&text, value);
    } else {
        header_text_add_percent_encoded(&text, value);
    }
    /* A header that finds no room is left out: the request layer's own are few and small. */
    if (list->count < CALL_ANSWER_HEADERS_MAX && !text.failed && header_text_is_token(h.name) &&
        copy_text(&call->arena, h.name, &h.name) &&
        copy_text(&call->arena, buf_str(&text), &h.value)) {
        (void)list_add(&call->arena, list, CALL_ANSWER_HEADERS_MAX, h);
    }
    buf_free(&text);
}

void call_add_header(struct call *call, const char *name, struct str value)
{
    if (!call->has_head) {
        add_answer_header(call, &call->headers, name, value);
    }
}

const char *call_request_id(struct call *call)
{
    if (!call->request_id[0]) {
        request_id_make(call->request_id);
        call_add_header(call, REQUEST_ID_HEADER, str_from(call->request_id));
    }
    return call->request_id;
}

void call_add_trailer(struct call *call, const char *name, struct str value)
{
    if (!call->is_finished) {
        add_answer_header(call, &call->trailers, name, value);
    }
}

void call_finish(struct call *call, int status, const char *message)
{
    if (call->is_finished) {
        return;
    }
    if (status < 0 || status >= STATUS_COUNT) {
        status = STATUS_UNKNOWN;
    }
    bool needs_answer = call->kind == CALL_KIND_UNARY || call->protocol == &connect_unary_protocol;
    if (status == STATUS_OK && needs_answer && call->messages_out == 0) {
        status = STATUS_INTERNAL;
        message = "the method gave no answer";
    }
    call->is_finished = true;
    struct str text = str_from(message);
    text.len = text.len > FINISH_TEXT_BYTES_MAX ? FINISH_TEXT_BYTES_MAX : text.len;
    if (call->protocol) {
        call->protocol->finish(call, status, text);
    } else {
        call->is_finished = false;
        call_http_reply(call, connect_http_status(status), "text/plain; charset=utf-8", text);
    }
}

void call_withdraw(struct call *call, int status, const char *message)
{
    struct edge_server *server = call->connection->server;
    call_finish(call, status, message);
    call->is_withdrawn = true;
    timer_set_add(&server->timers, &call->deadline, edge_server_now_ms(server));
}

void call_finish_format(struct call *call, int status, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap); /* a long one is cut */
    va_end(ap);
    call_finish(call, status, text);
}

struct str call_text(struct call *call, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    struct str ret;
    (void)copy_text(&call->arena, str_from(text), &ret);
    return ret;
}

void call_set_state(struct call *call, void *state)
{
    call->state = state;
}

void call_http_reply(struct call *call, int http_status, const char *content_type, struct str body)
{
    if (call->is_finished || call->has_head) {
        return;
    }
    call->is_finished = true;
    struct header wire[CALL_WIRE_HEADERS_MAX];
    size_t count = 0;
    if (body.len > 0 && content_type) {
        wire_add(wire, &count, "content-type", str_from(content_type));
    }
    wire_add_list(wire, &count, &call->headers);
    call->connection->transport->send_head(call, http_status, wire, count, (int64_t)body.len);
    if (body.len > 0 && !call->is_head_method) {
        call->connection->transport->send_data(call, body, STR_NONE);
    }
    call->connection->transport->send_end(call);
}

void call_refuse_http(struct call *call, int http_status, const char *name, const char *value)
{
    if (name) {
        call_add_header(call, name, str_from(value));
    }
    call_http_reply(call, http_status, NULL, STR_NONE);
}

void call_pause_reading(struct call *call)
{
    call->is_paused = true;
}

void call_resume_reading(struct call *call)
{
    if (!call->is_paused) {
        return;
    }
    call->is_paused = false;
    if (!call->needs_attention) {
        call->needs_attention = true;
        call->connection->attention_count++;
    }
    connection_mark_dirty(call->connection);
}

/* ---- headers on their way out ---- */

void wire_add(struct header *wire, size_t *count, const char *name, struct str value)
{
    /* A name is missing when the call's arena is full: such a header is left out. */
    if (*count < CALL_WIRE_HEADERS_MAX && name) {
        wire[(*count)++] = (struct header){str_from(name), value};
    }
}

void wire_add_list(struct header *wire, size_t *count, const struct header_list *list)
{
    for (size_t i = 0; i < list->count && *count < CALL_WIRE_HEADERS_MAX; i++) {
        wire[(*count)++] = list->items[i];
    }
}

void call_set_wire_trailers(struct call *call, const struct header *wire, size_t count)
{
    call->wire_trailers = arena_memdup(&call->arena, wire, count * sizeof *wire);
    call->wire_trailer_count = call->wire_trailers ? count : 0;
}
