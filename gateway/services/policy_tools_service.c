#include "gateway/services/policy_tools_service.h"

#include <inttypes.h>

#include "api/core.pb-c.h"
#include "api/ext.pb-c.h"
#include "gateway/audit/audit_reader.h"
#include "gateway/authorize/apply.h"
#include "gateway/authorize/authorize.h"
#include "gateway/authorize/past_request.h"
#include "gateway/authorize/policy_history.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/session.h"
#include "gateway/policyfile/explanation.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/audit_lookup.h"
#include "gateway/services/audit_service.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"

enum { NOTES_MAX = 4, IMAGINED_ARENA_MAX_BYTES = 16 << 20 };

struct notes {
    struct arena *arena;
    Ext__Explanation *message;
};

static void note(const struct notes *n, const char *text)
{
    char *copy = arena_strdup(n->arena, text);
    if (copy && n->message->notes && n->message->n_notes < NOTES_MAX) {
        n->message->notes[n->message->n_notes++] = copy;
    }
}

static char *copy_text(struct arena *arena, const char *s)
{
    static char nothing[1];
    char *copy = s ? arena_strdup(arena, s) : NULL;
    return copy ? copy : nothing;
}

static void fill_outcome(Ext__Explanation *m, const struct decision *d, struct arena *arena)
{
    m->is_allowed = d->is_allowed;
    m->reason = copy_text(arena, d->reason_type);
    m->policy = copy_text(arena, d->policy_name);
    m->rule = copy_text(arena, d->rule_name);
    m->attached_to = copy_text(arena, d->attached_to);
    m->priority = d->priority;
    m->detail = copy_text(arena, d->detail);
    m->policy_set_version = d->set_version;
}

/* "CreateWorkspace", "WorkspaceService/Exec", "/package.Service/Method". */
static int find_method(const char *text, const struct method **ret, struct error *err)
{
    size_t count;
    const struct schema_method *methods = schema_methods(&count);
    struct str wanted = str_from(text);
    *ret = wanted.len > 0 && text[0] == '/' ? method_find(wanted) : NULL;
    const struct method *first = NULL;
    for (size_t i = 0; !*ret && wanted.len > 0 && i < count; i++) {
        struct str path = str_from(methods[i].path);
        bool ends = str_ends_with(path, wanted);
        char before = ends && path.len > wanted.len ? path.ptr[path.len - wanted.len - 1] : '\0';
        const struct method *m =
            before == '/' || before == '.' ? method_find(str_from(methods[i].path)) : NULL;
        if (m && first) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "'%.100s' is the name of several methods, such as %s and %s; write "
                             "Service/Method",
                             text, first->schema->path, methods[i].path);
        }
        first = m ? m : first;
    }
    *ret = *ret ? *ret : first;
    return *ret ? 0
                : error_set(err, STATUS_INVALID_ARGUMENT, "This server has no method '%.100s'",
                            text);
}

/* The uid of the session that is asked about; "" for the caller's own. */
static int find_session(struct request *r, const Ext__ExplainRequest *q, const char **ret,
                        struct error *err)
{
    ProtobufCMessage *found = NULL;
    *ret = "";
    if (q->session[0]) {
        int rc =
            store_get_by_uid(r->gateway->store, STORE_SESSION, q->session, &r->arena, &found, err);
        rc = rc ? store_get_by_name(r->gateway->store, STORE_SESSION, q->session, &r->arena, &found,
                                    err)
                : 0;
        *ret = rc ? "" : resource_uid(found);
        return rc;
    }
    if (!q->user[0]) {
        return 0;
    }
    int rc = store_get_by_name(r->gateway->store, STORE_USER, q->user, &r->arena, &found, err);
    if (rc) {
        return rc;
    }
    struct store_list list;
    struct store_filter filter = {.owner_uid = resource_uid(found),
                                  .hidden = STORE_HIDDEN_AND_VISIBLE};
    rc = store_list_all(r->gateway->store, STORE_SESSION, &filter, &r->arena, &list, err);
    if (rc == 0 && list.count == 0) {
        rc = error_set(err, STATUS_NOT_FOUND, "User '%.100s' has no session to ask about", q->user);
    }
    *ret = rc ? "" : resource_uid(list.items[list.count - 1]);
    return rc;
}

