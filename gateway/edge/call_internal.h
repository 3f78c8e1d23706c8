#ifndef EDGE_CALL_INTERNAL_H
#define EDGE_CALL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/edge/call.h"
#include "gateway/edge/request_id.h"
#include "gateway/edge/timer_set.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"

/* The inside of a call, for the files of the edge. Three parts meet here: the session
 * (http2_session, http1_session) brings bytes and takes the answer, the protocol (grpc_call,
 * connect_call) knows the form, and call.c holds the life and delivers the events. */

struct connection;
struct edge_server;

enum {
    CALL_REQUEST_HEADERS_MAX = 64,
    CALL_REQUEST_HEADER_BYTES_MAX = 16384,
    CALL_ANSWER_HEADERS_MAX = 32, /* of the request layer, and as many trailers */
    CALL_WIRE_HEADERS_MAX = 2 * CALL_ANSWER_HEADERS_MAX + 8,
    CALL_ARENA_BYTES_MAX = 256 * 1024,
    CALL_FIRST_BLOCK_BYTES = 1536,
    CALL_SPARES_MAX =
        256, /* freed calls kept for the next ones: they are too large for malloc's cache */
    CALL_OUT_BYTES_MAX = 64 * 1024 * 1024, /* a handler that never stops loses the call */
    CALL_KEPT_OUT_BYTES = 64 * 1024,       /* an empty output buffer larger than this is freed */
    CALL_LINGER_MS = 5000,                 /* for the answer of a call that we end to leave */
};

struct header {
    struct str name;
    struct str value;
};

struct header_list {
    struct header *items;
    size_t count;
    size_t room;
};

/* How an answer leaves. Each may be called from a handler at any time in a call's life, and only
 * queues. */
struct call_transport {
    const char *name; /* "h2", "http/1.1" */
    /* body_bytes: -1 for a stream of unknown length, 0 for an answer that ends with its head. */
    void (*send_head)(struct call *call, int status, const struct header *headers, size_t count,
                      int64_t body_bytes);
    /* Two pieces that belong together; either may be empty. */
    void (*send_data)(struct call *call, struct str first, struct str second);
    /* After call->wire_trailers was set. */
    void (*send_end)(struct call *call);
    void (*reset)(struct call *call);
    /* The call took n bytes of what came in: the client may send more. */
    void (*consumed)(struct call *call, size_t n);
};

/* The form of a call on the wire. */
struct call_protocol {
    const char *name;             /* for the audit log */
    const char *content_types[2]; /* by enum call_codec */
    const char *request_encoding; /* header names */
    const char *accept_encoding;
    const char *timeout;
    bool (*parse_timeout)(struct str s, uint64_t *ret_ns);
    bool is_enveloped;
    bool needs_http2;
    uint8_t flags_known; /* in an envelope's head */
    void (*send)(struct call *call, uint8_t flags, struct str payload);
    void (*finish)(struct call *call, int status, struct str message);
};

extern const struct call_protocol grpc_protocol;
extern const struct call_protocol grpc_web_protocol;
extern const struct call_protocol connect_unary_protocol;
extern const struct call_protocol connect_stream_protocol;

struct call {
    struct connection *connection;
    struct call *next;
    struct call *prev;
    const struct call_protocol *protocol; /* NULL: plain HTTP */
    enum call_codec codec;
    enum call_kind kind;
    void *state;
    int32_t stream_id;
    struct arena arena;

    struct str method;
    struct str path;
    struct str query;
    struct header_list request_headers;
    size_t request_header_bytes;
    bool headers_too_large;

    char request_id[REQUEST_ID_SIZE]; /* "" until it is asked for */
    struct header_list headers;
    struct header_list trailers;
    const struct header *wire_trailers; /* as they go out, once finished */
    size_t wire_trailer_count;

    bool was_refused;    /* `refused` was called */
    bool was_offered;    /* `begin` was called, or the request is plain HTTP and awaits its body */
    bool is_finished;    /* the answer is decided; nothing more is delivered but `gone` */
    bool is_withdrawn;   /* call_withdraw() was called */
    bool is_gone;        /* `gone` was delivered */
    bool has_head;       /* the answer's head was queued */
    bool has_end;        /* the answer's end was queued */
    bool is_sent;        /* the answer's end left (HTTP/2) */
    bool input_ended;    /* the client half-closed */
    bool body_delivered; /* of a protocol without envelopes */
    bool end_delivered;
    bool is_paused;
    bool is_over_high;
    bool needs_attention; /* has work for the next flush */
    bool is_deferred;     /* HTTP/2: the library waits for data */
    bool gzip_request;
    bool gzip_answer;
    bool is_head_method;
    unsigned messages_in;
    unsigned messages_out;

    struct buf in; /* from in_at: bytes not yet delivered */
    size_t held_bytes;
    size_t counted_bytes; /* what the connection and the server count for `in` */
    struct buf out;
    size_t out_at;
    struct buf unary; /* Connect: the one answer, until it is finished */

    uint64_t deadline_ns;
    struct edge_timer deadline;

    /* The arena's first block: an ordinary head fits. */
    _Alignas(16) char first_block[CALL_FIRST_BLOCK_BYTES];
};

/* For the server's end. */
void call_free_spares(struct edge_server *server);

/* For the sessions. */
struct call *call_new(struct connection *connection, int32_t stream_id);

/* name may hold capitals. Over the limits the header is dropped and the request later refused. */
void call_take_header(struct call *call, struct str name, struct str value);
void call_take_method(struct call *call, struct str method);
void call_take_target(struct call *call, struct str target);

/* The head is complete. */
void call_begin(struct call *call);
void call_input(struct call *call, struct str bytes);
void call_input_end(struct call *call);

/* Does what was put off until no handler is on the stack: paused input, `writable`. */
void call_attend(struct call *call);

/* Delivers `gone`, unless that was done, and frees. */
void call_close(struct call *call, enum call_end end);

/* For the protocols and the sessions. */
void call_finish_format(struct call *call, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct str call_text(struct call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Delivers `refused`, once, unless the call was offered to the request layer. */
void call_tell_refused(struct call *call, int http_status, int status, const char *reason);

/* NULL when absent. */
const struct header *call_find_header(const struct call *call, const char *name);

/* Appends the protocol's own and the request layer's headers; wire has CALL_WIRE_HEADERS_MAX
 * places. */
void wire_add(struct header *wire, size_t *count, const char *name, struct str value);
void wire_add_list(struct header *wire, size_t *count, const struct header_list *list);

/* A copy that lives as long as the call becomes its trailers. */
void call_set_wire_trailers(struct call *call, const struct header *wire, size_t count);

/* Answers without a body by a plain HTTP status, before or outside a protocol. */
void call_refuse_http(struct call *call, int http_status, const char *name, const char *value);

/* {"code":"not_found","message":"…"} of the Connect protocol, and the HTTP status for the code. */
void connect_error_json(struct buf *out, int status, struct str message);
int connect_http_status(int status);

#endif
