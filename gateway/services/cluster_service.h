#ifndef SERVICES_CLUSTER_SERVICE_H
#define SERVICES_CLUSTER_SERVICE_H

#include "gateway/request.h"

/* What is of the cluster as a whole: ManagementService's ClusterConfig (for administrators),
 * Regions, the caller's own status, and the calls that this version does not serve. */
int management_resolve(struct request *r, struct error *err);
void management_get_handle(struct request *r);
void management_update_handle(struct request *r);

void region_list_handle(struct request *r);

/* octelium.api.main.user.v1.MainService/GetStatus */
void user_status_handle(struct request *r);

/* UNIMPLEMENTED, saying what to use instead. */
void volume_unsupported_handle(struct request *r);
void snapshot_unsupported_handle(struct request *r);
void port_sharing_unsupported_handle(struct request *r);

#endif
