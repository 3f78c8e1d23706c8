#ifndef SERVICES_WATCH_H
#define SERVICES_WATCH_H

#include "api/cordium.pb-c.h"
#include "policy/base/status.h"

/* Who hears of changes of workspaces: the streams of WatchWorkspace. */
struct watch_hub;
struct gateway;
struct request;

enum {
    WATCH_QUEUE_MAX_BYTES = 8 * 1024 * 1024, /* a listener that far behind is cut off */
    WATCHES_PER_USER_MAX = 64,
};

int watch_hub_new(struct gateway *g, struct watch_hub **ret, struct error *err);
void watch_hub_free(struct watch_hub *hub);

/* To all streams of the workspace's owner that did not ask for another one. Hidden workspaces
 * (builds) are nobody's business. old_item NULL: created; new_item NULL: deleted. */
void watch_publish(struct watch_hub *hub, const Cordium__Workspace *old_item,
                   const Cordium__Workspace *new_item);

int watch_workspace_resolve(struct request *r, struct error *err);
void watch_workspace_handle(struct request *r);

#endif
