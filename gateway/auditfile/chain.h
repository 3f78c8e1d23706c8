#ifndef AUDITFILE_CHAIN_H
#define AUDITFILE_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/gap.h"
#include "gateway/auditfile/hash.h"
#include "gateway/auditfile/line.h"

/* The end of a chain: the last line's number, and its hash. Zeroed: the end of an empty log. */
struct chain {
    uint64_t sequence;
    uint8_t hash[HASH_BYTES];
};

bool chain_equal(const struct chain *a, const struct chain *b);

/* "SEQUENCE:HASH", as anchors are written. */
enum { CHAIN_TEXT_SIZE = 20 + 1 + HASH_HEX_SIZE };
void chain_format(const struct chain *c, char ret[CHAIN_TEXT_SIZE]);
bool chain_parse(struct str text, struct chain *ret);

/* The one judge of whether lines follow each other, for the gateway when it opens its log and for
 * whoever verifies it. A line that does not fit is damage, and so is all that follows it, until a
 * gap record tells of exactly that damage. */
struct chain_walk {
    struct chain end;       /* after the last line; damaged ones take numbers too */
    struct chain good;      /* before the first damaged line, or the same as end */
    uint64_t damaged_lines; /* since `good` */
    uint64_t damaged_bytes; /* each with a newline */
    struct hasher *damage;  /* of them; owned */
    bool has_failed;        /* a hash could not be made: nothing may be believed */
};

enum chain_step {
    CHAIN_FITS,
    CHAIN_CLOSES, /* a gap record, and the damage before it is accounted for */
    CHAIN_DAMAGED,
};

/* false without memory. */
bool chain_walk_begin(struct chain_walk *w, const struct chain *start);
void chain_walk_end(struct chain_walk *w);
enum chain_step chain_walk_line(struct chain_walk *w, const struct line *line);

/* The gap record that accounts for the damage so far; damaged_lines > 0. False when the hash could
 * not be made. */
bool chain_walk_gap(struct chain_walk *w, struct gap *ret);

#endif
