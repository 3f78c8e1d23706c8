#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/init/protocol.h"
#include "executor/proc/fd.h"

/* Holders: first processes of sandboxes to come, forked while nobody asks. Each waits, in
 * namespaces of its own, for the order that tells what sandbox it is; a start then costs no fork
 * and wakes one process less. Nothing of any sandbox is in them: a holder is as good as the
 * launcher itself. */

static void holder_close(struct holder *h)
{
    if (h->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
        (void)waitid((idtype_t)P_PIDFD, (id_t)h->pidfd, NULL, WEXITED);
    }
    fd_close(&h->pidfd);
    fd_close(&h->control);
}

static bool holder_is_alive(const struct holder *h)
{
    struct pollfd p = {.fd = h->pidfd, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

/* Asks the launcher for one more; it is ready when the answer is here. */
bool holder_pool_fill(struct launcher *l, unsigned want)
{
    struct holder *h = &l->holders[l->holder_count];
    int pair[2];
    if (want > HOLDERS_MAX) {
        want = HOLDERS_MAX;
    }
    if (l->holder_count >= want || channel_pair(pair, true) < 0) {
        return false;
    }
    AUTO_FD int theirs = pair[1];
    const struct launch_request q = {.serial = ++l->next_serial, .flags = LAUNCH_HOLD};
    const struct iovec part = {(void *)&q, sizeof q};
    *h = (struct holder){.serial = q.serial, .control = pair[0], .pidfd = -1};
    if (channel_send(l->source.fd, &part, 1, &theirs, 1) < 0) {
        fd_close(&h->control);
        return false;
    }
    l->holder_count++;
    return true;
}

bool holder_pool_answer(struct launcher *l, uint32_t serial, int *pidfd)
{
    for (unsigned i = 0; i < l->holder_count; i++) {
        struct holder *h = &l->holders[i];
        if (h->serial == serial && h->pidfd < 0) {
            h->pidfd = fd_take(pidfd);
            if (h->pidfd < 0) {
                fd_close(&h->control);
                *h = l->holders[--l->holder_count];
            }
            return true;
        }
    }
    return false;
}

bool holder_pool_take(struct launcher *l, struct holder *ret)
{
    for (unsigned i = l->holder_count; i-- > 0;) {
        struct holder h = l->holders[i];
        if (h.pidfd < 0) {
            continue; /* not forked yet */
        }
        l->holders[i] = l->holders[--l->holder_count];
        if (holder_is_alive(&h)) {
            *ret = h;
            return true;
        }
        holder_close(&h);
    }
    return false;
}

void holder_pool_give_back(struct launcher *l, struct holder *h)
{
    if (l->holder_count < HOLDERS_MAX) {
        l->holders[l->holder_count++] = *h;
    } else {
        holder_close(h);
    }
}

void holder_pool_close(struct launcher *l)
{
    while (l->holder_count > 0) {
        holder_close(&l->holders[--l->holder_count]);
    }
}
