#ifndef SERVICES_GIT_PROVIDER_SERVICE_H
#define SERVICES_GIT_PROVIDER_SERVICE_H

#include "gateway/request.h"

/* Cordium MainService: GitProviders of Spaces, kept for Templates to name. */
int git_provider_create_resolve(struct request *r, struct error *err);
void git_provider_create_handle(struct request *r);
int git_provider_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void git_provider_get_handle(struct request *r);
void git_provider_delete_handle(struct request *r);
int git_provider_update_resolve(struct request *r, struct error *err);
void git_provider_update_handle(struct request *r);
int git_provider_list_resolve(struct request *r, struct error *err);
void git_provider_list_handle(struct request *r);

#endif
