#include "gateway/edge/http2_session.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/edge/connection.h"

enum {
    STREAM_WINDOW_BYTES = 256 * 1024,
    CONNECTION_WINDOW_BYTES = 1024 * 1024,
    CONTINUATIONS_MAX = 8,      /* CVE-2024-28182 */
    UNREAD_ACKS_MAX = 200,      /* CVE-2019-9512, CVE-2019-9515 */
    SETTINGS_MAX = 32,          /* entries in one frame */
    OUTBOUND_FRAMES_MAX = 4000, /* a peer that makes us answer and never reads */
    INVALID_FRAMES_MAX = 100,   /* CVE-2019-9514: the library answers without bound */
    HEADER_DROP_FACTOR = 4,     /* past that many times the limit, do not even count */
    EARLY_ANSWER_LINGER_MS = 500,
    COMPACT_BYTES = 64 * 1024, /* of sent output, before the rest is moved to the front */
    /* CVE-2023-44487. Cancelling a call that was being answered is how clients end a
     * stream; what an attack does is to cancel calls that have had no time to answer, and only
     * those count here. The library's own limit, which counts all, stands far behind. */
    RESET_BURST = 1000,
    RESETS_PER_SECOND = 100,
    LIBRARY_RESET_BURST = 20000,
    LIBRARY_RESETS_PER_SECOND = 5000,
};

struct http2_shared {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
};

struct http2_session {
    nghttp2_session *ng;
    struct connection *connection;
    unsigned invalid_frames;
    unsigned reset_tokens;
    uint64_t reset_refill_ms;
};

/* ---- output of a call ---- */

static void drop_sent(struct call *call)
{
    if (call->out_at == call->out.len) {
        buf_clear(&call->out);
        call->out_at = 0;
        /* One that was over the mark is about to be filled again: `writable` comes next. */
        if (call->out.room > CALL_KEPT_OUT_BYTES && !call->is_over_high) {
            buf_free(&call->out);
        }
    } else if (call->out_at > COMPACT_BYTES && call->out_at > call->out.len / 2) {
        buf_consume(&call->out, call->out_at);
        call->out_at = 0;
    }
}

static nghttp2_nv to_nv(struct str name, struct str value)
{
    static const uint8_t nothing[1];
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name.ptr,
        .value = (uint8_t *)(uintptr_t)(value.ptr ? (const void *)value.ptr : nothing),
        .namelen = name.len,
        .valuelen = value.len,
        .flags = NGHTTP2_NV_FLAG_NONE,
    };
}

static ssize_t on_read(nghttp2_session *ng, int32_t stream_id, uint8_t *to, size_t room,
                       uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)user;
    struct call *call = source->ptr;
    size_t left = call->out.len - call->out_at;
    size_t n = left < room ? left : room;
    if (n > 0) {
        memcpy(to, call->out.ptr + call->out_at, n);
        call->out_at += n;
        drop_sent(call);
    }
    if (call->out.len > call->out_at) {
        return (ssize_t)n;
    }
    if (!call->has_end) {
        call->is_deferred = n == 0;
        return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (call->wire_trailer_count > 0) {
        nghttp2_nv nv[CALL_WIRE_HEADERS_MAX];
        for (size_t i = 0; i < call->wire_trailer_count; i++) {
            nv[i] = to_nv(call->wire_trailers[i].name, call->wire_trailers[i].value);
        }
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(ng, stream_id, nv, call->wire_trailer_count) != 0) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
        }
    }
    return (ssize_t)n;
}

static void h2_send_head(struct call *call, int status, const struct header *headers, size_t count,
                         int64_t body_bytes)
{
    if (call->has_head) {
        return;
    }
    call->has_head = true;
    char status_text[16];
    char length_text[24];
    (void)snprintf(status_text, sizeof status_text, "%d", status);
    nghttp2_nv nv[CALL_WIRE_HEADERS_MAX + 2];
    size_t n = 0;
    nv[n++] = to_nv(STR(":status"), str_from(status_text));
    for (size_t i = 0; i < count && i < CALL_WIRE_HEADERS_MAX; i++) {
        nv[n++] = to_nv(headers[i].name, headers[i].value);
    }
    if (body_bytes > 0) {
        (void)snprintf(length_text, sizeof length_text, "%lld", (long long)body_bytes);
        nv[n++] = to_nv(STR("content-length"), str_from(length_text));
    }
    nghttp2_data_provider data = {.source.ptr = call, .read_callback = on_read};
    bool has_body = body_bytes != 0 && !call->is_head_method;
    struct http2_session *s = call->connection->http2;
    if (nghttp2_submit_response(s->ng, call->stream_id, nv, n, has_body ? &data : NULL) != 0) {
        connection_kill(call->connection);
    }
    connection_mark_dirty(call->connection);
}

