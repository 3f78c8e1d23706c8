#ifndef AUDIT_AUDIT_STATE_H
#define AUDIT_AUDIT_STATE_H

#include <stdbool.h>

#include "gateway/auditfile/chain.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/state/store.h"
#include "policy/base/status.h"

/* What the gateway keeps of its audit log outside of the log's folder: the signing key, in
 * stateDir/audit.key with its public half in stateDir/audit.pub, and in the store, with each
 * checkpoint, audit_log_open_since() and the anchor: the newest checkpoint that was on the disk. A
 * log that does not have the anchor was cut or changed.
 *
 * The anchor is noted after its line is on the disk, and may itself be lost in a power cut: then an
 * older one counts. So nothing but the loss of lines that were on the disk makes the log miss it.
 */

struct audit_anchor {
    bool is_set;
    bool is_loss_accepted; /* the administrator knows that the log does not have it */
    struct chain chain;
};

int audit_anchor_read(struct store *store, struct audit_anchor *ret, struct error *err);

/* `cordium-gateway audit accept-loss`. NOT_FOUND: there is no anchor, so nothing can be missing. */
int audit_anchor_accept_loss(struct store *store, struct error *err);

/* Makes the key when there is none. FAILED_PRECONDITION: there is none, and the anchor tells that
 * there was one. */
int audit_state_make_key(const struct gateway_config *c, struct store *store, struct error *err);

/* Opens the log with the settings, the key and the anchor, and keeps the anchor from then on. What
 * an earlier gateway left open stays so until audit_log_settle(). Of g: config and store. Ends with
 * audit_log_close(g->audit). */
int audit_state_open_log(struct gateway *g, struct uv_loop_s *loop, struct error *err);

#endif
