#include "gateway/edge/connection.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/edge/http1_session.h"
#include "gateway/edge/http2_session.h"

enum {
    READS_PER_TURN_MAX = 16,     /* then the others have their turn */
    TLS_SHORT_READ_BYTES = 4096, /* less than that is no bulk transfer */
    FILL_BYTES = 64 * 1024,      /* frames gathered for one write */
    WRITE_BYTES_PER_TURN_MAX = 1024 * 1024,
    OUT_BYTES_MAX = 128 * 1024 * 1024,
    OUT_KEPT_BYTES_MAX = 256 * 1024,
    UNREAD_OUT_BYTES_MAX =
        1024 * 1024, /* past that, a peer that reads nothing is not read either */
};

static const char http2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum { PREFACE_BYTES = sizeof http2_preface - 1 };

static void on_poll(uv_poll_t *poll, int status, int events);
static void timer_fired(struct edge_timer *timer);

/* ---- output buffer ---- */

struct buf *connection_out(struct connection *c)
{
    struct buf *spare = &c->server->spare_out;
    if (!c->out.ptr && spare->ptr) {
        c->out = *spare;
        buf_init(spare, OUT_BYTES_MAX);
    }
    return &c->out;
}

size_t connection_out_bytes(const struct connection *c)
{
    return c->out.len - c->out_at;
}

/* Nothing waits: an idle connection keeps no buffer. */
static void give_out_back(struct connection *c)
{
    struct buf *spare = &c->server->spare_out;
    buf_clear(&c->out);
    c->out_at = 0;
    if (!spare->ptr && c->out.room <= OUT_KEPT_BYTES_MAX) {
        *spare = c->out;
        buf_init(&c->out, OUT_BYTES_MAX);
    } else {
        buf_free(&c->out);
    }
}

/* ---- life ---- */

void connection_mark_dirty(struct connection *c)
{
    if (!c->is_dirty) {
        c->is_dirty = true;
        c->dirty_next = c->server->dirty;
        c->server->dirty = c;
    }
}

void connection_kill(struct connection *c)
{
    c->is_dead = true;
    connection_mark_dirty(c);
}

void connection_wake_by(struct connection *c, uint64_t at_ms)
{
    timer_set_add_by(&c->server->timers, &c->timer, at_ms);
}

static void link_connection(struct edge_server *server, struct connection *c)
{
    c->next = server->connections;
    if (c->next) {
        c->next->prev = c;
    }
    server->connections = c;
    server->connection_count++;
}

static void unlink_connection(struct edge_server *server, struct connection *c)
{
    if (c->prev) {
        c->prev->next = c->next;
    } else {
        server->connections = c->next;
    }
    if (c->next) {
        c->next->prev = c->prev;
    }
    server->connection_count--;
}

void connection_open(struct edge_server *server, struct edge_listener *listener, int fd,
                     struct tls_context *tls, const struct call_origin *origin,
                     struct source *source)
{
    struct connection *c = calloc(1, sizeof *c);
    struct byte_stream stream;
    bool is_open = byte_stream_open(&stream, fd, tls);
    if (!c || !is_open || uv_poll_init(server->loop, &c->poll, fd) != 0) {
        if (is_open) {
            byte_stream_close(&stream);
        }
        source_table_release(server->sources, source);
        free(c);
        return;
    }
    server->handle_count++;
    c->poll.data = c;
    c->server = server;
    c->listener = listener;
    c->stream = stream;
    c->origin = *origin;
    c->source = source;
    c->phase = tls ? CONNECTION_HANDSHAKE : CONNECTION_PREFACE;
    c->active_ms = edge_server_now_ms(server);
    c->idle_since_ms = c->active_ms;
    c->timer.fire = timer_fired;
    buf_init(&c->in, PREFACE_BYTES + EDGE_READ_BYTES);
    buf_init(&c->out, OUT_BYTES_MAX);
    link_connection(server, c);
    c->poll_events = UV_READABLE;
    if (uv_poll_start(&c->poll, c->poll_events, on_poll) != 0) {
        connection_kill(c);
    }
    connection_wake_by(c, c->active_ms + server->limits.handshake_timeout_ms);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct edge_server *server = c->server;
    free(c);
    edge_server_handle_closed(server);
}

