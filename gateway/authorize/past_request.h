#ifndef AUTHORIZE_PAST_REQUEST_H
#define AUTHORIZE_PAST_REQUEST_H

#include "api/ext.pb-c.h"
#include "gateway/audit/audit_reader.h"
#include "gateway/gateway.h"
#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Requests that are not there: of the audit log, or only thought of. They are decided like others
 * and have no effect. */

/* A request as its line tells, with user, session and objects as they are now. *r is filled and its
 * arena made; free it with past_request_free(). `line` must live as long. NOT_FOUND: the session,
 * the method or an object is gone. */
int past_request_make(struct gateway *g, const struct audit_line *line, struct request *r,
                      struct error *err);
void past_request_free(struct request *r);

/* Does the decision depend on what the line does not keep? */
bool past_request_is_undecidable(const struct decision *d);

/* Decisions of the last lines of the audit log, made again: with the policies in force, and then,
 * after these were exchanged, once more. */
struct replay;
int replay_begin(struct gateway *g, size_t line_count, struct arena *arena, struct replay **ret,
                 struct error *err);

/* `next` is the set that is planned; it is put in force for the time of the call only. */
struct policy_snapshot;
int replay_finish(struct replay *replay, struct policy_snapshot *next, Ext__Replay **ret,
                  struct error *err);

#endif
