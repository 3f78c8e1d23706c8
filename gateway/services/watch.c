#include "gateway/services/watch.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/request.h"
#include "gateway/services/workspace_access.h"
#include "gateway/state/resource.h"

struct watcher {
    struct watch_hub *hub;
    struct request *request;
    struct watcher *next;
    char owner_uid[37];
    const char *uid; /* of the one workspace asked for; NULL: all. In the request's arena */
};

struct watch_hub {
    struct gateway *gateway;
    struct watcher *watchers;
};

int watch_hub_new(struct gateway *g, struct watch_hub **ret, struct error *err)
{
    struct watch_hub *hub = calloc(1, sizeof *hub);
    if (!hub) {
        return error_set(err, STATUS_INTERNAL, "make the watch hub: out of memory");
    }
    hub->gateway = g;
    *ret = hub;
    return 0;
}

void watch_hub_free(struct watch_hub *hub)
{
    free(hub);
}

static void unlink_watcher(struct watcher *watcher)
{
    for (struct watcher **at = &watcher->hub->watchers; *at; at = &(*at)->next) {
        if (*at == watcher) {
            *at = watcher->next;
            return;
        }
    }
}

static void on_gone(struct request *r)
{
    struct watcher *watcher = r->state;
    unlink_watcher(watcher);
    free(watcher);
    r->state = NULL;
}

static bool wants(const struct watcher *watcher, const Cordium__Workspace *workspace)
{
    return strcmp(watcher->owner_uid, workspace->status->user_ref->uid) == 0 &&
           (!watcher->uid || strcmp(watcher->uid, workspace->metadata->uid) == 0);
}

static void send_event(struct watcher *watcher, const Cordium__WatchWorkspaceResponse *event)
{
    if (call_queued_bytes(watcher->request->call) > WATCH_QUEUE_MAX_BYTES) {
        /* `gone` comes later and takes the watcher out; until then it hears no more. */
        watcher->owner_uid[0] = '\0';
        request_fail_with(watcher->request, STATUS_RESOURCE_EXHAUSTED,
                          "You read events too slowly; %d bytes are waiting. Watch again and read "
                          "the current state with ListWorkspace",
                          WATCH_QUEUE_MAX_BYTES);
        return;
    }
    (void)request_send(watcher->request, &event->base);
}

/* Messages are read only by the encoder; protobuf-c has no const members. */
static Cordium__Workspace *borrow(const Cordium__Workspace *workspace)
{
    return (Cordium__Workspace *)(uintptr_t)workspace;
}

void watch_publish(struct watch_hub *hub, const Cordium__Workspace *old_item,
                   const Cordium__Workspace *new_item)
{
    const Cordium__Workspace *about = new_item ? new_item : old_item;
    if (!hub || !hub->watchers || about->status->is_build) {
        return;
    }
    Cordium__WatchWorkspaceResponse event = CORDIUM__WATCH_WORKSPACE_RESPONSE__INIT;
    Cordium__WatchWorkspaceResponse__Create create =
        CORDIUM__WATCH_WORKSPACE_RESPONSE__CREATE__INIT;
    Cordium__WatchWorkspaceResponse__Update update =
        CORDIUM__WATCH_WORKSPACE_RESPONSE__UPDATE__INIT;
    Cordium__WatchWorkspaceResponse__Delete gone = CORDIUM__WATCH_WORKSPACE_RESPONSE__DELETE__INIT;
    if (old_item && new_item) {
        update.new_item = borrow(new_item);
        update.old_item = borrow(old_item);
        event.type_case = CORDIUM__WATCH_WORKSPACE_RESPONSE__TYPE_UPDATE;
        event.update = &update;
    } else if (new_item) {
        create.item = borrow(new_item);
        event.type_case = CORDIUM__WATCH_WORKSPACE_RESPONSE__TYPE_CREATE;
        event.create = &create;
    } else {
        gone.item = borrow(old_item);
        event.type_case = CORDIUM__WATCH_WORKSPACE_RESPONSE__TYPE_DELETE;
        event.delete_ = &gone;
    }
    for (struct watcher *w = hub->watchers; w; w = w->next) {
        if (wants(w, about)) {
            send_event(w, &event);
        }
    }
}

/* Only the workspace's owner is told of it; without a reference, of all one's own. */
int watch_workspace_resolve(struct request *r, struct error *err)
{
    const Cordium__WatchWorkspaceRequest *message =
        (const Cordium__WatchWorkspaceRequest *)r->message;
    if (!resource_ref_is_set(message->workspace_ref)) {
        return 0;
    }
    return workspace_access_by_ref(r, message->workspace_ref, err);
}

void watch_workspace_handle(struct request *r)
{
    struct watch_hub *hub = r->gateway->watches;
    const char *owner_uid = r->actor.user->metadata->uid;
    unsigned count = 0;
    for (const struct watcher *w = hub->watchers; w; w = w->next) {
        count += strcmp(w->owner_uid, owner_uid) == 0;
    }
    if (count >= WATCHES_PER_USER_MAX) {
        request_fail_with(r, STATUS_RESOURCE_EXHAUSTED,
                          "You have %d watches already; close one of them first",
                          WATCHES_PER_USER_MAX);
        return;
    }
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (!watcher) {
        request_fail_memory(r);
        return;
    }
    watcher->hub = hub;
    watcher->request = r;
    watcher->uid = r->touched.workspace ? r->touched.workspace->metadata->uid : NULL;
    (void)strncpy(watcher->owner_uid, owner_uid, sizeof watcher->owner_uid - 1);
    watcher->next = hub->watchers;
    hub->watchers = watcher;
    r->state = watcher;
    r->on_gone = on_gone;
}
