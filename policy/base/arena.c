#include "policy/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/base/checked.h"

enum { BLOCK_FIRST_BYTES = 2048, BLOCK_LATER_BYTES = 32768 };

struct arena_block {
    _Alignas(ARENA_ALIGN) struct arena_block *older;
};

void arena_init(struct arena *a, size_t cap_bytes)
{
    *a = (struct arena){.cap_bytes = cap_bytes};
}

void arena_init_with(struct arena *a, void *memory, size_t memory_bytes, size_t cap_bytes)
{
    *a = (struct arena){
        .cap_bytes = cap_bytes,
        .next = memory,
        .end = (char *)memory + memory_bytes,
        .lent = memory,
        .lent_bytes = memory_bytes,
    };
}

void arena_reset(struct arena *a)
{
    struct arena_block *b = a->head;
    while (b) {
        struct arena_block *older = b->older;
        free(b);
        b = older;
    }
    a->head = NULL;
    a->used_bytes = 0;
    a->next = a->lent;
    a->end = a->lent ? (char *)a->lent + a->lent_bytes : NULL;
}

void arena_free(struct arena *a)
{
    arena_reset(a);
    a->next = NULL;
    a->end = NULL;
    a->lent = NULL;
    a->lent_bytes = 0;
}

void *arena_alloc_in_new_block(struct arena *a, size_t size)
{
    size_t rounded = arena_rounded(size);
    size_t want = a->head || a->lent ? BLOCK_LATER_BYTES : BLOCK_FIRST_BYTES;
    size_t left = a->cap_bytes - a->used_bytes;
    size_t least;
    if (rounded < size || !checked_add(rounded, sizeof(struct arena_block), &least) ||
        least > left) {
        return NULL;
    }
    size_t total = want > least ? want : least;
    if (total > left) {
        total = left;
    }
    struct arena_block *b = malloc(total);
    if (!b) {
        return NULL;
    }
    b->older = a->head;
    a->used_bytes += total;
    char *data = (char *)(b + 1);
    /* A large request gets a block of its own; the block being filled stays in use. */
    if (a->head && rounded > want / 2) {
        b->older = a->head->older;
        a->head->older = b;
        return data;
    }
    a->head = b;
    a->next = data + rounded;
    a->end = (char *)b + total;
    return data;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *p = arena_alloc(a, size);
    if (p) {
        memset(p, 0, size);
    }
    return p;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    size_t total;
    return checked_mul(count, size, &total) ? arena_zalloc(a, total) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t total;
    if (!checked_add(n, 1, &total)) {
        return NULL;
    }
    char *p = arena_alloc(a, total);
    if (p) {
        if (n > 0) {
            memcpy(p, s, n);
        }
        p[n] = '\0';
    }
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

void *arena_memdup(struct arena *a, const void *data, size_t n)
{
    void *p = arena_alloc(a, n);
    if (p && n > 0) {
        memcpy(p, data, n);
    }
    return p;
}

void *arena_grow(struct arena *a, void *items, size_t count, size_t *room, size_t size,
                 size_t first)
{
    if (count < *room) {
        return items;
    }
    size_t wanted = *room ? *room * 2 : first;
    void *grown = arena_calloc(a, wanted, size);
    if (!grown) {
        return NULL;
    }
    if (count > 0) {
        memcpy(grown, items, count * size);
    }
    *room = wanted;
    return grown;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0) {
        return NULL;
    }
    char *p = arena_alloc(a, (size_t)n + 1);
    if (p) {
        va_start(ap, format);
        (void)vsnprintf(p, (size_t)n + 1, format, ap);
        va_end(ap);
    }
    return p;
}
