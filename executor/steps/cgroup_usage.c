#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/cgroup_internal.h"

/* What the kernel counts for a group. Groups are recycled: every figure is what it says now less
 * what it said when the use began, and a figure that cannot be told so is not told at all. */

enum { IO_TEXT_BYTES = 16384 }; /* a line for each device that the group used */

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

static uint64_t node_oom_kills(const struct cgroup_host *host, const struct cgroup_node *node)
{
    return host->is_v2 ? read_key(node->dirs[0], "memory.events", "oom_kill")
                       : read_key(node->dirs[CGROUP_MEMORY], "memory.oom_control", "oom_kill");
}

struct cgroup_counters cgroup_node_counters(const struct cgroup_host *host,
                                            const struct cgroup_node *node)
{
    const int *d = node->dirs;
    struct cgroup_counters c;
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
    if (node->is_killed) {
        c.pids_denied = node->pids_denied_at_kill;
    }
    return c;
}

bool cgroup_denials_are_at_limit(int dir)
{
    return faccessat(dir, "pids.events.local", F_OK, 0) == 0;
}

uint64_t cgroup_group_denials(const struct cgroup *group)
{
    return group->host->denials_are_at_limit
               ? read_key(group->node.dirs[0], "pids.events.local", "max")
               : 0;
}

uint64_t cgroup_node_memory(const struct cgroup_host *host, const struct cgroup_node *node)
{
    return host->is_v2 ? read_u64(node->dirs[0], "memory.current")
                       : read_u64(node->dirs[CGROUP_MEMORY], "memory.usage_in_bytes");
}

/* --- peaks --- */

/* Through the descriptor that a reset counts for. */
static bool read_memory_peak(const struct cgroup_host *host, const struct cgroup_node *node,
                             uint64_t *ret)
{
    if (!host->is_v2) {
        return fd_read_file_u64(node->dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", ret) == 0;
    }
    char text[24];
    ssize_t n = pread(node->memory_peak_fd, text, sizeof text - 1, 0);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return sscanf(text, "%" SCNu64, ret) == 1;
}

static bool read_pids_peak(const struct cgroup_host *host, const struct cgroup_node *node,
                           uint64_t *ret)
{
    if (!host->is_v2) {
        return fd_read_file_u64(node->dirs[CGROUP_PIDS], "pids.peak", ret) == 0;
    }
    return fd_read_file_u64(node->dirs[0], CGROUP_RUN_LEAF "/pids.peak", ret) == 0 ||
           fd_read_file_u64(node->dirs[0], "pids.peak", ret) == 0;
}

void cgroup_node_begin_peaks(const struct cgroup_host *host, struct cgroup_node *node)
{
    bool is_reset;
    if (host->is_v2) {
        if (node->memory_peak_fd == -1) {
            node->memory_peak_fd = openat(node->dirs[0], "memory.peak", O_RDWR | O_CLOEXEC);
        }
        if (node->memory_peak_fd == -1) { /* read-only before Linux 6.12 */
            node->memory_peak_fd = openat(node->dirs[0], "memory.peak", O_RDONLY | O_CLOEXEC);
        }
        is_reset = node->memory_peak_fd != -1 && write(node->memory_peak_fd, "0", 1) == 1;
    } else {
        is_reset = fd_write_file(node->dirs[CGROUP_MEMORY], "memory.max_usage_in_bytes", "0") == 0;
    }
    node->memory_peak_start = 0;
    if (!is_reset) {
        (void)read_memory_peak(host, node, &node->memory_peak_start);
    }
    node->pids_peak_start = 0;
    (void)read_pids_peak(host, node, &node->pids_peak_start);
}

static void read_peaks(const struct cgroup_host *host, const struct cgroup_node *node,
                       struct cgroup_usage *ret)
{
    uint64_t memory = 0;
    uint64_t pids = 0;
    if (read_memory_peak(host, node, &memory) && memory > node->memory_peak_start) {
        ret->has_memory_peak = true;
        ret->memory_peak_bytes = memory;
    }
    if (read_pids_peak(host, node, &pids) && pids > node->pids_peak_start) {
        ret->has_pids_peak = true;
        ret->pids_peak = (uint32_t)pids;
    }
}

/* --- block I/O --- */

/* "7:3 REST"; NULL when it is about another device. */
static const char *line_of_device(const char *line, const struct block_device *device)
{
    unsigned major, minor;
    int used = 0;
    if (sscanf(line, "%u:%u %n", &major, &minor, &used) < 2 || used == 0 ||
        major != device->major || (minor != device->minor && !device->any_minor)) {
        return NULL;
    }
    return line + used;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : NULL;
}

void cgroup_io_read_stat(const char *text, const struct block_device *device, struct cgroup_io *ret)
{
    *ret = (struct cgroup_io){0};
    for (const char *line = text; line; line = next_line(line)) {
        const char *at = line_of_device(line, device);
        uint64_t read_bytes, write_bytes, reads, writes;
        if (at && sscanf(at, "rbytes=%" SCNu64 " wbytes=%" SCNu64 " rios=%" SCNu64 " wios=%" SCNu64,
                         &read_bytes, &write_bytes, &reads, &writes) == 4) {
            ret->read_bytes += read_bytes;
            ret->write_bytes += write_bytes;
            ret->reads += reads;
            ret->writes += writes;
        }
    }
}

void cgroup_io_read_blkio(const char *text, const struct block_device *device, uint64_t *ret_read,
                          uint64_t *ret_write)
{
    *ret_read = 0;
    *ret_write = 0;
    for (const char *line = text; line; line = next_line(line)) {
        const char *at = line_of_device(line, device);
        uint64_t value;
        if (at && sscanf(at, "Read %" SCNu64, &value) == 1) {
            *ret_read += value;
        } else if (at && sscanf(at, "Write %" SCNu64, &value) == 1) {
            *ret_write += value;
        }
    }
}

static bool node_read_io(const struct cgroup_host *host, const struct cgroup_node *node,
                         struct cgroup_io *ret)
{
    char text[IO_TEXT_BYTES];
    if (!host->counts_io) {
        return false;
    }
    if (host->is_v2) {
        if (fd_read_file(node->dirs[0], "io.stat", text, sizeof text) < 0) {
            return false;
        }
        cgroup_io_read_stat(text, &host->io_device, ret);
        return true;
    }
    int dir = node->dirs[CGROUP_BLKIO];
    if (fd_read_file(dir, "blkio.throttle.io_service_bytes", text, sizeof text) < 0) {
        return false;
    }
    cgroup_io_read_blkio(text, &host->io_device, &ret->read_bytes, &ret->write_bytes);
    if (fd_read_file(dir, "blkio.throttle.io_serviced", text, sizeof text) < 0) {
        return false;
    }
    cgroup_io_read_blkio(text, &host->io_device, &ret->reads, &ret->writes);
    return true;
}

void cgroup_node_begin_io(const struct cgroup_host *host, struct cgroup_node *node)
{
    node->io_start = (struct cgroup_io){0};
    (void)node_read_io(host, node, &node->io_start);
}

static void read_io(const struct cgroup_run *run, struct cgroup_usage *ret)
{
    struct cgroup_io now;
    const struct cgroup_io *start = &run->node.io_start;
    if (node_read_io(run->group->host, &run->node, &now)) {
        ret->has_io = true;
        ret->io = (struct cgroup_io){
            .read_bytes = now.read_bytes - start->read_bytes,
            .write_bytes = now.write_bytes - start->write_bytes,
            .reads = now.reads - start->reads,
            .writes = now.writes - start->writes,
        };
    }
}

/* Of a whole disk: block devices count as those, and a file system may lie on a part of one. */
static struct block_device whole_disk(const struct block_device *device)
{
    char path[96];
    char text[32];
    struct block_device disk = *device;
    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/partition", device->major,
                   device->minor);
    if (!device->any_minor && access(path, F_OK) == 0) {
        (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/../dev", device->major,
                       device->minor);
        if (fd_read_file(AT_FDCWD, path, text, sizeof text) > 0) {
            (void)sscanf(text, "%u:%u", &disk.major, &disk.minor);
        }
    }
    return disk;
}

