#include "gateway/auditfile/claims.h"

#include <stdlib.h>
#include <string.h>

enum { CLAIMS_MAX_BYTES = 1 << 30 };

void claims_init(struct claims *c)
{
    struct buf *lists[] = {&c->holes, &c->stubs, &c->erased, &c->deleted};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        buf_init(lists[i], CLAIMS_MAX_BYTES);
    }
}

void claims_free(struct claims *c)
{
    buf_free(&c->holes);
    buf_free(&c->stubs);
    buf_free(&c->erased);
    buf_free(&c->deleted);
}

bool claims_add_hole(struct claims *c, const struct claims_hole *hole)
{
    buf_add(&c->holes, hole, sizeof *hole);
    return !c->holes.failed;
}

bool claims_add_stub(struct claims *c, const struct claims_stub *stub)
{
    buf_add(&c->stubs, stub, sizeof *stub);
    return !c->stubs.failed;
}

bool claims_add_tombstone(struct claims *c, const struct tombstone *t, uint64_t sequence)
{
    if (!t->is_erasure) {
        struct claims_deleted d = {.first_sequence = t->file.first_sequence,
                                   .last.sequence = t->file.last_sequence,
                                   .tombstone_sequence = sequence};
        memcpy(d.first_prev, t->file.first_prev, HASH_BYTES);
        memcpy(d.last.hash, t->file.last_hash, HASH_BYTES);
        buf_add(&c->deleted, &d, sizeof d);
        return !c->deleted.failed;
    }
    for (size_t i = 0; i < t->erasure.count; i++) {
        struct claims_erased e = {t->erasure.lines[i], sequence};
        buf_add(&c->erased, &e, sizeof e);
    }
    return !c->erased.failed;
}

/* A hole at the log's beginning: by the newest tombstone of what was there, which tells its end;
 * those of before went with it. One in the middle: by the tombstone of exactly it. */
static bool accounts_for(const struct claims_deleted *d, const struct claims_hole *hole,
                         uint64_t signed_to)
{
    bool is_same_begin = d->first_sequence == hole->before.sequence + 1 &&
                         memcmp(d->first_prev, hole->before.hash, HASH_BYTES) == 0;
    return d->tombstone_sequence <= signed_to && chain_equal(&d->last, &hole->last) &&
           (hole->before.sequence == 0 || is_same_begin);
}

const struct claims_hole *claims_open_hole(struct claims *c, uint64_t signed_to)
{
    const struct claims_hole *holes = (const void *)c->holes.ptr;
    const struct claims_deleted *deleted = (const void *)c->deleted.ptr;
    for (size_t i = 0; i < c->holes.len / sizeof *holes; i++) {
        bool is_closed = false;
        for (size_t k = 0; k < c->deleted.len / sizeof *deleted && !is_closed; k++) {
            is_closed = accounts_for(&deleted[k], &holes[i], signed_to);
        }
        if (!is_closed) {
            return &holes[i];
        }
    }
    return NULL;
}

static int compare_erased(const void *a, const void *b)
{
    const struct claims_erased *x = a;
    const struct claims_erased *y = b;
    int by_hash = memcmp(x->line.hash, y->line.hash, HASH_BYTES);
    return x->line.sequence != y->line.sequence ? (x->line.sequence < y->line.sequence ? -1 : 1)
                                                : by_hash;
}

/* The same line may be named twice: by an order that was given again after a crash. */
static bool is_named(const struct claims_erased *erased, size_t count, const struct chain *line,
                     uint64_t signed_to)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (erased[middle].line.sequence < line->sequence) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < count && erased[low].line.sequence == line->sequence; low++) {
        if (chain_equal(&erased[low].line, line) && erased[low].tombstone_sequence <= signed_to) {
            return true;
        }
    }
    return false;
}

const struct claims_stub *claims_open_stub(struct claims *c, uint64_t signed_to)
{
    const struct claims_stub *stubs = (const void *)c->stubs.ptr;
    struct claims_erased *erased = (void *)c->erased.ptr;
    size_t count = c->erased.len / sizeof *erased;
    if (count > 0) {
        qsort(erased, count, sizeof *erased, compare_erased);
    }
    for (size_t i = 0; i < c->stubs.len / sizeof *stubs; i++) {
        if (!is_named(erased, count, &stubs[i].line, signed_to)) {
            return &stubs[i];
        }
    }
    return NULL;
}
