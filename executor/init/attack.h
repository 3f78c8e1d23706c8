#ifndef EXECUTOR_INIT_ATTACK_H
#define EXECUTOR_INIT_ATTACK_H

#include <stdbool.h>

#include "executor/init/self_test.h"

/* One attack for each layer, tried in a sandbox of the executor's own. Each is written for what
 * happens where its layer is missing, too: it then does no harm to the host. What a sandbox is made
 * of is told here once more, apart from setup.c on purpose: a list that both read would miss what
 * is missing in it. */

struct attack {
    const struct self_test_order *order;
    char text[SELF_TEST_TEXT_MAX]; /* set by attack_broke() */
    bool is_absent;                /* this kernel does not have the layer */
};

/* attack_NAME(): true when the layer held. */
#define LAYER(name, title, attackers, remedy) bool attack_##name(struct attack *a);
#include "executor/init/self_test.def"

/* Tells what broke; returns false. */
bool attack_broke(struct attack *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
