#ifndef SERVICES_AUDIT_DESK_H
#define SERVICES_AUDIT_DESK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/line_index.h"
#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Where the audit log is read: its index, and threads of its own for the calls that ask, so that
 * neither the event loop nor whoever writes the log waits for a reader. */
struct audit_desk;

enum {
    AUDIT_DESK_THREADS = 3,
    AUDIT_TASKS_MAX = 64,         /* calls that are worked on or wait for it */
    AUDIT_TASKS_PER_USER_MAX = 4, /* of them: without watches */
    AUDIT_WATCHES_MAX = 64,
    AUDIT_WATCHES_PER_USER_MAX = 8,
    AUDIT_AWAIT_MS = 2000, /* for the lines that were there when the call came */
    AUDIT_TICK_MS = 500,
};

int audit_desk_new(struct gateway *g, struct audit_desk **ret, struct error *err);

/* No more calls; threads end. The loop must run after it, and then audit_desk_free() be called.
 * NULL is fine for both. */
void audit_desk_close(struct audit_desk *desk);
void audit_desk_free(struct audit_desk *desk);

struct line_index *audit_desk_index(struct audit_desk *desk);

/* Only one call at a time may. */
bool audit_desk_is_verifying(const struct audit_desk *desk);

/* One call that reads the log. It goes step by step: `step` on one of the threads, which reads
 * request->message and nothing else of the gateway; then `stepped` on the loop, which answers or
 * sends, and says with one of the functions below how it goes on, if not at all. */
struct audit_task {
    struct request *request;
    struct audit_desk *desk;
    struct arena arena; /* of the thread while a step runs; `stepped` may reset it */
    int (*step)(struct audit_task *task, struct error *err);
    void (*stepped)(struct audit_task *task);
    void (*tick)(struct audit_task *task);   /* every AUDIT_TICK_MS, on the loop; may be NULL */
    void (*cancel)(struct audit_task *task); /* beside is_cancelled; may be NULL */
    void (*end)(struct audit_task *task);    /* frees `state`; may be NULL */
    void *state;
    bool is_watch;
    bool is_verification;
    uint64_t log_sequence;         /* the newest durable line when the call came */
    atomic_bool is_cancelled;      /* nobody waits for it any more: a step may end early */
    const ProtobufCMessage *reply; /* of a unary step: what audit_task_reply() sends */
    uint64_t records; /* given so far; changed on the loop only. The call's own line in the log
                         has it, and the request message, as JSON */

    /* Internal. */
    struct audit_task *next; /* of all */
    struct audit_task *next_in_queue;
    enum { AUDIT_TASK_IDLE, AUDIT_TASK_QUEUED, AUDIT_TASK_DONE } place;
    bool waits_for_lines;
    bool waits_for_client;
    uint64_t progress; /* of the index, when the step was begun */
    int status;
    struct error err;
};

/* Begins a task for a request, zeroed but for what is known. NULL when the request was refused:
 * with RESOURCE_EXHAUSTED, when too many are there. */
struct audit_task *audit_task_new(struct request *r, bool is_watch, size_t arena_max_bytes);

/* Puts it into the queue for its next step. */
void audit_task_go_on(struct audit_task *task);

/* The same when the index has new lines, or when the client takes more. */
void audit_task_await_lines(struct audit_task *task);
void audit_task_await_client(struct audit_task *task);

/* `stepped` of a unary call. */
void audit_task_reply(struct audit_task *task);

/* Ends a stream. */
void audit_task_finish(struct audit_task *task);

#endif
