#ifndef IDENTITY_SSH_KEY_H
#define IDENTITY_SSH_KEY_H

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* A new ECDSA key on P-256. *ret_private is PEM (PKCS #8, which ssh reads), *ret_public the line of
 * an authorized_keys file, "ecdsa-sha2-nistp256 AAAA… COMMENT". Both live in the arena. */
int ssh_key_generate(const char *comment, struct arena *arena, char **ret_private,
                     char **ret_public, struct error *err);

#endif
