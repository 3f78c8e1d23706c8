#ifndef EDGE_SERVER_INTERNAL_H
#define EDGE_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "gateway/edge/server.h"
#include "gateway/edge/source_table.h"
#include "gateway/edge/timer_set.h"
#include "gateway/edge/tls_stream.h"
#include "policy/base/bytes.h"

struct connection;
struct http2_shared;

enum {
    EDGE_READ_BYTES = 65536,
    /* Input that waits for the rest of its message: per connection, and together. */
    EDGE_CONNECTION_BUFFERED_BYTES_MAX = 32 * 1024 * 1024,
    EDGE_BUFFERED_BYTES_MAX = 512 * 1024 * 1024,
    EDGE_DRAIN_NOTICE_MS = 200, /* between the two GOAWAYs: calls on their way arrive */
    EDGE_DRAIN_FINAL_MS = 300,  /* before the end, those that still have calls hear GOAWAY too */
    EDGE_PING_AFTER_MS = 120000,
    EDGE_PING_TIMEOUT_MS = 20000,
    EDGE_WRITE_STALL_MS = 60000, /* HTTP/1.1: the client takes nothing of its answer */
    EDGE_ACCEPT_PAUSE_MS = 100,  /* after the process ran out of descriptors */
};

struct edge_server {
    uv_loop_t *loop;
    uv_prepare_t prepare; /* the flush, once per turn */
    uv_idle_t idle;       /* keeps the loop from sleeping while there is work left */
    uv_timer_t alarm;
    uint64_t alarm_at_ms;
    bool is_idle_on;
    unsigned handle_count; /* open libuv handles; the memory goes with the last */
    bool is_freed;

    struct edge_limits limits;
    const struct call_events *events;
    void *owner;
    struct timer_set timers;
    struct source_table *sources;
    struct http2_shared *http2;
    struct edge_listener *listeners;
    struct connection *connections;
    unsigned connection_count;
    struct connection *dirty;
    size_t counted_bytes;
    struct call *spare_calls; /* linked by next */
    unsigned spare_call_count;
    struct buf spare_out; /* one output buffer, lent to the connection being flushed */
    uint8_t *read_buffer; /* EDGE_READ_BYTES */

    bool is_draining;
    bool is_drain_told;
    struct edge_timer drain_timer;
    uint64_t drain_ends_ms;
    bool is_last_goaway_sent;
    void (*drained)(void *owner);
};

uint64_t edge_server_now_ms(const struct edge_server *s);

/* An opened handle, and its close callback's counterpart. */
void edge_server_handle_closed(struct edge_server *s);

struct edge_listener {
    uv_poll_t poll;
    struct edge_server *server;
    struct edge_listener *next;
    struct edge_listener *prev;
    int fd;
    struct tls_context *tls; /* NULL: plaintext */
    char *certificate_path;
    char *key_path;
    void *owner;
    bool is_unix;
    struct edge_timer resume;
};

/* Takes the fd in every case. */
int edge_listener_open(struct edge_server *s, int fd, bool is_unix, void *owner,
                       struct edge_listener **ret, struct error *err);

/* Stops accepting, for good; connections are left alone and the handle stays valid. */
void edge_listener_stop(struct edge_listener *l);

/* The same, and the handle dies. */
void edge_listener_close(struct edge_listener *l);

#endif
