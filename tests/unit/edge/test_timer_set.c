#include <check.h>
#include <stdlib.h>

#include "gateway/edge/timer_set.h"

enum { TIMERS = 500 };

struct probe {
    struct edge_timer timer; /* first */
    uint64_t *last_ms;
    unsigned fired;
};

static void fire(struct edge_timer *timer)
{
    struct probe *p = (struct probe *)timer;
    ck_assert(*p->last_ms <= timer->at_ms); /* in order */
    *p->last_ms = timer->at_ms;
    p->fired++;
}

START_TEST(timers_fire_once_in_order_and_removed_ones_do_not)
{
    struct timer_set set = {0};
    struct probe *probes = calloc(TIMERS, sizeof *probes);
    uint64_t last_ms = 0;
    unsigned seed = 1;
    for (size_t i = 0; i < TIMERS; i++) {
        probes[i] = (struct probe){.timer.fire = fire, .last_ms = &last_ms};
        timer_set_add(&set, &probes[i].timer, (uint64_t)rand_r(&seed) % 1000);
    }
    for (size_t i = 0; i < TIMERS; i += 3) {
        timer_set_remove(&set, &probes[i].timer);
        timer_set_remove(&set, &probes[i].timer); /* twice is fine */
    }
    for (size_t i = 1; i < TIMERS; i += 3) {
        timer_set_add(&set, &probes[i].timer, (uint64_t)rand_r(&seed) % 1000); /* moved */
    }
    for (uint64_t now_ms = 0; now_ms <= 1000; now_ms += 50) {
        timer_set_run(&set, now_ms);
    }
    uint64_t unused;
    ck_assert(!timer_set_next(&set, &unused));
    for (size_t i = 0; i < TIMERS; i++) {
        ck_assert_uint_eq(probes[i].fired, i % 3 == 0 ? 0 : 1);
    }
    free(probes);
}
END_TEST

START_TEST(add_by_only_moves_forward)
{
    struct timer_set set = {0};
    uint64_t last_ms = 0;
    uint64_t at_ms;
    struct probe p = {.timer.fire = fire, .last_ms = &last_ms};
    timer_set_add_by(&set, &p.timer, 100);
    timer_set_add_by(&set, &p.timer, 200);
    ck_assert(timer_set_next(&set, &at_ms));
    ck_assert_uint_eq(at_ms, 100);
    timer_set_add_by(&set, &p.timer, 50);
    ck_assert(timer_set_next(&set, &at_ms));
    ck_assert_uint_eq(at_ms, 50);
}
END_TEST

Suite *suite_timer_set(void);

Suite *suite_timer_set(void)
{
    Suite *s = suite_create("timer_set");
    TCase *t = tcase_create("core");
    tcase_add_test(t, timers_fire_once_in_order_and_removed_ones_do_not);
    tcase_add_test(t, add_by_only_moves_forward);
    suite_add_tcase(s, t);
    return s;
}
