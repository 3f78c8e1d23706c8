#ifndef IDENTITY_CREDENTIAL_H
#define IDENTITY_CREDENTIAL_H

#include <stdint.h>

#include "api/core.pb-c.h"
#include "gateway/identity/token.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

struct gateway;

/* The secrets of credentials. Run these inside a store transaction. */

/* A new secret for a credential of type AUTH_TOKEN or OAUTH2; the one before stops working. The
 * credential's rotation counters, and its id when it has none, are stored; *ret_next is what is
 * stored now. */
int credential_rotate(struct gateway *g, const Core__Credential *credential, struct arena *arena,
                      Core__Credential **ret_next, struct secret *ret_secret, struct error *err);

/* The credential that a secret opens, and its user. UNAUTHENTICATED: the text is no such secret, or
 * the credential is disabled, locked, expired or used up. */
int credential_open(struct gateway *g, enum token_kind kind, struct str secret, struct arena *arena,
                    Core__Credential **ret, Core__User **ret_user, struct error *err);

/* Counts one authentication. The last allowed one of an autoDelete credential removes it; the
 * session that it opened stays. */
int credential_count_use(struct gateway *g, const Core__Credential *credential, struct arena *arena,
                         bool *ret_is_removed, struct error *err);

/* Stores a credential under its index columns. */
int credential_store(struct gateway *g, const Core__Credential *credential, bool is_new,
                     struct error *err);

#endif
