#ifndef SERVICES_ISOLATION_H
#define SERVICES_ISOLATION_H

#include "api/ext.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/services/workspace_run.h"
#include "policy/base/arena.h"

/* What keeps the programs of a sandbox in, for its user and for the audit log. */

enum { ISOLATION_LAYERS_MAX = 12 };

struct isolation_layer {
    const char *name;
    const char *detail; /* NULL when the arena was full */
    Ext__RunResult__Source set_by;
};

/* From what the executor was told and what it says of the host: it serves only when its self-test
 * found them all in force. Gives their number. */
size_t isolation_list(const struct workspace_run *run, const struct executor_sandbox_spec *sandbox,
                      struct isolation_layer out[ISOLATION_LAYERS_MAX], struct arena *arena);

#endif