/* Everything but the memory of the poll handle, which the loop still has. */
static void take_apart(struct connection *c)
{
    struct edge_server *server = c->server;
    c->is_dirty = true; /* whatever a `gone` handler does, it is not flushed again */
    while (c->calls) {
        call_close(c->calls, CALL_END_CANCELLED);
    }
    http2_session_free(c->http2);
    http1_session_free(c->http1);
    timer_set_remove(&server->timers, &c->timer);
    (void)uv_poll_stop(&c->poll);
    byte_stream_close(&c->stream);
    source_table_release(server->sources, c->source);
    buf_free(&c->in);
    buf_free(&c->out);
    unlink_connection(server, c);
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

/* ---- which protocol ---- */

static void start_http2(struct connection *c)
{
    c->phase = CONNECTION_HTTP2;
    c->transport = &http2_transport;
    c->http2 = http2_session_new(c->server->http2, c, c->server->limits.streams_per_connection_max);
    if (!c->http2) {
        connection_kill(c);
        return;
    }
    if (c->server->is_draining) {
        connection_drain(c, c->server->is_last_goaway_sent, false);
    }
    timer_set_add(&c->server->timers, &c->timer, edge_server_now_ms(c->server) + 1);
    connection_mark_dirty(c);
}

static void start_http1(struct connection *c)
{
    c->phase = CONNECTION_HTTP1;
    c->transport = &http1_transport;
    c->http1 = http1_session_new(c);
    if (!c->http1) {
        connection_kill(c);
        return;
    }
    timer_set_add(&c->server->timers, &c->timer, http1_session_deadline_ms(c->http1));
}

static void input(struct connection *c, struct str bytes)
{
    if (c->phase == CONNECTION_HTTP1) {
        http1_session_input(c->http1, bytes);
    } else if (!http2_session_input(c->http2, bytes)) {
        connection_kill(c);
    }
    connection_mark_dirty(c);
}

/* Plaintext: the first bytes tell HTTP/2 with prior knowledge (RFC 9113 §3.3) from HTTP/1.1. */
static void input_preface(struct connection *c, struct str bytes)
{
    buf_add_str(&c->in, bytes);
    size_t n = c->in.len < PREFACE_BYTES ? c->in.len : PREFACE_BYTES;
    if (memcmp(c->in.ptr, http2_preface, n) != 0) {
        start_http1(c);
    } else if (n == PREFACE_BYTES) {
        start_http2(c);
    } else {
        return;
    }
    if (!c->is_dead) {
        input(c, buf_str(&c->in));
    }
    buf_free(&c->in);
}

/* ---- the socket ---- */

static bool handshake(struct connection *c)
{
    switch (byte_stream_handshake(&c->stream)) {
    case IO_DONE:
        break;
    case IO_WANT_READ:
        c->is_write_blocked = false;
        return false;
    case IO_WANT_WRITE:
        c->is_write_blocked = true;
        return false;
    case IO_CLOSED:
    case IO_BROKEN:
        connection_kill(c);
        return false;
    }
    c->is_write_blocked = false;
    c->reads_again = true; /* the first request may have come along and wait inside */
    if (tls_stream_is_http2(c->stream.tls)) {
        start_http2(c);
    } else {
        start_http1(c);
    }
    return !c->is_dead;
}

static bool wants_input(const struct connection *c)
{
    if (c->is_dead || c->closes_when_flushed) {
        return false;
    }
    if (connection_out_bytes(c) > UNREAD_OUT_BYTES_MAX && c->phase == CONNECTION_HTTP2) {
        return false;
    }
    return c->phase != CONNECTION_HTTP1 || http1_session_wants_input(c->http1);
}

static void read_socket(struct connection *c)
{
    for (unsigned i = 0; wants_input(c); i++) {
        if (i == READS_PER_TURN_MAX) {
            c->reads_again = true;
            return;
        }
        size_t n;
        switch (byte_stream_read(&c->stream, c->server->read_buffer, EDGE_READ_BYTES, &n)) {
        case IO_DONE:
            break;
        case IO_WANT_READ:
        case IO_WANT_WRITE: /* the write that it needs happens with the next one of ours */
            return;
        case IO_CLOSED:
        case IO_BROKEN:
            connection_kill(c);
            return;
        }
        c->active_ms = edge_server_now_ms(c->server);
        struct str bytes = str_make(c->server->read_buffer, n);
        if (c->phase == CONNECTION_PREFACE) {
            input_preface(c, bytes);
        } else {
            input(c, bytes);
        }
        /* A short read has most likely emptied the socket: spare the call that would say so. If it
         * has not, the poll tells. */
        size_t short_bytes = c->stream.tls ? TLS_SHORT_READ_BYTES : EDGE_READ_BYTES;
        if (n < short_bytes && !byte_stream_has_pending(&c->stream)) {
            return;
        }
    }
    c->reads_again = byte_stream_has_pending(&c->stream) && !c->is_dead;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;
    if (c->is_dead) {
        return;
    }
    connection_mark_dirty(c);
    if (status < 0) {
        connection_kill(c);
        return;
    }
    if (c->phase == CONNECTION_HANDSHAKE && !handshake(c)) {
        return;
    }
    if (events & UV_WRITABLE) {
        c->is_write_blocked = false;
    }
    if (events & UV_READABLE) {
        read_socket(c);
    } else if (events & UV_DISCONNECT) {
        connection_kill(c);
    }
}

/* Sends what is queued, for at most one turn's share. */
static void write_socket(struct connection *c)
{
    size_t sent_bytes = 0;
    while (!c->is_write_blocked && !c->is_dead) {
        if (c->http2 && connection_out_bytes(c) < FILL_BYTES &&
            !http2_session_fill(c->http2, connection_out(c), c->out_at + FILL_BYTES)) {
            connection_kill(c);
            return;
        }
        if (c->out.failed) {
            connection_kill(c);
            return;
        }
        size_t left = connection_out_bytes(c);
        if (left == 0) {
            give_out_back(c);
            return;
        }
        if (sent_bytes >= WRITE_BYTES_PER_TURN_MAX) {
            connection_mark_dirty(c);
            return;
        }
        size_t n = 0;
        enum io_status status = byte_stream_write(&c->stream, c->out.ptr + c->out_at, left, &n);
        if (status == IO_DONE) {
            c->out_at += n;
            sent_bytes += n;
            c->active_ms = edge_server_now_ms(c->server);
            if (c->out_at == c->out.len) {
                buf_clear(&c->out);
                c->out_at = 0;
            }
        } else if (status == IO_WANT_WRITE || status == IO_WANT_READ) {
            c->is_write_blocked = true;
            buf_consume(&c->out, c->out_at);
            c->out_at = 0;
        } else {
            connection_kill(c);
        }
    }
}

static void update_poll(struct connection *c)
{
    int events = c->is_write_blocked ? UV_WRITABLE : 0;
    events |= wants_input(c) ? UV_READABLE : UV_DISCONNECT;
    if (events != c->poll_events) {
        c->poll_events = events;
        if (uv_poll_start(&c->poll, events, on_poll) != 0) {
            connection_kill(c);
        }
    }
}

static void attend_calls(struct connection *c)
{
    struct call *next;
    for (struct call *call = c->attention_count > 0 ? c->calls : NULL; call; call = next) {
        next = call->next;
        if (!c->is_dead) {
            call_attend(call);
        }
    }
}

static bool is_finished(const struct connection *c)
{
    bool has_output = connection_out_bytes(c) > 0;
    bool is_over = c->http2 && http2_session_is_over(c->http2);
    return !has_output && (c->closes_when_flushed || is_over);
}

void connection_flush(struct connection *c)
{
    if (!c->is_dead && c->reads_again) {
        c->reads_again = false;
        read_socket(c);
    }
    if (!c->is_dead && (c->http1 || c->http2)) {
        attend_calls(c);
        if (c->http1) {
            http1_session_run(c->http1);
        }
        write_socket(c);
        attend_calls(c);
        if (c->server->is_last_goaway_sent && c->call_count == 0) {
            connection_drain(c, true, false); /* its last call has ended */
        }
        if (is_finished(c)) {
            c->is_dead = true;
        }
    }
    if (!c->is_dead) {
        update_poll(c);
    }
    if (c->reads_again && !c->is_dead) {
        connection_mark_dirty(c);
    }
    if (c->is_dead) {
        if (c->is_dirty) {
            return; /* comes round again in the next pass */
        }
        take_apart(c);
    }
}

/* ---- time ---- */

/* Returns when to look again. */
static uint64_t tick_http2(struct connection *c, uint64_t now_ms)
{
    uint64_t idle_ms = c->server->limits.idle_timeout_ms;
    if (c->call_count == 0) {
        if (now_ms >= c->idle_since_ms + idle_ms) {
            http2_session_end(c->http2);
            c->closes_when_flushed = true;
            return now_ms + EDGE_PING_TIMEOUT_MS;
        }
        return c->idle_since_ms + idle_ms;
    }
    uint64_t quiet_ms = idle_ms / 2 < EDGE_PING_AFTER_MS ? idle_ms / 2 : EDGE_PING_AFTER_MS;
    uint64_t answer_ms = idle_ms < EDGE_PING_TIMEOUT_MS ? idle_ms : EDGE_PING_TIMEOUT_MS;
    if (c->ping_sent_ms != 0) {
        if (now_ms >= c->ping_sent_ms + answer_ms) {
            connection_kill(c);
        }
        return c->ping_sent_ms + answer_ms;
    }
    if (now_ms >= c->active_ms + quiet_ms) {
        c->ping_sent_ms = now_ms;
        http2_session_ping(c->http2);
        return now_ms + answer_ms;
    }
    uint64_t next_ms = c->active_ms + quiet_ms;
    return next_ms < now_ms + idle_ms ? next_ms : now_ms + idle_ms;
}

static uint64_t tick_http1(struct connection *c, uint64_t now_ms)
{
    uint64_t deadline_ms = http1_session_deadline_ms(c->http1);
    if (connection_out_bytes(c) > 0) {
        deadline_ms = c->active_ms + EDGE_WRITE_STALL_MS;
    }
    if (now_ms >= deadline_ms) {
        connection_kill(c);
    }
    return deadline_ms == UINT64_MAX ? now_ms + EDGE_WRITE_STALL_MS : deadline_ms;
}

static void timer_fired(struct edge_timer *timer)
{
    struct connection *c =
        (struct connection *)(void *)((char *)timer - offsetof(struct connection, timer));
    if (c->is_dead) {
        return;
    }
    uint64_t now_ms = edge_server_now_ms(c->server);
    if (c->closes_when_flushed || c->phase == CONNECTION_HANDSHAKE ||
        c->phase == CONNECTION_PREFACE) {
        connection_kill(c);
        return;
    }
    uint64_t next_ms = c->http2 ? tick_http2(c, now_ms) : tick_http1(c, now_ms);
    if (!c->is_dead) {
        timer_set_add(&c->server->timers, timer, next_ms > now_ms ? next_ms : now_ms + 1);
    }
}

void connection_drain(struct connection *c, bool is_last, bool is_final)
{
    bool is_busy = c->call_count > 0 && !is_final;
    if (c->http2 && is_last && !is_busy && !c->is_goaway_sent) {
        c->is_goaway_sent = true;
        http2_session_end(c->http2);
    } else if (c->http2 && !is_last && !is_busy) {
        http2_session_announce_end(c->http2);
    } else if (c->http1) {
        http1_session_drain(c->http1);
    }
}
