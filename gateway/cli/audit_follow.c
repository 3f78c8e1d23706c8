#include "gateway/cli/audit_follow.h"

#include <inttypes.h>

#include "gateway/cli/interrupt.h"
#include "gateway/cli/session.h"

#define AUDIT_WATCH "/cordium.ext.v1.AuditService/Watch"

enum { WAIT_FIRST_MS = 1000, WAIT_MAX_MS = 15000 };

struct flow {
    struct audit_printer *printer;
    uint64_t next; /* the first sequence that was not looked at */
    bool is_alive; /* something came since the last connection was made */
    struct error err;
};

static bool take_gap(struct flow *f, const Ext__AuditWatchEvent__Gap *gap)
{
    output_note("lines %" PRIu64 " to %" PRIu64 " are not in the log any more: deleted by its "
                "retention",
                gap->first_sequence, gap->last_sequence);
    f->next = gap->last_sequence + 1;
    return true;
}

static bool on_message(void *state, const ProtobufCMessage *message)
{
    struct flow *f = state;
    const Ext__AuditWatchEvent *event = (const Ext__AuditWatchEvent *)message;
    f->is_alive = true;
    if (event->type_case == EXT__AUDIT_WATCH_EVENT__TYPE_GAP) {
        return take_gap(f, event->gap);
    }
    if (event->type_case == EXT__AUDIT_WATCH_EVENT__TYPE_POSITION) {
        f->next = event->position >= f->next ? event->position + 1 : f->next;
        return true;
    }
    if (event->type_case != EXT__AUDIT_WATCH_EVENT__TYPE_RECORD ||
        event->record->sequence < f->next) {
        return true;
    }
    f->next = event->record->sequence + 1;
    return audit_printer_add(f->printer, &event->record, 1, &f->err) == 0;
}

/* Errors of a connection, or of a server that stops or has too much to do. */
static bool may_pass(int status)
{
    return status == STATUS_OK || status == STATUS_UNAVAILABLE || status == STATUS_ABORTED ||
           status == STATUS_INTERNAL || status == STATUS_UNKNOWN ||
           status == STATUS_DEADLINE_EXCEEDED || status == STATUS_CANCELLED;
}

/* One connection, as long as it holds. A session that has run out is made anew, once. */
static int watch_once(struct cli *cli, const Ext__AuditWatchRequest *request, int interrupt_fd,
                      struct flow *f, struct error *err)
{
    const struct transport_stream_handler handler = {
        .on_message = on_message, .state = f, .input_fd = -1, .interrupt_fd = interrupt_fd};
    int status = transport_stream(cli->transport, AUDIT_WATCH, &request->base, &handler, err);
    if (status == -STATUS_UNAUTHENTICATED) {
        struct error ignored;
        status = session_ensure(cli->transport, &cli->settings, &cli->arena, &ignored) == 0
                     ? transport_stream(cli->transport, AUDIT_WATCH, &request->base, &handler, err)
                     : status;
    }
    return status;
}

int audit_follow(struct cli *cli, Ext__AuditFilter *filter, uint64_t from_sequence,
                 int interrupt_fd, struct audit_printer *printer, struct error *err)
{
    Ext__AuditWatchRequest *request =
        CLI_NEW(cli, Ext__AuditWatchRequest, ext__audit_watch_request);
    struct flow f = {.printer = printer, .next = from_sequence};
    int wait_ms = WAIT_FIRST_MS;
    request->filter = filter;
    for (;;) {
        struct error lost = {0};
        request->from_sequence = f.next;
        f.is_alive = false;
        int status = watch_once(cli, request, interrupt_fd, &f, &lost);
        if (f.err.status) {
            return error_set(err, f.err.status, "%s", f.err.text);
        }
        if (interrupt_wait(interrupt_fd, 0)) {
            return 0;
        }
        if (!may_pass(-status)) {
            return error_set(err, -status, "%s", lost.text);
        }
        wait_ms = f.is_alive ? WAIT_FIRST_MS : wait_ms;
        output_note("%s; asking again in %d s, from line %" PRIu64 " on",
                    lost.status ? lost.text : "the server ended the call", wait_ms / 1000, f.next);
        if (interrupt_wait(interrupt_fd, wait_ms)) {
            return 0;
        }
        wait_ms = wait_ms * 2 < WAIT_MAX_MS ? wait_ms * 2 : WAIT_MAX_MS;
    }
}
