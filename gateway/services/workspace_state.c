#include "gateway/services/workspace_state.h"

#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"

static const char *const NAMES[] = {
    "UNKNOWN",        "INIT_REQUEST",     "INITIALIZING", "PULLING_IMAGE",
    "BUILDING_IMAGE", "STARTING_RUNTIME", "PREPARING",    "RUNNING",
    "UNKNOWN",        "STOPPING_REQUEST", "STOPPING",     "STOPPED",
};

const char *workspace_state_name(workspace_state state)
{
    return (unsigned)state < sizeof NAMES / sizeof NAMES[0] ? NAMES[state] : "UNKNOWN";
}

bool workspace_state_is_starting(workspace_state state)
{
    return state >= WORKSPACE_STATE(INIT_REQUEST) && state <= WORKSPACE_STATE(STARTING_RUNTIME);
}

bool workspace_state_is_stopping(workspace_state state)
{
    return state == WORKSPACE_STATE(STOPPING_REQUEST) || state == WORKSPACE_STATE(STOPPING);
}

bool workspace_state_may_follow(workspace_state from, workspace_state to)
{
    if (from == WORKSPACE_STATE(STOPPED) || from == WORKSPACE_STATE(UNKNOWN)) {
        return to == WORKSPACE_STATE(INIT_REQUEST);
    }
    return to > from;
}

/* Whole seconds of the run that ends are added to the total. */
static int add_duration(Cordium__Workspace__Status *status, int64_t wall_ns, struct arena *arena)
{
    int64_t started_ns = resource_timestamp_ns(status->last_initialized_at);
    uint32_t total = 0;
    if (status->total_last_runs_duration &&
        status->total_last_runs_duration->type_case == META__DURATION__TYPE_SECONDS) {
        total = status->total_last_runs_duration->seconds;
    }
    Meta__Duration *duration = CODEC_NEW(arena, Meta__Duration, meta__duration);
    if (!duration) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    if (started_ns > 0 && wall_ns > started_ns) {
        total += (uint32_t)((wall_ns - started_ns) / 1000000000);
    }
    duration->type_case = META__DURATION__TYPE_SECONDS;
    duration->seconds = total;
    status->total_last_runs_duration = duration;
    return 0;
}

