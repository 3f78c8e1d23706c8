#ifndef SERVICES_CHANGE_OUTCOME_H
#define SERVICES_CHANGE_OUTCOME_H

#include "gateway/request.h"

/* What the audit log keeps of a change to who may do what: the set of policies that is in force
 * now, and a unified diff of the resources, cut at CHANGE_DIFF_MAX_BYTES. */
enum { CHANGE_DIFF_MAX_BYTES = 32 << 10 };

void change_outcome_set(struct request *r, struct str diff);

/* The same for one resource; `before` or `after` may be NULL. */
void change_outcome_set_resource(struct request *r, const ProtobufCMessage *before,
                                 const ProtobufCMessage *after);

#endif
