#ifndef AUDIT_AUDIT_FILE_H
#define AUDIT_AUDIT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/audit/audit_group.h"
#include "policy/base/status.h"

/* The folder of the audit log and its active file, as their one writer has them
 * (gateway/auditfile/segment.h). Used by one thread at a time. */
struct audit_file {
    int dir_fd; /* with the lock on it */
    int fd;     /* of the active file */
    int64_t bytes;
    int64_t modified_seconds; /* when it was opened */
    bool is_broken;           /* what the disk holds is unknown until a restart */
};

/* Makes the folder (0700) and the file (0600) when they are not there. FAILED_PRECONDITION: another
 * process has the log, or it cannot be opened. */
int audit_file_open(const char *dir, struct audit_file *ret, struct error *err);
void audit_file_close(struct audit_file *f);

/* Appends bytes. 0 or an errno. A write that failed halfway (a full disk) is taken back, so that
 * the file ends with whole lines. */
int audit_file_append(struct audit_file *f, const void *bytes, size_t n);

/* What became of a group. */
struct audit_write {
    int write_errno; /* 0: all of it is written, and synced where that was wanted */
    const char *failed_step;
    bool cut_is_written; /* the lines up to the group's cut are on the disk, also on failure */
    int rotate_errno;    /* the file could not be finished at the cut: it goes on in the same one */
    uint64_t sync_ns;    /* what the last fdatasync took; 0: there was none */
};

/* Writes the group's lines; at its cut, syncs and finishes the file, whose first line has that
 * sequence, and begins a new one. */
void audit_file_write_group(struct audit_file *f, const struct audit_group *group,
                            uint64_t first_sequence, bool is_sync_wanted, struct audit_write *ret);

#endif
