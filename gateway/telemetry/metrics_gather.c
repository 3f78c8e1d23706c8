#include "gateway/telemetry/metrics_gather.h"

#include <dirent.h>
#include <sys/resource.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/services/audit_desk.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/workspace_run.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/telemetry.h"

struct phases {
    uint64_t count[METRIC_PHASE_COUNT];
};

static void count_phase(struct workspace_run *run, void *context)
{
    struct phases *phases = context;
    workspace_state state = run->workspace->status->state;
    phases->count[workspace_state_is_stopping(state)   ? METRIC_PHASE_STOPPING
                  : workspace_state_is_starting(state) ? METRIC_PHASE_STARTING
                                                       : METRIC_PHASE_RUNNING]++;
}

static void gather_workspaces(struct gateway *g)
{
    struct phases phases = {0};
    workspace_table_each(g->workspaces, count_phase, &phases);
    for (unsigned i = 0; i < METRIC_PHASE_COUNT; i++) {
        metrics_set(g->metrics, METRIC_WORKSPACES, i, phases.count[i]);
    }
}

static void gather_audit_desk(struct gateway *g)
{
    struct line_index_state state;
    line_index_state(audit_desk_index(g->audit_desk), &state);
    metrics_set(g->metrics, METRIC_AUDIT_UNREAD, 0, state.unread_files);
}

static void gather_audit(struct gateway *g)
{
    struct audit_lag lag = audit_log_lag(g->audit);
    metrics_set(g->metrics, METRIC_QUEUE_DEPTH, METRIC_QUEUE_AUDIT, lag.lines);
    metrics_set(g->metrics, METRIC_AUDIT_LAG, 0, lag.oldest_ns ? uv_hrtime() - lag.oldest_ns : 0);
    metrics_set(g->metrics, METRIC_AUDIT_LINES, 0,
                audit_log_sequence(g->audit) - telemetry_first_sequence(g->telemetry));
}

/* 0 when /proc is not there. */
static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) {
        count++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count > 3 ? count - 3 : 0; /* ".", ".." and the one that reads */
}

static uint64_t timeval_ns(struct timeval t)
{
    return ((uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec) * 1000;
}

static void gather_process(struct gateway *g)
{
    struct rusage usage = {0};
    size_t memory = 0;
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)uv_resident_set_memory(&memory);
    metrics_set(g->metrics, METRIC_PROCESS_CPU, 0,
                timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime));
    metrics_set(g->metrics, METRIC_PROCESS_MEMORY, 0, memory);
    metrics_set(g->metrics, METRIC_PROCESS_FILES, 0, open_files());
    metrics_set(g->metrics, METRIC_PROCESS_START, 0, (uint64_t)metrics_started_wall_ns(g->metrics));
}

void metrics_gather(struct gateway *g)
{
    struct telemetry_depths depths = telemetry_depths(g->telemetry);
    /* A start that failed has not all parts. */
    if (!g->metrics) {
        return;
    }
    if (g->workspaces) {
        gather_workspaces(g);
    }
    if (g->audit) {
        gather_audit(g);
    }
    if (g->audit_desk) {
        gather_audit_desk(g);
    }
    gather_process(g);
    metrics_set(g->metrics, METRIC_QUEUE_DEPTH, METRIC_QUEUE_IMAGE_BUILDS,
                image_table_count(g->images));
    metrics_set(g->metrics, METRIC_QUEUE_DEPTH, METRIC_QUEUE_RUNS,
                oneshot_table_count(g->oneshots));
    metrics_set(g->metrics, METRIC_QUEUE_DEPTH, METRIC_QUEUE_OTLP, depths.otlp);
    metrics_set(g->metrics, METRIC_QUEUE_DEPTH, METRIC_QUEUE_SYSLOG, depths.syslog);
    metrics_set(g->metrics, METRIC_EXECUTOR_CONNECTED, 0,
                g->executor && executor_link_host(g->executor));
    metrics_set(g->metrics, METRIC_BUILD_INFO, 0, 1);
}
