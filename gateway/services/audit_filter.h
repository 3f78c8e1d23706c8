#ifndef SERVICES_AUDIT_FILTER_H
#define SERVICES_AUDIT_FILTER_H

#include "api/audit.pb-c.h"
#include "gateway/auditfile/index_filter.h"
#include "gateway/auditfile/line_index.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The filters of AuditService, and what the index makes of them. */

enum {
    AUDIT_FILTER_VALUES_MAX = 100,
    AUDIT_FILTER_EXCEPT_MAX = 10,
    AUDIT_FILTER_TEXT_MIN_BYTES = 3,
    AUDIT_FILTER_TEXT_MAX_BYTES = 200,
};

/* INVALID_ARGUMENT, naming the member. NULL is fine: every line. */
int audit_filter_check(const Ext__AuditFilter *filter, struct error *err);

/* Of a filter that was checked; lives in the arena and borrows the filter's text. Not before the
 * index has a snapshot. RESOURCE_EXHAUSTED. */
int audit_filter_compile(const Ext__AuditFilter *filter, const struct line_index *ix,
                         struct arena *arena, struct index_filter *ret, struct error *err);

#endif
