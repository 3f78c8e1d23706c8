#ifndef SERVICES_TEMPLATE_SERVICE_H
#define SERVICES_TEMPLATE_SERVICE_H

#include "gateway/request.h"

/* Cordium MainService: Templates; their builds are in template_build. */
int template_create_resolve(struct request *r, struct error *err);
void template_create_handle(struct request *r);
int template_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void template_get_handle(struct request *r);
void template_delete_handle(struct request *r);
int template_update_resolve(struct request *r, struct error *err);
void template_update_handle(struct request *r);
int template_list_resolve(struct request *r, struct error *err);
void template_list_handle(struct request *r);

#endif
