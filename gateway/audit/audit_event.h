#ifndef AUDIT_AUDIT_EVENT_H
#define AUDIT_AUDIT_EVENT_H

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/edge/call.h"
#include "policy/base/bytes.h"

struct gateway;

/* Records of what is no RPC: plain HTTP requests, what the edge refuses by itself, and what happens
 * without anybody asking. */

/* A plain HTTP request that acts or decides, such as POST /oauth2/token. What it does (opens a
 * session) may be done only after the line of its decision is durable; a second line tells how it
 * ended. Members may be NULL, except path and reason_type. */
struct audit_http {
    bool is_end;            /* the second line */
    int64_t started_at_ns;  /* wall clock, when the request came; 0: now */
    uint64_t duration_ns;   /* of an end */
    const char *code;       /* of an end: name of a status */
    struct str outcome;     /* of an end: see audit_put_outcome() */
    const char *request_id; /* what the answer's x-request-id says */
    const char *method;     /* "POST" */
    const char *path;
    bool is_allowed;
    const char *reason_type; /* "LOGIN", "UNAUTHENTICATED", "MALFORMED" … */
    int http_status;         /* 0: not known yet */
    const Core__User *user;
    const Core__Session *session;
    const Core__Credential *credential;
};
void audit_record_http(const struct gateway *g, const struct call *call,
                       const struct audit_http *facts, struct buf *out);

/* A request that the edge refused by itself, before it meant anything: a wrong HTTP method or
 * content type, headers that are too large, a head that cannot be read … */
void audit_record_refused(const struct gateway *g, const struct call_refusal *refusal,
                          struct buf *out);

/* What happens to a daemon. Members but the first two may be NULL. */
struct audit_daemon {
    const char *daemon; /* "gateway", "executor" */
    const char *event;  /* "START", "STOP"; of the executor, as the gateway sees it: "CONNECTED",
                           "DISCONNECTED"; "AUDIT_ERASE": one person's records are erased */
    const char *version;
    const char *config_sha256; /* of its configuration file */
    const char *detail;
};
void audit_record_daemon(const struct audit_daemon *facts, int64_t wall_ns, struct buf *out);

/* The end of a Run whose request is over already: its client went away, or cancelled it. Members
 * but the outcome may be NULL. */
struct audit_run_end {
    const Meta__ObjectReference *owner; /* the user */
    const Cordium__Space *space;
    const Cordium__Template *template_;
    struct str outcome; /* a JSON object on one line (oneshot_write_facts()) */
};
void audit_record_run(const struct audit_run_end *facts, int64_t wall_ns, struct buf *out);

/* What network rules refused to a sandbox. Members may be NULL, except denied: all of them for the
 * sandbox of an image's build. */
struct audit_network {
    const struct executor_network_denied *denied;
    const char *run_id; /* of a Run; it has no workspace */
    const Cordium__Workspace *workspace;
    const Meta__ObjectReference *owner; /* the user */
    const Cordium__Space *space;
    const Cordium__Template *template_;
};
void audit_record_network(const struct audit_network *facts, int64_t wall_ns, struct buf *out);

/* Something that keeps programs in. */
struct audit_layer {
    const char *name;
    const char *detail;
    const char *set_by; /* "TEMPLATE", "DEFAULT", "HOST" … */
};

/* What becomes of a workspace, or of a Template's build, after the request which began it was
 * answered: it runs, with these layers; a command stopped it, nobody used it, its memory was used
 * up, its image could not be made … Members may be NULL, except event and workspace. */
struct audit_workspace {
    const char *event; /* "WORKSPACE_RUNNING", "WORKSPACE_END", "BUILD_END" */
    const Cordium__Workspace *workspace;
    const Cordium__Space *space;
    const Cordium__Template *template_;
    const char *build_id;
    const char *reason; /* "API", "CLUSTER", "ERROR", "DELETED"; of a build "READY", "FAILED" */
    const Cordium__Workspace__Status__Failure *failure;
    const char *image; /* digest of the file system that it runs on */
    const struct audit_layer *layers;
    size_t layer_count;
};
void audit_record_workspace(const struct audit_workspace *facts, int64_t wall_ns, struct buf *out);

#endif