static void wake(struct call *call)
{
    if (call->is_deferred) {
        call->is_deferred = false;
        /* Fails only when the stream is closing already. */
        (void)nghttp2_session_resume_data(call->connection->http2->ng, call->stream_id);
    }
    connection_mark_dirty(call->connection);
}

static void h2_reset(struct call *call)
{
    uint32_t code = call->is_sent ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL;
    if (nghttp2_submit_rst_stream(call->connection->http2->ng, NGHTTP2_FLAG_NONE, call->stream_id,
                                  code) != 0) {
        connection_kill(call->connection);
    }
    connection_mark_dirty(call->connection);
}

static void h2_send_data(struct call *call, struct str first, struct str second)
{
    buf_add_str(&call->out, first);
    buf_add_str(&call->out, second);
    if (call->out.failed) {
        call->is_finished = true;
        h2_reset(call);
        return;
    }
    wake(call);
}

static void h2_send_end(struct call *call)
{
    call->has_end = true;
    wake(call);
}

static void h2_consumed(struct call *call, size_t n)
{
    struct http2_session *s = call->connection->http2;
    if (nghttp2_session_consume_stream(s->ng, call->stream_id, n) != 0) {
        connection_kill(call->connection);
    }
    connection_mark_dirty(call->connection);
}

const struct call_transport http2_transport = {
    .name = "h2",
    .send_head = h2_send_head,
    .send_data = h2_send_data,
    .send_end = h2_send_end,
    .reset = h2_reset,
    .consumed = h2_consumed,
};

/* ---- input ---- */

