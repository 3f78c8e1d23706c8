#include "gateway/services/workspace_record.h"

#include <string.h>

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_unended.h"
#include "gateway/gateway.h"
#include "gateway/services/isolation.h"
#include "gateway/services/limits.h"
#include "gateway/state/resource.h"

enum { LINE_MAX_BYTES = 32768 };

static int append(const struct gateway *g, const struct audit_workspace *facts)
{
    struct buf line;
    if (!g->audit) {
        return 0;
    }
    buf_init(&line, LINE_MAX_BYTES);
    audit_record_workspace(facts, gateway_wall_ns(g), &line);
    int rc = audit_log_append(g->audit, &line, NULL, NULL);
    buf_free(&line);
    return rc;
}

static void record(const struct workspace_run *run, struct audit_workspace *facts)
{
    facts->workspace = run->workspace;
    facts->space = run->space;
    facts->template_ = run->template_;
    (void)append(run->gateway, facts);
}

void workspace_record_running(const struct workspace_run *run)
{
    struct audit_workspace facts = {.event = "WORKSPACE_RUNNING",
                                    .image = run->image_id,
                                    .layers = run->layers,
                                    .layer_count = run->layer_count};
    record(run, &facts);
}

int workspace_note_layers(struct workspace_run *run, const struct executor_sandbox_spec *sandbox)
{
    struct isolation_layer layers[ISOLATION_LAYERS_MAX];
    size_t count = isolation_list(run, sandbox, layers, &run->spec_arena);
    struct audit_layer *noted = arena_calloc(&run->spec_arena, count, sizeof *noted);
    for (size_t i = 0; noted && i < count; i++) {
        noted[i] = (struct audit_layer){layers[i].name, layers[i].detail,
                                        limit_source_name(layers[i].set_by)};
        if (!layers[i].detail) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
    }
    run->layers = noted;
    run->layer_count = noted ? count : 0;
    return noted ? 0 : -STATUS_RESOURCE_EXHAUSTED;
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

void workspace_record_end(const struct workspace_run *run)
{
    struct audit_workspace facts = {.event = "WORKSPACE_END", .reason = reason_of(run)};
    facts.failure = run->workspace->status->failure;
    record(run, &facts);
}

/* A build's hidden workspace is named build-TEMPLATE-ID. */
static const char *build_id_of(const Cordium__Workspace *workspace)
{
    const char *dash = strrchr(workspace->metadata->name, '-');
    return dash ? dash + 1 : NULL;
}

int workspace_record_leftover(struct gateway *g, const Cordium__Workspace *workspace,
                              struct error *err)
{
    const Cordium__Workspace__Status *status = workspace->status;
    struct audit_workspace facts = {.event = "WORKSPACE_END",
                                    .reason = "ERROR",
                                    .workspace = workspace,
                                    .failure = status->failure};
    if (audit_unended_has_workspace_end(g->unended, workspace->metadata->uid,
                                        resource_timestamp_ns(status->last_initialized_at))) {
        return 0;
    }
    if (status->is_build) {
        facts.event = "BUILD_END";
        facts.reason = "FAILED";
        facts.build_id = build_id_of(workspace);
    }
    return append(g, &facts) ? error_set(err, STATUS_UNAVAILABLE,
                                         "the audit log does not take the end of workspace '%s'",
                                         workspace->metadata->name)
                             : 0;
}

void workspace_record_build_end(const struct workspace_run *run,
                                const Cordium__Workspace__Status__Failure *failure)
{
    struct audit_workspace facts = {.event = "BUILD_END",
                                    .build_id = run->build_id,
                                    .reason = failure ? "FAILED" : "READY",
                                    .failure = failure};
    record(run, &facts);
}
