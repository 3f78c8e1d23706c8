#ifndef SERVICES_POLICY_TOOLS_SERVICE_H
#define SERVICES_POLICY_TOOLS_SERVICE_H

#include "gateway/request.h"

/* What administrators ask about policies: cordium.ext.v1.PolicyService's Explain and
 * ListVersions. Explain answers everybody about his own session, with the outcome only; the rules
 * themselves are shown to administrators. */
void policy_explain_handle(struct request *r);
void policy_versions_handle(struct request *r);

#endif
