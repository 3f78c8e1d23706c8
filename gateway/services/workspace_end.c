#include "gateway/services/workspace_end.h"

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/gateway.h"

enum { LINE_MAX_BYTES = 32768 };

static void record(const struct workspace_run *run, struct audit_workspace *facts)
{
    struct gateway *g = run->gateway;
    struct buf line;
    if (!g->audit) {
        return;
    }
    facts->workspace = run->workspace;
    facts->space = run->space;
    facts->template_ = run->template_;
    buf_init(&line, LINE_MAX_BYTES);
    audit_record_workspace(facts, gateway_wall_ns(g), &line);
    (void)audit_log_append(g->audit, &line, NULL, NULL);
    buf_free(&line);
}

static const char *reason_of(const struct workspace_run *run)
{
    workspace_stopping_reason reason = run->workspace->status->stopping_reason;
    if (run->is_deleted) {
        return "DELETED";
    }
    return reason == WORKSPACE_STOPPING(API)       ? "API"
           : reason == WORKSPACE_STOPPING(CLUSTER) ? "CLUSTER"
           : reason == WORKSPACE_STOPPING(ERROR)   ? "ERROR"
                                                   : NULL;
}

void workspace_end_record(const struct workspace_run *run)
{
    struct audit_workspace facts = {.event = "WORKSPACE_END", .reason = reason_of(run)};
    facts.failure = run->workspace->status->failure;
    record(run, &facts);
}

void workspace_end_record_build(const struct workspace_run *run,
                                const Cordium__Workspace__Status__Failure *failure)
{
    struct audit_workspace facts = {.event = "BUILD_END",
                                    .build_id = run->build_id,
                                    .reason = failure ? "FAILED" : "READY",
                                    .failure = failure};
    record(run, &facts);
}
