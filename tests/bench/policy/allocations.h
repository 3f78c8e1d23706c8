#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <stdint.h>

/* Calls of malloc, calloc and realloc so far, by anybody in the process: allocations.c stands in
 * their place. */
uint64_t allocations_count(void);

#endif
