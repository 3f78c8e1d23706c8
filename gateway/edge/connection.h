#ifndef EDGE_CONNECTION_H
#define EDGE_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "gateway/edge/byte_stream.h"
#include "gateway/edge/call_internal.h"
#include "gateway/edge/server_internal.h"
#include "gateway/edge/source_table.h"
#include "gateway/edge/timer_set.h"
#include "policy/base/bytes.h"

/* One accepted connection: socket, TLS, the choice of HTTP/2 or HTTP/1.1, the output queue.
 *
 * Two rules keep its memory sound. Events only queue output and mark the connection dirty;
 * the server flushes each dirty connection once per turn of the loop. And a connection that fails
 * is marked dead where that is found, and taken apart by the flush, when none of its functions is
 * on the stack. */

struct http2_session;
struct http1_session;

enum connection_phase {
    CONNECTION_HANDSHAKE, /* TLS is being set up */
    CONNECTION_PREFACE,   /* plaintext: HTTP/2 or HTTP/1.1, the first bytes tell */
    CONNECTION_HTTP2,
    CONNECTION_HTTP1,
};

struct connection {
    uv_poll_t poll;
    struct edge_server *server;
    struct edge_listener *listener; /* NULL once that is closed */
    struct connection *next;
    struct connection *prev;
    struct connection *dirty_next;
    bool is_dirty;
    bool is_dead;
    bool closes_when_flushed;
    bool reads_again; /* input waits that no poll will tell of */
    bool is_write_blocked;
    bool is_goaway_sent; /* the last one */
    int poll_events;
    enum connection_phase phase;
    struct byte_stream stream;
    struct http2_session *http2;
    struct http1_session *http1;
    const struct call_transport *transport;
    struct buf in;  /* the first bytes of a plaintext connection */
    struct buf out; /* from out_at: bytes for the socket; see connection_out() */
    size_t out_at;
    struct call *calls;
    unsigned call_count;
    unsigned attention_count; /* calls with needs_attention or is_over_high */
    size_t counted_bytes;     /* input buffered for its calls */
    uint64_t active_ms;       /* last input, or output that the socket took */
    uint64_t idle_since_ms;   /* the last call ended */
    uint64_t ping_sent_ms;    /* 0: none outstanding */
    struct edge_timer timer;
    struct source *source;
    struct call_origin origin;
};

/* Takes the socket in every case. */
void connection_open(struct edge_server *server, struct edge_listener *listener, int fd,
                     struct tls_context *tls, const struct call_origin *origin,
                     struct source *source);

/* Has it flushed at the end of this turn of the loop. */
void connection_mark_dirty(struct connection *c);
void connection_kill(struct connection *c);

/* For the server's end-of-turn pass. */
void connection_flush(struct connection *c);

/* Where output is queued. */
struct buf *connection_out(struct connection *c);
size_t connection_out_bytes(const struct connection *c);

/* Has the timer look at the connection no later than then. */
void connection_wake_by(struct connection *c, uint64_t at_ms);

/* GOAWAY with the highest number, or "connection: close"; then, by `is_last`, the real GOAWAY.
 * While calls run, HTTP/2 hears nothing before is_final: many clients (grpclib is one) take GOAWAY
 * as the end of all their calls. The last call's end sends it then. */
void connection_drain(struct connection *c, bool is_last, bool is_final);

#endif
