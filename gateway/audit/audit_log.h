#ifndef AUDIT_AUDIT_LOG_H
#define AUDIT_AUDIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/audit/audit_open.h"
#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/signing_key.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

struct uv_loop_s;

/* The audit log: one JSON object a line, in DIR/audit.jsonl (mode 0600), only ever appended to.
 * Files and lines: gateway/auditfile/segment.h.
 *
 * Appends are grouped: what comes in one round of the loop is written together (write and
 * fdatasync); on a slow disk in the worker pool, and what comes meanwhile makes the next group. A
 * group that nobody waits for is written at once but synced with the next one, or after
 * AUDIT_SYNC_DELAY_MS: the death of the process loses none of it, a power cut perhaps what came
 * within that time. What such an end leaves of a line stays, and a gap record tells of it.
 *
 * Checkpoints are signed as lines come and time goes by, at the end of each file, and at the end.
 * One is synced like a line that somebody waits for, and then told to on_checkpoint.
 *
 * A file that is large enough, or of a day that is over (UTC), is finished and a new one begun,
 * between two lines. When that fails the log goes on in the same file. Finished files are
 * compressed, and deleted when the settings say so (audit_upkeep.h). */
struct audit_log;

enum {
    AUDIT_LINE_MAX_BYTES = 1 << 20,
    AUDIT_PENDING_MAX_BYTES = 32 << 20, /* lines that wait for the disk */
    AUDIT_WAITERS_MAX = 65536,
    AUDIT_SYNC_DELAY_MS = 10,          /* of lines that nobody waits for */
    AUDIT_ROTATION_RETRY_SECONDS = 60, /* after one that failed */
};

struct audit_log_options {
    const char *dir;
    struct signing_key *key; /* owned by the log from a successful open on */

    uint64_t rotate_bytes;       /* a file is finished when it has as many; > 0 */
    unsigned checkpoint_lines;   /* a checkpoint at least after so many lines; > 0 */
    unsigned checkpoint_seconds; /* and so long after a line; > 0 */
    unsigned retention_days;     /* 0: files are kept however old */
    uint64_t retention_bytes;    /* 0: however large */

    /* The newest checkpoint that was on the disk, as on_checkpoint was told; NULL: none. */
    const struct chain *anchor;
    bool accept_loss; /* go on when the log does not have the anchor, with a record of it */

    /* As audit_log_open_since() said last: kept until audit_log_settle(). 0: nothing is open. */
    uint64_t open_since;

    /* Called from the loop. Each may be NULL. on_checkpoint: that line is on the disk. sync_anchor:
     * what it was told must be, too, before a file goes; negative: it is not, and the file stays.
     */
    void (*on_checkpoint)(void *arg, const struct chain *checkpoint);
    int (*sync_anchor)(void *arg, struct error *err);
    int64_t (*wall_ns)(void *arg); /* NULL: the system's clock */
    void *arg;
};

/* Makes the folder (0700) when it is not there. FAILED_PRECONDITION: another process has the log;
 * DATA_LOSS: its end is none of ours, or the anchor is not in it. */
int audit_log_open(struct uv_loop_s *loop, const struct audit_log_options *options,
                   struct audit_log **ret, struct error *err);

/* Appends one record, a JSON object without "sequence" and "prev"; copied.
 *
 * done, when not NULL, is called once from the loop, never from inside this function: status 0 when
 * the line is on the disk, else a negative status and it is not. Returns 0, or -UNAVAILABLE when
 * the log is broken or too far behind, and -INTERNAL for what is no JSON object or did not fit its
 * buffer; then done is not called. */
int audit_log_append(struct audit_log *log, const struct buf *record,
                     void (*done)(void *arg, int status), void *arg);

/* The same with a checkpoint behind it: done tells of both. For what must not be believed unsigned.
 */
int audit_log_append_signed(struct audit_log *log, const struct buf *record,
                            void (*done)(void *arg, int status), void *arg);

/* Writes what was appended and waits until it is on the disk. For a start, when nothing else runs
 * on the loop. UNAVAILABLE: it is not. */
int audit_log_flush(struct audit_log *log, struct error *err);

/* Its decision is the next line that is appended; an end will follow. */
void audit_log_begin_open(struct audit_log *log, struct audit_open *open);
void audit_log_end_open(struct audit_log *log, struct audit_open *open);

/* What an earlier gateway left open has its ends in the log, as of now. */
void audit_log_settle(struct audit_log *log);

/* A gateway that comes after this one need not look for requests without an end before that line;
 * 0: not known. Changes with checkpoints. */
uint64_t audit_log_open_since(const struct audit_log *log);

/* The next line begins a new file, if the active one has any. */
void audit_log_rotate(struct audit_log *log);

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

/* Copied; it must stay until the log is closed and the loop has run. At most AUDIT_OBSERVERS_MAX.
 */
enum { AUDIT_OBSERVERS_MAX = 2 };
void audit_log_add_observer(struct audit_log *log, const struct audit_observer *observer);

/* Lines that were accepted and are not on the disk, and when the oldest of them was accepted
 * (uv_hrtime(); 0 when there is none). */
struct audit_lag {
    uint64_t lines;
    uint64_t oldest_ns;
};
struct audit_lag audit_log_lag(const struct audit_log *log);

/* No more appends. What is pending is still written by the running loop, with a last checkpoint,
 * and the log is freed when that is done; when nothing is pending, with the loop's next round. NULL
 * is fine. */
void audit_log_close(struct audit_log *log);

#endif
