#ifndef AUDITFILE_VERIFY_H
#define AUDITFILE_VERIFY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/segment.h"
#include "gateway/auditfile/signing_key.h"
#include "policy/base/status.h"

/* Reads the whole log and says whether it is what was written: numbers without gaps, each line's
 * prev the hash of the line before, over all files; each checkpoint signed; each missing file and
 * each erased line with a signed tombstone; each torn line with its gap record. */

/* How far it is, for another thread, which may also end it. */
struct verify_progress {
    _Atomic uint64_t lines, bytes;
    atomic_bool stop;
};

struct verify_options {
    const struct public_keys *keys;
    const struct chain *anchor;       /* a checkpoint that was noted elsewhere, or NULL */
    unsigned threads;                 /* at least 1 */
    struct verify_progress *progress; /* or NULL */
};

enum verify_fault {
    VERIFY_INTACT,
    VERIFY_BROKEN_CHAIN,     /* prev is not the hash of the line before */
    VERIFY_BAD_SEQUENCE,     /* the number is not the next one */
    VERIFY_NO_LINE,          /* no line of ours, and no gap record accounts for it */
    VERIFY_BAD_SIGNATURE,    /* a checkpoint that its key did not sign, or that cannot be read */
    VERIFY_UNKNOWN_KEY,      /* a checkpoint of a key that was not given */
    VERIFY_BAD_RECORD,       /* a tombstone or gap record that cannot be read */
    VERIFY_MISSING_FILE,     /* lines that no file has, and no signed tombstone for them */
    VERIFY_ERASED_UNORDERED, /* an erased line without a signed tombstone */
    VERIFY_DAMAGED_FILE,     /* a compressed file that cannot be read */
    VERIFY_ANCHOR,           /* the log does not have the anchor */
};

enum { VERIFY_TEXT_SIZE = 512 };

struct verify_report {
    /* The first thing that is wrong, by sequence. */
    enum verify_fault fault;
    char file[SEGMENT_NAME_SIZE];
    uint64_t line;     /* in the file, from 1; 0: not of one line */
    uint64_t sequence; /* of the line, or the first missing one */
    char text[VERIFY_TEXT_SIZE];

    /* What there is. */
    uint64_t files, lines, bytes; /* bytes: of the lines, not compressed */
    struct chain first, last;     /* first: before the first line */
    uint64_t checkpoints;
    struct chain last_checkpoint; /* zeroed: there is none */
    uint64_t unsigned_lines;      /* behind it */
    uint64_t deleted_lines;       /* whole files, by tombstones */
    uint64_t erased_lines;
    uint64_t gaps; /* records of torn lines */
    uint64_t torn_lines;
    uint64_t losses;        /* records of TAIL_MISSING: lines were lost, and the loss accepted */
    uint64_t unended_bytes; /* at the log's end, without a newline: being written, or torn */
};

/* 0 when the log could be judged: report->fault says how. Negative when it could not: UNAVAILABLE,
 * RESOURCE_EXHAUSTED; CANCELLED by progress->stop. Works beside a gateway that writes. */
int verify_log(int dir_fd, const struct verify_options *options, struct verify_report *report,
               struct error *err);

/* "BROKEN_CHAIN" */
const char *verify_fault_name(enum verify_fault fault);

#endif
