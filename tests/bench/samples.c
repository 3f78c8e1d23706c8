#include "tests/bench/samples.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t clock_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void samples_add(struct samples *s, uint64_t ns)
{
    if (s->count < SAMPLES_MAX) {
        s->ns[s->count++] = ns;
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

double samples_percentile_us(const struct samples *s, unsigned percent)
{
    uint64_t sorted[SAMPLES_MAX];
    if (s->count == 0) {
        return 0;
    }
    memcpy(sorted, s->ns, s->count * sizeof sorted[0]);
    qsort(sorted, s->count, sizeof sorted[0], compare);
    return (double)sorted[(s->count - 1) * percent / 100] / 1000;
}
