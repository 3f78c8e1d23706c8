#include "tests/bench/policy/allocations.h"

#include <stdlib.h>

/* malloc has no argument to hang a counter from, so this one is a static. */
static uint64_t count;

uint64_t allocations_count(void)
{
    return count;
}

/* glibc's own names of what it does. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    count++;
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    count++;
    return __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t size)
{
    count++;
    return __libc_realloc(p, size);
}
