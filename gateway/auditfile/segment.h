#ifndef AUDITFILE_SEGMENT_H
#define AUDITFILE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The files of the audit log, in one folder (mode 0700, the gateway's).
 *
 *     audit.jsonl                       the active one; lines are appended to it, nothing else
 *     audit-<first sequence>.jsonl      finished: never appended to again
 *     audit-<first sequence>.jsonl.zst  the same, compressed
 *     *.tmp                             being made; of no meaning after a crash
 *
 * <first sequence> has 20 digits, so that names sort as the log runs. Where the plain file and the
 * compressed one are both there, the plain one counts and the other is made anew.
 *
 * A line is a JSON object that begins {"sequence":N,"prev":"H" and ends with a newline. N counts
 * from 1 without gaps, over all files. H is the SHA-256 of the line before it without its newline,
 * in 64 lower-case hex digits; 64 zeroes for the first. The first line of a file goes on from the
 * last line of the file before.
 *
 * Lines of these kinds are about the log itself ("apiVersion":"cordium.ext/v1"):
 *   AuditCheckpoint  a signature over the chain so far: checkpoint.h
 *   AuditTombstone   what was taken away on purpose, and by whose order: tombstone.h
 *   AuditGap         what could not be kept: gap.h
 *   AuditErased      stands where an erased line stood: tombstone.h
 *
 * A compressed file is a row of independent zstd frames (RFC 8878), each with its content size and
 * a checksum, of whole lines: about SEGMENT_FRAME_BYTES of them, or one line that is longer.
 * `zstd -dc` gives the lines; a reader finds a sequence by the first line of each frame. */

enum {
    SEGMENT_NAME_SIZE = 64, /* of a file, with its NUL */
    /* A writer's lines are far shorter: what a power cut leaves (zeroes) has no newline in it. */
    SEGMENT_LINE_MAX_BYTES = 128 << 20,
    SEGMENT_FRAME_BYTES = 256 << 10,
    SEGMENT_COUNT_MAX = 1 << 20,
};

#define SEGMENT_ACTIVE_NAME "audit.jsonl"

struct segment {
    char name[SEGMENT_NAME_SIZE];
    uint64_t first_sequence; /* as its name says; of the active one: UINT64_MAX */
    bool is_active;
    bool is_compressed;
    bool has_both;            /* plain, and a compressed file of that name is there too */
    uint64_t bytes;           /* on the disk */
    int64_t modified_seconds; /* since 1970: when its last line was written */
};

/* The name of a finished file; ret has room for SEGMENT_NAME_SIZE. */
void segment_format_name(uint64_t first_sequence, bool is_compressed, char *ret);

/* True for the name of a finished file. */
bool segment_parse_name(const char *name, uint64_t *ret_first_sequence, bool *ret_is_compressed);

/* All files of the log in the order of their lines, the active one, when it is there, last. In the
 * arena. Files of other names are passed over. A file may be renamed or compressed after this: a
 * reader that finds it gone lists anew. UNAVAILABLE when the folder cannot be read;
 * RESOURCE_EXHAUSTED over SEGMENT_COUNT_MAX files. */
int segment_list(int dir_fd, struct arena *arena, struct segment **ret, size_t *ret_count,
                 struct error *err);

#endif
