#ifndef PROC_CLOCK_H
#define PROC_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic: for durations and deadlines. */
static inline uint64_t clock_now_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

#endif
