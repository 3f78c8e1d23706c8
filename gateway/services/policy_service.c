#include "gateway/services/policy_service.h"

#include <inttypes.h>
#include <stdio.h>

#include "api/core.pb-c.h"
#include "api/ext.pb-c.h"
#include "gateway/authorize/apply.h"
#include "gateway/authorize/authorize.h"
#include "gateway/authorize/policy_history.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/authorize/policy_uses.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

/* Only an administrator is told which policies exist. */
static int find_policy(struct request *r, const char *uid, const char *name, struct error *err)
{
    ProtobufCMessage *policy;
    int rc = admin_require(r, err);
    rc = rc ? rc
            : resource_find(r->gateway->store, STORE_POLICY, uid, name, &r->arena, &policy, err);
    if (rc == 0) {
        r->touched.target = policy;
    }
    return rc;
}

int policy_get_resolve(struct request *r, struct error *err)
{
    const Meta__GetOptions *o = (const Meta__GetOptions *)r->message;
    return find_policy(r, o->uid, o->name, err);
}

int policy_delete_resolve(struct request *r, struct error *err)
{
    const Meta__DeleteOptions *o = (const Meta__DeleteOptions *)r->message;
    return find_policy(r, o->uid, o->name, err);
}

int policy_update_resolve(struct request *r, struct error *err)
{
    return find_policy(r, resource_uid(r->message), resource_name(r->message), err);
}

/* One write of a policy or the ClusterConfig, as policy_store_change() runs it. */
struct change {
    struct request *r;
    enum store_kind kind;
    const ProtobufCMessage *stored; /* NULL: insert */
    ProtobufCMessage *next;         /* NULL: delete */
    const ProtobufCMessage *result;
};

static int run_change(void *arg, struct error *err)
{
    struct change *c = arg;
    struct store *store = c->r->gateway->store;
    struct store_index index = {0};
    if (!c->next) {
        return store_delete(store, c->kind, resource_uid(c->stored), err);
    }
    int rc = c->kind == STORE_POLICY
                 ? policy_complete(store, (Core__Policy *)c->next, &c->r->arena, &index, err)
                 : 0;
    if (rc) {
        return rc;
    }
    c->result = c->next;
    return c->stored ? resource_write(c->r, c->kind, c->stored, c->next, &index, &c->result, err)
                     : store_insert(store, c->kind, c->next, &index, err);
}

static int approve(void *arg, struct policy_snapshot *next, struct error *err)
{
    return authorize_check_next(arg, next, err);
}

static int approve_change(void *arg, struct policy_snapshot *next, struct error *err)
{
    const struct change *c = arg;
    return authorize_check_next(c->r, next, err);
}

static int commit_change(struct change *c, struct error *err)
{
    struct policy_change change = {run_change, approve_change, c};
    policy_store_sign(c->r->gateway->policies, resource_name(&c->r->actor.user->base),
                      c->r->method->schema->name, c->r->started_at_ns);
    int rc = policy_store_change(c->r->gateway->policies, &change, err);
    if (rc == 0) {
        change_outcome_set_resource(c->r, c->stored, c->next ? c->result : NULL);
    }
    return rc;
}

/* Replies with the message, or fails with the error when rc is not 0. */
static void answer(struct request *r, int rc, const ProtobufCMessage *message,
                   const struct error *err)
{
    if (rc) {
        request_fail(r, err);
    } else {
        request_reply(r, message);
    }
}

static int refuse_system(const ProtobufCMessage *policy, struct error *err)
{
    if (!resource_metadata(policy)->is_system) {
        return 0;
    }
    return error_set(err, STATUS_FAILED_PRECONDITION,
                     "Policy '%s' belongs to the system and cannot be changed or deleted",
                     resource_name(policy));
}

void policy_create_handle(struct request *r)
{
    struct error err = {0};
    struct change c = {.r = r, .kind = STORE_POLICY};
    int rc = admin_require(r, &err);
    rc = rc ? rc : resource_make(r, STORE_POLICY, resource_name(r->message), &c.next, &err);
    rc = rc ? rc
            : policy_store_check_policy(r->gateway->policies, (const Core__Policy *)c.next, &err);
    rc = rc ? rc : commit_change(&c, &err);
    answer(r, rc, c.result, &err);
}

void policy_get_handle(struct request *r)
{
    struct error err = {0};
    int rc = admin_require(r, &err);
    answer(r, rc, r->touched.target, &err);
}

void policy_list_handle(struct request *r)
{
    struct error err = {0};
    struct store_filter filter = {0};
    const Core__ListPolicyOptions *o = (const Core__ListPolicyOptions *)r->message;
    if (admin_require(r, &err)) {
        request_fail(r, &err);
        return;
    }
    resource_list_reply(r, STORE_POLICY, &filter, o->common, NULL);
}

