#ifndef AUDITFILE_TOMBSTONE_H
#define AUDITFILE_TOMBSTONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/hash.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* A line of kind AuditTombstone: what is taken away on purpose. It is on the disk, and signed,
 * before anything goes.
 *
 * A whole file:
 *   "tombstone":{"reason":"RETENTION","setting":"audit.retentionDays=30","file":"NAME",
 *                "firstSequence":N,"lastSequence":N,"firstPrev":"H","lastHash":"H","lines":N,
 *                "fileSHA256":"H"}
 * Files go in the order of their lines, so that the newest such tombstone tells where the log
 * begins now: its first line has the number after lastSequence, and lastHash for prev.
 *
 * Lines of one person:
 *   "tombstone":{"reason":"ERASURE","userUID":"U","file":"NAME",
 *                "lines":[{"sequence":N,"sha256":"H"}, …]}
 * Each of these lines is replaced by
 *   {"sequence":N,"prev":"H","kind":"AuditErased","sha256":"H"}
 * with the sequence and prev that it had, and the SHA-256 of its text: the chain goes on over it.
 */

enum { TOMBSTONE_ERASED_MAX = 4000 /* lines in one; more make another */ };

struct tombstone_file {
    const char *name;
    const char *setting;
    uint64_t first_sequence, last_sequence, lines;
    uint8_t first_prev[HASH_BYTES];
    uint8_t last_hash[HASH_BYTES];
    uint8_t file_sha256[HASH_BYTES];
};

struct tombstone_erasure {
    const char *name;
    const char *user_uid;
    const struct chain *lines; /* each: sequence, and the hash of its text */
    size_t count;
};

struct tombstone {
    bool is_erasure; /* then erasure, else file */
    struct tombstone_file file;
    struct tombstone_erasure erasure;
};

/* The records without sequence and prev. */
void tombstone_write_file(const struct tombstone_file *t, int64_t wall_ns, struct buf *out);
void tombstone_write_erasure(const struct tombstone_erasure *t, int64_t wall_ns, struct buf *out);

/* The line that stands in the place of an erased one. */
void tombstone_write_stub(uint64_t sequence, const uint8_t prev[HASH_BYTES],
                          const uint8_t hash[HASH_BYTES], struct buf *out);

/* Texts and lists in the arena. False when the line does not say it. */
bool tombstone_read(struct str line, struct arena *arena, struct tombstone *ret);

#endif
