#ifndef EDGE_SERVER_H
#define EDGE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gateway/edge/call.h"
#include "policy/base/status.h"

/* Every listener of the gateway, and the connections on them, on one libuv loop. */
struct edge_server;
struct uv_loop_s;

struct edge_limits {
    unsigned connections_max;            /* all listeners together */
    unsigned connections_per_source_max; /* one peer address */
    unsigned streams_per_connection_max;
    unsigned idle_timeout_ms; /* a connection without a call */
    unsigned handshake_timeout_ms;
    unsigned head_timeout_ms; /* HTTP/1.1 head and body, slow senders */
};

struct edge_limits edge_limits_default(void);

/* events and owner serve every call. Nothing is opened yet. SIGPIPE is ignored from here on:
 * OpenSSL writes to sockets without MSG_NOSIGNAL. */
int edge_server_new(struct uv_loop_s *loop, struct edge_limits limits,
                    const struct call_events *events, void *owner, struct edge_server **ret,
                    struct error *err);

/* Listens on host:port with TLS >= 1.2 and ALPN h2, http/1.1. Port 0 picks one. The certificate
 * chain and key are PEM files; *ret_port tells the port. */
int edge_server_listen_tls(struct edge_server *s, const char *host, uint16_t port,
                           const char *certificate_path, const char *key_path, uint16_t *ret_port,
                           struct error *err);

/* Listens on host:port in the clear: for what anybody on this machine may ask. */
int edge_server_listen_plain(struct edge_server *s, const char *host, uint16_t port,
                             struct error *err);

/* Serves plaintext h2 (prior knowledge) and HTTP/1.1 on a listening unix socket that somebody
 * else made; takes the fd. listener_owner goes to call_origin(). Returns a handle for
 * edge_server_close_listener(), which also drops the connections made through it: from then on
 * `gone` is the only event of their calls, delivered from the loop. The fd is closed when this
 * fails, too. */
struct edge_listener;
int edge_server_adopt_unix(struct edge_server *s, int listen_fd, void *listener_owner,
                           struct edge_listener **ret, struct error *err);
void edge_server_close_listener(struct edge_listener *listener);

/* Reads certificate and key again, for new connections. */
int edge_server_reload_tls(struct edge_server *s, struct error *err);

/* No new connections, and GOAWAY for those without calls; running calls end by themselves or after
 * grace_ms;
 * then done(owner) is called. */
void edge_server_drain(struct edge_server *s, unsigned grace_ms, void (*done)(void *owner));

/* True from edge_server_drain() on. */
bool edge_server_is_draining(const struct edge_server *s);

/* Drops every connection (their calls' `gone` comes from inside) and closes all handles; the memory
 * goes when the loop has run their close callbacks, so run it until it is empty. Not from inside an
 * event. NULL is fine. */
void edge_server_free(struct edge_server *s);

#endif
