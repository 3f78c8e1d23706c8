#ifndef SERVICES_SECRET_SERVICE_H
#define SERVICES_SECRET_SERVICE_H

#include "gateway/request.h"

/* Cordium MainService: Secrets of Spaces. Their data goes in and never comes out. */
int secret_create_resolve(struct request *r, struct error *err);
void secret_create_handle(struct request *r);
int secret_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void secret_get_handle(struct request *r);
void secret_delete_handle(struct request *r);
int secret_list_resolve(struct request *r, struct error *err);
void secret_list_handle(struct request *r);

/* UserSecrets: of one user. */
int user_secret_create_resolve(struct request *r, struct error *err);
void user_secret_create_handle(struct request *r);
int user_secret_named_resolve(struct request *r, struct error *err);
void user_secret_get_handle(struct request *r);
void user_secret_delete_handle(struct request *r);
int user_secret_update_resolve(struct request *r, struct error *err);
void user_secret_update_handle(struct request *r);
void user_secret_list_handle(struct request *r);

#endif
