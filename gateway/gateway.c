#include "gateway/gateway.h"

#include <time.h>

#include "executor/proc/clock.h"

int64_t gateway_wall_ns(const struct gateway *g)
{
    (void)g;
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t gateway_monotonic_ns(const struct gateway *g)
{
    (void)g;
    return clock_now_ns();
}