static int leave_run(Cordium__Workspace__Status *status, Google__Protobuf__Timestamp *now,
                     struct arena *arena)
{
    static const char NOTHING[] = "";
    status->last_stopped_at = now;
    status->session_ref = NULL;
    status->region_ref = NULL;
    status->hostname = arena_strdup(arena, NOTHING);
    if (status->run) {
        status->run->stopped_at = now;
    }
    return status->hostname ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

int workspace_enter(Cordium__Workspace *workspace, workspace_state state, int64_t wall_ns,
                    struct arena *arena)
{
    Cordium__Workspace__Status *status = workspace->status;
    Google__Protobuf__Timestamp *now = resource_timestamp(wall_ns, arena);
    if (!now) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    status->last_state = status->state;
    status->last_state_set_at = status->current_state_set_at;
    status->state = state;
    status->current_state_set_at = now;
    if (state == WORKSPACE_STATE(RUNNING)) {
        status->last_running_at = now;
        status->last_activity_at = now;
        status->successful_runs++;
    } else if (state == WORKSPACE_STATE(STOPPING)) {
        return add_duration(status, wall_ns, arena);
    } else if (state == WORKSPACE_STATE(STOPPED)) {
        return leave_run(status, now, arena);
    }
    return 0;
}

/* The newest first, WORKSPACE_LAST_RUNS_MAX of them. */
static int keep_last_run(Cordium__Workspace__Status *status, struct arena *arena)
{
    if (!status->run) {
        return 0;
    }
    size_t count = status->n_last_runs + 1;
    if (count > WORKSPACE_LAST_RUNS_MAX) {
        count = WORKSPACE_LAST_RUNS_MAX;
    }
    Cordium__Workspace__Status__Run **runs = arena_calloc(arena, count, sizeof *runs);
    if (!runs) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    runs[0] = status->run;
    for (size_t i = 1; i < count; i++) {
        runs[i] = status->last_runs[i - 1];
    }
    status->last_runs = runs;
    status->n_last_runs = count;
    return 0;
}

static Cordium__Workspace__Status__Run *
new_run(const struct workspace_begin *begin, Google__Protobuf__Timestamp *now, struct arena *arena)
{
    Cordium__Workspace__Status__Run *run =
        CODEC_NEW(arena, Cordium__Workspace__Status__Run, cordium__workspace__status__run);
    if (!run) {
        return NULL;
    }
    run->id = arena_strdup(arena, begin->run_id);
    run->initialized_at = now;
    if (begin->config) {
        run->config = CODEC_COPY(arena, Cordium__StartWorkspaceRequest__Config, begin->config);
    }
    return run->id && (!begin->config || run->config) ? run : NULL;
}

int workspace_begin_run(Cordium__Workspace *workspace, const struct workspace_begin *begin,
                        int64_t wall_ns, struct arena *arena)
{
    Cordium__Workspace__Status *status = workspace->status;
    int rc = keep_last_run(status, arena);
    rc = rc ? rc : workspace_enter(workspace, WORKSPACE_STATE(INIT_REQUEST), wall_ns, arena);
    if (rc) {
        return rc;
    }
    Google__Protobuf__Timestamp *now = status->current_state_set_at;
    status->run = new_run(begin, now, arena);
    status->hostname = arena_strdup(arena, begin->hostname);
    status->limit = CODEC_COPY(arena, Cordium__Workspace__Spec__Limit, begin->limit);
    if (!status->run || !status->hostname || !status->limit) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    status->last_initialized_at = now;
    status->last_activity_at = now;
    status->last_stopping_reason = status->stopping_reason;
    status->stopping_reason = WORKSPACE_STOPPING(UNSET);
    status->failure = NULL;
    status->session_ref = begin->session_ref;
    status->region_ref = begin->region_ref;
    status->last_region_ref = begin->region_ref;
    return 0;
}

static void fill_failure_member(Cordium__Workspace__Status__Failure *f,
                                const struct workspace_failure *failure, struct arena *arena)
{
    char *name = arena_strdup(arena, failure->name ? failure->name : "");
    if (!name) {
        return;
    }
    if (failure->kind == WORKSPACE_FAILURE(TASK)) {
        f->task->name = name;
        f->task->exit_code = failure->exit_code;
    } else if (failure->kind == WORKSPACE_FAILURE(ADDITIONAL_REPO_CLONE)) {
        f->additional_repo_clone->name = name;
    } else if (failure->kind == WORKSPACE_FAILURE(VOLUME)) {
        f->volume->name = name;
    }
}

Cordium__Workspace__Status__Failure *workspace_make_failure(const struct workspace_failure *failure,
                                                            struct arena *arena)
{
    Cordium__Workspace__Status__Failure *f =
        CODEC_NEW(arena, Cordium__Workspace__Status__Failure, cordium__workspace__status__failure);
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &cordium__workspace__status__failure__descriptor, (unsigned)failure->kind);
    if (!f || !field) {
        return NULL;
    }
    /* All members of the oneof are pointers to a message and share one place. */
    ProtobufCMessage *member = codec_new(field->descriptor, arena);
    f->message = arena_strdup(arena, failure->message);
    if (!member || !f->message) {
        return NULL;
    }
    f->type_case = failure->kind;
    memcpy((char *)f + field->offset, &member, sizeof(void *));
    fill_failure_member(f, failure, arena);
    return f;
}

int workspace_set_failure(Cordium__Workspace *workspace, const struct workspace_failure *failure,
                          struct arena *arena)
{
    Cordium__Workspace__Status__Failure *f = workspace_make_failure(failure, arena);
    if (!f) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    workspace->status->failure = f;
    workspace->status->stopping_reason = WORKSPACE_STOPPING(ERROR);
    if (workspace->status->run) {
        workspace->status->run->failure = f;
    }
    return 0;
}

struct store_index workspace_index(const Cordium__Workspace *workspace)
{
    const Cordium__Workspace__Status *status = workspace->status;
    return (struct store_index){
        .space_uid = status->space_ref ? status->space_ref->uid : NULL,
        .owner_uid = status->user_ref ? status->user_ref->uid : NULL,
        .template_uid = status->template_ref ? status->template_ref->uid : NULL,
        .state = (int)status->state,
        .is_hidden = status->is_build,
    };
}
