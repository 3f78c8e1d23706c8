#include "executor/steps/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/cgroup_mounts.h"

enum {
    RUNS_PER_SANDBOX_MAX = 512, /* each costs 8 descriptors on v1, 2 on v2 */
    RUNS_KEPT = 4,              /* of a recycled group: what one sandbox needed, the next may not */
    POOL_MAX = 64,
    KILL_ROUNDS = 10, /* 50 us each: what the daemon waits for a tree to die */
    KILL_FEW = 16,
    PIDS_PER_ROUND = 256,
    PIDS_READ_MAX = 16384,
    REUSE_MEMORY_MAX = 32 << 20,
    CPU_PERIOD_US = 100000,
    CPU_QUOTA_MIN_US = 1000, /* the kernel's own floor */
};

struct cgroup_host {
    bool is_v2;
    bool denials_are_at_limit; /* see denials_are_at_limit() */
    unsigned hierarchies;      /* 1 on v2 */
    int parents[CGROUP_HIERARCHIES];
    char parent[64];
    char mounts[CGROUP_HIERARCHIES][CGROUP_MOUNT_MAX];
    struct cgroup *pool;
    unsigned pool_count;
    unsigned next_number;
};

struct counters {
    uint64_t oom_kills;
    uint64_t pids_denied;
    uint64_t cpu_us;
    uint64_t cpu_user_us; /* on v1 by timer ticks only: how cpu_us splits, not how much it is */
    uint64_t cpu_system_us;
};

/* One directory in each hierarchy; v2 uses the first alone. */
struct node {
    int dirs[CGROUP_HIERARCHIES];
    int join[CGROUP_HIERARCHIES];
    struct counters start;
};

struct cgroup_run {
    struct cgroup *group;
    struct node node;
    bool is_busy;
    bool has_limits;
    unsigned kill_start; /* where the next round of a kill begins in the list of processes */
    uint64_t group_denials_start;
    struct cgroup_run *next;
};

struct cgroup {
    struct cgroup_host *host;
    unsigned number;
    struct node node;
    struct cgroup_run *runs;
    unsigned run_count;
    struct cgroup_limits limits; /* in force already: most sandboxes of a host ask for the same */
    bool has_limits;
    /* Of runs whose group was used again since, where an event counts in that group alone. */
    uint64_t past_oom_kills;
    uint64_t past_pids_denied;
    struct cgroup *next;
};

static const char *join_file(const struct cgroup_host *host)
{
    return host->is_v2 ? "cgroup.procs" : "tasks";
}

static void node_init(struct node *node)
{
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        node->dirs[i] = -1;
        node->join[i] = -1;
    }
}

static void node_close(struct node *node)
{
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        fd_close(&node->dirs[i]);
        fd_close(&node->join[i]);
    }
}

/* Makes `name` beneath the parents and opens it. join_in names a leaf for processes, on v2, where
 * a group with controllers for its children may hold none itself. */
static int node_make(const struct cgroup_host *host, const int *parents, const char *name,
                     const char *join_in, struct node *ret, struct error *err)
{
    for (unsigned i = 0; i < host->hierarchies; i++) {
        if (mkdirat(parents[i], name, 0755) == -1 && errno != EEXIST) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup mkdir '%s' in %s", name,
                                   host->mounts[i]);
        }
        ret->dirs[i] = openat(parents[i], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->dirs[i] == -1) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup open '%s'", name);
        }
        char path[64];
        if (join_in) {
            (void)fd_write_file(ret->dirs[i], "cgroup.subtree_control", "+memory +pids +cpu");
            if (mkdirat(ret->dirs[i], join_in, 0755) == -1 && errno != EEXIST) {
                return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup mkdir '%s/%s'", name,
                                       join_in);
            }
            (void)snprintf(path, sizeof path, "%s/%s", join_in, join_file(host));
        } else {
            (void)snprintf(path, sizeof path, "%s", join_file(host));
        }
        ret->join[i] = openat(ret->dirs[i], path, O_WRONLY | O_CLOEXEC);
        if (ret->join[i] == -1) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "cgroup open '%s/%s'", name, path);
        }
    }
    return 0;
}

static void node_remove(const struct cgroup_host *host, const int *parents, const char *name,
                        struct node *node)
{
    for (unsigned i = 0; i < host->hierarchies; i++) {
        if (host->is_v2 && node->dirs[i] >= 0) {
            (void)unlinkat(node->dirs[i], "init", AT_REMOVEDIR);
        }
        (void)unlinkat(parents[i], name, AT_REMOVEDIR);
    }
    node_close(node);
}

