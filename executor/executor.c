#include "executor/executor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "executor/proc/fd.h"

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

/* Descriptors are given out from the lowest on, so that free ones at the top mean enough of them.
 * Without, the pidfd or the answer that somebody sends us would be cut off, and with it we would
 * lose a launcher, a gateway or a sandbox that did nothing wrong. */
int executor_check_descriptors(const struct executor *ex, struct error *err)
{
    int wanted = (int)ex->descriptors_max - DESCRIPTORS_RESERVED;
    int fd = fcntl(ex->poll_fd, F_DUPFD_CLOEXEC, wanted);
    if (fd != -1) {
        (void)close(fd);
    }
    return fd != -1 && fd < wanted + DESCRIPTORS_RESERVED / 2
               ? 0
               : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                           "the executor's %u descriptors are nearly used up: raise its "
                           "RLIMIT_NOFILE (LimitNOFILE= of a systemd unit)",
                           ex->descriptors_max);
}

void executor_free_pending(struct executor *ex)
{
    while (ex->to_free) {
        struct source *source = ex->to_free;
        ex->to_free = source->next_free;
        free(source); /* the first member of what it belongs to */
    }
}

bool executor_handle_events(struct executor *ex, int timeout_ms)
{
    enum { EVENTS_PER_ROUND = 64 };
    struct epoll_event events[EVENTS_PER_ROUND];
    int n = epoll_wait(ex->poll_fd, events, EVENTS_PER_ROUND, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct source *source = events[i].data.ptr;
        source->handle(ex, source, events[i].events);
    }
    executor_free_pending(ex);
    return n == 0;
}

void executor_wake_reaper(struct executor *ex)
{
    (void)!write(ex->reaper_fd, "x", 1);
}
