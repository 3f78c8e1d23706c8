#ifndef TELEMETRY_ENDPOINT_H
#define TELEMETRY_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

/* Where telemetry goes to, or is fetched from, as the configuration writes it. */

enum { ENDPOINT_HOST_SIZE = 256, ENDPOINT_PATH_SIZE = 108 /* of a unix socket: man 7 unix */ };

enum endpoint_scheme { ENDPOINT_HTTP, ENDPOINT_HTTPS, ENDPOINT_UDP, ENDPOINT_TCP, ENDPOINT_UNIX };

struct endpoint {
    enum endpoint_scheme scheme;
    char host[ENDPOINT_HOST_SIZE]; /* name or address, without brackets */
    uint16_t port;
    char path[ENDPOINT_PATH_SIZE]; /* of a unix socket; of a URL, without a slash at its end */
};

/* INVALID_ARGUMENT; the text says what is expected. */

/* "http://HOST[:4318][/PATH]" or "https://…", without user, query and fragment. */
int endpoint_parse_otlp(const char *text, struct endpoint *ret, struct error *err);

/* "udp://HOST[:514]", "tcp://HOST[:601]" or "unix:///PATH". */
int endpoint_parse_syslog(const char *text, struct endpoint *ret, struct error *err);

/* "ADDRESS:PORT", the address one of loopback (127.0.0.0/8, [::1]). */
int endpoint_parse_listen(const char *text, struct endpoint *ret, struct error *err);

/* What is sent there does not leave the machine, or is encrypted. */
bool endpoint_is_safe(const struct endpoint *e);

#endif
