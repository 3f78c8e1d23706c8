#ifndef EXECUTOR_SELF_CHECK_H
#define EXECUTOR_SELF_CHECK_H

#include "executor/executor.h"

/* Whether this is the host's root with the capabilities that sandboxes take. FAILED_PRECONDITION
 * names what is missing. */
int self_check_rights(struct error *err);

/* Puts each layer in force once, before the first client: user and network namespaces, a limited
 * storage and its idmapped mount, an overlay over it, cgroup limits. FAILED_PRECONDITION names the
 * layer that does not work here and the remedy; then the executor must not serve. */
int self_check(struct executor *ex, struct error *err);

/* Gives up every capability of our own that nothing here needs. */
int self_drop_capabilities(struct error *err);

#endif
