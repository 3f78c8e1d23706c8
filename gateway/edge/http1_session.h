#ifndef EDGE_HTTP1_SESSION_H
#define EDGE_HTTP1_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/edge/call_internal.h"
#include "policy/base/str.h"

/* HTTP/1.1 on one connection: one request at a time, in order; a pipelined one waits. */
struct http1_session;

struct http1_session *http1_session_new(struct connection *connection);
void http1_session_free(struct http1_session *s);

/* Queues input and works on it. */
void http1_session_input(struct http1_session *s, struct str bytes);

/* Goes on where input waited: after a handler answered or resumed. */
void http1_session_run(struct http1_session *s);

/* False while input waits for the present call: then the client is to be held back. */
bool http1_session_wants_input(const struct http1_session *s);

/* By when the client must have moved on; UINT64_MAX while the next move is ours. */
uint64_t http1_session_deadline_ms(const struct http1_session *s);

/* No further request: closes now when there is none, else with the answer. */
void http1_session_drain(struct http1_session *s);

extern const struct call_transport http1_transport;

#endif
