#ifndef GATEWAY_REQUEST_H
#define GATEWAY_REQUEST_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/audit/audit_open.h"
#include "gateway/edge/call.h"
#include "gateway/edge/request_id.h"
#include "gateway/open_calls.h"
#include "gateway/rpc/schema.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* One RPC from its headers to its audit line. The stages are the list at the top of
 * request.c; each returns next, wait or refuse:
 *
 *   route → authenticate → decode → resolve → authorize → record → handle
 *
 * The object that was authorized is the object that is executed: one decode, no second parse. */

struct gateway;
struct request;

/* Who asks. Filled by identity/authenticate; messages live in the request's arena. */
struct actor {
    const Core__User *user;
    const Core__Session *session;
    const Core__Credential
        *credential; /* NULL unless the session came from one that still exists */
    const Core__Group *const *groups;
    size_t group_count;
    bool is_workspace; /* came through a workspace's own socket, whatever it says */
};

/* What a request touches, found before the decision by the method's resolver. NULL where not
 * applicable. */
struct touched {
    Cordium__Space *space;
    Cordium__Template *template_;
    Cordium__Workspace *workspace;
    Cordium__Membership *membership; /* the actor's own, in `space` */
    const ProtobufCMessage *target;  /* the named resource itself, for the audit line's targetRef */
};

/* A limit that a program would run under, and who chose it: "CALLER", "TEMPLATE" … */
struct run_limit {
    const char *name;
    uint64_t value;
    const char *set_by;
};

/* What an exec or Run asks for: `ctx.run` of the policy and the audit record. */
struct run_request {
    struct str command;
    uint8_t command_sha256[32];
    const char *working_dir;
    bool as_root;
    bool has_stdin;
    bool is_terminal;
    const char *const *env_names;
    size_t env_name_count;
    const Cordium__Workspace__Spec__Limit *limit; /* NULL: those of the workspace */
    const struct run_limit *limits;               /* all of a Run; none of an exec */
    size_t limit_count;
};

/* How a request ended in the policy engine; authorize/ fills it. */
struct decision {
    bool is_allowed;
    const char
        *reason_type; /* POLICY_MATCH, NO_POLICY_MATCH, SESSION_EXPIRED, EVALUATION_ERROR … */
    const char *policy_name; /* NULL unless a rule decided */
    const char *policy_uid;
    const char *policy_resource_version;
    const char *attached_to; /* "User alice", "ClusterConfig" … */
    const char *rule_name;   /* the rule's own name, or "#3" */
    int priority;
    bool is_inline;
    uint64_t set_version;
    const char *detail; /* for errors: the engine's text */
    int error_code;     /* enum policy_error, for errors */
};

/* Of a request of the past, all that is known beside its objects: what the audit log keeps. */
struct request_past {
    struct str peer; /* "192.0.2.7:4711" */
};

enum method_access {
    METHOD_PUBLIC,  /* no session: log-in, health, reflection */
    METHOD_SESSION, /* any live session that policy allows */
    METHOD_REFRESH, /* the refresh token is the credential */
};

/* Where a call came from, as its audit lines tell. */
struct request_origin {
    struct str peer;
    struct str protocol;
    struct str user_agent;
};

/* How much of the audit log's attention a method takes. */
enum method_audit { METHOD_AUDIT_READ, METHOD_AUDIT_WRITE, METHOD_AUDIT_STREAM };

/* One line of gateway/rpc/methods.def. */
struct method {
    unsigned index;                     /* its place among all, by path: method_at(index) */
    const struct schema_method *schema; /* path, message descriptors, streaming kind */
    enum method_access access;
    enum method_audit audit;
    /* Finds what the request touches; NULL when nothing. A failure refuses the request with that
     * error, but only after the decision: what a caller may not see does not exist for it. */
    int (*resolve)(struct request *r, struct error *err);
    /* Answers, now or later. */
    void (*handle)(struct request *r);
};

/* Every method that the gateway serves; NULL for another path. */
const struct method *method_find(struct str path);

/* All of them, in the order of paths; NULL past the last. */
unsigned method_count(void);
const struct method *method_at(unsigned index);

