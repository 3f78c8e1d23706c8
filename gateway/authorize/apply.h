#ifndef AUTHORIZE_APPLY_H
#define AUTHORIZE_APPLY_H

#include "api/ext.pb-c.h"
#include "gateway/gateway.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Files of resources, applied as a whole: all of it takes effect, or none.
 *
 * A file is a stream of YAML documents of the kinds Policy, Group, User, Credential and
 * ClusterConfig (all core/v1). Unknown fields are errors. Order in the file does not matter:
 * policies come first, parents before children, then groups, users, credentials, and the
 * ClusterConfig last. Everything is checked before anything is stored: expressions compile, what is
 * attached exists. */

enum { APPLY_DOCUMENTS_MAX = 5000 };

struct policy_snapshot;

struct apply_options {
    bool dry_run;
    bool prune;
    int64_t wall_ns;
    /* May be NULL. Looks at the set that would follow and can refuse it. */
    int (*approve)(void *arg, struct policy_snapshot *next, struct error *err);
    void *approve_arg;
    /* Policies that are not in the text must go: one that is attached is an error, not kept. */
    bool prune_all;
    /* With dry_run, to ask what another set would decide: attached ones go as well. */
    bool prune_attached;
    /* With dry_run: so many requests of the audit log are decided again. */
    size_t audit_lines;
};

/* Applies `text`. With dry_run everything is done but the last step, so that the answer is the
 * one that the real call would give. With prune, policies that are not in the text, that are
 * attached nowhere and are no system policies are deleted.
 *
 * *ret lives in the arena. Errors name document line, resource and field; several broken documents
 * are told together, one a line, as far as an error's text goes. */
int apply_documents(struct gateway *g, struct str text, const struct apply_options *options,
                    struct arena *arena, Ext__ApplyResponse **ret, struct error *err);

#endif
