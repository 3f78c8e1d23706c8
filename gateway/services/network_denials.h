#ifndef SERVICES_NETWORK_DENIALS_H
#define SERVICES_NETWORK_DENIALS_H

#include "executor/client/executor_client.h"

struct gateway;

/* What the network rules refused to a sandbox, as the executor tells: a line in the audit log, a
 * count for the metrics and, of a Run, a part of its result. */
void network_denials_record(struct gateway *g, const struct executor_network_denied *event);

/* Adds what came later to what is known: each destination once, and those that there is no room for
 * to the others. */
void network_denials_merge(struct executor_network_denied *into,
                           const struct executor_network_denied *event);

#endif
