#include "executor/steps/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/cgroup_internal.h"

enum {
    RUNS_PER_SANDBOX_MAX = 512, /* each costs 10 descriptors on v1, 3 on v2 */
    RUNS_KEPT = 4,              /* of a recycled group: what one sandbox needed, the next may not */
    POOL_MAX = 64,
    REUSE_MEMORY_MAX = 32 << 20,
    RUN_NAME_BYTES = 16,
    CPU_PERIOD_US = 100000,
    CPU_QUOTA_MIN_US = 1000, /* the kernel's own floor */
};

/* Of groups on v2. I/O is counted where there is a controller for it, and nothing else hangs from
 * it. */
#define CONTROLLERS "+memory +pids +cpu"
#define CONTROLLER_IO "+io"

static const char *join_file(const struct cgroup_host *host)
{
    return host->is_v2 ? "cgroup.procs" : "tasks";
}

static void node_init(struct cgroup_node *node)
{
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        node->dirs[i] = -1;
        node->join[i] = -1;
    }
    node->memory_peak_fd = -1;
}

static void node_close(struct cgroup_node *node)
{
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        fd_close(&node->dirs[i]);
        fd_close(&node->join[i]);
    }
    fd_close(&node->memory_peak_fd);
}

/* Where the processes of a group are, on v2, when it has controllers for its children: then it may
 * hold none itself. */
struct leaf {
    const char *name;
    const char *controllers; /* of it */
};

static const struct leaf sandbox_leaf = {"init", CONTROLLERS};
static const struct leaf run_leaf = {CGROUP_RUN_LEAF, "+pids"};

/* Makes `name` beneath a parent and opens it, in one hierarchy. */
static int node_make_in(const struct cgroup_host *host, unsigned i, int parent, const char *name,
                        const struct leaf *leaf, struct cgroup_node *ret, struct error *err)
{
    if (mkdirat(parent, name, 0755) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup mkdir '%s' in %s", name,
                               host->mounts[i]);
    }
    ret->dirs[i] = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret->dirs[i] == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup open '%s'", name);
    }
    char path[64];
    if (leaf) {
        (void)fd_write_file(ret->dirs[i], "cgroup.subtree_control", leaf->controllers);
        if (leaf == &sandbox_leaf) {
            (void)fd_write_file(ret->dirs[i], "cgroup.subtree_control", CONTROLLER_IO);
        }
        if (mkdirat(ret->dirs[i], leaf->name, 0755) == -1 && errno != EEXIST) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup mkdir '%s/%s'", name,
                                   leaf->name);
        }
    }
    (void)snprintf(path, sizeof path, "%s%s%s", leaf ? leaf->name : "", leaf ? "/" : "",
                   join_file(host));
    ret->join[i] = openat(ret->dirs[i], path, O_WRONLY | O_CLOEXEC);
    return ret->join[i] == -1
               ? error_set_errno(err, STATUS_INTERNAL, errno, "cgroup open '%s/%s'", name, path)
               : 0;
}

static int node_make(const struct cgroup_host *host, const int *parents, const char *name,
                     const struct leaf *leaf, struct cgroup_node *ret, struct error *err)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < host->hierarchies; i++) {
        r = node_make_in(host, i, parents[i], name, leaf, ret, err);
    }
    return r;
}

static void node_remove(const struct cgroup_host *host, const int *parents, const char *name,
                        struct cgroup_node *node)
{
    for (unsigned i = 0; i < host->hierarchies; i++) {
        if (host->is_v2 && node->dirs[i] >= 0) {
            (void)unlinkat(node->dirs[i], sandbox_leaf.name, AT_REMOVEDIR);
            (void)unlinkat(node->dirs[i], run_leaf.name, AT_REMOVEDIR);
        }
        (void)unlinkat(parents[i], name, AT_REMOVEDIR);
    }
    node_close(node);
}

static int limit_memory_v1(int dir, uint64_t bytes)
{
    /* memory + swap may never be under memory, whichever way the limit moves. */
    bool has_swap_limit = faccessat(dir, "memory.memsw.limit_in_bytes", F_OK, 0) == 0;
    if (has_swap_limit) {
        (void)fd_write_file(dir, "memory.memsw.limit_in_bytes", "-1");
    } else {
        (void)fd_write_file(dir, "memory.swappiness", "0");
    }
    int r = bytes ? fd_write_file_u64(dir, "memory.limit_in_bytes", bytes)
                  : fd_write_file(dir, "memory.limit_in_bytes", "-1");
    if (r == 0 && has_swap_limit && bytes) {
        r = fd_write_file_u64(dir, "memory.memsw.limit_in_bytes", bytes);
    }
    return r;
}

