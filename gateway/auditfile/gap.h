#ifndef AUDITFILE_GAP_H
#define AUDITFILE_GAP_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/hash.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* A line of kind AuditGap: what the log could not keep.
 *
 *   "gap":{"reason":"TORN","lines":N,"bytes":N,"sha256":"H"}
 *       The N lines before this one are what a crash left of lines that were being written; nobody
 *       was told that they had been recorded. They stay where they are, each takes a number, and
 *       the chain goes over the last of them. bytes and sha256: of all of them, each with a
 * newline. "gap":{"reason":"TAIL_MISSING","expectedSequence":N,"expectedHash":"H"} The checkpoint
 * of that number and hash had been on the disk and was not there any more when the log was opened,
 * and the administrator ordered to go on. */

enum gap_reason { GAP_TORN, GAP_TAIL_MISSING };

struct gap {
    enum gap_reason reason;
    /* GAP_TORN. Lines of before this record had these members have none: then has_extent is false,
     * and it was one line. */
    bool has_extent;
    uint64_t lines, bytes;
    uint8_t sha256[HASH_BYTES];
    /* GAP_TAIL_MISSING */
    uint64_t expected_sequence;
    uint8_t expected_hash[HASH_BYTES];
};

/* The record without sequence and prev. */
void gap_write(const struct gap *gap, int64_t wall_ns, struct buf *out);

/* False when the line does not say it. */
bool gap_read(struct str line, struct gap *ret);

#endif
