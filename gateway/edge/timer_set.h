#ifndef EDGE_TIMER_SET_H
#define EDGE_TIMER_SET_H

#include <stdbool.h>
#include <stdint.h>

/* Many deadlines behind one alarm: an intrusive pairing heap (Fredman et al., 1986), so
 * that setting a timer allocates nothing and cannot fail. The owner asks for the earliest and
 * arms whatever clock it has. */
struct edge_timer {
    uint64_t at_ms;
    bool is_set;
    struct edge_timer *child;
    struct edge_timer *next;
    struct edge_timer *prev; /* elder sibling, or the parent for the eldest child */
    void (*fire)(struct edge_timer *timer);
};

struct timer_set {
    struct edge_timer *first;
};

/* (Re)sets the timer; fire must have been given. */
void timer_set_add(struct timer_set *set, struct edge_timer *timer, uint64_t at_ms);

/* A timer that is not set is fine. */
void timer_set_remove(struct timer_set *set, struct edge_timer *timer);

/* The same, unless the timer is set for an earlier moment already. */
void timer_set_add_by(struct timer_set *set, struct edge_timer *timer, uint64_t at_ms);

/* Fires what is due, earliest first; a timer is unset before its function runs, which may set
 * it again for later. */
void timer_set_run(struct timer_set *set, uint64_t now_ms);

/* Milliseconds to the earliest; false when there is none. */
bool timer_set_next(const struct timer_set *set, uint64_t *ret_at_ms);

#endif
