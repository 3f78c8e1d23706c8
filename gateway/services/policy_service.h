#ifndef SERVICES_POLICY_SERVICE_H
#define SERVICES_POLICY_SERVICE_H

#include "gateway/request.h"

/* Policies and the core ClusterConfig: octelium.api.main.core.v1.MainService's
 * {Create,Get,List,Update,Delete}Policy and {Get,Update}ClusterConfig, and
 * cordium.ext.v1.PolicyService/{Apply,Rollback}. For administrators. Each write checks the whole
 * set before it is stored, and the next request is judged by the new one. */

int policy_get_resolve(struct request *r, struct error *err);    /* GetOptions */
int policy_delete_resolve(struct request *r, struct error *err); /* DeleteOptions */
int policy_update_resolve(struct request *r, struct error *err); /* Policy */
void policy_create_handle(struct request *r);
void policy_get_handle(struct request *r);
void policy_list_handle(struct request *r);
void policy_update_handle(struct request *r);
void policy_delete_handle(struct request *r);

void core_cluster_config_get_handle(struct request *r);
void core_cluster_config_update_handle(struct request *r);

void policy_apply_handle(struct request *r);
void policy_rollback_handle(struct request *r);

#endif