static bool is_request_head(const nghttp2_frame *frame)
{
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    struct http2_session *s = user;
    if (!is_request_head(frame)) {
        return 0;
    }
    struct call *call = call_new(s->connection, frame->hd.stream_id);
    if (!call) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return nghttp2_session_set_stream_user_data(ng, frame->hd.stream_id, call);
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    (void)flags;
    (void)user;
    struct call *call = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id);
    if (!call || !is_request_head(frame)) {
        return 0; /* request trailers mean nothing here */
    }
    struct str n = str_make(name, name_len);
    struct str v = str_make(value, value_len);
    if (str_is(n, ":method")) {
        call_take_method(call, v);
    } else if (str_is(n, ":path")) {
        call_take_target(call, v);
    } else if (str_is(n, ":authority")) {
        call_take_header(call, STR("host"), v); /* what HTTP/1.1 calls it, RFC 9113 §8.3.1 */
    } else if (name_len > 0 && name[0] != ':') {
        call_take_header(call, n, v);
    }
    if (call->request_header_bytes <= HEADER_DROP_FACTOR * CALL_REQUEST_HEADER_BYTES_MAX) {
        return 0;
    }
    call_tell_refused(call, 0, 0, "HEADERS_TOO_LARGE");
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Takes one token for a call that was cancelled before it was answered; false when none is left. */
static bool allow_reset(struct http2_session *s)
{
    uint64_t now_ms = edge_server_now_ms(s->connection->server);
    uint64_t refill = (now_ms - s->reset_refill_ms) * RESETS_PER_SECOND / 1000;
    if (refill > 0) {
        uint64_t tokens = s->reset_tokens + refill;
        s->reset_tokens = tokens > RESET_BURST ? RESET_BURST : (unsigned)tokens;
        s->reset_refill_ms = now_ms;
    }
    if (s->reset_tokens == 0) {
        return false;
    }
    s->reset_tokens--;
    return true;
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    struct http2_session *s = user;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        s->connection->ping_sent_ms = 0;
        return 0;
    }
    struct call *call = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id);
    if (!call || s->connection->is_dead) {
        return 0;
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && !call->has_head && !allow_reset(s)) {
        return nghttp2_session_terminate_session(ng, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    if (is_request_head(frame)) {
        call_begin(call);
    }
    bool is_body = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (is_body && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        call_input_end(call);
    }
    return 0;
}

static int on_data(nghttp2_session *ng, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t len, void *user)
{
    (void)flags;
    struct http2_session *s = user;
    /* The connection's window is for all calls: one that is paused holds only its own. */
    int rc = nghttp2_session_consume_connection(ng, len);
    struct call *call = nghttp2_session_get_stream_user_data(ng, stream_id);
    if (call && !s->connection->is_dead) {
        call_input(call, str_make(bytes, len));
    }
    return rc == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_stream_close(nghttp2_session *ng, int32_t stream_id, uint32_t error_code, void *user)
{
    (void)error_code;
    (void)user;
    struct call *call = nghttp2_session_get_stream_user_data(ng, stream_id);
    if (call) {
        (void)nghttp2_session_set_stream_user_data(ng, stream_id, NULL);
        call_close(call, call->is_sent ? CALL_END_FINISHED : CALL_END_CANCELLED);
    }
    return 0;
}

static int on_frame_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
    (void)user;
    bool is_body = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!is_body || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        return 0;
    }
    struct call *call = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id);
    if (!call) {
        return 0;
    }
    call->is_sent = true;
    struct edge_server *server = call->connection->server;
    if (!call->input_ended) {
        /* RFC 9113 §8.1: answered early, the rest of the request is not wanted, and a reset with
         * NO_ERROR may say so. Not at once: grpclib and curl forget the answer that they have not
         * read yet when a reset comes with it. A client that does not end its side within a while
         * has it ended. */
        timer_set_add(&server->timers, &call->deadline,
                      edge_server_now_ms(server) +
                          (call->kind == CALL_KIND_BIDI ? CALL_LINGER_MS : EARLY_ANSWER_LINGER_MS));
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error_code,
                            void *user)
{
    (void)frame;
    (void)error_code;
    struct http2_session *s = user;
    if (++s->invalid_frames == INVALID_FRAMES_MAX) {
        return nghttp2_session_terminate_session(ng, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    return 0;
}

/* ---- settings and life ---- */

struct http2_shared *http2_shared_new(void)
{
    struct http2_shared *shared = calloc(1, sizeof *shared);
    if (!shared || nghttp2_session_callbacks_new(&shared->callbacks) != 0 ||
        nghttp2_option_new(&shared->option) != 0) {
        http2_shared_free(shared);
        return NULL;
    }
    nghttp2_session_callbacks *cb = shared->callbacks;
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_option *o = shared->option;
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_max_outbound_ack(o, UNREAD_ACKS_MAX);
    nghttp2_option_set_max_settings(o, SETTINGS_MAX);
    nghttp2_option_set_max_continuations(o, CONTINUATIONS_MAX);
    nghttp2_option_set_max_deflate_dynamic_table_size(o, 4096);
    nghttp2_option_set_stream_reset_rate_limit(o, LIBRARY_RESET_BURST, LIBRARY_RESETS_PER_SECOND);
    return shared;
}

void http2_shared_free(struct http2_shared *shared)
{
    if (shared) {
        nghttp2_session_callbacks_del(shared->callbacks);
        nghttp2_option_del(shared->option);
        free(shared);
    }
}

struct http2_session *http2_session_new(struct http2_shared *shared, struct connection *connection,
                                        unsigned streams_max)
{
    struct http2_session *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->connection = connection;
    s->reset_tokens = RESET_BURST;
    s->reset_refill_ms = edge_server_now_ms(connection->server);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, CALL_REQUEST_HEADER_BYTES_MAX},
    };
    if (nghttp2_session_server_new2(&s->ng, shared->callbacks, s, shared->option) != 0 ||
        nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW_BYTES) != 0) {
        http2_session_free(s);
        return NULL;
    }
    return s;
}

void http2_session_free(struct http2_session *s)
{
    if (s) {
        nghttp2_session_del(s->ng);
        free(s);
    }
}

bool http2_session_input(struct http2_session *s, struct str bytes)
{
    ssize_t n = nghttp2_session_mem_recv(s->ng, (const uint8_t *)bytes.ptr, bytes.len);
    return n >= 0 && nghttp2_session_get_outbound_queue_size(s->ng) <= OUTBOUND_FRAMES_MAX;
}

bool http2_session_fill(struct http2_session *s, struct buf *out, size_t want_bytes)
{
    while (out->len < want_bytes) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(s->ng, &bytes);
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            break;
        }
        buf_add(out, bytes, (size_t)n);
    }
    return !out->failed;
}

bool http2_session_is_over(const struct http2_session *s)
{
    return !nghttp2_session_want_read(s->ng) && !nghttp2_session_want_write(s->ng);
}

void http2_session_ping(struct http2_session *s)
{
    if (nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, NULL) != 0) {
        connection_kill(s->connection);
    }
    connection_mark_dirty(s->connection);
}

void http2_session_announce_end(struct http2_session *s)
{
    if (nghttp2_submit_shutdown_notice(s->ng) != 0) {
        connection_kill(s->connection);
    }
    connection_mark_dirty(s->connection);
}

void http2_session_end(struct http2_session *s)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(s->ng);
    if (nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) != 0) {
        connection_kill(s->connection);
    }
    connection_mark_dirty(s->connection);
}
