#include "gateway/authorize/authorize.h"

#include "gateway/authorize/activation.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/gateway.h"
#include "gateway/state/resource.h"

enum {
    DECISION_ARENA_MAX_BYTES = 4 << 20,
    DECISION_LENT_BYTES = 4096,
};

#define DECISION_TIMEOUT_NS 2000000000ULL /* the original's */

/* One of the checks before any policy: the reason when it denies, else NULL. */
struct gate {
    const char *reason;
    bool (*denies)(const struct request *r);
    const char *text;
};

static bool session_is_inactive(const struct request *r)
{
    const Core__Session__Spec *spec = r->actor.session->spec;
    return !spec || spec->state != CORE__SESSION__SPEC__STATE__ACTIVE;
}

static bool session_is_expired(const struct request *r)
{
    const Core__Session__Spec *spec = r->actor.session->spec;
    return spec && spec->expires_at && resource_timestamp_ns(spec->expires_at) <= r->started_at_ns;
}

static bool session_is_locked(const struct request *r)
{
    return r->actor.session->status && r->actor.session->status->is_locked;
}

static bool user_is_locked(const struct request *r)
{
    return r->actor.user->status && r->actor.user->status->is_locked;
}

static bool authentication_is_due(const struct request *r)
{
    const Core__Session__Status *s = r->actor.session->status;
    return s && s->authenticator_action ==
                    CORE__SESSION__STATUS__AUTHENTICATOR_ACTION__AUTHENTICATION_REQUIRED;
}

static bool registration_is_due(const struct request *r)
{
    const Core__Session__Status *s = r->actor.session->status;
    return s && s->authenticator_action ==
                    CORE__SESSION__STATUS__AUTHENTICATOR_ACTION__REGISTRATION_REQUIRED;
}

static bool user_is_disabled(const struct request *r)
{
    return r->actor.user->spec && r->actor.user->spec->is_disabled;
}

static bool list_has(char *const *items, size_t count, const char *item)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(items[i], item) == 0) {
            return true;
        }
    }
    return false;
}

static bool service_scope_covers(const Core__Scope__Service *s)
{
    if (s->type_case == CORE__SCOPE__SERVICE__TYPE_FILTER) {
        return list_has(s->filter->names, s->filter->n_names, ACTIVATION_SERVICE_NAME) ||
               list_has(s->filter->namespaces, s->filter->n_namespaces, ACTIVATION_NAMESPACE_NAME);
    }
    return s->type_case == CORE__SCOPE__SERVICE__TYPE_ALL;
}

/* A filter's method is "package.Service/Method": the path without its first slash. */
static bool api_scope_covers(const Core__Scope__API *s, const struct schema_method *m)
{
    if (s->type_case == CORE__SCOPE__API__TYPE_FILTER) {
        const Core__Scope__API__Filter *f = s->filter;
        return list_has(f->packages, f->n_packages, m->package) ||
               list_has(f->services, f->n_services, m->service) ||
               list_has(f->methods, f->n_methods, m->path + 1);
    }
    return s->type_case == CORE__SCOPE__API__TYPE_ALL;
}

static bool scopes_do_not_cover(const struct request *r)
{
    const Core__Session__Status *s = r->actor.session->status;
    for (size_t i = 0; s && i < s->n_scopes; i++) {
        const Core__Scope *scope = s->scopes[i];
        bool covers = (scope->type_case == CORE__SCOPE__TYPE_SERVICE &&
                       service_scope_covers(scope->service)) ||
                      (scope->type_case == CORE__SCOPE__TYPE_API &&
                       api_scope_covers(scope->api, r->method->schema));
        if (covers) {
            return false;
        }
    }
    return s && s->n_scopes > 0;
}

/* The order is the original's. Its gates on access tokens and devices have no place here: a dead
 * token never passes authentication, and no session has a device. */
static const struct gate gates[] = {
    {"SESSION_NOT_ACTIVE", session_is_inactive, "the session is not active"},
    {"SESSION_EXPIRED", session_is_expired, "the session has expired; log in again"},
    {"SESSION_LOCKED", session_is_locked, "the session is locked"},
    {"USER_LOCKED", user_is_locked, "the user is locked"},
    {"AUTHENTICATOR_AUTHENTICATION_REQUIRED", authentication_is_due,
     "the session must authenticate with an authenticator first"},
    {"AUTHENTICATOR_REGISTRATION_REQUIRED", registration_is_due,
     "the session must register an authenticator first"},
    {"USER_DEACTIVATED", user_is_disabled, "the user is disabled"},
    {"SCOPE_UNAUTHORIZED", scopes_do_not_cover, "the session's scopes do not cover this method"},
};

