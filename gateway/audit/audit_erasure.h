#ifndef AUDIT_AUDIT_ERASURE_H
#define AUDIT_AUDIT_ERASURE_H

#include <stdint.h>

#include "gateway/gateway.h"
#include "policy/base/status.h"

/* `cordium-gateway audit erase`: takes the records of one person out of the log, while the gateway
 * is stopped. Tombstones that name each line, signed and on the disk, come first. */

struct audit_erasure {
    uint64_t lines;
    uint64_t files;
};

/* user: a UID, or the name of a User, now or in the log; a name stands for all that ever had it. Of
 * g: config and store.
 *
 * NOT_FOUND: nobody in the log or the store. FAILED_PRECONDITION: the gateway runs. */
int audit_erase(struct gateway *g, const char *user, struct audit_erasure *ret, struct error *err);

#endif
