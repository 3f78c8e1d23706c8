#ifndef AUTHORIZE_AUTHORIZE_H
#define AUTHORIZE_AUTHORIZE_H

#include "gateway/request.h"
#include "policy/base/status.h"
#include "policy/decide/decide.h"

/* May the actor do this? First the gates on session and user, in Octelium's order, then the
 * policies attached to User, Groups, Session, Credential and ClusterConfig. Fills r->decision in
 * any case.
 *
 * Returns 0 when it is allowed. PERMISSION_DENIED says what denied: "Denied by policy
 * 'deny-sandboxes' (rule #0), attached to ClusterConfig". A METHOD_REFRESH passes the gates only:
 * it gives no access that the next request would not be judged for. */
int authorize_request(struct request *r, struct error *err);

/* The gates alone, without any policy: whether session and user may do anything at all, and the
 * session's scopes cover the method. Reads the actor's session and user, method and started_at_ns;
 * ret->reason_type lives for ever. */
int authorize_gates(const struct request *r, struct decision *ret, struct error *err);

/* Would the set that is about to follow still allow the request that brings it? FAILED_PRECONDITION
 * when not: who changes the policies must be able to change them back. */
struct policy_snapshot;
int authorize_check_next(struct request *r, struct policy_snapshot *next, struct error *err);

/* The same decision once more, with each rule and expression reported to the functions; changes
 * nothing. `value` may be NULL. */
struct authorize_trace {
    void (*step)(void *arg, const struct policy_rule_step *step);
    void (*value)(void *arg, const struct policy_trace_step *step);
    void *arg;
};
void authorize_explain(struct request *r, const struct authorize_trace *trace, struct decision *ret,
                       struct error *err);

#endif
