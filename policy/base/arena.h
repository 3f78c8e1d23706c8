#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

/* A region of memory that dies at once: one per compile, per evaluation, per request.
 * It has a cap, so that a small hostile input cannot become a large allocation: past the
 * cap every allocation returns NULL. Not for use by two threads at a time. */
struct arena_block;

struct arena {
    struct arena_block *head; /* newest block, the one that is filled */
    char *next;               /* free bytes of head: next <= end */
    char *end;
    size_t used_bytes; /* memory taken from malloc or lent by arena_init_with */
    size_t cap_bytes;
    void *lent; /* first block when it belongs to the caller */
    size_t lent_bytes;
};

/* An empty arena that will take at most cap_bytes from malloc. Allocates nothing. */
void arena_init(struct arena *a, size_t cap_bytes);

/* The same, with a first block lent by the caller (aligned to 16): evaluations that fit in
 * it never call malloc. The memory must outlive the arena. */
void arena_init_with(struct arena *a, void *memory, size_t memory_bytes, size_t cap_bytes);

/* Frees every allocation; the arena may be used again. */
void arena_reset(struct arena *a);

/* Frees everything. An arena that was zeroed or freed already is fine. */
void arena_free(struct arena *a);

enum { ARENA_ALIGN = 16 };

/* Less than size when that overflows. */
static inline size_t arena_rounded(size_t size)
{
    return (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

/* For arena_alloc() alone: when the block being filled has no room. */
void *arena_alloc_in_new_block(struct arena *a, size_t size);

/* Memory aligned to 16 bytes, or NULL when the cap or malloc's patience is reached.
 * A size of 0 gives a valid pointer. */
static inline void *arena_alloc(struct arena *a, size_t size)
{
    size_t rounded = arena_rounded(size);
    if (rounded >= size && a->next && rounded <= (size_t)(a->end - a->next)) {
        void *p = a->next;
        a->next += rounded;
        return p;
    }
    return arena_alloc_in_new_block(a, size);
}

void *arena_zalloc(struct arena *a, size_t size);
void *arena_calloc(struct arena *a, size_t count, size_t size);

/* Copies; NULL when there is no room. The copy is NUL-terminated. */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
void *arena_memdup(struct arena *a, const void *p, size_t n);

/* Room for one more behind `count` items of `size` bytes: `items` itself while count < *room, else
 * a copy in twice the room (`first` at the beginning). What is new is zero. NULL: out of memory. */
void *arena_grow(struct arena *a, void *items, size_t count, size_t *room, size_t size,
                 size_t first);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
