#ifndef EDGE_CERTIFICATE_H
#define EDGE_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

/* Certificates for a gateway that was given none: an authority of its own, and a server certificate
 * issued by it. P-256 keys; PEM files, written whole or not at all; keys with mode 0600. */

/* A new authority, valid for ten years, that may issue server certificates only. Files that are
 * there are replaced. */
int certificate_make_authority(const char *ca_path, const char *ca_key_path, int64_t now_s,
                               struct error *err);

/* A server certificate, valid for 825 days, for localhost, 127.0.0.1, ::1, <domain>,
 * octelium-api.<domain> and *.<domain>. domain is a DNS name in lower case. certificate_path gets
 * the chain: the server's certificate, then the authority's. */
int certificate_issue(const char *ca_path, const char *ca_key_path, const char *domain,
                      const char *certificate_path, const char *key_path, int64_t now_s,
                      struct error *err);

/* True when the certificate in the file cannot be read, or ends within that many seconds. */
bool certificate_ends_within(const char *path, int64_t now_s, int64_t seconds);

#endif
