#ifndef SERVICES_AUDIT_SERVICE_H
#define SERVICES_AUDIT_SERVICE_H

#include "api/audit.pb-c.h"
#include "gateway/auditfile/index_scan.h"
#include "gateway/auditfile/log_query.h"
#include "gateway/request.h"
#include "gateway/services/audit_desk.h"

/* cordium.ext.v1.AuditService: the log, read by those who review it. */

/* PERMISSION_DENIED unless the actor is an administrator, or in the Group of audit.readersGroup,
 * and speaks from outside of any workspace. Whoever may do everything else by policy may not for
 * that read what others did. */
int audit_resolve(struct request *r, struct error *err);

void audit_list_handle(struct request *r);
void audit_get_handle(struct request *r);
void audit_stats_handle(struct request *r);
void audit_watch_handle(struct request *r);
void audit_verify_handle(struct request *r);
void audit_export_handle(struct request *r);

/* For the steps of these, on a thread. */

enum {
    AUDIT_PAGE_DEFAULT = 100,
    AUDIT_PAGE_MAX = 1000,
    AUDIT_ANSWER_MAX_BYTES = 4 << 20,
    AUDIT_TEXT_TIME_MS = 1000, /* that a call searches lines for a text */
};

/* Waits for the lines that were there when the call came, as far as AUDIT_AWAIT_MS. */
void audit_await(struct audit_task *task);

/* When a search for text that begins now pauses, of the monotonic clock. */
uint64_t audit_text_deadline(void);

/* How far the index is, and which files the answer is without: of those that may have lines which
 * the filter wants, within the range that was looked at. NULL: any. Returns NULL without memory. */
Ext__AuditIndex *audit_index_message(struct audit_task *task, const struct index_snapshot *snapshot,
                                     const struct index_filter *filter,
                                     const struct index_range *range);

int audit_no_memory(struct error *err);

#endif
