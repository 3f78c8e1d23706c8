#ifndef GATEWAY_DAEMON_H
#define GATEWAY_DAEMON_H

#include "gateway/config.h"
#include "policy/base/status.h"

/* The running gateway: opens everything, confines the process, serves until SIGTERM or SIGINT, and
 * takes everything down again. SIGHUP reads the certificate anew.
 *
 * Returns 0 after an orderly end. Errors name what could not be opened and how to mend it. */
int daemon_serve(const struct gateway_config *config, const char *config_sha256, struct error *err);

#endif
