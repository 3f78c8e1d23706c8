#ifndef SERVICES_USER_CONFIG_SERVICE_H
#define SERVICES_USER_CONFIG_SERVICE_H

#include "gateway/request.h"

/* Cordium MainService: the one UserConfig of each user, which comes into being at its first Get or
 * Update. */
int user_config_resolve(struct request *r, struct error *err);
void user_config_get_handle(struct request *r);
void user_config_update_handle(struct request *r);

#endif
