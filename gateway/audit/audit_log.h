#ifndef AUDIT_AUDIT_LOG_H
#define AUDIT_AUDIT_LOG_H

#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

struct uv_loop_s;

/* The audit log: one JSON object a line, in DIR/audit.jsonl (mode 0600), only ever appended to.
 *
 * Each line begins with "sequence", which counts from 1 without gaps, and "prev", the SHA-256 (hex)
 * of the line before it without its newline; the first line's is 64 zeroes. A line that was cut by
 * a crash is ended and followed by a line of kind "AuditGap"; nothing is ever taken away.
 *
 * Appends are grouped: what comes in one round of the loop is written together (write and
 * fdatasync); on a slow disk in the worker pool, and what comes meanwhile makes the next group. A
 * group that nobody waits for is written at once but synced with the next one, or after
 * AUDIT_SYNC_DELAY_MS: the death of the process loses none of it, a power cut perhaps what came
 * within that time. */
struct audit_log;

enum {
    AUDIT_LINE_MAX_BYTES = 1 << 20,
    AUDIT_PENDING_MAX_BYTES = 32 << 20, /* lines that wait for the disk */
    AUDIT_WAITERS_MAX = 65536,
    AUDIT_SYNC_DELAY_MS = 10, /* of lines that nobody waits for */
};

/* Makes dir (0700) when it is not there. FAILED_PRECONDITION: another process has the log;
 * DATA_LOSS: the last line of an existing file is no line of ours. */
int audit_log_open(struct uv_loop_s *loop, const char *dir, struct audit_log **ret,
                   struct error *err);

/* Appends one record, a JSON object without "sequence" and "prev"; copied.
 *
 * done, when not NULL, is called once from the loop, never from inside this function: status 0 when
 * the line is on the disk, else a negative status and it is not. Returns 0, or -UNAVAILABLE when
 * the log is broken or too far behind, and -INTERNAL for what is no JSON object or did not fit its
 * buffer; then done is not called. */
int audit_log_append(struct audit_log *log, const struct buf *record,
                     void (*done)(void *arg, int status), void *arg);

/* Sequence number of the newest line that was accepted; 0 in an empty log. */
uint64_t audit_log_sequence(const struct audit_log *log);

/* Who hears of lines once they are in the file; called from the loop. */
struct audit_observer {
    /* Whole lines, each with its newline, in their order; borrowed until it returns. */
    void (*written)(void *arg, struct str lines);
    /* All that were written are on the disk. */
    void (*durable)(void *arg);
    void *arg;
};

/* One observer, copied; it must stay until the log is closed and the loop has run. */
void audit_log_set_observer(struct audit_log *log, const struct audit_observer *observer);

/* Lines that were accepted and are not on the disk, and when the oldest of them was accepted
 * (uv_hrtime(); 0 when there is none). */
struct audit_lag {
    uint64_t lines;
    uint64_t oldest_ns;
};
struct audit_lag audit_log_lag(const struct audit_log *log);

/* No more appends. What is pending is still written by the running loop, and the log is freed when
 * that is done; when nothing is pending, with the loop's next round. NULL is fine. */
void audit_log_close(struct audit_log *log);

#endif
