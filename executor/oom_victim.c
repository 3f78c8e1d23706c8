#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "executor/executor.h"
#include "executor/proc/fd.h"

/* Was a main process that got SIGKILL killed for memory?
 *
 * The kernel counts kills for memory in a group, and does not say of whom. A victim has its SIGKILL
 * pending until it is gone, and init's dead children are there until init has seen them. So when
 * the count rose, and then none of init's children (main processes, and orphans) is dying or dead,
 * whoever was killed was no main process that still lives. Looked at with the use of the CPU
 * (cpu_share.c); without an answer, the worse is taken to be true. */

enum { CHILDREN_TEXT_MAX = 8192, STATUS_TEXT_MAX = 4096 };

/* The number behind "\nNAME:\t" of a file of /proc; -1 when it is not there. */
static int64_t field_of(const char *text, const char *name, int base)
{
    const char *at = strstr(text, name);
    char *end;
    if (!at) {
        return -1;
    }
    at += strlen(name);
    errno = 0;
    unsigned long long v = strtoull(at, &end, base);
    return end == at || errno || v > INT64_MAX ? -1 : (int64_t)v;
}

static bool is_well(long pid)
{
    char path[64];
    char text[STATUS_TEXT_MAX];
    const int64_t kill = INT64_C(1) << (SIGKILL - 1);
    (void)snprintf(path, sizeof path, "/proc/%ld/status", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0) {
        return false;
    }
    const int64_t own = field_of(text, "\nSigPnd:\t", 16);
    const int64_t shared = field_of(text, "\nShdPnd:\t", 16);
    return own >= 0 && shared >= 0 && ((own | shared) & kill) == 0 &&
           !strstr(text, "\nState:\tZ") && !strstr(text, "\nState:\tX");
}

static bool are_children_well(const struct sandbox *s)
{
    char path[64];
    char text[CHILDREN_TEXT_MAX];
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", s->process.fd);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0) {
        return false;
    }
    const int64_t init = field_of(text, "\nPid:\t", 10);
    if (init <= 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%lld/task/%lld/children", (long long)init,
                   (long long)init);
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n < 0 || (size_t)n == sizeof text - 1) {
        return false;
    }
    for (char *at = text, *end; *at; at = end) {
        long pid = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        if (!is_well(pid)) {
            return false;
        }
    }
    return true;
}

/* Twice: the kernel counts a kill a moment before it sends the signal, and an end of which init has
 * told may not have been read yet. */
bool run_look_at_ooms(struct run *run)
{
    uint64_t kills = run->cgroup && !run->has_ended ? cgroup_run_read_oom_kills(run->cgroup) : 0;
    if (run->has_ended || kills == run->oom_kills_outlived) {
        return false;
    }
    if (!are_children_well(run->sandbox)) {
        return true;
    }
    if (kills == run->oom_kills_seen) {
        run->oom_kills_outlived = kills;
    }
    run->oom_kills_seen = kills;
    return kills != run->oom_kills_outlived;
}

bool run_is_oom_victim(const struct run *run, uint64_t oom_kills)
{
    return oom_kills > run->oom_kills_outlived &&
           (run->has_ended || !are_children_well(run->sandbox));
}
