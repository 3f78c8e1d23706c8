#include "gateway/edge/http1_session.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/edge/connection.h"
#include "gateway/edge/http1_reader.h"
#include "gateway/edge/request_id.h"

enum {
    INPUT_BYTES_MAX = 1024 * 1024,
    PIPELINED_BYTES_MAX = 64 * 1024,          /* of later requests, while one is served */
    DROPPED_BODY_BYTES_MAX = 8 * 1024 * 1024, /* of a request that was answered early */
    BODY_BYTES_PER_MS_MIN = 1,                /* slower senders than 1 kB/s run into the deadline */
    KEPT_INPUT_BYTES = 16 * 1024,
};

struct http1_session {
    struct connection *connection;
    struct http1_reader reader;
    struct buf in;
    struct call *call;
    bool is_chunked_answer;
    bool closes;        /* after the present answer */
    bool request_ended; /* the present request was read whole */
    uint64_t dropped_bytes;
    uint64_t body_bytes;
    uint64_t started_ms; /* the request's first byte */
    bool is_started;
};

struct http1_session *http1_session_new(struct connection *connection)
{
    struct http1_session *s = calloc(1, sizeof *s);
    if (s) {
        s->connection = connection;
        http1_reader_init(&s->reader);
        buf_init(&s->in, INPUT_BYTES_MAX);
    }
    return s;
}

void http1_session_free(struct http1_session *s)
{
    if (s) {
        buf_free(&s->in);
        free(s);
    }
}

/* ---- the answer ---- */

static const char *reason_phrase(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Status";
    }
}

static void h1_send_head(struct call *call, int status, const struct header *headers, size_t count,
                         int64_t body_bytes)
{
    struct connection *c = call->connection;
    struct http1_session *s = c->http1;
    if (call->has_head) {
        return;
    }
    call->has_head = true;
    struct buf *out = connection_out(c);
    buf_printf(out, "HTTP/1.1 %d %s\r\n", status, reason_phrase(status));
    for (size_t i = 0; i < count; i++) {
        buf_add_str(out, headers[i].name);
        buf_add_cstr(out, ": ");
        buf_add_str(out, headers[i].value);
        buf_add_cstr(out, "\r\n");
    }
    s->is_chunked_answer = body_bytes < 0;
    if (s->is_chunked_answer) {
        buf_add_cstr(out, "transfer-encoding: chunked\r\n");
    } else if (status != 204) {
        buf_printf(out, "content-length: %lld\r\n", (long long)body_bytes);
    }
    s->closes = s->closes || c->server->is_draining;
    if (s->closes) {
        buf_add_cstr(out, "connection: close\r\n");
    }
    buf_add_cstr(out, "\r\n");
    connection_mark_dirty(c);
}

static void h1_send_data(struct call *call, struct str first, struct str second)
{
    struct connection *c = call->connection;
    struct buf *out = connection_out(c);
    size_t n = first.len + second.len;
    if (n == 0) {
        return;
    }
    if (c->http1->is_chunked_answer) {
        buf_printf(out, "%zx\r\n", n);
    }
    buf_add_str(out, first);
    buf_add_str(out, second);
    if (c->http1->is_chunked_answer) {
        buf_add_cstr(out, "\r\n");
    }
    if (out->failed) {
        connection_kill(c);
    }
    connection_mark_dirty(c);
}

static void h1_send_end(struct call *call)
{
    struct connection *c = call->connection;
    if (c->http1->is_chunked_answer) {
        buf_add_cstr(connection_out(c), "0\r\n\r\n");
    }
    call->has_end = true;
    connection_mark_dirty(c);
}

static void h1_reset(struct call *call)
{
    connection_kill(call->connection);
}

static void h1_consumed(struct call *call, size_t n)
{
    (void)n; /* input is held back by not reading the socket */
    connection_mark_dirty(call->connection);
}

const struct call_transport http1_transport = {
    .name = "http/1.1",
    .send_head = h1_send_head,
    .send_data = h1_send_data,
    .send_end = h1_send_end,
    .reset = h1_reset,
    .consumed = h1_consumed,
};

/* ---- the request ---- */

static const char *refusal_reason(int status)
{
    return status == 431 ? "HEADERS_TOO_LARGE" : "MALFORMED";
}

/* A head that cannot be read never becomes a call. */
static void refuse_head(struct http1_session *s, int status)
{
    struct edge_server *server = s->connection->server;
    struct buf *out = connection_out(s->connection);
    buf_printf(out, "HTTP/1.1 %d %s\r\n", status, reason_phrase(status));
    if (server->events->refused) {
        char id[REQUEST_ID_SIZE];
        request_id_make(id);
        const struct call_refusal refusal = {
            .origin = &s->connection->origin,
            .request_id = id,
            .protocol = "http",
            .http_status = status,
            .reason = refusal_reason(status),
        };
        server->events->refused(server->owner, &refusal);
        buf_printf(out, REQUEST_ID_HEADER ": %s\r\n", id);
    }
    buf_add_cstr(out, "content-length: 0\r\nconnection: close\r\n\r\n");
}

/* The rest of a request whose head was good. */
static void refuse_body(struct call *call, int status)
{
    if (!call->has_head) {
        if (!call->state) { /* else the request layer tells, at the call's end */
            call_tell_refused(call, status, 0, refusal_reason(status));
        }
        call_refuse_http(call, status, NULL, NULL);
    }
    /* In the middle of an answer there is no place for another one, and its handler has nothing to
     * add. */
    call->is_finished = true;
}

