#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* Durations of one thing measured many times. */
enum { SAMPLES_MAX = 4096 };

struct samples {
    uint64_t ns[SAMPLES_MAX]; /* what is beyond that many is dropped */
    size_t count;
};

uint64_t clock_ns(void);
void samples_add(struct samples *s, uint64_t ns);

/* The value below which `percent` of them lie, in microseconds; 0 when there are none. */
double samples_percentile_us(const struct samples *s, unsigned percent);

#endif
