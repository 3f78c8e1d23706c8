#ifndef SERVICES_MEMBERSHIP_SERVICE_H
#define SERVICES_MEMBERSHIP_SERVICE_H

#include "gateway/request.h"

/* Cordium MainService: who belongs to a Space, and as what. */
int membership_create_resolve(struct request *r, struct error *err);
void membership_create_handle(struct request *r);
int membership_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void membership_get_handle(struct request *r);
void membership_delete_handle(struct request *r);
int membership_update_resolve(struct request *r, struct error *err);
void membership_update_handle(struct request *r);
int membership_list_resolve(struct request *r, struct error *err);
void membership_list_handle(struct request *r);
int membership_of_space_resolve(struct request *r, struct error *err);
void membership_of_space_handle(struct request *r);

#endif
