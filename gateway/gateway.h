#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdint.h>

#include "policy/base/status.h"

struct uv_loop_s;
struct gateway_config;
struct store;
struct edge_server;
struct open_calls;
struct executor_link;
struct policy_store;
struct audit_log;
struct audit_unended;
struct workspace_table;
struct image_table;
struct watch_hub;
struct oneshot_table;
struct work_queue;
struct audit_desk;
struct metrics;
struct telemetry;

/* Everything the daemon has; made by main.c and passed as first argument. */
struct gateway {
    struct uv_loop_s *loop;
    const struct gateway_config *config;
    struct store *store;
    struct edge_server *edge;
    struct open_calls *open_calls;      /* gateway/open_calls.h */
    struct executor_link *executor;     /* gateway/executor_link.h */
    struct policy_store *policies;      /* authorize/policy_store.h */
    struct audit_log *audit;            /* audit/audit_log.h */
    struct audit_unended *unended;      /* audit/audit_unended.h; while it starts */
    struct workspace_table *workspaces; /* services/workspace_run.h: live workspaces */
    struct image_table *images;         /* services/image_builder.h */
    struct watch_hub *watches;          /* services/watch.h */
    struct oneshot_table *oneshots;     /* services/oneshot_table.h */
    struct work_queue *work;            /* services/work_queue.h */
    struct audit_desk *audit_desk;      /* services/audit_desk.h */
    struct metrics *metrics;            /* telemetry/metrics.h; NULL counts nothing */
    struct telemetry *telemetry;        /* telemetry/telemetry.h */
};

/* The one clock: wall time in nanoseconds since 1970, and monotonic nanoseconds. */
int64_t gateway_wall_ns(const struct gateway *g);
uint64_t gateway_monotonic_ns(const struct gateway *g);

#endif
