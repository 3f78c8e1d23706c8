#ifndef EXECUTOR_STEPS_CGROUP_MOUNTS_H
#define EXECUTOR_STEPS_CGROUP_MOUNTS_H

#include <stdbool.h>

#include "policy/base/status.h"

/* Where the host's cgroup controllers are. */
enum {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_CPUACCT,
    CGROUP_BLKIO, /* the last: I/O is not counted where it is missing */
    CGROUP_HIERARCHIES
};
enum { CGROUP_MOUNT_MAX = 256 };

/* Reads a mounts table (proc(5), "/proc/pid/mounts"). v2 when its mount offers memory, pids and
 * cpu, and then ret[0] is its mount point; else v1, one mount point per controller, which may be
 * the same for several. ret[CGROUP_BLKIO] may stay empty. FAILED_PRECONDITION names
 * another controller that is nowhere. */
int cgroup_mounts_find(const char *mounts_path, char ret[CGROUP_HIERARCHIES][CGROUP_MOUNT_MAX],
                       bool *ret_is_v2, struct error *err);

#endif
