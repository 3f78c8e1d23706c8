#ifndef SERVICES_SPACE_SERVICE_H
#define SERVICES_SPACE_SERVICE_H

#include "gateway/request.h"
#include "gateway/services/build_snapshot.h"
#include "gateway/state/store.h"

/* Cordium MainService: Spaces. */
int space_create_resolve(struct request *r, struct error *err);
void space_create_handle(struct request *r);
int space_named_resolve(struct request *r, struct error *err); /* Get and Delete */
void space_get_handle(struct request *r);
int space_update_resolve(struct request *r, struct error *err);
void space_update_handle(struct request *r);
void space_delete_handle(struct request *r);
void space_list_handle(struct request *r);
int space_leave_resolve(struct request *r, struct error *err);
void space_leave_handle(struct request *r);

/* Removes a Space and everything in it but its Workspaces, which belong to their owners. Run it
 * inside a store transaction; `snapshots` gets what build_snapshots_delete() is to take after the
 * commit. */
int space_delete_with_content(struct gateway *g, const char *space_uid, struct arena *arena,
                              struct build_snapshots *snapshots, struct error *err);

#endif
