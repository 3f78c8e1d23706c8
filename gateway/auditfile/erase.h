#ifndef AUDITFILE_ERASE_H
#define AUDITFILE_ERASE_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/segment.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* The lines of one person, found and replaced. A line is his when he is its user:
 * entry.common.userRef, or cordium.userUID. What others did to his account is theirs, and stays. */

enum { ERASE_UIDS_MAX = 256 };

/* The person, by the UIDs of all Users that he was. */
struct erase_subject {
    const char *uids[ERASE_UIDS_MAX];
    size_t count;
};

/* False when there are too many. The text is copied; one that is there already is not added. */
bool erase_subject_add(struct erase_subject *s, const char *uid, struct arena *arena);

/* Adds the UIDs of all Users with that name in the log. */
int erase_find_uids(int dir_fd, const char *name, struct erase_subject *s, struct arena *arena,
                    struct error *err);

/* Appends a struct chain (sequence, and hash of the text) to *ret for each of his lines in a
 * finished file, in their order. Those that are erased already are not told. */
int erase_find_lines(int dir_fd, const struct segment *segment, const struct erase_subject *s,
                     struct buf *ret, struct error *err);

/* Puts AuditErased lines in the place of those lines, which tombstones must name by now. A crash
 * leaves the file as it was or as it is to be. */
int erase_rewrite(int dir_fd, const struct segment *segment, const struct chain *lines,
                  size_t count, struct error *err);

#endif
