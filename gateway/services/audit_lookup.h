#ifndef SERVICES_AUDIT_LOOKUP_H
#define SERVICES_AUDIT_LOOKUP_H

#include "gateway/audit/audit_reader.h"
#include "gateway/request.h"
#include "policy/base/status.h"

/* Finds the decision with that metadata.id for a request that is answered when it is found: by the
 * index, off the loop, or, while there is none, among the newest lines.
 *
 * found() is called once from the loop, unless the request is over by then: with the line, in the
 * request's arena, or NULL and why (NOT_FOUND, or what the desk refuses). Perhaps before this
 * function returns. */
void audit_lookup_decision(struct request *r, const char *id,
                           void (*found)(struct request *r, const struct audit_line *line,
                                         const struct error *err));

#endif
