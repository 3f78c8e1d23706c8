#include "gateway/cli/workspace_wait.h"

#include <stdio.h>
#include <time.h>

#include "gateway/cli/field.h"
#include "gateway/cli/output.h"

enum { POLL_FIRST_MS = 20, POLL_LAST_MS = 1000 };

static void sleep_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

static int get_workspace(struct cli *cli, const char *name, Cordium__Workspace **ret,
                         struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, &meta__get_options__descriptor);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "name", name, &cli->arena);
    int status = cli_call(cli, CORDIUM_MAIN "GetWorkspace", request, &reply, err);
    *ret = (Cordium__Workspace *)reply;
    return status;
}

const char *workspace_failure_text(struct cli *cli, const Cordium__Workspace__Status__Failure *f)
{
    if (!f || f->message[0]) {
        return f ? f->message : "";
    }
    for (unsigned i = 0; i < f->base.descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *d = &f->base.descriptor->fields[i];
        if (d->id == (uint32_t)f->type_case) {
            return cli_printf(cli, "%s", d->name);
        }
    }
    return "";
}

static int wait_for(struct cli *cli, const char *name, bool for_running, struct error *err)
{
    unsigned pause_ms = POLL_FIRST_MS;
    for (;;) {
        Cordium__Workspace *w = NULL;
        if (get_workspace(cli, name, &w, err) < 0) {
            output_progress_clear();
            return -err->status;
        }
        int state = w->status ? (int)w->status->state : 0;
        if (state == CORDIUM__WORKSPACE__STATUS__STATE__STOPPED && for_running) {
            output_progress_clear();
            const Cordium__Workspace__Status__Failure *f = w->status->run && w->status->run->failure
                                                               ? w->status->run->failure
                                                               : w->status->failure;
            const char *why = workspace_failure_text(cli, f);
            return error_set(err, STATUS_FAILED_PRECONDITION, "Workspace '%s' did not start%s%s",
                             name, why[0] ? ": " : "", why);
        }
        if (state == (for_running ? CORDIUM__WORKSPACE__STATUS__STATE__RUNNING
                                  : CORDIUM__WORKSPACE__STATUS__STATE__STOPPED)) {
            output_progress_clear();
            return 0;
        }
        output_progress("%s: %s", name, field_text(&w->base, "status.state", &cli->arena));
        sleep_ms(pause_ms);
        pause_ms = pause_ms * 2 > POLL_LAST_MS ? POLL_LAST_MS : pause_ms * 2;
    }
}

int workspace_wait_running(struct cli *cli, const char *name, struct error *err)
{
    return wait_for(cli, name, true, err);
}

int workspace_wait_stopped(struct cli *cli, const char *name, struct error *err)
{
    return wait_for(cli, name, false, err);
}

struct log_flow {
    struct cli *cli;
    bool with_times;
};

static bool on_log(void *state, const ProtobufCMessage *message)
{
    struct log_flow *f = state;
    const Cordium__ListenLogResponse *r = (const Cordium__ListenLogResponse *)message;
    FILE *to = r->mode == CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR ? stderr : stdout;
    if (f->with_times) {
        fprintf(to, "%s ", field_text(message, "created_at", &f->cli->arena));
    }
    return fwrite(r->data.data, 1, r->data.len, to) == r->data.len && fflush(to) == 0;
}

int workspace_follow_log(struct cli *cli, const char *name, bool with_times, struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, &cordium__listen_log_request__descriptor);
    struct log_flow flow = {cli, with_times};
    struct transport_stream_handler handler = {
        .on_message = on_log, .state = &flow, .input_fd = -1};
    (void)field_set_text(request, "workspace_ref.name", name, &cli->arena);
    return transport_stream(cli->transport, CORDIUM_WORKSPACE "ListenLog", request, &handler, err);
}
