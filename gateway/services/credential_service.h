#ifndef SERVICES_CREDENTIAL_SERVICE_H
#define SERVICES_CREDENTIAL_SERVICE_H

#include "gateway/identity/token.h"
#include "gateway/request.h"

/* core.v1 MainService: Credentials and Sessions. For administrators. */
int credential_create_resolve(struct request *r, struct error *err);
void credential_create_handle(struct request *r);
int credential_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void credential_get_handle(struct request *r);
void credential_delete_handle(struct request *r);
int credential_update_resolve(struct request *r, struct error *err);
void credential_update_handle(struct request *r);
void credential_list_handle(struct request *r);
int credential_token_resolve(struct request *r, struct error *err);
void credential_token_handle(struct request *r);

int session_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void session_get_handle(struct request *r);
void session_delete_handle(struct request *r);
int session_update_resolve(struct request *r, struct error *err);
void session_update_handle(struct request *r);
void session_list_handle(struct request *r);

#endif
