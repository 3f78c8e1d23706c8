#include "gateway/services/log_service.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/services/access.h"
#include "gateway/services/workspace_access.h"
#include "gateway/services/workspace_run.h"
#include "gateway/state/resource.h"

struct log_reader {
    struct workspace_log_listener listener; /* first */
    struct workspace_log *log;
    struct request *request;
    uint64_t position;
    bool is_blocked;
};

/* A build's workspace is gone when the build is over; its log is not. */
static struct workspace_log *find_log(struct request *r, const Meta__ObjectReference *ref)
{
    struct workspace_log *log = NULL;
    if (!resource_ref_is_set(ref) || !r->gateway->workspaces) {
        return NULL;
    }
    log = ref->uid[0] ? workspace_log_find(r->gateway->workspaces, ref->uid)
                      : workspace_log_find_by_name(r->gateway->workspaces, ref->name);
    return log && strcmp(workspace_log_owner_uid(log), access_user_uid(r)) == 0 ? log : NULL;
}

int listen_log_resolve(struct request *r, struct error *err)
{
    const Cordium__ListenLogRequest *message = (const Cordium__ListenLogRequest *)r->message;
    int rc = workspace_access_by_ref(r, message->workspace_ref, err);
    if (rc == -STATUS_NOT_FOUND && find_log(r, message->workspace_ref)) {
        err->status = 0;
        return 0;
    }
    return rc;
}

static bool send_entry(struct log_reader *reader, const struct workspace_log_entry *entry)
{
    Cordium__ListenLogResponse message = CORDIUM__LISTEN_LOG_RESPONSE__INIT;
    Google__Protobuf__Timestamp at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    at.seconds = entry->at_ns / 1000000000;
    at.nanos = (int32_t)(entry->at_ns % 1000000000);
    message.created_at = &at;
    message.type = entry->type;
    message.mode = entry->mode;
    message.data = (ProtobufCBinaryData){entry->data.len, (uint8_t *)(uintptr_t)entry->data.ptr};
    return request_send(reader->request, &message.base);
}

static void pump(struct log_reader *reader)
{
    struct workspace_log_entry entry;
    bool was_cut;
    while (!reader->is_blocked && !request_is_over(reader->request) &&
           workspace_log_read(reader->log, &reader->position, &entry, &was_cut)) {
        if (was_cut) {
            struct workspace_log_entry mark = entry;
            mark.data = STR("[cordium: older output was dropped]\n");
            (void)send_entry(reader, &mark);
        }
        reader->is_blocked = send_entry(reader, &entry);
    }
    if (!reader->is_blocked && workspace_log_is_closed(reader->log) &&
        !request_is_over(reader->request)) {
        request_finish(reader->request);
    }
}

static void on_changed(struct workspace_log_listener *listener)
{
    pump((struct log_reader *)listener);
}

static void on_writable(struct request *r)
{
    struct log_reader *reader = r->state;
    reader->is_blocked = false;
    pump(reader);
}

static void on_gone(struct request *r)
{
    struct log_reader *reader = r->state;
    workspace_log_unlisten(reader->log, &reader->listener);
    workspace_log_unref(reader->log);
    free(reader);
    r->state = NULL;
}

void listen_log_handle(struct request *r)
{
    const Cordium__ListenLogRequest *message = (const Cordium__ListenLogRequest *)r->message;
    struct workspace_log *log =
        r->touched.workspace
            ? workspace_log_find(r->gateway->workspaces, r->touched.workspace->metadata->uid)
            : find_log(r, message->workspace_ref);
    if (!log) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "Workspace '%s' is not ready: it has no log yet; start it first",
                          r->touched.workspace ? r->touched.workspace->metadata->name
                                               : message->workspace_ref->name);
        return;
    }
    struct log_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        request_fail_memory(r);
        return;
    }
    reader->log = workspace_log_ref(log);
    reader->request = r;
    reader->listener.changed = on_changed;
    workspace_log_listen(log, &reader->listener);
    r->state = reader;
    r->on_writable = on_writable;
    r->on_gone = on_gone;
    pump(reader);
}
