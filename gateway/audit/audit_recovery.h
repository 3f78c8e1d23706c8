#ifndef AUDIT_AUDIT_RECOVERY_H
#define AUDIT_AUDIT_RECOVERY_H

#include <stdbool.h>

#include "gateway/audit/audit_file.h"
#include "gateway/audit/audit_group.h"
#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/gap.h"

/* Where a log that was closed, killed or cut off by a power failure goes on. */
struct audit_recovery {
    struct audit_position end;
    bool is_torn; /* then this is the record to append first */
    struct gap torn;
    bool is_lost; /* the anchor is not in the log, and the loss is accepted: this comes next */
    struct gap lost;
};

/* Reads the active file, or when it is empty the end of the newest finished one. The lines that a
 * crash left damaged at its end stay; when the last has no newline, it gets one.
 *
 * anchor: the newest checkpoint that is known to have been on the disk, or NULL.
 *
 * DATA_LOSS: what follows the last good line cannot be what a crash left, or the anchor is not in
 * the log and accept_loss is false. */
int audit_recovery_run(struct audit_file *f, const struct chain *anchor, bool accept_loss,
                       struct audit_recovery *ret, struct error *err);

#endif
