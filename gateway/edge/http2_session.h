#ifndef EDGE_HTTP2_SESSION_H
#define EDGE_HTTP2_SESSION_H

#include <stdbool.h>

#include "gateway/edge/call_internal.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* HTTP/2 on one connection. The one place that uses nghttp2.
 *
 * The library parses frames and keeps the protocol's state; the session adds what it leaves to the
 * caller: the windows open only as calls take their input, and a peer that makes work without
 * bound is let go. */
struct http2_session;

/* Settings that all sessions share. */
struct http2_shared;
struct http2_shared *http2_shared_new(void);
void http2_shared_free(struct http2_shared *shared);

struct http2_session *http2_session_new(struct http2_shared *shared, struct connection *connection,
                                        unsigned streams_max);
void http2_session_free(struct http2_session *s);

/* False: the connection cannot go on. */
bool http2_session_input(struct http2_session *s, struct str bytes);

/* Appends frames until out holds about want_bytes or there is nothing to send. False as above. */
bool http2_session_fill(struct http2_session *s, struct buf *out, size_t want_bytes);

/* Both sides are done: close when the output has left. */
bool http2_session_is_over(const struct http2_session *s);

void http2_session_ping(struct http2_session *s);

/* GOAWAY that promises nothing yet, and the one that names the last call. */
void http2_session_announce_end(struct http2_session *s);
void http2_session_end(struct http2_session *s);

extern const struct call_transport http2_transport;

#endif
