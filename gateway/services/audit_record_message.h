#ifndef SERVICES_AUDIT_RECORD_MESSAGE_H
#define SERVICES_AUDIT_RECORD_MESSAGE_H

#include "api/audit.pb-c.h"
#include "gateway/auditfile/line_fields.h"
#include "policy/base/arena.h"

/* A line of the log as AuditService gives it. NULL without memory. */
Ext__AuditRecord *audit_record_message(uint64_t sequence, struct str line,
                                       const struct line_fields *fields, bool without_line,
                                       struct arena *arena);

#endif
