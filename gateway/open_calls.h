#ifndef GATEWAY_OPEN_CALLS_H
#define GATEWAY_OPEN_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

/* The one place where calls that are open for long are judged again. Twice a second:
 *
 *   - all of them: does the session still live, and may session and user still do anything? Asked
 *     only when a session or user changed in the store, or the session's time is up; once for all
 *     calls of a session.
 *   - those that asked for it: would policies still allow the request, if it came now?
 *
 * One that fails is withdrawn, request_withdraw(): its client reads why, what it began ends as when
 * a client goes away, and its last line in the audit log has the reason: USER_GONE, SESSION_GONE,
 * SESSION_EXPIRED, a gate's (USER_DEACTIVATED …), a decision's, or NOT_ALLOWED. When it cannot be
 * known whether the session lives (the store fails), calls go on and are asked about again. */
struct gateway;
struct request;
struct open_calls;
struct open_session;

/* A call's place; in struct request. */
struct open_call {
    uint64_t changes; /* open_calls_changes() before its session was looked up */

    /* Internal. */
    struct open_session *session; /* NULL: not among them */
    struct open_call *next;
    struct open_call *prev;
    bool judges_policies;
};

enum { OPEN_CALLS_TICK_MS = 500 };

int open_calls_new(struct gateway *g, struct open_calls **ret, struct error *err);

/* Without any call in it. The loop must run after it. NULL is fine. */
void open_calls_free(struct open_calls *oc);

/* Grows with each change after which a session may have ended. */
uint64_t open_calls_changes(const struct gateway *g);

/* A call that is authenticated and about to be handled. RESOURCE_EXHAUSTED: no memory. */
int open_calls_add(struct request *r, struct error *err);

/* The call's policies, and what its method resolves, are judged again, too. Adds it if needed. */
int open_calls_judge_policies(struct request *r, struct error *err);

/* The call is over. One that is not there is fine. */
void open_calls_remove(struct request *r);

#endif
