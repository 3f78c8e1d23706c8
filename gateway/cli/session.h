#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "gateway/cli/settings.h"
#include "gateway/cli/transport.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Makes the transport ready for calls: an access token as given, one kept from an earlier log-in
 * (refreshed when due), or a new log-in with the authentication token. Kept sessions are in
 * $OCTELIUM_HOME/cordium-session.yaml, mode 0600, tied to server and credential.
 * UNAUTHENTICATED says which variables to set. */
int session_ensure(struct transport *transport, const struct settings *settings,
                   struct arena *arena, struct error *err);

/* Ends the kept session, at the server too. */
int session_logout(struct transport *transport, const struct settings *settings,
                   struct arena *arena, struct error *err);

#endif
