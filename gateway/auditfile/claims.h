#ifndef AUDITFILE_CLAIMS_H
#define AUDITFILE_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/segment.h"
#include "gateway/auditfile/tombstone.h"
#include "policy/base/bytes.h"

/* What is not in the log any more, and the tombstones that account for it: gathered while it is
 * read, compared at the end, since a tombstone comes later than what it is about. */

/* Lines that no file has. */
struct claims_hole {
    struct chain before;          /* the last line in front of it; zeroed at the log's beginning */
    struct chain last;            /* the last missing one */
    char file[SEGMENT_NAME_SIZE]; /* in which the log goes on */
};

struct claims_stub {
    struct chain line; /* sequence, and the hash of what stood there */
    char file[SEGMENT_NAME_SIZE];
    uint64_t line_number;
};

/* A line that a tombstone names. */
struct claims_erased {
    struct chain line;
    uint64_t tombstone_sequence;
};

struct claims_deleted {
    uint64_t first_sequence;
    uint8_t first_prev[HASH_BYTES];
    struct chain last;
    uint64_t tombstone_sequence;
};

struct claims {
    struct buf holes, stubs, erased, deleted; /* of the structs above */
};

void claims_init(struct claims *c);
void claims_free(struct claims *c);

/* false without memory. */
bool claims_add_hole(struct claims *c, const struct claims_hole *hole);
bool claims_add_stub(struct claims *c, const struct claims_stub *stub);

/* Of the tombstone that is line `sequence`. */
bool claims_add_tombstone(struct claims *c, const struct tombstone *t, uint64_t sequence);

/* The first hole, and the first erased line, that no tombstone accounts for which is signed: its
 * sequence is at most signed_to. NULL: none. To be called when all is added. */
const struct claims_hole *claims_open_hole(struct claims *c, uint64_t signed_to);
const struct claims_stub *claims_open_stub(struct claims *c, uint64_t signed_to);

#endif
