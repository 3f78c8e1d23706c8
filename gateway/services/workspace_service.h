#ifndef SERVICES_WORKSPACE_SERVICE_H
#define SERVICES_WORKSPACE_SERVICE_H

#include "gateway/request.h"

/* MainService: workspaces. Only the owner sees and touches one. */
int create_workspace_resolve(struct request *r, struct error *err);
void create_workspace_handle(struct request *r);
int get_workspace_resolve(struct request *r, struct error *err);
void get_workspace_handle(struct request *r);
int list_workspace_resolve(struct request *r, struct error *err);
void list_workspace_handle(struct request *r);
int update_workspace_resolve(struct request *r, struct error *err);
void update_workspace_handle(struct request *r);
int delete_workspace_resolve(struct request *r, struct error *err);
void delete_workspace_handle(struct request *r);
int start_workspace_resolve(struct request *r, struct error *err);
void start_workspace_handle(struct request *r);
int stop_workspace_resolve(struct request *r, struct error *err);
void stop_workspace_handle(struct request *r);

#endif