static uint64_t read_u64(int dir, const char *file)
{
    uint64_t v = 0;
    (void)fd_read_file_u64(dir, file, &v);
    return v;
}

static uint64_t read_key(int dir, const char *file, const char *key)
{
    uint64_t v = 0;
    (void)fd_read_key_u64(dir, file, key, &v);
    return v;
}

static uint64_t node_oom_kills(const struct cgroup_host *host, const struct node *node)
{
    return host->is_v2 ? read_key(node->dirs[0], "memory.events", "oom_kill")
                       : read_key(node->dirs[CGROUP_MEMORY], "memory.oom_control", "oom_kill");
}

static struct counters node_counters(const struct cgroup_host *host, const struct node *node)
{
    const int *d = node->dirs;
    struct counters c;
    if (host->is_v2) {
        c.oom_kills = read_key(d[0], "memory.events", "oom_kill");
        c.pids_denied = read_key(d[0], "pids.events", "max");
        c.cpu_us = read_key(d[0], "cpu.stat", "usage_usec");
        c.cpu_user_us = read_key(d[0], "cpu.stat", "user_usec");
        c.cpu_system_us = read_key(d[0], "cpu.stat", "system_usec");
    } else {
        c.oom_kills = read_key(d[CGROUP_MEMORY], "memory.oom_control", "oom_kill");
        c.pids_denied = read_key(d[CGROUP_PIDS], "pids.events", "max");
        c.cpu_us = read_u64(d[CGROUP_CPUACCT], "cpuacct.usage") / 1000;
        c.cpu_user_us = read_u64(d[CGROUP_CPUACCT], "cpuacct.usage_user") / 1000;
        c.cpu_system_us = read_u64(d[CGROUP_CPUACCT], "cpuacct.usage_sys") / 1000;
    }
    return c;
}

/* A refused fork counts in pids.events of the group whose limit was hit, and above, since
 * Linux 6.11 on v2; before that, and on v1, in the group that forked alone. The newer way has a
 * second file. */
static bool denials_are_at_limit(const struct cgroup_host *host, int dir)
{
    return host->is_v2 && faccessat(dir, "pids.events.local", F_OK, 0) == 0;
}

/* Forks refused by the limit of the sandbox itself, where its runs do not count them: which run
 * they hit cannot be told. */
static uint64_t group_denials(const struct cgroup *group)
{
    return group->host->denials_are_at_limit
               ? read_key(group->node.dirs[0], "pids.events.local", "max")
               : 0;
}

