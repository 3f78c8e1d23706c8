#ifndef EXECUTOR_STEPS_NETWORK_DENIALS_H
#define EXECUTOR_STEPS_NETWORK_DENIALS_H

#include "executor/steps/network.h"

/* What the rules noted of refused packets (network_rules.c, "note"), over nfnetlink: read, and then
 * deleted from the kernel's sets, element by element, so that what comes in between stays for the
 * next time. What comes back is numbers of the kernel's own; it is checked as if it were not. */
struct network_notes;

/* Works on the network namespace that the process is in now. */
int network_notes_open(struct network_notes **ret, struct error *err);
void network_notes_close(struct network_notes *notes); /* NULL is fine */

struct network_note {
    uint32_t interface; /* the host's end */
    /* protocol 0: packets without a destination of their own; address, port and reason are 0. */
    struct network_denial denial;
};

/* Calls `each` for every note of the table, once it is out of the kernel. On an error some were
 * told and the others stay.
 *
 *   -STATUS_INTERNAL            the kernel's answer cannot be read, or it refused
 *   -STATUS_RESOURCE_EXHAUSTED  no memory */
int network_notes_drain(struct network_notes *notes, const char *table,
                        void (*each)(void *context, const struct network_note *note), void *context,
                        struct error *err);

/* Reads one datagram of the kernel's answer to the dump of a set and calls `each` for its elements.
 * False when it is not what such an answer may be, or when `each` says so. *ret_is_last: nothing
 * more follows. */
bool network_notes_parse(const void *datagram, size_t size,
                         bool (*each)(void *context, const struct network_note *note),
                         void *context, bool *ret_is_last);

/* Adds one to what is told of a link: to its entry, or a new one, or to the others. */
void network_denials_add(struct network_denials *denials, const struct network_denial *denial);

#endif