struct request {
    struct gateway *gateway;
    struct call *call;
    const struct method *method;
    struct arena arena;
    char id[REQUEST_ID_SIZE]; /* the call's, which may be gone before the last line is written */
    uint64_t started_ns;      /* monotonic */
    int64_t started_at_ns;    /* wall clock, for records and for the policy's now() */
    struct actor actor;
    const ProtobufCMessage *message; /* the decoded first message */
    struct touched touched;
    struct run_request *run;         /* NULL unless the method starts a program */
    const struct request_past *past; /* NULL for a live one. Else there is no call and no message,
                                        and a rule that reads them, or run's command, fails */
    struct decision decision;

    /* A streaming handler's own: set in `handle`. */
    void *state;
    void (*on_message)(struct request *r, const ProtobufCMessage *message); /* second message on */
    void (*on_half_close)(struct request *r);
    void (*on_writable)(struct request *r);
    /* The call ended without its answer, or was withdrawn, and what it began goes on for a while.
     * True: the end record waits, and the request with it, until request_end_late(), which may
     * come from within. */
    bool (*on_cancel)(struct request *r);
    /* The request is over for whatever reason; frees `state`. Runs after the audit end record. */
    void (*on_gone)(struct request *r);

    struct open_call open; /* of open_calls.h */

    /* Internal to request.c. */
    unsigned stage;
    unsigned holds;
    struct str incoming;         /* the message being delivered, until the event returns */
    struct arena message_arena;  /* second message on: each dies when on_message returns */
    const struct error *refusal; /* why a stage refused, or resolve failed */
    bool is_routed;              /* false: no such method, r->method is NULL */
    bool is_half_closed;
    bool is_recorded; /* the decision line is in the audit log */
    bool is_handled;  /* `handle` was called */
    bool is_answered;
    bool is_gone;
    enum call_end end;         /* when it is gone */
    const char *withdrawn_for; /* see request_withdraw() */
    /* Of a call that is gone while its end record is due. */
    const struct request_origin *origin;
    struct str outcome_facts; /* JSON object for the end record, see request_set_outcome() */
    int end_status;
    uint64_t bytes_in, bytes_out; /* of messages, decompressed */
    bool is_rpc;               /* counted as one: not a plain HTTP request that is answered later */
    struct audit_open unended; /* from the decision line to the end record */
    struct request_trace *trace; /* NULL unless debug.trace is set */
};

/* Allocates in the request's arena. A request whose arena is full is refused with
 * RESOURCE_EXHAUSTED; a NULL here must be answered by request_fail_memory(). */
void request_fail_memory(struct request *r);

/* The end of a unary call: encodes and sends, status OK. `message` may live in the arena. */
void request_reply(struct request *r, const ProtobufCMessage *message);

/* An empty answer of the method's own response type. */
void request_reply_empty(struct request *r);

/* One message of a stream. True when the sender should wait for on_writable. */
bool request_send(struct request *r, const ProtobufCMessage *message);

/* The end of a stream, OK. */
void request_finish(struct request *r);

/* Ends the call with an error; err->status and err->text go to the client. The text of
 * STATUS_INTERNAL stays in the log; the client reads "Internal error (request ID)". */
void request_fail(struct request *r, const struct error *err);
void request_fail_with(struct request *r, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes a call back that goes on, as if its client had gone away; for the client it ends with the
 * error. `reason`, which lives for ever, is for the audit log. */
void request_withdraw(struct request *r, const char *reason, const struct error *err);

/* For a plain HTTP call that is answered later, with call_http_reply(r->call, …) unless
 * request_is_over(r): no stage runs, and the call's end frees it as it does every request. NULL
 * when there is no memory; then nothing happened. */
struct request *request_begin_http(struct gateway *g, struct call *call);

/* Keeps the request alive across an asynchronous wait (executor, fsync). The one who waits checks
 * request_is_over() when called back and then lets go; the last one frees. */
void request_hold(struct request *r);
void request_release(struct request *r);
bool request_is_over(const struct request *r);

/* What a call began that was cancelled has ended: the record that its on_cancel held back. The
 * request may be gone afterwards. */
void request_end_late(struct request *r);

/* Facts of what was done, for the audit record at the end: a JSON object, copied. */
void request_set_outcome(struct request *r, struct str json);

/* The events that the edge delivers; owner is the struct gateway. */
extern const struct call_events request_events;

#endif