int authorize_gates(const struct request *r, struct decision *d, struct error *err)
{
    if (!r->actor.session || !r->actor.user) {
        d->reason_type = "UNAUTHENTICATED";
        return error_set(err, STATUS_UNAUTHENTICATED, "No session; log in first");
    }
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        if (gates[i].denies(r)) {
            d->reason_type = gates[i].reason;
            d->detail = gates[i].text;
            return error_set(err, STATUS_PERMISSION_DENIED, "Denied: %s (%s)", gates[i].text,
                             gates[i].reason);
        }
    }
    return 0;
}

struct attachments {
    struct policy_attachment *items;
    size_t count;
    size_t room;
};

/* `message` may be NULL: then there is nothing to attach. */
static int attach(struct policy_store *ps, const void *message, struct arena *arena,
                  struct attachments *a, struct error *err)
{
    if (!message) {
        return 0;
    }
    int rc = policy_store_attachment(ps, message, arena, &a->items[a->count], err);
    a->count += rc == 0;
    return rc;
}

static int collect_attachments(const struct request *r, struct arena *arena, struct attachments *a,
                               struct error *err)
{
    struct policy_store *ps = r->gateway->policies;
    const struct actor *actor = &r->actor;
    a->room = actor->group_count + 4;
    a->items = arena_calloc(arena, a->room, sizeof *a->items);
    if (!a->items) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The decision needs too much memory");
    }
    int rc = attach(ps, actor->user, arena, a, err);
    for (size_t i = 0; rc == 0 && i < actor->group_count; i++) {
        rc = attach(ps, actor->groups[i], arena, a, err);
    }
    rc = rc ? rc : attach(ps, actor->session, arena, a, err);
    rc = rc ? rc : attach(ps, actor->credential, arena, a, err);
    rc = rc ? rc : attach(ps, policy_store_cluster_config(ps), arena, a, err);
    return rc;
}

static const char *copy(struct arena *arena, struct str s)
{
    const char *p = arena_strndup(arena, s.ptr, s.len);
    return p ? p : "";
}

/* What failed and where in the expression, but not the engine's text: it may quote the request, and
 * this one goes into the audit log. */
static const char *detail_of(const struct policy_decision *d, struct arena *arena)
{
    if (d->error_code == POLICY_E_NONE) {
        return arena_strdup(arena, d->detail);
    }
    if (d->error_line == 0) {
        return arena_strdup(arena, policy_error_name(d->error_code));
    }
    return arena_printf(arena, "%s at line %u, column %u of the expression",
                        policy_error_name(d->error_code), d->error_line, d->error_column);
}

/* The decision outlives the policy set that made it: texts are copied into the request. */
static void keep_decision(struct request *r, const struct policy_decision *from,
                          struct decision *to)
{
    struct arena *arena = &r->arena;
    bool has_rule = from->reason != POLICY_REASON_NO_MATCH && from->reason != POLICY_REASON_MISSING;
    *to = (struct decision){
        .is_allowed = from->is_allowed,
        .reason_type = policy_reason_name(from->reason),
        .priority = from->priority,
        .is_inline = from->is_inline,
        .set_version = from->set_version,
        .detail = detail_of(from, arena),
        .error_code = from->error_code,
    };
    if (from->attached_to.len == 0) {
        return;
    }
    to->policy_name = copy(arena, from->policy_name);
    to->policy_uid = copy(arena, from->policy_uid);
    to->policy_resource_version = copy(arena, from->policy_resource_version);
    to->attached_to = copy(arena, from->attached_to);
    if (has_rule && from->rule_name.len > 0) {
        to->rule_name = copy(arena, from->rule_name);
    } else if (has_rule) {
        to->rule_name = arena_printf(arena, from->is_enforcement_rule ? "enforcement #%zu" : "#%zu",
                                     from->rule_index);
    }
}

/* What the client reads. It names rule and place; expression errors, which may quote the policy or
 * the request, stay in the audit log. */
