#ifndef IDENTITY_SESSION_SETTINGS_H
#define IDENTITY_SESSION_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/core.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

struct gateway;

/* What applies to one user: his own settings, else the cluster's for his type, else ours. */
struct session_settings {
    int64_t session_seconds;
    int64_t access_seconds;
    int64_t refresh_seconds;
    uint32_t sessions_max;
    Core__Session__Spec__State state;
};

/* is_client: for a Session of type CLIENT. Errors are the store's. */
int session_settings_load(struct gateway *g, const Core__User *user, bool is_client,
                          struct arena *arena, struct session_settings *ret, struct error *err);

#endif
