#ifndef CLI_AUDIT_FOLLOW_H
#define CLI_AUDIT_FOLLOW_H

#include "api/audit.pb-c.h"
#include "gateway/cli/audit_printer.h"
#include "gateway/cli/cli.h"

/* Prints lines of the audit log as they come, from a sequence on, until an interrupt (interrupt.h),
 * which is its good end. When the server goes away it is asked again, after 1 second and then
 * longer, from the line behind the last one that was seen: none is missed and none is shown twice.
 * What will not become better by waiting (PERMISSION_DENIED, INVALID_ARGUMENT ...) is an error. */
int audit_follow(struct cli *cli, Ext__AuditFilter *filter, uint64_t from_sequence,
                 int interrupt_fd, struct audit_printer *printer, struct error *err);

#endif
