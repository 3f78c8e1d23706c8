#ifndef SERVICES_LOG_SERVICE_H
#define SERVICES_LOG_SERVICE_H

#include "gateway/request.h"

/* WorkspaceService/ListenLog: what the current or the last run said so far, then what it says,
 * until the run ends. Builds are found by the name of their hidden workspace,
 * build-TEMPLATE-UID-BUILD-ID. */
int listen_log_resolve(struct request *r, struct error *err);
void listen_log_handle(struct request *r);

#endif
