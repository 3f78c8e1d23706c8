#ifndef AUDIT_DENIAL_TEXT_H
#define AUDIT_DENIAL_TEXT_H

#include "executor/client/executor_client.h"

/* The words for what network rules refused, in the audit log and in results of Runs. */

enum { DENIAL_ADDRESS_SIZE = 16 };

/* "10.0.0.1" */
void denial_address_format(const struct executor_denial *denial, char ret[DENIAL_ADDRESS_SIZE]);

/* "TCP" or "UDP" */
const char *denial_protocol(const struct executor_denial *denial);

/* "PROTECTED_RANGE", "CONNECTION_LIMIT", "DENY_RULE", "NOT_PUBLIC" or "NO_ALLOW_RULE" */
const char *denial_reason(const struct executor_denial *denial);

/* All packets that an event tells of. */
uint64_t denial_packets(const struct executor_network_denied *denied);

#endif
