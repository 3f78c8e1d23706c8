#ifndef EXECUTOR_STEPS_CGROUP_H
#define EXECUTOR_STEPS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/steps/block_device.h"
#include "policy/base/status.h"

/* Memory, pids and cpu limits, accounting and the kill of whole trees. Cgroup v2, or v1 where the
 * controllers are bound there. A process joins by writing "0" itself, to `tasks` on v1: joining
 * from outside through cgroup.procs takes a lock that costs milliseconds (facts, sandbox 4e). */

enum { CGROUP_ATTACH_MAX = 5 };

struct cgroup_host;
struct cgroup;     /* of one sandbox */
struct cgroup_run; /* of one run, inside it */

struct cgroup_limits {
    uint64_t memory_bytes; /* 0 = none of its own */
    uint32_t pids;
    uint32_t cpu_millicores;
};

/* Of block devices: what was read from and written to them in the group's name. What waits in the
 * page cache is not written yet; on v1 what the kernel writes from there later is in nobody's name,
 * so that only writes count that a process waited for (fsync(2), O_DIRECT). */
struct cgroup_io {
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t reads;
    uint64_t writes;
};

struct cgroup_usage {
    uint64_t memory_bytes;
    /* Of a use of a recycled group. Where the kernel cannot begin a peak anew, one that is not
     * above the last use's cannot be told: then has_ is false. */
    bool has_memory_peak;
    bool has_pids_peak; /* pids.peak: Linux 6.6 */
    bool has_io;        /* of a run; see cgroup_host_count_io() */
    uint64_t memory_peak_bytes;
    uint32_t pids_peak; /* processes and threads */
    struct cgroup_io io;
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t oom_kills; /* since cgroup_run_acquire() or cgroup_acquire() */
    /* The same. On v2 since Linux 6.11 a fork that the sandbox's limit refused counts for each of
     * its runs that was alive: whose it was cannot be told. */
    uint64_t pids_denied;
    uint32_t pids;
};

/* Probes, makes our own parent group, and kills and removes what an earlier run left in it.
 * FAILED_PRECONDITION names the controller that is missing and the remedy. */
int cgroup_host_open(const char *parent, struct cgroup_host **ret, struct error *err);

/* Removes the pool and the parent group. NULL is fine. */
void cgroup_host_close(struct cgroup_host *host);
bool cgroup_host_is_v2(const struct cgroup_host *host);

/* Counts runs' I/O of this device, which may be a part of a disk. Of this one alone: block devices
 * lie on one another, and what passes through two would count twice. False when the kernel cannot
 * tell: no io (v2) or blkio (v1) controller, or many devices on v1. */
bool cgroup_host_count_io(struct cgroup_host *host, const struct block_device *device);

/* Parsers of the kernel's files, cgroup-v2.rst "io.stat" and cgroup-v1/blkio-controller.rst. */
void cgroup_io_read_stat(const char *text, const struct block_device *device,
                         struct cgroup_io *ret);
void cgroup_io_read_blkio(const char *text, const struct block_device *device, uint64_t *ret_read,
                          uint64_t *ret_write);

/* A group for a sandbox, from the pool when there is one: recycled groups cost less, and leave no
 * dying memory cgroup behind. */
int cgroup_acquire(struct cgroup_host *host, const struct cgroup_limits *limits,
                   struct cgroup **ret, struct error *err);

/* Gives the group back; every process in it must be dead. NULL is fine. */
void cgroup_release(struct cgroup *group);

/* Makes one group for the pool when it holds fewer than `want`. True when it made one. */
bool cgroup_pool_fill(struct cgroup_host *host, unsigned want);

/* The descriptors to which a process of the sandbox writes "0" to join. They stay ours. */
size_t cgroup_attach_fds(const struct cgroup *group, int ret[CGROUP_ATTACH_MAX]);
void cgroup_read_usage(const struct cgroup *group, struct cgroup_usage *ret);

/* All CPU time of the group, whoever used it before. */
uint64_t cgroup_read_cpu_us(const struct cgroup *group);

/* Behind, its processes have the CPU only when no other sandbox's wants it (cpu.idle, Linux 5.15;
 * before that nothing happens). A group that is given back is not behind. */
void cgroup_set_behind(struct cgroup *group, bool is_behind);

/* The one of these figures that each run's start and end needs, for much less. */
uint64_t cgroup_read_oom_kills(const struct cgroup *group);

/* A group for one run. limits' zeros mean the sandbox's own. */
int cgroup_run_acquire(struct cgroup *group, const struct cgroup_limits *limits,
                       struct cgroup_run **ret, struct error *err);
size_t cgroup_run_attach_fds(const struct cgroup_run *run, int ret[CGROUP_ATTACH_MAX]);

/* Kills processes of the run, and keeps them from forking. Never waits for long: 0 when the run is
 * empty, 1 when something is left and the call must be made again soon, or -errno. */
int cgroup_run_kill(struct cgroup_run *run);
void cgroup_run_read_usage(const struct cgroup_run *run, struct cgroup_usage *ret);
uint64_t cgroup_run_read_oom_kills(const struct cgroup_run *run);

/* Marks the run as over; its group is used again once it is empty. NULL is fine. */
void cgroup_run_release(struct cgroup_run *run);

#endif
