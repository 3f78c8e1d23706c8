#ifndef SERVICES_AUTH_SERVICE_H
#define SERVICES_AUTH_SERVICE_H

#include "gateway/gateway.h"
#include "gateway/request.h"

/* octelium.api.main.auth.v1.MainService: logging in, staying in, logging out. */
void auth_with_token_handle(struct request *r);
void auth_with_assertion_handle(struct request *r); /* UNIMPLEMENTED */
void auth_refresh_handle(struct request *r);
void auth_logout_handle(struct request *r);

/* POST /oauth2/token, RFC 6749 section 4.4 (client_credentials): answers the call with the access
 * token of a new session, or an error object of section 5.2. */
void oauth2_token_http(struct gateway *g, struct call *call, struct str body);

#endif
