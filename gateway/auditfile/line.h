#ifndef AUDITFILE_LINE_H
#define AUDITFILE_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/hash.h"
#include "policy/base/str.h"

/* One line of the audit log, looked at without reading its JSON: what the chain needs. */

enum line_kind {
    LINE_RECORD, /* of what was asked, or of a daemon */
    LINE_CHECKPOINT,
    LINE_TOMBSTONE,
    LINE_GAP,
    LINE_ERASED,
};

struct line {
    struct str text; /* without its newline */
    bool is_ours;    /* has sequence and prev, ends as an object does, and holds no NUL */
    enum line_kind kind;
    uint64_t sequence; /* this and prev: when is_ours */
    uint8_t prev[HASH_BYTES];
    /* What the chain has for this line: the SHA-256 of its text; of an erased one, that of the text
     * which stood there. */
    uint8_t hash[HASH_BYTES];
};

/* False only when the hash could not be made. *ret borrows the text. */
bool line_look(struct str text, struct hasher *hasher, struct line *ret);

/* The parts of line_look() but for the hash: false when the text is not one of ours. */
bool line_read_head(struct str text, struct line *ret);

/* Cuts the first line off *text; false when nothing is left. A text that does not end with a
 * newline ends with a line all the same. */
bool line_take(struct str *text, struct str *ret);

#endif
