#include "executor/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"

uint64_t clock_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

int executor_watch(struct executor *ex, struct source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(ex->poll_fd, EPOLL_CTL_ADD, source->fd, &event) == -1 ? -errno : 0;
}

void executor_unwatch(struct executor *ex, struct source *source)
{
    if (source->fd >= 0) {
        (void)epoll_ctl(ex->poll_fd, EPOLL_CTL_DEL, source->fd, NULL);
        fd_close(&source->fd);
    }
}

void executor_free_later(struct executor *ex, struct source *source)
{
    source->next_free = ex->to_free;
    ex->to_free = source;
}

void executor_wake_reaper(struct executor *ex)
{
    (void)!write(ex->reaper_fd, "x", 1);
}
