#ifndef AUDIT_AUDIT_UNENDED_H
#define AUDIT_AUDIT_UNENDED_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

struct audit_log;

/* What a gateway that was killed left without an end in the audit log, so that the next one tells
 * it: of requests, by their decisions; of workspaces, builds and Runs the store knows that they
 * were open, and the log whether their end was told already, by a start that was killed itself. */
struct audit_unended;

/* Reads the log from audit_log_open_since() of the gateway before on. What cannot be read is warned
 * of and left out: an end that may be told already is not told again. */
int audit_unended_read(const char *dir, uint64_t since, struct audit_unended **ret,
                       struct error *err);
void audit_unended_free(struct audit_unended *u); /* NULL is fine */

/* Is there such a line of it, not older than that? NULL: false. */
bool audit_unended_has_workspace_end(const struct audit_unended *u, const char *workspace_uid,
                                     int64_t since_ns);
bool audit_unended_has_run_end(const struct audit_unended *u, const char *run_id);

/* Appends an end for each request that has none: LOST, since nobody knows how far it came. */
int audit_unended_tell_requests(const struct audit_unended *u, struct audit_log *log,
                                int64_t wall_ns, struct error *err);

#endif