static int limit_v1(const struct cgroup_node *node, const struct cgroup_limits *limits,
                    bool with_cpu)
{
    int r = limit_memory_v1(node->dirs[CGROUP_MEMORY], limits->memory_bytes);
    if (r == 0) {
        r = limits->pids ? fd_write_file_u64(node->dirs[CGROUP_PIDS], "pids.max", limits->pids)
                         : fd_write_file(node->dirs[CGROUP_PIDS], "pids.max", "max");
    }
    if (r == 0 && with_cpu) {
        uint64_t quota = (uint64_t)limits->cpu_millicores * (CPU_PERIOD_US / 1000);
        r = fd_write_file_u64(node->dirs[CGROUP_CPU], "cpu.cfs_quota_us",
                              quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota);
    }
    return r;
}

static int limit_v2(const struct cgroup_node *node, const struct cgroup_limits *limits,
                    bool with_cpu)
{
    int dir = node->dirs[0];
    int r = limits->memory_bytes ? fd_write_file_u64(dir, "memory.max", limits->memory_bytes)
                                 : fd_write_file(dir, "memory.max", "max");
    (void)fd_write_file(dir, "memory.swap.max", "0"); /* absent when the kernel has no swap */
    if (r == 0) {
        r = limits->pids ? fd_write_file_u64(dir, "pids.max", limits->pids)
                         : fd_write_file(dir, "pids.max", "max");
    }
    if (r == 0 && with_cpu) {
        char text[48];
        uint64_t quota = (uint64_t)limits->cpu_millicores * (CPU_PERIOD_US / 1000);
        (void)snprintf(text, sizeof text, "%llu %d",
                       (unsigned long long)(quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota),
                       CPU_PERIOD_US);
        r = fd_write_file(dir, "cpu.max", text);
    }
    return r;
}

static int node_limit(const struct cgroup_host *host, const struct cgroup_node *node,
                      const struct cgroup_limits *limits, bool with_cpu, struct error *err)
{
    int r = host->is_v2 ? limit_v2(node, limits, with_cpu) : limit_v1(node, limits, with_cpu);
    return r == 0 ? 0
                  : error_set_errno(err, STATUS_INTERNAL, -r,
                                    "set cgroup limits (memory %llu bytes, %u pids, %u millicores)",
                                    (unsigned long long)limits->memory_bytes, limits->pids,
                                    limits->cpu_millicores);
}

static int open_parent(struct cgroup_host *host, unsigned i, struct error *err)
{
    AUTO_FD int mount = open(host->mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mount == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open cgroup mount '%s'",
                               host->mounts[i]);
    }
    if (host->is_v2 && fd_write_file(mount, "cgroup.subtree_control", CONTROLLERS) < 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "cgroup v2 at '%s' does not give memory, pids and cpu to its children: "
                         "start the executor outside a delegated group, or enable them there",
                         host->mounts[i]);
    }
    if (host->is_v2) {
        (void)fd_write_file(mount, "cgroup.subtree_control", CONTROLLER_IO);
    }
    if (mkdirat(mount, host->parent, 0755) == -1 && errno != EEXIST) {
        return error_set_errno(
            err, STATUS_FAILED_PRECONDITION, errno,
            "cgroup mkdir '%s/%s' (remedy: mount it writable, as on a host or in "
            "a privileged container)",
            host->mounts[i], host->parent);
    }
    host->parents[i] = openat(mount, host->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host->parents[i] == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cgroup open '%s/%s'",
                               host->mounts[i], host->parent);
    }
    if (host->is_v2) {
        (void)fd_write_file(host->parents[i], "cgroup.subtree_control", CONTROLLERS);
        (void)fd_write_file(host->parents[i], "cgroup.subtree_control", CONTROLLER_IO);
        host->denials_are_at_limit = cgroup_denials_are_at_limit(host->parents[i]);
    }
    cgroup_remove_beneath(host->parents[i], 2);
    return 0;
}

/* On v2 before Linux 6.11 a fork refused in a leaf would count in the leaf alone. On v1 controllers
 * that are mounted together share their groups. */
