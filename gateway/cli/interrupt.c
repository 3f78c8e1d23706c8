#include "gateway/cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

int interrupt_open(void)
{
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGTERM);
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd != -1) {
        (void)sigprocmask(SIG_BLOCK, &mask, NULL);
    }
    return fd;
}

bool interrupt_wait(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) > 0;
}
