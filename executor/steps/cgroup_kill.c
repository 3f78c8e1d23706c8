#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/cgroup_internal.h"

/* The end of every process of a group. */

enum {
    KILL_ROUNDS = 10, /* 50 us each: what the daemon waits for a tree to die */
    KILL_FEW = 16,
    PIDS_PER_ROUND = 256,
    PIDS_READ_MAX = 16384,
};

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

bool cgroup_node_is_empty(const struct cgroup_host *host, const struct cgroup_node *node)
{
    uint64_t pids = 0;
    (void)fd_read_file_u64(node->dirs[host->is_v2 ? 0 : CGROUP_PIDS], "pids.current", &pids);
    return pids == 0;
}

int cgroup_node_kill(const struct cgroup_host *host, const struct cgroup_node *node,
                     unsigned *start)
{
    int pids_dir = node->dirs[host->is_v2 ? 0 : CGROUP_PIDS];
    bool by_kernel = host->is_v2 && fd_write_file(pids_dir, "cgroup.kill", "1") == 0;
    if (!by_kernel) {
        (void)fd_write_file(pids_dir, "pids.max", "0");
    }
    for (int round = 0; round < KILL_ROUNDS; round++) {
        if (cgroup_node_is_empty(host, node)) {
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
    return cgroup_node_is_empty(host, node) ? 0 : 1;
}

void cgroup_remove_beneath(int dir, unsigned depth)
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
            cgroup_remove_beneath(child, depth - 1);
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