static int decode_body(const struct method *method, const char *body, struct arena *arena,
                       const ProtobufCMessage **ret, struct error *err)
{
    const ProtobufCMessageDescriptor *descriptor = method->schema->request->descriptor;
    ProtobufCMessage *message = NULL;
    int rc = codec_decode_json(descriptor, str_from(body[0] ? body : "{}"), CODEC_STRICT, arena,
                               &message, err);
    *ret = message;
    return rc ? error_wrap(err, "body") : 0;
}

/* A request like the caller's, or as another session would make it. */
static int imagine(struct request *r, const Ext__ExplainRequest *q, struct request *ret,
                   const struct notes *notes, struct error *err)
{
    const char *session_uid;
    *ret = (struct request){
        .gateway = r->gateway, .started_at_ns = r->started_at_ns, .started_ns = r->started_ns};
    arena_init(&ret->arena, IMAGINED_ARENA_MAX_BYTES);
    int rc = find_method(q->method, &ret->method, err);
    rc = rc ? rc : decode_body(ret->method, q->body, &ret->arena, &ret->message, err);
    rc = rc ? rc : find_session(r, q, &session_uid, err);
    if (rc) {
        return rc;
    }
    if (session_uid[0]) {
        rc = actor_load(ret, session_uid, err);
        ret->actor.is_workspace =
            rc == 0 && session_class_of(ret->actor.session) == SESSION_WORKSPACE;
        note(notes, "the address and the headers of that session's requests are not known");
    } else {
        ret->actor = r->actor;
        ret->call = r->call;
    }
    struct error refusal = {0};
    if (rc == 0 && ret->method->resolve && ret->method->resolve(ret, &refusal)) {
        char *text = arena_printf(
            &r->arena, "the request would be refused even if it is allowed: %s", refusal.text);
        note(notes, text ? text : "");
    }
    return rc;
}

/* What is explained: a line of the log, or NULL and what the caller imagines. */
struct question {
    struct request *request;
    bool has_trace; /* may see each rule that is tried */
    const struct audit_line *line;
    Ext__Explanation *message;
    struct notes notes;
    struct request subject;
};

static int make_subject(struct question *q, struct error *err)
{
    struct request *r = q->request;
    const struct audit_line *line = q->line;
    q->subject = (struct request){0};
    if (!line) {
        return imagine(r, (const Ext__ExplainRequest *)r->message, &q->subject, &q->notes, err);
    }
    int rc = past_request_make(r->gateway, line, &q->subject, err);
    if (rc == 0) {
        char *text = arena_printf(&r->arena,
                                  "it was %s (%s) under version %" PRIu64
                                  "; session and objects are taken as they are now",
                                  line->is_allowed ? "allowed" : "denied", line->reason,
                                  line->policy_set_version);
        note(&q->notes, text ? text : "");
    }
    return rc;
}

/* Decides the subject under the policies that are in force at this moment. */
static void decide(struct question *q, Ext__Explanation *m, struct decision *ret)
{
    struct error denial = {0};
    struct explainer explainer = {.arena = &q->request->arena, .message = m};
    struct authorize_trace trace = {explainer_step, explainer_value, &explainer};
    authorize_explain(&q->subject, q->has_trace ? &trace : NULL, ret, &denial);
    fill_outcome(m, ret, &q->request->arena);
}

static bool is_same_outcome(const Ext__Explanation *a, const Ext__Explanation *b)
{
    return a->is_allowed == b->is_allowed && cstr_eq(a->reason, b->reason) &&
           cstr_eq(a->policy, b->policy) && cstr_eq(a->rule, b->rule);
}

/* Under the set that would follow if the policies of then were applied, which they are not. */
static int decide_then(void *arg, struct policy_snapshot *then, struct error *err)
{
    struct question *q = arg;
    struct decision decision = {0};
    struct policy_store *ps = q->request->gateway->policies;
    (void)err;
    struct policy_snapshot *now = policy_store_exchange(ps, then);
    decide(q, q->message->then, &decision);
    (void)policy_store_exchange(ps, now);
    return 0;
}

