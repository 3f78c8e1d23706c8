#include "executor/steps/ns_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum {
    NETNS_POOL_MAX = 256,
    USERNS_AHEAD = 32,
    NO_NESTING_FAILED = 255, /* above every errno */
};

struct range {
    int userns; /* without nesting, kept from one sandbox to the next; -1 = not made */
    int nesting_userns;
    bool is_taken;
};

struct ns_pool {
    struct ns_pool_config config;
    struct range *ranges;
    uint32_t next; /* where the search for a free range begins */
    int host_netns;
    int netns[NETNS_POOL_MAX];
    unsigned netns_count;
};

struct userns_plan {
    const char *map;
    uint32_t owner; /* host uid */
    bool may_nest;
};

/* What the kernel counts of a user namespace (inotify instances, queued signals, message queues,
 * locked memory) it counts once more for the namespace's owner on the host. With root as owner of
 * all, one sandbox could use up the share of all others. */
static int become_owner(uint32_t owner)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2];
    if (owner == 0) {
        return 0;
    }
    if (syscall(SYS_capget, &header, caps) == -1 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == -1 ||
        syscall(SYS_setresuid, owner, owner, owner) == -1) {
        return -errno;
    }
    /* Some hosts let only CAP_SYS_ADMIN make user namespaces. */
    for (int i = 0; i < 2; i++) {
        caps[i].effective = caps[i].permitted;
        caps[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, caps) == -1 ? -errno : 0;
}

/* The child that makes a user namespace and holds it until it is mapped and opened. Runs no libc
 * call that takes a lock. Its exit status is an errno. */
static _Noreturn void userns_child(int peer, const struct userns_plan *plan)
{
    char byte = 'r';
    int r = become_owner(plan->owner);
    if (r < 0 || unshare(CLONE_NEWUSER) == -1) {
        _exit(r < 0 ? -r : errno);
    }
    if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1) {
        _exit(EPIPE);
    }
    if (!plan->may_nest) {
        int fd = syscall(SYS_setresuid, 0, 0, 0) == -1
                     ? -1
                     : open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
        if (fd == -1 || write(fd, "0", 1) != 1) {
            _exit(NO_NESTING_FAILED);
        }
    }
    _exit(0);
}

static int map_child(pid_t child, const char *map, int *ret_fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    int r = fd_write_file(AT_FDCWD, path, map);
    if (r == 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/gid_map", child);
        r = fd_write_file(AT_FDCWD, path, map);
    }
    if (r == 0) {
        (void)snprintf(path, sizeof path, "/proc/%d/ns/user", child);
        *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
        r = *ret_fd == -1 ? -errno : 0;
    }
    return r;
}

/* Maps and opens the namespace that the child has made, when it says so. 0 or -errno. */
static int userns_take(pid_t child, int peer, const char *map, int *ret_fd)
{
    char byte;
    if (read(peer, &byte, 1) != 1) {
        return -ECHILD; /* it has told why by its exit status */
    }
    int r = map_child(child, map, ret_fd);
    return r == 0 && write(peer, "x", 1) != 1 ? -errno : r;
}

static int userns_error(int r, int status, const struct userns_plan *plan, struct error *err)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
    if (code == NO_NESTING_FAILED) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "cannot refuse nested user namespaces: "
                         "/proc/sys/user/max_user_namespaces must be writable");
    }
    if (code != 0 && (r == 0 || r == -ECHILD)) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, code,
                               "make a user namespace (remedy: raise user.max_user_namespaces; "
                               "give the executor CAP_SYS_ADMIN, CAP_SETUID and CAP_SETFCAP)");
    }
    return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r,
                           "map a user namespace with '%s' (needs CAP_SETUID, CAP_SETGID)",
                           plan->map);
}

static int userns_make(const struct userns_plan *plan, int *ret, struct error *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "socketpair");
    }
    AUTO_FD int ours = pair[0];
    AUTO_FD int theirs = pair[1];
    struct clone_args args = {.exit_signal = SIGCHLD};
    pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) {
        (void)close(pair[0]);
        userns_child(pair[1], plan);
    }
    if (child == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "fork");
    }
    fd_close(&theirs);
    AUTO_FD int fd = -1;
    int r = userns_take(child, ours, plan->map, &fd);
    fd_close(&ours);
    int status = 0;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    if (r < 0 || status != 0) {
        return userns_error(r, status, plan, err);
    }
    *ret = fd_take(&fd);
    return 0;
}

int ns_pool_open(const struct ns_pool_config *config, struct ns_pool **ret, struct error *err)
{
    /* devpts of kernels such as 6.1 and 6.12 takes a gid as a signed int. */
    if (config->uid_base < NS_IDS_PER_RANGE || config->range_count == 0 ||
        config->uid_base > INT32_MAX ||
        config->range_count > (INT32_MAX - config->uid_base) / NS_IDS_PER_RANGE) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "uid_base %u with %u ranges of %d ids does not fit: choose a base from "
                         "65536 on, far from the host's users, with all ranges below 2147483648",
                         config->uid_base, config->range_count, NS_IDS_PER_RANGE);
    }
    struct ns_pool *pool = calloc(1, sizeof *pool);
    struct range *ranges = calloc(config->range_count, sizeof *ranges);
    if (!pool || !ranges) {
        free(pool);
        free(ranges);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for id ranges");
    }
    for (uint32_t i = 0; i < config->range_count; i++) {
        ranges[i] = (struct range){.userns = -1, .nesting_userns = -1};
    }
    pool->config = *config;
    pool->ranges = ranges;
    pool->host_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (pool->host_netns == -1) {
        ns_pool_close(pool);
        return error_set(err, STATUS_FAILED_PRECONDITION, "/proc/self/ns/net: mount /proc");
    }
    *ret = pool;
    return 0;
}

