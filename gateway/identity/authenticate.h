#ifndef IDENTITY_AUTHENTICATE_H
#define IDENTITY_AUTHENTICATE_H

#include <stdbool.h>

#include "gateway/authorize/system_policies.h"
#include "gateway/request.h"
#include "policy/base/status.h"

/* The object that a listener inside a sandbox begins with: edge_server_adopt_unix() gets a pointer
 * to it as listener_owner. Who connects there is that session, whatever he sends. */
struct listener_identity {
    char session_uid[40]; /* "" while the workspace has none: calls are refused */
};

/* Fills r->actor.
 *
 * A call through a workspace's own socket is the workspace's session. Else METHOD_SESSION takes the
 * access token from the x-octelium-auth header, the octelium_auth cookie or "Authorization:
 * Bearer", in that order, and METHOD_REFRESH the refresh token from x-octelium-refresh-token or the
 * octelium_rt cookie; METHOD_PUBLIC needs nobody.
 *
 * UNAUTHENTICATED: no token, or none that is alive (unknown, replaced, expired, its session or user
 * gone). Whether a session is locked, expired or allowed is the authorization's to judge. */
int authenticate_request(struct request *r, struct error *err);

/* True for a user who may administer the cluster: the system policy "cluster-admin" or
 * "octelium-api-full-access" is attached to him or to one of his groups. */
bool actor_is_admin(const struct actor *actor);

/* PERMISSION_DENIED unless the actor is an administrator and speaks from outside of any workspace:
 * code in a sandbox has its owner's session, but never his power over users and policies. */
int admin_require(const struct request *r, struct error *err);

/* Fills r->actor as if the session had come with its token; for questions about others. NOT_FOUND
 * is told as UNAUTHENTICATED. */
int actor_load(struct request *r, const char *session_uid, struct error *err);

#endif
