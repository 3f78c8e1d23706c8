#ifndef SERVICES_NAMES_H
#define SERVICES_NAMES_H

#include <stdbool.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Names of resources: labels joined by dots, the resource's own label first.
 *
 *     Space          NAME.PARENT          the parent is a user, or "cordium" for an organization
 *     Template, Secret, Volume, GitProvider   NAME.SPACE.PARENT
 *     Membership     USER.SPACE.PARENT
 *     UserSecret, WorkspaceSnapshot, UserConfig   NAME.USER
 *
 * Clients may leave the end out; the functions here write it in full. Results live in the arena.
 * Errors are INVALID_ARGUMENT unless said. `kind` ("Template") and the name go into their text. */

enum { NAME_LABEL_MAX = 40, NAME_MAX_LEN = 128 };

#define NAME_ORGANIZATION "cordium"
#define NAME_DEFAULT_SPACE "default"
#define NAME_DEFAULT_TEMPLATE "default"

/* 2 to 40 characters a-z, 0-9 and single hyphens, a letter first, no hyphen last. */
bool name_is_label(struct str label);

/* A name of exactly one label: users, groups, policies' segments. */
int name_check_label(const char *kind, const char *name, struct error *err);

/* 1 to max_labels labels, at most NAME_MAX_LEN bytes. */
int name_check_dotted(const char *kind, const char *name, unsigned max_labels, struct error *err);

/* NAME → NAME.USER; NAME.USER and NAME.cordium stay. Another parent is refused.
 * ret_is_organization may be NULL. */
int name_complete_space(const char *name, const char *user, struct arena *arena,
                        const char **ret_full, bool *ret_is_organization, struct error *err);

/* For looking up: as name_complete_space(), but any parent is let through, since the caller may be
 * given to see what is not his. */
int name_find_space(const char *name, const char *user, struct arena *arena, const char **ret_full,
                    struct error *err);

/* NAME → NAME.default.USER; NAME.SPACE → NAME.SPACE.USER; three labels stay. */
int name_complete_in_space(const char *kind, const char *name, const char *user,
                           struct arena *arena, const char **ret_full, struct error *err);

/* NAME → NAME.USER. The label of another user is PERMISSION_DENIED. */
int name_complete_of_user(const char *kind, const char *name, const char *user, struct arena *arena,
                          const char **ret_full, struct error *err);

/* The part after the first dot ("sandboxes.cordium"); "" when there is none. Points into full. */
const char *name_parent(const char *full);

/* The first label, copied. NULL when the arena is full. */
const char *name_first_label(const char *full, struct arena *arena);

/* A uid from a client: UUID version 4 in lower-case text form, else "Invalid UID". */
int name_check_uid(const char *uid, struct error *err);

#endif
