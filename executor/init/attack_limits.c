#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/init/attack.h"
#include "executor/proc/fd.h"

enum { FORKS_OVER = 8, FORKS_MAX = 256, PAGE_BYTES = 4096, SMALL_BYTES = 1 << 20 };

/* Room is reserved, not written: what is refused is told at once. A little must be given, or else
 * the refusal says nothing of the limit. */
bool attack_disk_limit(struct attack *a)
{
    AUTO_FD int fd = open("/tmp/self-test", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd == -1 || unlink("/tmp/self-test") == -1 || fallocate(fd, 0, 0, SMALL_BYTES) == -1) {
        return attack_broke(a, "no disk for 1 MiB: %s", strerror(errno));
    }
    if (fallocate(fd, 0, 0, (off_t)a->order->disk_bytes * 2) == 0) {
        return attack_broke(a, "twice the disk limit was given");
    }
    return errno == EDQUOT || errno == ENOSPC ||
           attack_broke(a, "the disk limit cannot be tried: %s", strerror(errno));
}

static void reap_all(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)kill(pids[i], SIGKILL);
        while (waitpid(pids[i], NULL, 0) == -1 && errno == EINTR) {
        }
    }
}

bool attack_pids_limit(struct attack *a)
{
    pid_t pids[FORKS_MAX];
    size_t count = 0;
    size_t try = (size_t)a->order->pids + FORKS_OVER;
    pid_t child = 1;
    while (count < try && count < FORKS_MAX && (child = fork()) > 0) {
        pids[count++] = child;
    }
    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    int error_number = errno;
    reap_all(pids, count);
    return (child == -1 && error_number == EAGAIN && count <= a->order->pids) ||
           attack_broke(a, "%zu processes were started, %u are allowed", count, a->order->pids);
}

static _Noreturn void take_memory(size_t size)
{
    volatile char *at =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        _exit(2);
    }
    for (size_t i = 0; i < size; i += PAGE_BYTES) {
        at[i] = 1;
    }
    _exit(0);
}

bool attack_memory_limit(struct attack *a)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        take_memory((size_t)a->order->memory_bytes * 2);
    }
    while (child > 0 && waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    if (child == -1 || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
        return attack_broke(a, "the memory limit cannot be tried");
    }
    return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
           attack_broke(a, "twice the memory limit was given");
}

/* 1 and not 0: see set_limits(). */
bool attack_core_limit(struct attack *a)
{
    struct rlimit core;
    return (getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 1 && core.rlim_max == 1) ||
           attack_broke(a, "a crash may start the host's core_pattern");
}
