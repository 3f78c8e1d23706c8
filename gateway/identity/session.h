#ifndef IDENTITY_SESSION_H
#define IDENTITY_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/identity/token.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

struct gateway;

/* The life of sessions and of their tokens. In the store's index of a session, owner is the user,
 * template_uid the credential that opened it (so that revoking it can end them), and state tells:
 */
enum session_class {
    SESSION_LOGIN = 1,     /* somebody logged in; these count for the maximum per user */
    SESSION_WORKSPACE = 2, /* one run of a workspace */
};

/* Which tokens a login gets. */
enum session_tokens_kind {
    SESSION_REFRESHABLE = 0, /* an access token and a refresh token */
    SESSION_LONG_ACCESS,     /* one access token that lives as long as the session */
    SESSION_SHORT,           /* one access token; the session ends with it (OAuth2 clients come back
                                for the next one) */
};

struct session_tokens {
    struct secret access;
    struct secret refresh; /* empty for a session that lives by one access token */
    int64_t access_seconds;
    int64_t refresh_seconds;
};

/* Who logs in, and how. credential may be NULL. */
struct session_login {
    const Core__User *user;
    const Core__Credential *credential;
    struct str user_agent;
    const char *peer;
    const char *const *scopes;
    size_t scope_count;
    enum session_tokens_kind tokens;
};

/* A new session with its first tokens, stored. Run it inside a store transaction.
 * PERMISSION_DENIED: the user has as many sessions as he may; INVALID_ARGUMENT: a scope is
 * malformed. */
int session_open(struct gateway *g, const struct session_login *login, struct arena *arena,
                 Core__Session **ret, struct session_tokens *ret_tokens, struct error *err);

/* New tokens for a session; the earlier ones stop working. ALREADY_EXISTS: it was refreshed too
 * often of late. UNAUTHENTICATED: it ended. Run it inside a store transaction. */
int session_refresh(struct gateway *g, const Core__User *user, const Core__Session *session,
                    struct str user_agent, const char *peer, struct arena *arena,
                    struct session_tokens *ret_tokens, struct error *err);

/* The session of one run of a workspace: type CLIENT, 90 days, no token (the workspace's own socket
 * stands for it), status.ext.cordium = info. */
int session_open_for_workspace(struct gateway *g, const Core__User *user,
                               const Cordium__SessionExtInfo *info, struct arena *arena,
                               Core__Session **ret, struct error *err);

/* Ends a session: its tokens and itself. A session that is gone already is fine. */
int session_delete(struct gateway *g, const char *uid, struct error *err);

/* Ends all sessions of a user, or those that one credential opened; NULL for any. */
int session_delete_all(struct gateway *g, const char *user_uid, const char *credential_uid,
                       struct arena *arena, struct error *err);

/* Drops sessions and tokens that have expired; for the start of the daemon. Run it inside a store
 * transaction. */
int session_prune(struct gateway *g, struct arena *arena, struct error *err);

/* Stores a changed session under its index columns. */
int session_store(struct gateway *g, const Core__Session *session, enum session_class class_,
                  bool is_new, struct error *err);

/* LOGIN, or WORKSPACE when status.ext.cordium is there. */
enum session_class session_class_of(const Core__Session *session);

bool session_has_expired(const Core__Session *session, int64_t wall_ns);

/* The user as he is now, by a session's or credential's user_ref. NOT_FOUND when he is gone. */
int session_user(struct gateway *g, const Meta__ObjectReference *user_ref, struct arena *arena,
                 Core__User **ret, struct error *err);

#endif
