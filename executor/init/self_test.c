#include "executor/init/self_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/init/attack.h"

bool attack_broke(struct attack *a, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(a->text, sizeof a->text, format, ap);
    va_end(ap);
    return false;
}

int self_test_attack(void)
{
    static const struct {
        uint32_t attackers;
        bool (*attack)(struct attack *a);
    } layers[] = {
#define LAYER(name, title, attackers, remedy) {(attackers), attack_##name},
#include "executor/init/self_test.def"
    };
    struct self_test_order order;
    if (read(STDIN_FILENO, &order, sizeof order) != (ssize_t)sizeof order) {
        return 1;
    }
    for (uint32_t i = 0; i < SELF_TEST_LAYERS; i++) {
        struct attack a = {.order = &order};
        struct self_test_finding finding = {.layer = i};
        if (!(layers[i].attackers & order.attacker)) {
            continue;
        }
        bool held = layers[i].attack(&a);
        finding.outcome = !held         ? SELF_TEST_BROKEN
                          : a.is_absent ? SELF_TEST_ABSENT
                                        : SELF_TEST_HELD;
        memcpy(finding.text, a.text, sizeof finding.text);
        if (write(STDOUT_FILENO, &finding, sizeof finding) != (ssize_t)sizeof finding) {
            return 1;
        }
    }
    return 0;
}
