#include "gateway/edge/timer_set.h"

#include <stddef.h>

/* Both are roots: no siblings. The earlier one becomes the parent. */
static struct edge_timer *meld(struct edge_timer *a, struct edge_timer *b)
{
    if (!a || !b) {
        return a ? a : b;
    }
    if (b->at_ms < a->at_ms) {
        struct edge_timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child) {
        a->child->prev = b;
    }
    a->child = b;
    return a;
}

/* The two passes of a pairing heap: siblings in pairs, then the pairs from the last to the first.
 */
static struct edge_timer *meld_siblings(struct edge_timer *eldest)
{
    struct edge_timer *pairs = NULL; /* stack, linked by next */
    while (eldest) {
        struct edge_timer *a = eldest;
        struct edge_timer *b = a->next;
        eldest = b ? b->next : NULL;
        a->next = NULL;
        a->prev = NULL;
        if (b) {
            b->next = NULL;
            b->prev = NULL;
        }
        struct edge_timer *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct edge_timer *root = NULL;
    while (pairs) {
        struct edge_timer *rest = pairs->next;
        pairs->next = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

void timer_set_remove(struct timer_set *set, struct edge_timer *timer)
{
    if (!timer->is_set) {
        return;
    }
    timer->is_set = false;
    struct edge_timer *below = meld_siblings(timer->child);
    timer->child = NULL;
    if (set->first == timer) {
        set->first = below;
        return;
    }
    if (timer->prev->child == timer) {
        timer->prev->child = timer->next;
    } else {
        timer->prev->next = timer->next;
    }
    if (timer->next) {
        timer->next->prev = timer->prev;
    }
    timer->next = NULL;
    timer->prev = NULL;
    set->first = meld(set->first, below);
}

void timer_set_add(struct timer_set *set, struct edge_timer *timer, uint64_t at_ms)
{
    timer_set_remove(set, timer);
    timer->at_ms = at_ms;
    timer->is_set = true;
    timer->child = NULL;
    timer->next = NULL;
    timer->prev = NULL;
    set->first = meld(set->first, timer);
}

void timer_set_add_by(struct timer_set *set, struct edge_timer *timer, uint64_t at_ms)
{
    if (!timer->is_set || timer->at_ms > at_ms) {
        timer_set_add(set, timer, at_ms);
    }
}

void timer_set_run(struct timer_set *set, uint64_t now_ms)
{
    while (set->first && set->first->at_ms <= now_ms) {
        struct edge_timer *timer = set->first;
        timer_set_remove(set, timer);
        timer->fire(timer);
    }
}

bool timer_set_next(const struct timer_set *set, uint64_t *ret_at_ms)
{
    if (!set->first) {
        return false;
    }
    *ret_at_ms = set->first->at_ms;
    return true;
}