static bool pids_can_be_renewed(const struct cgroup_host *host)
{
    if (host->is_v2) {
        return host->denials_are_at_limit && faccessat(host->parents[0], "pids.peak", F_OK, 0) == 0;
    }
    for (unsigned i = 0; i < host->hierarchies; i++) {
        if (i != CGROUP_PIDS && strcmp(host->mounts[i], host->mounts[CGROUP_PIDS]) == 0) {
            return false;
        }
    }
    return faccessat(host->parents[CGROUP_PIDS], "pids.peak", F_OK, 0) == 0;
}

int cgroup_host_open(const char *parent, struct cgroup_host **ret, struct error *err)
{
    struct cgroup_host *host = calloc(1, sizeof *host);
    if (!host) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for cgroups");
    }
    (void)snprintf(host->parent, sizeof host->parent, "%s", parent);
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        host->parents[i] = -1;
    }
    int r = cgroup_mounts_find("/proc/self/mounts", host->mounts, &host->is_v2, err);
    /* The last of v1's is not needed, only useful. */
    host->hierarchies = host->is_v2                     ? 1
                        : host->mounts[CGROUP_BLKIO][0] ? CGROUP_HIERARCHIES
                                                        : CGROUP_BLKIO;
    for (unsigned i = 0; r == 0 && i < host->hierarchies; i++) {
        r = open_parent(host, i, err);
    }
    host->renews_pids = r == 0 && pids_can_be_renewed(host);
    if (r < 0) {
        cgroup_host_close(host);
        return r;
    }
    *ret = host;
    return 0;
}

bool cgroup_host_is_v2(const struct cgroup_host *host)
{
    return host->is_v2;
}

static void run_name(const struct cgroup_run *run, char ret[RUN_NAME_BYTES])
{
    (void)snprintf(ret, RUN_NAME_BYTES, "r%u", run->number);
}

/* Runs are numbered in the order in which they lie in the list, the newest first. */
static void remove_newest_run(struct cgroup *group)
{
    struct cgroup_run *run = group->runs;
    char name[RUN_NAME_BYTES];
    group->runs = run->next;
    group->run_count--;
    run_name(run, name);
    node_remove(group->host, group->node.dirs, name, &run->node);
    free(run);
}

/* A sandbox with hundreds of commands at once must not leave their descriptors to the pool. */
static void trim_runs(struct cgroup *group)
{
    while (group->run_count > RUNS_KEPT) {
        remove_newest_run(group);
    }
}

static void cgroup_remove(struct cgroup *group)
{
    struct cgroup_host *host = group->host;
    while (group->runs) {
        remove_newest_run(group);
    }
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", group->number);
    node_remove(host, host->parents, name, &group->node);
    free(group);
}

void cgroup_host_close(struct cgroup_host *host)
{
    if (!host) {
        return;
    }
    while (host->pool) {
        struct cgroup *group = host->pool;
        host->pool = group->next;
        cgroup_remove(group);
    }
    for (unsigned i = 0; i < host->hierarchies; i++) {
        if (host->parents[i] >= 0) {
            cgroup_remove_beneath(host->parents[i], 2);
            fd_close(&host->parents[i]);
            AUTO_FD int mount = open(host->mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            (void)unlinkat(mount, host->parent, AT_REMOVEDIR);
        }
    }
    free(host);
}

static int cgroup_make(struct cgroup_host *host, struct cgroup **ret, struct error *err)
{
    struct cgroup *group = calloc(1, sizeof *group);
    if (!group) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a cgroup");
    }
    group->host = host;
    group->number = host->next_number++;
    node_init(&group->node);
    char name[16];
    (void)snprintf(name, sizeof name, "s%u", group->number);
    int r =
        node_make(host, host->parents, name, host->is_v2 ? &sandbox_leaf : NULL, &group->node, err);
    if (r < 0) {
        cgroup_remove(group);
        return r;
    }
    *ret = group;
    return 0;
}

bool cgroup_pool_fill(struct cgroup_host *host, unsigned want)
{
    struct cgroup *group;
    struct cgroup_run *run;
    struct error err;
    if (host->pool_count >= want || cgroup_make(host, &group, &err) < 0) {
        return false;
    }
    /* The first run's group too: it is most of the cost of a start. */
    if (cgroup_run_acquire(group, &(struct cgroup_limits){0}, &run, &err) == 0) {
        cgroup_run_release(run);
    }
    group->next = host->pool;
    host->pool = group;
    host->pool_count++;
    return true;
}

