#ifndef SERVICES_ACCESS_H
#define SERVICES_ACCESS_H

#include <stdbool.h>

#include "gateway/request.h"
#include "gateway/state/store.h"
#include "policy/base/status.h"

/* Who may touch what: Spaces, their members, and what lives in them. Used by resolvers, which fill
 * r->touched before the decision.
 *
 * The actor's default Space "default.USER" and its Template "default" come into being when they are
 * first named. A resolver only plans them (fresh objects in r->touched, not stored); the handler
 * stores them with access_store_default(). */

enum space_role { SPACE_ROLE_USER = 1, SPACE_ROLE_ADMIN, SPACE_ROLE_OWNER };

/* The Space by uid or by (short) name, and the actor's membership of it, into r->touched.
 * NOT_FOUND; PERMISSION_DENIED when the actor is no member. */
int access_space(struct request *r, const char *uid, const char *name, struct error *err);
int access_space_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err);

/* The actor's default Space, stored or planned. */
int access_default_space(struct request *r, struct error *err);

/* The Space that a full or short name of a thing in a Space names: "web.tools" → "tools.USER".
 * ret_full is the thing's full name. */
int access_space_of_name(struct request *r, const char *kind, const char *name,
                         const char **ret_full, struct error *err);

/* PERMISSION_DENIED when the membership in r->touched is below the role. `what` finishes "… to ".
 */
int access_require_role(const struct request *r, enum space_role role, const char *what,
                        struct error *err);
enum space_role access_role_of(const Cordium__Membership *membership); /* 0: none */

/* A Template, Secret, Volume or GitProvider by uid or (short) name: the resource, also as
 * r->touched.target (a Template as r->touched.template_ too), its Space and the membership. */
int access_in_space(struct request *r, enum store_kind kind, const char *uid, const char *name,
                    ProtobufCMessage **ret, struct error *err);

/* A UserSecret, WorkspaceSnapshot … of the actor by uid or (short) name; another user's is
 * PERMISSION_DENIED. */
int access_of_user(struct request *r, enum store_kind kind, const char *uid, const char *name,
                   ProtobufCMessage **ret, struct error *err);

/* The Template that a workspace is made from: by reference, or the default one when the reference
 * names nothing. Fills touched.template_, space and membership. */
int access_template_by_ref(struct request *r, const Meta__ObjectReference *ref, struct error *err);

/* Stores what a resolver planned; nothing to do is fine. Run it first in each handler whose
 * resolver could have planned. */
int access_store_default(struct request *r, struct error *err);

/* The membership of a user in a Space. NOT_FOUND. */
int access_membership(struct request *r, const char *space_uid, const char *user_uid,
                      Cordium__Membership **ret, struct error *err);

/* A fresh membership of the Space, unstored. */
int access_make_membership(struct request *r, const Core__User *user, const Cordium__Space *space,
                           Cordium__Membership__Spec__Role role, Cordium__Membership **ret,
                           struct error *err);

/* Makes a Space's OWNER membership and its Template "default", unstored. */
int access_plan_space(struct request *r, Cordium__Space *space, Cordium__Membership **ret_owner,
                      Cordium__Template **ret_template, struct error *err);

/* Stores a Space with both, in one transaction. */
int access_insert_space(struct request *r, const Cordium__Space *space,
                        const Cordium__Membership *owner, const Cordium__Template *template_,
                        struct error *err);

/* The name and uid of the actor's user. */
const char *access_user_name(const struct request *r);
const char *access_user_uid(const struct request *r);

/* Cordium's ClusterConfig; NULL and NOT_FOUND are told as INTERNAL, since init makes it. */
int access_cluster_config(struct request *r, Cordium__ClusterConfig **ret, struct error *err);

#endif
