#ifndef AUDIT_AUDIT_GROUP_H
#define AUDIT_AUDIT_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/signing_key.h"
#include "policy/base/bytes.h"

/* Lines that go to the disk together, and who waits for them. */

/* Where the log is after some line. */
struct audit_position {
    struct chain chain;
    uint64_t checkpoint_sequence; /* of the newest checkpoint so far */
    /* Of the active file. */
    uint64_t file_first_sequence; /* of its first line, also while it has none */
    uint64_t file_bytes;
    int64_t file_day; /* of its newest line, in days since 1970; of use while file_bytes > 0 */
};

struct audit_waiter {
    void (*done)(void *arg, int status);
    void *arg;
};

struct audit_group {
    struct buf lines;
    struct audit_waiter *waiters;
    size_t waiter_count, waiter_room;
    struct audit_position end; /* after its last line */
    uint64_t first_ns;         /* when its first line came (uv_hrtime()); 0 while it is empty */

    bool has_checkpoint;
    struct chain checkpoint; /* the newest one in it */

    /* A new file begins inside of it: the lines up to cut_bytes belong to the old one. */
    bool has_cut;
    size_t cut_bytes;
    size_t cut_waiters; /* who wait for these lines */
    struct audit_position cut_end;
};

void audit_group_init(struct audit_group *g);
void audit_group_free(struct audit_group *g);

/* Empties it for lines behind `end`; its memory stays. */
void audit_group_clear(struct audit_group *g, const struct audit_position *end);

/* Appends the record, a JSON object, as a line with its place in the chain. False when there is no
 * room, and then the group is as before. */
bool audit_group_add_line(struct audit_group *g, struct str record, struct hasher *hasher);

/* The same with a checkpoint. RESOURCE_EXHAUSTED: no room; INTERNAL: it cannot be signed. */
int audit_group_add_checkpoint(struct audit_group *g, const struct signing_key *key,
                               struct hasher *hasher, int64_t wall_ns, const char *reason,
                               struct error *err);
bool audit_group_add_waiter(struct audit_group *g, void (*done)(void *, int), void *arg);

/* The next line begins a new file. At most once in a group, and behind a line. */
void audit_group_cut(struct audit_group *g);

/* Calls the waiters from first to before last. */
void audit_group_notify(struct audit_group *g, size_t first, size_t last, int status);

#endif
