#include "gateway/services/workspace_record.h"

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/gateway.h"
#include "gateway/services/isolation.h"
#include "gateway/services/limits.h"

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

void workspace_record_build_end(const struct workspace_run *run,
                                const Cordium__Workspace__Status__Failure *failure)
{
    struct audit_workspace facts = {.event = "BUILD_END",
                                    .build_id = run->build_id,
                                    .reason = failure ? "FAILED" : "READY",
                                    .failure = failure};
    record(run, &facts);
}