static int group_limit(struct cgroup *group, const struct cgroup_limits *limits, struct error *err)
{
    const struct cgroup_limits *now = &group->limits;
    if (!group->has_limits || now->memory_bytes != limits->memory_bytes ||
        now->pids != limits->pids || now->cpu_millicores != limits->cpu_millicores) {
        group->has_limits = false;
        int r = node_limit(group->host, &group->node, limits, true, err);
        if (r < 0) {
            return r;
        }
        group->limits = *limits;
        group->has_limits = true;
    }
    cgroup_node_begin_peaks(group->host, &group->node);
    return 0;
}

int cgroup_acquire(struct cgroup_host *host, const struct cgroup_limits *limits,
                   struct cgroup **ret, struct error *err)
{
    struct cgroup *group = host->pool;
    int r = 0;
    if (group) {
        host->pool = group->next;
        host->pool_count--;
    } else {
        r = cgroup_make(host, &group, err);
    }
    if (r < 0) {
        return r;
    }
    r = group_limit(group, limits, err);
    if (r < 0) {
        cgroup_remove(group);
        return r;
    }
    group->node.start = cgroup_node_counters(host, &group->node);
    group->past_oom_kills = 0;
    group->past_pids_denied = 0;
    *ret = group;
    return 0;
}

void cgroup_set_behind(struct cgroup *group, bool is_behind)
{
    if (group->is_behind != is_behind) {
        int dir = group->node.dirs[group->host->is_v2 ? 0 : CGROUP_CPU];
        (void)fd_write_file(dir, "cpu.idle", is_behind ? "1" : "0");
        group->is_behind = is_behind;
    }
}

void cgroup_release(struct cgroup *group)
{
    if (!group) {
        return;
    }
    cgroup_set_behind(group, false);
    struct cgroup_host *host = group->host;
    for (struct cgroup_run *run = group->runs; run; run = run->next) {
        run->is_busy = false;
        run->node.start = cgroup_node_counters(host, &run->node);
    }
    trim_runs(group);
    /* The kernel writes back and reclaims what is over a new limit before it returns to us: a group
     * with much in it is not for others. */
    if (host->pool_count >= POOL_MAX || !cgroup_node_is_empty(host, &group->node) ||
        cgroup_node_memory(host, &group->node) > REUSE_MEMORY_MAX) {
        cgroup_remove(group);
        return;
    }
    group->next = host->pool;
    host->pool = group;
    host->pool_count++;
}

static size_t node_attach_fds(const struct cgroup_host *host, const struct cgroup_node *node,
                              int ret[CGROUP_ATTACH_MAX])
{
    memcpy(ret, node->join, host->hierarchies * sizeof *ret);
    return host->hierarchies;
}

size_t cgroup_attach_fds(const struct cgroup *group, int ret[CGROUP_ATTACH_MAX])
{
    return node_attach_fds(group->host, &group->node, ret);
}

static int run_make(struct cgroup *group, struct cgroup_run **ret, struct error *err)
{
    if (group->run_count >= RUNS_PER_SANDBOX_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "%u runs with live processes in one sandbox", RUNS_PER_SANDBOX_MAX);
    }
    struct cgroup_run *run = calloc(1, sizeof *run);
    if (!run) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a run's cgroup");
    }
    run->group = group;
    run->number = group->run_count;
    run->is_fresh = true;
    node_init(&run->node);
    char name[RUN_NAME_BYTES];
    run_name(run, name);
    int r = node_make(group->host, group->node.dirs, name,
                      group->host->is_v2 && group->host->renews_pids ? &run_leaf : NULL, &run->node,
                      err);
    if (r < 0) {
        node_remove(group->host, group->node.dirs, name, &run->node);
        free(run);
        return r;
    }
    group->run_count++;
    run->node.start = cgroup_node_counters(group->host, &run->node);
    run->next = group->runs;
    group->runs = run;
    *ret = run;
    return 0;
}

/* Not under a limit that is below what an earlier run left in it: see cgroup_release(). */
static bool run_is_reusable(const struct cgroup_run *run, uint64_t memory_bytes)
{
    const struct cgroup_host *host = run->group->host;
    return !run->is_busy && cgroup_node_is_empty(host, &run->node) &&
           (memory_bytes == 0 || memory_bytes > cgroup_node_memory(host, &run->node));
}

