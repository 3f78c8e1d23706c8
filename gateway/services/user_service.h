#ifndef SERVICES_USER_SERVICE_H
#define SERVICES_USER_SERVICE_H

#include "gateway/request.h"

/* core.v1 MainService: Users and Groups. For administrators. */
int user_create_resolve(struct request *r, struct error *err);
void user_create_handle(struct request *r);
int user_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void user_get_handle(struct request *r);
void user_delete_handle(struct request *r);
int user_update_resolve(struct request *r, struct error *err);
void user_update_handle(struct request *r);
void user_list_handle(struct request *r);

int group_create_resolve(struct request *r, struct error *err);
void group_create_handle(struct request *r);
int group_named_resolve(struct request *r, struct error *err);
void group_get_handle(struct request *r);
void group_delete_handle(struct request *r);
int group_update_resolve(struct request *r, struct error *err);
void group_update_handle(struct request *r);
void group_list_handle(struct request *r);

/* For lists, whose requests touch nothing: only the administrator check. */
int core_admin_resolve(struct request *r, struct error *err);

#endif
