#ifndef EXECUTOR_STEPS_CGROUP_INTERNAL_H
#define EXECUTOR_STEPS_CGROUP_INTERNAL_H

#include <sys/types.h>

#include "executor/steps/cgroup.h"
#include "executor/steps/cgroup_mounts.h"

/* What cgroup.c, cgroup_usage.c and cgroup_kill.c share; nobody else includes it. */

struct cgroup_host {
    bool is_v2;
    bool denials_are_at_limit; /* see denials_are_at_limit() */
    bool renews_pids;          /* see CGROUP_RUN_LEAF */
    unsigned hierarchies;      /* 1 on v2 */
    int parents[CGROUP_HIERARCHIES];
    char parent[64];
    char mounts[CGROUP_HIERARCHIES][CGROUP_MOUNT_MAX];
    /* Whose I/O counts; see cgroup_host_count_io(). */
    bool counts_io;
    struct block_device io_device;
    struct cgroup *pool;
    unsigned pool_count;
    unsigned next_number;
};

struct cgroup_counters {
    uint64_t oom_kills;
    uint64_t pids_denied;
    uint64_t cpu_us;
    uint64_t cpu_user_us; /* on v1 by timer ticks only: how cpu_us splits, not how much it is */
    uint64_t cpu_system_us;
};

/* One directory in each hierarchy; v2 uses the first alone. */
struct cgroup_node {
    int dirs[CGROUP_HIERARCHIES];
    int join[CGROUP_HIERARCHIES];
    struct cgroup_counters start;
    /* A kill lets nothing fork: what is refused from then on is no news of the limit. */
    bool is_killed;
    uint64_t pids_denied_at_kill;
    /* What the kernel's peaks stood at when the use began: a higher one is this use's own. */
    uint64_t memory_peak_start; /* 0 when the peak begins anew, and where it began at nothing */
    uint64_t pids_peak_start;
    struct cgroup_io io_start;
    int memory_peak_fd; /* v2: a reset counts for reads through the same descriptor (Linux 6.12) */
};

struct cgroup_run {
    struct cgroup *group;
    unsigned number; /* of its name */
    struct cgroup_node node;
    bool is_busy;
    bool is_fresh; /* nothing has run in it since run_refresh() */
    bool has_limits;
    unsigned kill_start; /* where the next round of a kill begins in the list of processes */
    uint64_t group_denials_start;
    struct cgroup_run *next;
};

struct cgroup {
    struct cgroup_host *host;
    unsigned number;
    struct cgroup_node node;
    struct cgroup_run *runs;
    unsigned run_count;
    struct cgroup_limits limits; /* in force already: most sandboxes of a host ask for the same */
    bool has_limits;
    bool is_behind;
    /* Of runs whose group was used again since, where an event counts in that group alone. */
    uint64_t past_oom_kills;
    uint64_t past_pids_denied;
    struct cgroup *next;
};

/* A group is recycled, and pids.peak cannot be reset: so the pids of a run are counted in a group
 * that is made anew for each. On v1 that is its group of the pids hierarchy; on v2, where the whole
 * group would take its memory's accounting with it, a leaf with the pids controller alone. */
#define CGROUP_RUN_LEAF "leaf"

/* cgroup_usage.c */

/* A refused fork counts in pids.events of the group whose limit was hit, and above, since
 * Linux 6.11 on v2; before that, and on v1, in the group that forked alone. The newer way has a
 * second file. */
bool cgroup_denials_are_at_limit(int dir);
struct cgroup_counters cgroup_node_counters(const struct cgroup_host *host,
                                            const struct cgroup_node *node);
uint64_t cgroup_node_memory(const struct cgroup_host *host, const struct cgroup_node *node);

/* Begins the peaks anew, as far as the kernel can, and notes where they stand. */
void cgroup_node_begin_peaks(const struct cgroup_host *host, struct cgroup_node *node);

void cgroup_node_begin_io(const struct cgroup_host *host, struct cgroup_node *node);

/* Forks refused by the limit of the sandbox itself, where its runs do not count them: which run
 * they hit cannot be told. */
uint64_t cgroup_group_denials(const struct cgroup *group);

/* cgroup_kill.c */
bool cgroup_node_is_empty(const struct cgroup_host *host, const struct cgroup_node *node);

/* With pids.max at 0 nothing forks, so that the list can only shrink. Waits for a few processes,
 * which die at once; for many, or slow ones, the caller comes again. 0 = empty, 1 = not yet, or
 * -errno. */
int cgroup_node_kill(const struct cgroup_host *host, const struct cgroup_node *node,
                     unsigned *start);

/* Kills and removes every group beneath `dir`, at most `depth` + 1 levels deep. */
void cgroup_remove_beneath(int dir, unsigned depth);

#endif