void policy_update_handle(struct request *r)
{
    struct error err = {0};
    struct change c = {.r = r, .kind = STORE_POLICY, .stored = r->touched.target};
    int rc = admin_require(r, &err);
    rc = rc ? rc : refuse_system(c.stored, &err);
    rc = rc ? rc : resource_make_update(r, STORE_POLICY, c.stored, &c.next, &err);
    rc = rc ? rc
            : policy_store_check_policy(r->gateway->policies, (const Core__Policy *)c.next, &err);
    rc = rc ? rc : commit_change(&c, &err);
    answer(r, rc, c.result, &err);
}

void policy_delete_handle(struct request *r)
{
    struct error err = {0};
    struct policy_uses uses;
    struct change c = {.r = r, .kind = STORE_POLICY, .stored = r->touched.target};
    int rc = admin_require(r, &err);
    rc = rc ? rc : refuse_system(c.stored, &err);
    rc = rc ? rc : policy_uses_read(&uses, r->gateway->store, &r->arena, &err);
    rc = rc ? rc : policy_uses_check_none(&uses, resource_name(c.stored), &err);
    rc = rc ? rc : commit_change(&c, &err);
    if (rc) {
        request_fail(r, &err);
    } else {
        request_reply_empty(r);
    }
}

void core_cluster_config_get_handle(struct request *r)
{
    struct error err = {0};
    const Core__ClusterConfig *config = policy_store_cluster_config(r->gateway->policies);
    int rc = admin_require(r, &err);
    rc = rc || config ? rc : error_set(&err, STATUS_INTERNAL, "no ClusterConfig is loaded");
    answer(r, rc, config ? &config->base : NULL, &err);
}

/* Replaces metadata and spec of the one ClusterConfig, which is made when there is none yet. */
void core_cluster_config_update_handle(struct request *r)
{
    struct error err = {0};
    struct change c = {.r = r, .kind = STORE_CLUSTER_CONFIG};
    const Core__ClusterConfig *config = policy_store_cluster_config(r->gateway->policies);
    bool is_stored = config && resource_uid(&config->base)[0];
    int rc = admin_require(r, &err);
    if (rc == 0 && is_stored) {
        /* The loaded one dies with the set that the change replaces. */
        c.stored = codec_copy(&config->base, &r->arena);
        rc = c.stored ? resource_make_update(r, STORE_CLUSTER_CONFIG, c.stored, &c.next, &err)
                      : resource_no_memory(&err);
    } else if (rc == 0) {
        rc = resource_make(r, STORE_CLUSTER_CONFIG, "default", &c.next, &err);
    }
    rc = rc ? rc : commit_change(&c, &err);
    answer(r, rc, c.result, &err);
}

void policy_apply_handle(struct request *r)
{
    struct error err = {0};
    Ext__ApplyResponse *response = NULL;
    const Ext__ApplyRequest *q = (const Ext__ApplyRequest *)r->message;
    struct apply_options options = {.dry_run = q->dry_run,
                                    .prune = q->prune,
                                    .wall_ns = r->started_at_ns,
                                    .approve = approve,
                                    .approve_arg = r,
                                    .audit_lines = q->audit_lines};
    int rc = admin_require(r, &err);
    if (rc == 0) {
        policy_store_sign(r->gateway->policies, resource_name(&r->actor.user->base), "apply",
                          r->started_at_ns);
    }
    rc = rc ? rc
            : apply_documents(r->gateway, str_from(q->documents), &options, &r->arena, &response,
                              &err);
    if (rc == 0 && !q->dry_run) {
        change_outcome_set(r, str_from(response->diff));
    }
    answer(r, rc, response ? &response->base : NULL, &err);
}

/* A former set is applied like a file, but nothing that it lacks may stay. */
void policy_rollback_handle(struct request *r)
{
    struct error err = {0};
    struct str text;
    Ext__ApplyResponse *response = NULL;
    const Ext__RollbackRequest *q = (const Ext__RollbackRequest *)r->message;
    struct apply_options options = {.dry_run = q->dry_run,
                                    .prune_all = true,
                                    .wall_ns = r->started_at_ns,
                                    .approve = approve,
                                    .approve_arg = r};
    char reason[64];
    (void)snprintf(reason, sizeof reason, "rollback to %" PRIu64, q->version);
    int rc = admin_require(r, &err);
    rc = rc ? rc : policy_history_text(r->gateway->store, q->version, &r->arena, &text, &err);
    if (rc == 0) {
        policy_store_sign(r->gateway->policies, resource_name(&r->actor.user->base), reason,
                          r->started_at_ns);
        rc = apply_documents(r->gateway, text, &options, &r->arena, &response, &err);
    }
    if (rc == 0 && !q->dry_run) {
        change_outcome_set(r, str_from(response->diff));
    }
    answer(r, rc, response ? &response->base : NULL, &err);
}