bool cgroup_host_count_io(struct cgroup_host *host, const struct block_device *device)
{
    char text[48];
    host->io_device = whole_disk(device);
    if (host->is_v2) {
        host->counts_io = faccessat(host->parents[0], "io.stat", F_OK, 0) == 0;
        return host->counts_io;
    }
    if (host->hierarchies <= CGROUP_BLKIO || device->any_minor) {
        return false;
    }
    /* Since Linux 6.10 a device is counted on v1 once anybody gave it a limit; 0 is none. */
    (void)snprintf(text, sizeof text, "%u:%u 0", host->io_device.major, host->io_device.minor);
    host->counts_io =
        fd_write_file(host->parents[CGROUP_BLKIO], "blkio.throttle.read_bps_device", text) == 0;
    return host->counts_io;
}

/* --- the whole --- */

static void node_read_usage(const struct cgroup_host *host, const struct cgroup_node *node,
                            struct cgroup_usage *ret)
{
    const int *d = node->dirs;
    struct cgroup_counters now = cgroup_node_counters(host, node);
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
        ret->pids = (uint32_t)read_u64(d[0], "pids.current");
    } else {
        ret->memory_bytes = read_u64(d[CGROUP_MEMORY], "memory.usage_in_bytes");
        ret->pids = (uint32_t)read_u64(d[CGROUP_PIDS], "pids.current");
    }
    read_peaks(host, node, ret);
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
        struct cgroup_counters c = cgroup_node_counters(host, &run->node);
        ret->oom_kills += host->is_v2 ? 0 : c.oom_kills - run->node.start.oom_kills;
        ret->pids_denied += c.pids_denied - run->node.start.pids_denied;
    }
}

uint64_t cgroup_read_cpu_us(const struct cgroup *group)
{
    const int *d = group->node.dirs;
    return group->host->is_v2 ? read_key(d[0], "cpu.stat", "usage_usec")
                              : read_u64(d[CGROUP_CPUACCT], "cpuacct.usage") / 1000;
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

uint64_t cgroup_run_read_oom_kills(const struct cgroup_run *run)
{
    return node_oom_kills(run->group->host, &run->node) - run->node.start.oom_kills;
}

void cgroup_run_read_usage(const struct cgroup_run *run, struct cgroup_usage *ret)
{
    node_read_usage(run->group->host, &run->node, ret);
    ret->pids_denied += cgroup_group_denials(run->group) - run->group_denials_start;
    read_io(run, ret);
}
