#ifndef EDGE_CALL_H
#define EDGE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* One RPC on the wire, whatever carries it: gRPC, gRPC-Web or Connect over HTTP/2, Connect
 * over HTTP/1.1, on TLS or on a unix socket. The edge owns the bytes, the request layer
 * (gateway/request.h) owns the meaning; this header is all they know of each other.
 *
 * Life: `begin` is called once the headers are there. `gone` is the last event: the call
 * was answered in full, was reset, its connection broke, or its deadline passed. After it the
 * pointer is dead. No event is delivered from inside a call_* function. */
struct call;

enum call_codec { CALL_CODEC_PROTO, CALL_CODEC_JSON };

/* What a method's streams are; the edge holds the client to it. */
enum call_kind {
    CALL_KIND_ANY, /* not known: the request layer judges */
    CALL_KIND_UNARY,
    CALL_KIND_CLIENT_STREAM,
    CALL_KIND_SERVER_STREAM,
    CALL_KIND_BIDI,
};

enum call_end {
    CALL_END_FINISHED,  /* the answer went out, trailers and all */
    CALL_END_CANCELLED, /* the client reset the stream or its connection broke */
    CALL_END_DEADLINE,  /* the client's own time limit passed; the edge has answered */
    CALL_END_WITHDRAWN, /* by call_withdraw() */
};

/* Where a connection was accepted. */
struct call_origin {
    /* The address for the audit log: "192.0.2.7:4711", or "unix:pid=…,uid=…". */
    char peer[96];
    /* The opaque pointer that the listener was made with: NULL for the public port, the
     * workspace's own object for a socket inside a sandbox. */
    void *listener_owner;
    bool is_tls;
};

/* A request that the edge answers by itself. Texts are borrowed until the function returns, and
 * empty where the request did not come that far. */
struct call_refusal {
    const struct call_origin *origin;
    struct str method;
    struct str path;
    struct str user_agent;
    const char *request_id; /* call_request_id(), or the like of a head that could not be read */
    const char *protocol;   /* as call_protocol() */
    int http_status;        /* of the answer; 0: the stream was reset */
    int status;             /* of the answer in an RPC protocol, one of enum status; else 0 */
    const char *reason;     /* "HEADERS_TOO_LARGE", "BAD_TIMEOUT" … for the audit log */
};

struct call_events {
    /* Headers are complete. Returns the state pointer for the later events, or NULL after
     * it has finished the call itself: then no event follows, not even `gone`. */
    void *(*begin)(void *owner, struct call *call);
    /* One whole message in call_codec(); borrowed until the function returns. A unary JSON call
     * without a body delivers an empty message. */
    void (*message)(void *state, struct str bytes);
    /* The client will send no more. */
    void (*half_close)(void *state);
    /* The queue fell under CALL_QUEUE_LOW_BYTES after call_send() reported a full one. */
    void (*writable)(void *state);
    void (*gone)(void *state, enum call_end end);
    /* Plain HTTP requests outside the RPC space (GET /metrics, POST /oauth2/token …): the whole
     * body has come; path is without the query. Answered with call_http_reply(), before it returns
     * or, after call_set_state(), later. Returns false for "404". */
    bool (*http)(void *owner, struct call *call, struct str method, struct str path,
                 struct str body);
    /* Optional. The RPC that a plain path stands for, in text that lives for ever; or the empty text. */
    struct str (*alias)(void *owner, struct str path);
    /* Optional. What the method at that path takes and gives: lets the edge refuse a second message
     * to a unary method, or a Connect content type of the wrong kind. */
    enum call_kind (*kind)(void *owner, struct str path);
    /* Optional. The edge refuses a request: no other event came or will come for it. */
    void (*refused)(void *owner, const struct call_refusal *refusal);
};

enum {
    CALL_QUEUE_HIGH_BYTES = 256 * 1024, /* a sender stops here: enough to fill a fast link */
    CALL_QUEUE_LOW_BYTES = 64 * 1024,
    CALL_MESSAGE_MAX_BYTES = 8 * 1024 * 1024, /* the limit of the original API */
    CALL_HTTP_BODY_MAX_BYTES = 1024 * 1024,   /* of a plain HTTP request */
};

/* "/octelium.api.main.cordium.v1.MainService/GetSpace" */
struct str call_path(const struct call *call);

/* What follows '?' in the request's target, undecoded; the empty text when there is none. */
struct str call_query(const struct call *call);
enum call_codec call_codec(const struct call *call);

/* First value of a request header (lower-case name), or the empty text. Lives as long as the call.
 */
struct str call_header(const struct call *call, const char *name);
const struct call_origin *call_origin(const struct call *call);

/* The request's id (request_id.h). The first who asks makes the answer's header tell it, so he asks
 * before the answer begins. Lives as long as the call. */
const char *call_request_id(struct call *call);

/* Monotonic time by which the client wants an answer; 0 when it did not say. */
uint64_t call_deadline_ns(const struct call *call);

/* "grpc", "grpc-web", "connect" … for the audit log. */
const char *call_protocol(const struct call *call);

/* True when the transport can carry several answers before the end (gRPC, Connect streams). */
bool call_can_stream(const struct call *call);

/* Queues one encoded message (copied). Returns true when the sender should stop until `writable`;
 * the message is queued in either case. */
bool call_send(struct call *call, struct str bytes);
size_t call_queued_bytes(const struct call *call);

/* A response header (before the first call_send) or trailer; name lower-case. Values outside
 * printable ASCII are percent-encoded; a name that ends in "-bin" takes raw bytes (sent as base64).
 */
void call_add_header(struct call *call, const char *name, struct str value);
void call_add_trailer(struct call *call, const char *name, struct str value);

/* Ends the call: status 0 or one of enum status with a text for the client. Exactly once; `gone`
 * follows later. */
void call_finish(struct call *call, int status, const char *message);

/* The same for a call that goes on, whatever its client does: `gone` follows before anything else
 * that comes in, and does not wait until the client has taken the answer, which has a moment to
 * leave. */
void call_withdraw(struct call *call, int status, const char *message);

/* The state pointer of a plain HTTP request that will be answered later: `gone` gets it, whether
 * the answer was made by then or not. */
void call_set_state(struct call *call, void *state);

/* Answers a plain HTTP request whole. */
void call_http_reply(struct call *call, int http_status, const char *content_type, struct str body);

/* Stops and starts delivery of messages; while stopped, flow control holds the client. */
void call_pause_reading(struct call *call);
void call_resume_reading(struct call *call);

#endif
