#ifndef EXECUTOR_SELF_TEST_H
#define EXECUTOR_SELF_TEST_H

#include "executor/executor.h"

/* Attacks a sandbox of our own, before the first client: it is asked for by messages, as a client's
 * is, and what runs in it tries to get past each layer, once as a user and once as root inside.
 * What became of each is in ex->layers afterwards. FAILED_PRECONDITION names the first layer that
 * does not hold, and the remedy; then the executor must not serve. */
int self_test(struct executor *ex, struct error *err);

/* Of a layer, for people. */
const char *self_test_layer_title(enum self_test_layer layer);
const char *self_test_layer_remedy(enum self_test_layer layer);

#endif
