#ifndef SERVICES_RUN_COMPARE_H
#define SERVICES_RUN_COMPARE_H

#include "api/ext.pb-c.h"
#include "policy/base/arena.h"

/* Fills in how the result of a run differs from that of an earlier run of the same request:
 * is_same and differences. Output and files are compared as far as they were kept. Negative without
 * memory. */
int run_compare(const Ext__RunResult *before, const Ext__RunResult *after, struct arena *arena,
                Ext__ReplayRunResponse *ret);

#endif
