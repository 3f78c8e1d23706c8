#ifndef CLI_POLICY_EXPLAIN_H
#define CLI_POLICY_EXPLAIN_H

#include "api/ext.pb-c.h"
#include "gateway/cli/arguments.h"
#include "policy/base/status.h"

/* On standard output, as text or as -o says. */
int policy_explain_print(const Ext__Explanation *message, const struct arguments *args,
                         struct error *err);

/* `policy explain` of a request that the server is asked about; the exit code. */
int policy_explain_live(const struct arguments *args);

#endif
