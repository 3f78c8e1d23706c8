#ifndef SERVICES_WORK_QUEUE_H
#define SERVICES_WORK_QUEUE_H

#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Answers that take longer than the event loop may be kept: each is worked out on another thread,
 * one at a time, in the order in which they came. So they take one processor at most, and leave the
 * other threads to the audit log. */
struct work_queue;

enum { WORK_QUEUE_MAX = 32 }; /* that wait; more are refused */

struct work {
    struct request *request; /* unchanged while it waits and runs, and its arena is not touched */
    struct arena arena;      /* of the work alone: what `run` needs, and the answer */
    /* On another thread: reads request->message and nothing else of the gateway. Gives the reply,
     * or a negative status and *err. */
    int (*run)(struct work *work, const ProtobufCMessage **ret, struct error *err);
    /* On the loop, when the work is over or was not begun; may be NULL. */
    void (*end)(struct work *work);
    void *state; /* of both */
    /* Internal. */
    struct work *next;
    const ProtobufCMessage *reply;
    struct error err;
    int status;
};

int work_queue_new(struct gateway *g, struct work_queue **ret, struct error *err);

/* After the loop has ended; nothing may wait any more: requests that are over are not begun. NULL
 * is fine. */
void work_queue_free(struct work_queue *queue);

/* A piece of work for a request, zeroed, with an arena of arena_max_bytes. NULL when there is no
 * memory. */
struct work *work_new(struct request *r, size_t arena_max_bytes);

/* Gives it back unused; the caller answers the request. NULL is fine. */
void work_cancel(struct work *work);

/* Takes it over; the request is answered when it is done, with RESOURCE_EXHAUSTED when too many
 * wait. */
void work_queue_add(struct work_queue *queue, struct work *work);

#endif