static void explain_then(struct question *q)
{
    struct request *r = q->request;
    uint64_t version = q->line->policy_set_version;
    struct str documents;
    struct error err = {0};
    Ext__ApplyResponse *ignored = NULL;
    const struct apply_options options = {.dry_run = true,
                                          .prune = true,
                                          .prune_all = true,
                                          .prune_attached = true,
                                          .wall_ns = r->started_at_ns,
                                          .approve = decide_then,
                                          .approve_arg = q};
    Ext__Explanation *then = CODEC_NEW(&r->arena, Ext__Explanation, ext__explanation);
    int rc = then ? policy_history_text(r->gateway->store, version, &r->arena, &documents, &err)
                  : error_set(&err, STATUS_RESOURCE_EXHAUSTED, "there is no memory for it");
    q->message->then = then;
    rc = rc ? rc : apply_documents(r->gateway, documents, &options, &r->arena, &ignored, &err);
    if (rc) {
        q->message->then = NULL;
        char *text =
            arena_printf(&r->arena, "what version %" PRIu64 " would decide cannot be told: %s",
                         version, err.text);
        note(&q->notes, text ? text : "");
        return;
    }
    if (cstr_eq(then->reason, "POLICY_MISSING")) {
        char *text = arena_printf(
            &r->arena, "a policy that is attached now is not in version %" PRIu64, version);
        note(&q->notes, text ? text : "");
    }
    then->policy_set_version = version;
    q->message->is_changed = !is_same_outcome(then, q->message);
}

static int explain(struct question *q, struct error *err)
{
    struct decision decision = {0};
    int rc = make_subject(q, err);
    if (rc == 0 && q->subject.method->access == METHOD_PUBLIC) {
        rc = error_set(err, STATUS_INVALID_ARGUMENT, "%s is public: no policy is asked",
                       q->subject.method->schema->path);
    }
    if (rc == 0) {
        decide(q, q->message, &decision);
        if (q->subject.past && past_request_is_undecidable(&decision)) {
            note(&q->notes, "the decision depends on what the audit log does not keep: the "
                            "request's body, its headers, or the command's text");
        }
        if (q->line && q->line->policy_set_version > 0 &&
            q->line->policy_set_version != q->message->policy_set_version) {
            explain_then(q);
        }
    }
    arena_free(&q->subject.arena);
    return rc;
}

static void answer(struct request *r, const struct audit_line *line)
{
    struct error err = {0};
    struct error ignored = {0};
    struct question q = {
        .request = r, .line = line, .has_trace = line || admin_require(r, &ignored) == 0};
    q.message = CODEC_NEW(&r->arena, Ext__Explanation, ext__explanation);
    if (q.message) {
        q.message->notes = arena_calloc(&r->arena, NOTES_MAX, sizeof(char *));
    }
    if (!q.message || !q.message->notes) {
        request_fail_memory(r);
        return;
    }
    q.notes = (struct notes){&r->arena, q.message};
    if (explain(&q, &err)) {
        request_fail(r, &err);
    } else {
        request_reply(r, &q.message->base);
    }
}

static void on_line(struct request *r, const struct audit_line *line, const struct error *err)
{
    if (line) {
        answer(r, line);
    } else {
        request_fail(r, err);
    }
}

void policy_explain_handle(struct request *r)
{
    const Ext__ExplainRequest *q = (const Ext__ExplainRequest *)r->message;
    bool is_about_others = q->session[0] || q->user[0];
    struct error refusal = {0};
    int rc = is_about_others ? admin_require(r, &refusal) : 0;
    /* Whoever may read the log reads the policies' diffs there as well. */
    rc = rc || !q->audit_id[0] ? rc : audit_resolve(r, &refusal);
    if (rc) {
        request_fail(r, &refusal);
    } else if (q->audit_id[0]) {
        audit_lookup_decision(r, q->audit_id, on_line);
    } else {
        answer(r, NULL);
    }
}

void policy_versions_handle(struct request *r)
{
    struct error err = {0};
    Ext__VersionList *list = NULL;
    const Ext__ListVersionsRequest *q = (const Ext__ListVersionsRequest *)r->message;
    int rc = admin_require(r, &err);
    rc = rc ? rc
            : policy_history_list(r->gateway->store, policy_store_version(r->gateway->policies),
                                  q->count, &r->arena, &list, &err);
    if (rc) {
        request_fail(r, &err);
    } else {
        request_reply(r, &list->base);
    }
}
