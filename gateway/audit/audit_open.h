#ifndef AUDIT_AUDIT_OPEN_H
#define AUDIT_AUDIT_OPEN_H

#include <stdint.h>

/* Requests whose decision is in the audit log and whose end is not: so that a gateway which comes
 * after one that was killed knows from which line on it has to look for them. */

/* Part of the request; zeroed: not open. */
struct audit_open {
    struct audit_open *older, *newer;
    uint64_t sequence; /* its decision's line, or one before it */
};

/* By sequence. Zeroed: empty. */
struct audit_open_list {
    struct audit_open *oldest, *newest;
    uint64_t hold;    /* not 0: what lies from here on is not settled yet */
    uint64_t since;   /* as audit_open_list_since() */
    uint64_t sampled; /* what it will be when sampled_end is on the disk; 0: nothing */
    uint64_t sampled_end;
};

/* sequence: not smaller than those before. */
void audit_open_list_add(struct audit_open_list *list, struct audit_open *open, uint64_t sequence);

/* After the end was appended, or when there will be none. One that is not open is fine. */
void audit_open_list_remove(struct audit_open_list *list, struct audit_open *open);

/* The log is on the disk up to `durable`; its next line will be `next`. */
void audit_open_list_note(struct audit_open_list *list, uint64_t durable, uint64_t next);

/* All requests that were decided before that line have their end on the disk; 0: not known. */
uint64_t audit_open_list_since(const struct audit_open_list *list);

#endif
