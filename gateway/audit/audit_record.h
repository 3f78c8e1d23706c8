#ifndef AUDIT_AUDIT_RECORD_H
#define AUDIT_AUDIT_RECORD_H

#include "gateway/edge/call.h"
#include "gateway/request.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* What the audit log says: one JSON object on one line, in the shape of Octelium's AccessLog
 * (metadata, entry.common, entry.info) with what a sandbox gateway adds under "cordium".
 *
 * All text from outside passes through one function here, which escapes control characters, bounds
 * the length and masks whatever looks like one of our tokens. Never in a record: message bodies,
 * tokens, values of environment variables, the text of commands (but with audit.commandText), what
 * a program reads or writes, and the text of errors that may quote a request. */

/* The line before the effect. refusal is NULL, or why a stage refused: no such method, no session,
 * a malformed message, a denial; or, with an allowed decision, why there is nothing to do (the
 * named resource does not exist). */
void audit_record_decision(const struct request *r, const struct error *refusal, struct buf *out);

/* The line after a write or a stream: how it ended, how long it took, what was done. */
void audit_record_end(const struct request *r, enum call_end end, struct buf *out);

/* The same for a request that the gateway's death ended: told by the next one from the line of its
 * decision. False when that cannot be read, or without memory. */
bool audit_record_lost(struct str decision, int64_t wall_ns, struct buf *out);

#endif
