#ifndef SERVICES_LIMIT_OUTCOME_H
#define SERVICES_LIMIT_OUTCOME_H

#include "gateway/request.h"
#include "gateway/services/limits.h"

/* What the audit log keeps of the limits that a workspace was given: of each the number in force,
 * who set it, and what the workspace itself asks for, if it does. `sources` are those that `limit`
 * was made of. */
void limit_outcome_set(struct request *r, const struct limit_sources *sources,
                       const Cordium__Workspace__Spec__Limit *limit);

#endif
