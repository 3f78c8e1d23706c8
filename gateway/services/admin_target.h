#ifndef SERVICES_ADMIN_TARGET_H
#define SERVICES_ADMIN_TARGET_H

#include "gateway/request.h"
#include "gateway/state/store.h"
#include "policy/base/status.h"

/* What an administrator's Get, Delete or Update is about, into r->touched.target; for resolvers.
 * PERMISSION_DENIED for others, before anything is looked up; else the errors of resource_find().
 */
int admin_target_find(struct request *r, enum store_kind kind, const char *uid, const char *name,
                      struct error *err);

/* As the Get or Delete options in r->message name it. */
int admin_target_by_options(struct request *r, enum store_kind kind, struct error *err);

/* As the metadata of the resource in r->message names it. */
int admin_target_by_metadata(struct request *r, enum store_kind kind, struct error *err);

#endif