static int denial(const struct decision *d, enum policy_reason reason, struct error *err)
{
    const char *rule = d->rule_name ? d->rule_name : "";
    const char *policy = d->policy_name ? d->policy_name : "";
    const char *point = d->attached_to ? d->attached_to : "";
    const char *what = d->is_inline ? "inline policy" : "policy";
    switch (reason) {
    case POLICY_REASON_MATCH:
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Denied by %s '%s' (rule %s), attached to %s", what, policy, rule, point);
    case POLICY_REASON_MISSING:
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Denied: policy '%s', attached to %s, does not exist", policy, point);
    case POLICY_REASON_EVALUATION_ERROR:
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Denied: %s '%s' (rule %s), attached to %s, could not be evaluated", what,
                         policy, rule, point);
    case POLICY_REASON_MISSING_INPUT:
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "Denied: %s '%s' (rule %s), attached to %s, looks at something that this "
                         "request lacks, and the policy mode is strict",
                         what, policy, rule, point);
    case POLICY_REASON_NO_MATCH:
        break;
    }
    return error_set(err, STATUS_PERMISSION_DENIED,
                     "Denied: no policy allows this; an administrator can attach one to the user "
                     "or a group");
}

/* Policies could not even be asked: that denies, as an evaluation error. */
static int refuse_unready(struct request *r, struct decision *d, struct error *err)
{
    const char *detail = arena_strdup(&r->arena, err->text);
    *d = (struct decision){.reason_type = policy_reason_name(POLICY_REASON_EVALUATION_ERROR),
                           .set_version = policy_store_version(r->gateway->policies),
                           .detail = detail ? detail : "out of memory"};
    return error_set(err, STATUS_PERMISSION_DENIED,
                     "Denied: the attached policies could not be evaluated");
}

static uint64_t clock_ns(void *context)
{
    return gateway_monotonic_ns(context);
}

static int decide(struct request *r, struct arena *arena, const struct authorize_trace *tracer,
                  struct decision *d, struct error *err)
{
    struct policy_store *ps = r->gateway->policies;
    struct attachments a = {0};
    struct policy_query query = {
        .now_ns = r->started_at_ns,
        .deadline_ns = gateway_monotonic_ns(r->gateway) + DECISION_TIMEOUT_NS,
        .clock_ns = clock_ns,
        .clock_context = r->gateway,
        .is_strict = policy_store_is_strict(ps),
        .trace = tracer ? tracer->step : NULL,
        .trace_value = tracer ? tracer->value : NULL,
        .trace_context = tracer ? tracer->arg : NULL,
    };
    int rc = policy_store_current(ps)
                 ? collect_attachments(r, arena, &a, err)
                 : error_set(err, STATUS_FAILED_PRECONDITION, "no policies are loaded");
    if (rc == 0 && activation_make(r, arena, &query.ctx) < 0) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for ctx");
    }
    struct policy_decision decision;
    if (rc == 0) {
        query.attachments = a.items;
        query.attachment_count = a.count;
        policy_decide(policy_store_current(ps), &query, arena, &decision);
        keep_decision(r, &decision, d);
        rc = decision.is_allowed ? 0 : denial(d, decision.reason, err);
    } else {
        rc = refuse_unready(r, d, err);
    }
    for (size_t i = 0; i < a.count; i++) {
        policy_store_release(&a.items[i]);
    }
    return rc;
}

static int authorize(struct request *r, const struct authorize_trace *tracer, struct decision *d,
                     struct error *err)
{
    *d = (struct decision){.set_version = policy_store_version(r->gateway->policies)};
    int rc = authorize_gates(r, d, err);
    if (rc) {
        return rc;
    }
    if (r->method->access == METHOD_REFRESH) {
        d->is_allowed = true;
        d->reason_type = "SESSION_REFRESH";
        return 0;
    }
    _Alignas(16) char lent[DECISION_LENT_BYTES];
    struct arena arena;
    arena_init_with(&arena, lent, sizeof lent, DECISION_ARENA_MAX_BYTES);
    rc = decide(r, &arena, tracer, d, err);
    arena_free(&arena);
    return rc;
}

int authorize_request(struct request *r, struct error *err)
{
    return authorize(r, NULL, &r->decision, err);
}

int authorize_check_next(struct request *r, struct policy_snapshot *next, struct error *err)
{
    struct decision d;
    struct error denial_text = {0};
    struct policy_snapshot *before = policy_store_exchange(r->gateway->policies, next);
    int rc = authorize(r, NULL, &d, &denial_text);
    (void)policy_store_exchange(r->gateway->policies, before);
    if (rc == 0) {
        return 0;
    }
    return error_set(
        err, STATUS_FAILED_PRECONDITION,
        "This would lock you out, the same call would be refused: %s. Exempt yourself, "
        "for example with the policy 'octelium-api-full-access'",
        denial_text.text);
}

void authorize_explain(struct request *r, const struct authorize_trace *trace, struct decision *ret,
                       struct error *err)
{
    (void)authorize(r, trace, ret, err);
}