static int renew_leaf(struct cgroup_node *node, struct error *err)
{
    if (unlinkat(node->dirs[0], run_leaf.name, AT_REMOVEDIR) == -1) {
        return 0;
    }
    fd_close(&node->join[0]);
    if (mkdirat(node->dirs[0], run_leaf.name, 0755) == 0) {
        node->join[0] =
            openat(node->dirs[0], CGROUP_RUN_LEAF "/cgroup.procs", O_WRONLY | O_CLOEXEC);
    }
    return node->join[0] == -1
               ? error_set_errno(err, STATUS_INTERNAL, errno, "cgroup renew '%s'", run_leaf.name)
               : 0;
}

/* Makes the group anew in which a run's pids are counted: see CGROUP_RUN_LEAF. When the old one
 * cannot go it stays, and its peak with it. */
static int run_renew_pids(struct cgroup_run *run, struct error *err)
{
    const struct cgroup_host *host = run->group->host;
    struct cgroup_node *node = &run->node;
    int parent = run->group->node.dirs[CGROUP_PIDS];
    char name[RUN_NAME_BYTES];
    if (!host->renews_pids) {
        return 0;
    }
    if (host->is_v2) {
        return renew_leaf(node, err);
    }
    run_name(run, name);
    if (unlinkat(parent, name, AT_REMOVEDIR) == -1) {
        return 0;
    }
    fd_close(&node->dirs[CGROUP_PIDS]);
    fd_close(&node->join[CGROUP_PIDS]);
    return node_make_in(host, CGROUP_PIDS, parent, name, NULL, node, err);
}

/* Makes a group that a run has left ready for the next; what it counted stays in its sandbox's
 * sums. */
static int run_refresh(struct cgroup_run *run, struct error *err)
{
    struct cgroup *group = run->group;
    struct cgroup_counters now = cgroup_node_counters(group->host, &run->node);
    if (!group->host->is_v2) {
        group->past_oom_kills += now.oom_kills - run->node.start.oom_kills;
    }
    if (!group->host->denials_are_at_limit) {
        group->past_pids_denied += now.pids_denied - run->node.start.pids_denied;
    }
    int r = run_renew_pids(run, err);
    run->node.is_killed = false;
    run->node.start = cgroup_node_counters(group->host, &run->node);
    run->is_fresh = r == 0;
    return r;
}

static int run_begin(struct cgroup_run *run, const struct cgroup_limits *limits, struct error *err)
{
    struct cgroup *group = run->group;
    int r = run->is_fresh ? 0 : run_refresh(run, err);
    if (r < 0) {
        return r;
    }
    /* Also lifts the limits, and the pids.max of a kill, that an earlier run left. */
    bool wants_limits = limits->memory_bytes || limits->pids;
    if (wants_limits || run->has_limits) {
        r = node_limit(group->host, &run->node, limits, false, err);
        if (r < 0) {
            return r;
        }
    }
    cgroup_node_begin_peaks(group->host, &run->node);
    cgroup_node_begin_io(group->host, &run->node);
    run->has_limits = wants_limits;
    run->is_fresh = false;
    run->is_busy = true;
    run->group_denials_start = cgroup_group_denials(group);
    return 0;
}

int cgroup_run_acquire(struct cgroup *group, const struct cgroup_limits *limits,
                       struct cgroup_run **ret, struct error *err)
{
    struct cgroup_run *run = group->runs;
    while (run && !run_is_reusable(run, limits->memory_bytes)) {
        run = run->next;
    }
    int r = run ? 0 : run_make(group, &run, err);
    r = r < 0 ? r : run_begin(run, limits, err);
    if (r < 0) {
        return r;
    }
    *ret = run;
    return 0;
}

size_t cgroup_run_attach_fds(const struct cgroup_run *run, int ret[CGROUP_ATTACH_MAX])
{
    return node_attach_fds(run->group->host, &run->node, ret);
}

int cgroup_run_kill(struct cgroup_run *run)
{
    if (cgroup_node_is_empty(run->group->host, &run->node)) {
        return 0; /* nobody is left to fork */
    }
    run->has_limits = true; /* pids.max is 0 now */
    const struct cgroup_host *host = run->group->host;
    if (!run->node.is_killed) {
        run->node.pids_denied_at_kill = cgroup_node_counters(host, &run->node).pids_denied;
        run->node.is_killed = true;
    }
    return cgroup_node_kill(host, &run->node, &run->kill_start);
}

void cgroup_run_release(struct cgroup_run *run)
{
    struct error err;
    if (run && run->is_busy) {
        run->is_busy = false;
        if (cgroup_node_is_empty(run->group->host, &run->node)) {
            (void)run_refresh(run, &err); /* should it fail, the next use tries again, and tells */
        }
    }
}