static void refuse(struct http1_session *s, int status)
{
    s->closes = true;
    if (s->call) {
        refuse_body(s->call, status);
    } else {
        refuse_head(s, status);
    }
    s->connection->closes_when_flushed = true;
    connection_mark_dirty(s->connection);
}

static void start_request(struct http1_session *s, const struct http1_head *head)
{
    s->call = call_new(s->connection, 1);
    if (!s->call) {
        refuse(s, 503);
        return;
    }
    s->closes = s->closes || head->wants_close;
    s->request_ended = false;
    s->dropped_bytes = 0;
    s->body_bytes = 0;
    s->is_chunked_answer = false;
    call_take_method(s->call, head->method);
    call_take_target(s->call, head->target);
    for (size_t i = 0; i < head->field_count; i++) {
        call_take_header(s->call, head->fields[i].name, head->fields[i].value);
    }
    call_begin(s->call);
    if (head->expects_continue && head->has_body && !s->call->is_finished) {
        buf_add_cstr(connection_out(s->connection), "HTTP/1.1 100 Continue\r\n\r\n");
    }
    /* A client that waits for "100" and got an answer may send the body or may not. */
    s->closes = s->closes || (head->expects_continue && s->call->is_finished);
}

static void take_body(struct http1_session *s, struct str bytes)
{
    s->body_bytes += bytes.len;
    if (!s->call->is_finished) {
        call_input(s->call, bytes);
        return;
    }
    s->dropped_bytes += bytes.len;
    if (s->dropped_bytes > DROPPED_BODY_BYTES_MAX) {
        s->connection->closes_when_flushed = true;
        connection_mark_dirty(s->connection);
    }
}

/* The request was read and the answer is queued, both whole. */
static void complete(struct http1_session *s)
{
    struct call *call = s->call;
    s->call = NULL;
    s->is_started = false;
    call_close(call, CALL_END_FINISHED);
    if (s->closes || s->connection->server->is_draining) {
        s->connection->closes_when_flushed = true;
    }
    connection_mark_dirty(s->connection);
}

/* One step; false when there is nothing to do before something happens. */
static bool advance(struct http1_session *s, struct bytes *in)
{
    if (s->call && s->request_ended) {
        if (!s->call->has_end) {
            return false;
        }
        complete(s);
        return true;
    }
    if (s->call && s->call->is_paused && !s->call->is_finished) {
        return false;
    }
    struct http1_head head;
    struct str body;
    switch (http1_reader_next(&s->reader, in, &head, &body)) {
    case HTTP1_NEED_MORE:
        return false;
    case HTTP1_HEAD:
        start_request(s, &head);
        return true;
    case HTTP1_BODY:
        take_body(s, body);
        return true;
    case HTTP1_END:
        s->request_ended = true;
        call_input_end(s->call);
        return true;
    case HTTP1_BAD:
        refuse(s, s->reader.error_status);
        break;
    }
    return false;
}

void http1_session_run(struct http1_session *s)
{
    struct bytes in = bytes_over(s->in.ptr, s->in.len);
    while (!s->connection->is_dead && !s->connection->closes_when_flushed && advance(s, &in)) {
        if (!s->is_started && bytes_left(&in) > 0) {
            s->is_started = true;
            s->started_ms = edge_server_now_ms(s->connection->server);
        }
    }
    if (s->connection->closes_when_flushed) {
        in.next = in.end;
    }
    buf_consume(&s->in, s->in.len - bytes_left(&in));
    if (s->in.len == 0 && s->in.room > KEPT_INPUT_BYTES) {
        buf_free(&s->in);
    }
    uint64_t deadline_ms = http1_session_deadline_ms(s);
    if (deadline_ms != UINT64_MAX) {
        connection_wake_by(s->connection, deadline_ms);
    }
}

void http1_session_input(struct http1_session *s, struct str bytes)
{
    if (s->connection->closes_when_flushed) {
        return;
    }
    if (!s->is_started) {
        s->is_started = true;
        s->started_ms = edge_server_now_ms(s->connection->server);
    }
    buf_add_str(&s->in, bytes);
    if (s->in.failed) {
        connection_kill(s->connection);
        return;
    }
    http1_session_run(s);
}

bool http1_session_wants_input(const struct http1_session *s)
{
    if (s->connection->closes_when_flushed) {
        return false;
    }
    if (s->call && s->call->is_paused && !s->call->is_finished) {
        return false;
    }
    return s->in.len < PIPELINED_BYTES_MAX || !s->call || !s->request_ended;
}

uint64_t http1_session_deadline_ms(const struct http1_session *s)
{
    const struct edge_limits *limits = &s->connection->server->limits;
    if (!s->call && !s->is_started) {
        return s->connection->idle_since_ms + limits->idle_timeout_ms;
    }
    bool is_ours = s->call && (s->request_ended || s->call->is_paused);
    if (is_ours) {
        return UINT64_MAX;
    }
    return s->started_ms + limits->head_timeout_ms + s->body_bytes / BODY_BYTES_PER_MS_MIN;
}

void http1_session_drain(struct http1_session *s)
{
    s->closes = true;
    if (!s->call && !s->is_started) {
        s->connection->closes_when_flushed = true;
        connection_mark_dirty(s->connection);
    }
}