void ns_pool_close(struct ns_pool *pool)
{
    if (!pool) {
        return;
    }
    for (uint32_t i = 0; i < pool->config.range_count; i++) {
        fd_close(&pool->ranges[i].userns);
        fd_close(&pool->ranges[i].nesting_userns);
    }
    while (pool->netns_count > 0) {
        fd_close(&pool->netns[--pool->netns_count]);
    }
    fd_close(&pool->host_netns);
    free(pool->ranges);
    free(pool);
}

int ns_pool_take_range(struct ns_pool *pool, uint32_t *ret_range, struct error *err)
{
    /* Ranges whose namespace is ready first. */
    for (int with_userns = 1; with_userns >= 0; with_userns--) {
        for (uint32_t i = 0; i < pool->config.range_count; i++) {
            struct range *range = &pool->ranges[i];
            if (!range->is_taken && (range->userns >= 0 || !with_userns)) {
                range->is_taken = true;
                *ret_range = i;
                return 0;
            }
        }
    }
    return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                     "all %u ranges of host ids are in use: raise uid_ranges in the executor's "
                     "config",
                     pool->config.range_count);
}

void ns_pool_give_range(struct ns_pool *pool, uint32_t i, bool discard)
{
    struct range *range = &pool->ranges[i];
    range->is_taken = false;
    fd_close(&range->nesting_userns);
    if (discard) {
        fd_close(&range->userns);
    }
}

uint32_t ns_pool_uid_base(const struct ns_pool *pool, uint32_t range)
{
    return pool->config.uid_base + range * NS_IDS_PER_RANGE;
}

int ns_pool_userns(struct ns_pool *pool, uint32_t i, bool may_nest, int *ret, struct error *err)
{
    struct range *range = &pool->ranges[i];
    int *fd = may_nest ? &range->nesting_userns : &range->userns;
    if (*fd < 0) {
        char map[64];
        (void)snprintf(map, sizeof map, "0 %u %d\n", ns_pool_uid_base(pool, i), NS_IDS_PER_RANGE);
        const struct userns_plan plan = {map, ns_pool_uid_base(pool, i), may_nest};
        int r = userns_make(&plan, fd, err);
        if (r < 0) {
            return r;
        }
    }
    *ret = *fd;
    return 0;
}

int ns_pool_overlay_userns(struct ns_pool *pool, uint32_t i, int *ret, struct error *err)
{
    char map[96];
    (void)snprintf(map, sizeof map, "0 %u %d\n%d 0 1\n", ns_pool_uid_base(pool, i),
                   NS_IDS_PER_RANGE, NS_IDS_PER_RANGE);
    /* Nobody ever enters it, so that it may be root's: it maps the host's root. */
    const struct userns_plan plan = {map, 0, true};
    return userns_make(&plan, ret, err);
}

static int loopback_up(void)
{
    AUTO_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -errno;
    }
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    memcpy(request.ifr_name, "lo", 3);
    return ioctl(fd, SIOCSIFFLAGS, &request) == -1 ? -errno : 0;
}

static int netns_make(struct ns_pool *pool, int *ret, struct error *err)
{
    if (unshare(CLONE_NEWNET) == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "make a network namespace");
    }
    AUTO_FD int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int r = fd == -1 ? -errno : loopback_up();
    if (setns(pool->host_netns, CLONE_NEWNET) == -1) {
        /* In the wrong namespace, nothing that follows would be right. */
        abort();
    }
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "bring up loopback in a new namespace");
    }
    *ret = fd_take(&fd);
    return 0;
}

int ns_pool_netns(struct ns_pool *pool, int *ret, struct error *err)
{
    if (pool->netns_count > 0) {
        *ret = pool->netns[--pool->netns_count];
        return 0;
    }
    return netns_make(pool, ret, err);
}

bool ns_pool_fill(struct ns_pool *pool, unsigned want)
{
    struct error err;
    if (pool->netns_count < want && pool->netns_count < NETNS_POOL_MAX) {
        if (netns_make(pool, &pool->netns[pool->netns_count], &err) == 0) {
            pool->netns_count++;
            return true;
        }
        return false;
    }
    unsigned ahead = 0;
    for (uint32_t i = 0; i < pool->config.range_count && ahead < want && ahead < USERNS_AHEAD;
         i++) {
        int fd;
        if (pool->ranges[i].is_taken) {
            continue;
        }
        ahead++;
        if (pool->ranges[i].userns < 0) {
            return ns_pool_userns(pool, i, false, &fd, &err) == 0;
        }
    }
    return false;
}