static void node_read_usage(const struct cgroup_host *host, const struct node *node,
                            struct cgroup_usage *ret)
{
    const int *d = node->dirs;
    struct counters now = node_counters(host, node);
    *ret = (struct cgroup_usage){
        .oom_kills = now.oom_kills - node->start.oom_kills,
        .pids_denied = now.pids_denied - node->start.pids_denied,
    };
    uint64_t sum = now.cpu_us - node->start.cpu_us;
    uint64_t user = now.cpu_user_us - node->start.cpu_user_us;
    uint64_t system = now.cpu_system_us - node->start.cpu_system_us;
    if (user + system > 0) {
        ret->cpu_system_us = (uint64_t)((double)sum * (double)system / (double)(user + system));
    }
    ret->cpu_user_us = sum - ret->cpu_system_us;
    if (host->is_v2) {
        ret->memory_bytes = read_u64(d[0], "memory.current");
        ret->memory_peak_bytes = read_u64(d[0], "memory.peak");
        ret->pids = (uint32_t)read_u64(d[0], "pids.current");
    } else {
        ret->memory_bytes = read_u64(d[CGROUP_MEMORY], "memory.usage_in_bytes");
        ret->memory_peak_bytes = read_u64(d[CGROUP_MEMORY], "memory.max_usage_in_bytes");
        ret->pids = (uint32_t)read_u64(d[CGROUP_PIDS], "pids.current");
    }
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

static int limit_v1(const struct node *node, const struct cgroup_limits *limits, bool with_cpu)
{
    int r = limit_memory_v1(node->dirs[CGROUP_MEMORY], limits->memory_bytes);
    (void)fd_write_file(node->dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", "0");
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

static int limit_v2(const struct node *node, const struct cgroup_limits *limits, bool with_cpu)
{
    int dir = node->dirs[0];
    int r = limits->memory_bytes ? fd_write_file_u64(dir, "memory.max", limits->memory_bytes)
                                 : fd_write_file(dir, "memory.max", "max");
    (void)fd_write_file(dir, "memory.swap.max", "0"); /* absent when the kernel has no swap */
    (void)fd_write_file(dir, "memory.peak", "0");     /* resets since Linux 6.12 */
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

static int node_limit(const struct cgroup_host *host, const struct node *node,
                      const struct cgroup_limits *limits, bool with_cpu, struct error *err)
{
    int r = host->is_v2 ? limit_v2(node, limits, with_cpu) : limit_v1(node, limits, with_cpu);
    return r == 0 ? 0
                  : error_set_errno(err, STATUS_INTERNAL, -r,
                                    "set cgroup limits (memory %llu bytes, %u pids, %u millicores)",
                                    (unsigned long long)limits->memory_bytes, limits->pids,
                                    limits->cpu_millicores);
}

/* Reads the pids of a group as numbers of our pid namespace. Count, or -errno. */
static int read_pids(int dir, pid_t *ret, size_t max)
{
    AUTO_FD int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return -errno;
    }
    FILE *f = fdopen(fd, "r");
    if (!f) {
        return -errno;
    }
    (void)fd_take(&fd);
    size_t n = 0;
    long pid;
    while (n < max && fscanf(f, "%ld", &pid) == 1) {
        ret[n++] = (pid_t)pid;
    }
    (void)fclose(f);
    return (int)n;
}

static int compare_pids(const void *a, const void *b)
{
    const pid_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Signals some processes of a group, beginning with the one at `start` so that successive rounds
 * reach all of them. A pid may be reused by a stranger between reading and killing, so each is held
 * by a pidfd first and must be listed once more after that. */
static int kill_listed(int dir, unsigned start, size_t *ret_left)
{
    int pidfds[PIDS_PER_ROUND];
    pid_t *pids = malloc(2 * PIDS_READ_MAX * sizeof *pids);
    if (!pids) {
        return -ENOMEM;
    }
    pid_t *again = pids + PIDS_READ_MAX;
    int n = read_pids(dir, pids, PIDS_READ_MAX);
    int count = n < PIDS_PER_ROUND ? n : PIDS_PER_ROUND;
    for (int i = 0; i < count; i++) {
        pid_t pid = pids[(start + (unsigned)i) % (unsigned)n];
        pidfds[i] = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    int m = n > 0 ? read_pids(dir, again, PIDS_READ_MAX) : 0;
    if (m > 0) {
        qsort(again, (size_t)m, sizeof *again, compare_pids);
    }
    for (int i = 0; i < count; i++) {
        const pid_t *pid = &pids[(start + (unsigned)i) % (unsigned)n];
        if (m > 0 && pidfds[i] >= 0 &&
            bsearch(pid, again, (size_t)m, sizeof *again, compare_pids)) {
            (void)syscall(SYS_pidfd_send_signal, pidfds[i], SIGKILL, NULL, 0);
        }
        fd_close(&pidfds[i]);
    }
    free(pids);
    *ret_left = n > 0 ? (size_t)n : 0;
    return n < 0 ? n : 0;
}

static bool node_is_empty(const struct cgroup_host *host, const struct node *node)
{
    return read_u64(node->dirs[host->is_v2 ? 0 : CGROUP_PIDS], "pids.current") == 0;
}

/* With pids.max at 0 nothing forks, so that the list can only shrink. Waits for a few processes,
 * which die at once; for many, or slow ones, the caller comes again. 0 = empty, 1 = not yet. */
static int node_kill(const struct cgroup_host *host, const struct node *node, unsigned *start)
{
    int pids_dir = node->dirs[host->is_v2 ? 0 : CGROUP_PIDS];
    bool by_kernel = host->is_v2 && fd_write_file(pids_dir, "cgroup.kill", "1") == 0;
    if (!by_kernel) {
        (void)fd_write_file(pids_dir, "pids.max", "0");
    }
    for (int round = 0; round < KILL_ROUNDS; round++) {
        if (node_is_empty(host, node)) {
            return 0;
        }
        size_t left = 0;
        int r = by_kernel ? 0 : kill_listed(pids_dir, *start, &left);
        if (r < 0) {
            return r;
        }
        *start += PIDS_PER_ROUND;
        if (left > KILL_FEW) {
            return 1;
        }
        const struct timespec pause = {.tv_nsec = 50000};
        (void)nanosleep(&pause, NULL);
    }
    return node_is_empty(host, node) ? 0 : 1;
}

static uint64_t node_memory(const struct cgroup_host *host, const struct node *node)
{
    return host->is_v2 ? read_u64(node->dirs[0], "memory.current")
                       : read_u64(node->dirs[CGROUP_MEMORY], "memory.usage_in_bytes");
}

/* Kills and removes every group beneath `dir`, at most two levels deep: ours are. */
static void remove_groups(int dir, unsigned depth)
{
    AUTO_FD int scan = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = scan == -1 ? NULL : fdopendir(scan);
    if (!d) {
        return;
    }
    (void)fd_take(&scan);
    struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') {
            continue;
        }
        AUTO_FD int child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (child == -1) {
            continue;
        }
        (void)fd_write_file(child, "pids.max", "0");
        size_t left = 1;
        for (int round = 0; round < 200 && left > 0 &&
                            kill_listed(child, (unsigned)round * PIDS_PER_ROUND, &left) == 0;
             round++) {
            if (left > 0) {
                const struct timespec pause = {.tv_nsec = 1000000};
                (void)nanosleep(&pause, NULL);
            }
        }
        if (depth > 0) {
            remove_groups(child, depth - 1);
        }
        for (int tries = 0; tries < 200; tries++) {
            if (unlinkat(dir, entry->d_name, AT_REMOVEDIR) == 0 || errno != EBUSY) {
                break;
            }
            const struct timespec pause = {.tv_nsec = 1000000};
            (void)nanosleep(&pause, NULL);
        }
    }
    (void)closedir(d);
}

static int open_parent(struct cgroup_host *host, unsigned i, struct error *err)
{
    AUTO_FD int mount = open(host->mounts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mount == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open cgroup mount '%s'",
                               host->mounts[i]);
    }
    if (host->is_v2 && fd_write_file(mount, "cgroup.subtree_control", "+memory +pids +cpu") < 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "cgroup v2 at '%s' does not give memory, pids and cpu to its children: "
                         "start the executor outside a delegated group, or enable them there",
                         host->mounts[i]);
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
        (void)fd_write_file(host->parents[i], "cgroup.subtree_control", "+memory +pids +cpu");
        host->denials_are_at_limit = denials_are_at_limit(host, host->parents[i]);
    }
    remove_groups(host->parents[i], 2);
    return 0;
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
    host->hierarchies = host->is_v2 ? 1 : CGROUP_HIERARCHIES;
    for (unsigned i = 0; r == 0 && i < host->hierarchies; i++) {
        r = open_parent(host, i, err);
    }
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

/* Runs are numbered in the order in which they lie in the list, the newest first. */
static void remove_newest_run(struct cgroup *group)
{
    struct cgroup_run *run = group->runs;
    char name[16];
    group->runs = run->next;
    (void)snprintf(name, sizeof name, "r%u", --group->run_count);
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
            remove_groups(host->parents[i], 2);
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
    int r = node_make(host, host->parents, name, host->is_v2 ? "init" : NULL, &group->node, err);
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
    } else if (!group->host->is_v2) {
        (void)fd_write_file(group->node.dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", "0");
    } else {
        (void)fd_write_file(group->node.dirs[0], "memory.peak", "0");
    }
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
    group->node.start = node_counters(host, &group->node);
    group->past_oom_kills = 0;
    group->past_pids_denied = 0;
    *ret = group;
    return 0;
}

void cgroup_release(struct cgroup *group)
{
    if (!group) {
        return;
    }
    struct cgroup_host *host = group->host;
    for (struct cgroup_run *run = group->runs; run; run = run->next) {
        run->is_busy = false;
        run->node.start = node_counters(host, &run->node);
    }
    trim_runs(group);
    /* The kernel writes back and reclaims what is over a new limit before it returns to us: a group
     * with much in it is not for others. */
    if (host->pool_count >= POOL_MAX || !node_is_empty(host, &group->node) ||
        node_memory(host, &group->node) > REUSE_MEMORY_MAX) {
        cgroup_remove(group);
        return;
    }
    group->next = host->pool;
    host->pool = group;
    host->pool_count++;
}

static size_t node_attach_fds(const struct cgroup_host *host, const struct node *node,
                              int ret[CGROUP_ATTACH_MAX])
{
    memcpy(ret, node->join, host->hierarchies * sizeof *ret);
    return host->hierarchies;
}

size_t cgroup_attach_fds(const struct cgroup *group, int ret[CGROUP_ATTACH_MAX])
{
    return node_attach_fds(group->host, &group->node, ret);
}

void cgroup_read_usage(const struct cgroup *group, struct cgroup_usage *ret)
{
    const struct cgroup_host *host = group->host;
    node_read_usage(host, &group->node, ret);
    /* Where an event counts in the group where it happened, and nowhere above: ooms on v1, refused
     * forks on v1 and before Linux 6.11. */
    ret->oom_kills += group->past_oom_kills;
    ret->pids_denied += group->past_pids_denied;
    for (const struct cgroup_run *run = host->denials_are_at_limit ? NULL : group->runs; run;
         run = run->next) {
        struct counters c = node_counters(host, &run->node);
        ret->oom_kills += host->is_v2 ? 0 : c.oom_kills - run->node.start.oom_kills;
        ret->pids_denied += c.pids_denied - run->node.start.pids_denied;
    }
}

uint64_t cgroup_read_oom_kills(const struct cgroup *group)
{
    const struct cgroup_host *host = group->host;
    uint64_t sum =
        group->past_oom_kills + node_oom_kills(host, &group->node) - group->node.start.oom_kills;
    for (const struct cgroup_run *run = host->is_v2 ? NULL : group->runs; run; run = run->next) {
        sum += node_oom_kills(host, &run->node) - run->node.start.oom_kills;
    }
    return sum;
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
    node_init(&run->node);
    char name[16];
    (void)snprintf(name, sizeof name, "r%u", group->run_count);
    int r = node_make(group->host, group->node.dirs, name, NULL, &run->node, err);
    if (r < 0) {
        node_remove(group->host, group->node.dirs, name, &run->node);
        free(run);
        return r;
    }
    group->run_count++;
    run->node.start = node_counters(group->host, &run->node);
    run->next = group->runs;
    group->runs = run;
    *ret = run;
    return 0;
}

/* Not under a limit that is below what an earlier run left in it: see cgroup_release(). */
static bool run_is_reusable(const struct cgroup_run *run, uint64_t memory_bytes)
{
    const struct cgroup_host *host = run->group->host;
    return !run->is_busy && node_is_empty(host, &run->node) &&
           (memory_bytes == 0 || memory_bytes > node_memory(host, &run->node));
}

int cgroup_run_acquire(struct cgroup *group, const struct cgroup_limits *limits,
                       struct cgroup_run **ret, struct error *err)
{
    struct cgroup_run *run = group->runs;
    while (run && !run_is_reusable(run, limits->memory_bytes)) {
        run = run->next;
    }
    int r = run ? 0 : run_make(group, &run, err);
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
    } else if (!group->host->is_v2) {
        (void)fd_write_file(run->node.dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", "0");
    }
    run->has_limits = wants_limits;
    run->is_busy = true;
    struct counters now = node_counters(group->host, &run->node);
    if (!group->host->is_v2) {
        group->past_oom_kills += now.oom_kills - run->node.start.oom_kills;
    }
    if (!group->host->denials_are_at_limit) {
        group->past_pids_denied += now.pids_denied - run->node.start.pids_denied;
    }
    run->node.start = now;
    run->group_denials_start = group_denials(group);
    *ret = run;
    return 0;
}

size_t cgroup_run_attach_fds(const struct cgroup_run *run, int ret[CGROUP_ATTACH_MAX])
{
    return node_attach_fds(run->group->host, &run->node, ret);
}

int cgroup_run_kill(struct cgroup_run *run)
{
    if (node_is_empty(run->group->host, &run->node)) {
        return 0; /* nobody is left to fork */
    }
    run->has_limits = true; /* pids.max is 0 now */
    return node_kill(run->group->host, &run->node, &run->kill_start);
}

void cgroup_run_read_usage(const struct cgroup_run *run, struct cgroup_usage *ret)
{
    node_read_usage(run->group->host, &run->node, ret);
    ret->pids_denied += group_denials(run->group) - run->group_denials_start;
}

void cgroup_run_release(struct cgroup_run *run)
{
    if (run) {
        run->is_busy = false;
    }
}
