#include "gateway/authorize/past_request.h"

#include <inttypes.h>
#include <string.h>

#include "gateway/authorize/authorize.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/config.h"
#include "gateway/identity/authenticate.h"
#include "gateway/rpc/codec.h"
#include "policy/policy.h"

enum { PAST_ARENA_MAX_BYTES = 16 << 20 };

enum outcome { OUTCOME_GONE, OUTCOME_UNDECIDABLE, OUTCOME_DECIDED };

struct past_decision {
    enum outcome outcome;
    bool is_allowed;
    const char *rule; /* "policy/rule" */
};

struct replay {
    struct gateway *g;
    struct arena *arena;
    struct audit_line *lines;
    struct past_decision *before;
    size_t count;
};

/* An object that the line names, as it is now; NULL when it names none. */
static int load(struct request *r, enum store_kind kind, const char *uid, ProtobufCMessage **ret,
                struct error *err)
{
    *ret = NULL;
    return uid[0] ? store_get_by_uid(r->gateway->store, kind, uid, &r->arena, ret, err) : 0;
}

static int load_objects(struct request *r, const struct audit_line *line, struct error *err)
{
    ProtobufCMessage *space = NULL;
    ProtobufCMessage *template_ = NULL;
    ProtobufCMessage *workspace = NULL;
    int rc = load(r, STORE_SPACE, line->space_uid, &space, err);
    rc = rc ? rc : load(r, STORE_TEMPLATE, line->template_uid, &template_, err);
    rc = rc ? rc : load(r, STORE_WORKSPACE, line->workspace_uid, &workspace, err);
    r->touched.space = (Cordium__Space *)space;
    r->touched.template_ = (Cordium__Template *)template_;
    r->touched.workspace = (Cordium__Workspace *)workspace;
    return rc;
}

static int fill_run(struct request *r, const struct audit_line *line, struct error *err)
{
    if (!line->has_run) {
        return 0;
    }
    struct run_request *run = arena_zalloc(&r->arena, sizeof *run);
    if (!run) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    /* The text is not known; its size is, and activation asks for no more of a past request. */
    run->command = str_make(NULL, line->command_bytes);
    memcpy(run->command_sha256, line->command_sha256, sizeof run->command_sha256);
    run->working_dir = line->working_dir;
    run->as_root = line->as_root;
    run->has_stdin = line->has_stdin;
    run->is_terminal = line->is_terminal;
    run->env_names = line->env_names;
    run->env_name_count = line->env_name_count;
    r->run = run;
    return 0;
}

int past_request_make(struct gateway *g, const struct audit_line *line, struct request *r,
                      struct error *err)
{
    *r = (struct request){.gateway = g, .started_at_ns = line->started_at_ns};
    arena_init(&r->arena, PAST_ARENA_MAX_BYTES);
    struct request_past *past = arena_zalloc(&r->arena, sizeof *past);
    if (!past) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    past->peer = str_from(line->peer);
    r->past = past;
    r->method = method_find(str_from(line->path));
    if (!r->method || !line->session_uid[0]) {
        return error_set(err, STATUS_NOT_FOUND,
                         "no policy was asked: without a Session or a method it was %s as %.60s",
                         line->is_allowed ? "allowed" : "denied", line->reason);
    }
    int rc = actor_load(r, line->session_uid, err);
    if (rc) {
        return error_set(err, STATUS_NOT_FOUND,
                         "the Session or User of that line is gone, so it cannot be decided again; "
                         "it was %s (%.60s) under version %" PRIu64
                         ", and `cordium audit show` tells by which rule",
                         line->is_allowed ? "allowed" : "denied", line->reason,
                         line->policy_set_version);
    }
    r->actor.is_workspace = line->in_workspace;
    rc = load_objects(r, line, err);
    return rc ? rc : fill_run(r, line, err);
}

void past_request_free(struct request *r)
{
    arena_free(&r->arena);
}

bool past_request_is_undecidable(const struct decision *d)
{
    return d->error_code == POLICY_E_INPUT;
}

static int decide(struct replay *replay, const struct audit_line *line, struct past_decision *ret,
                  struct error *err)
{
    struct request r;
    struct error ignored = {0};
    *ret = (struct past_decision){.outcome = OUTCOME_GONE, .rule = ""};
    if (past_request_make(replay->g, line, &r, &ignored) == 0) {
        (void)authorize_request(&r, &ignored);
        const struct decision *d = &r.decision;
        ret->outcome = past_request_is_undecidable(d) ? OUTCOME_UNDECIDABLE : OUTCOME_DECIDED;
        ret->is_allowed = d->is_allowed;
        ret->rule = d->policy_name
                        ? arena_printf(replay->arena, "%s/%s", d->policy_name,
                                       d->rule_name ? d->rule_name : "")
                        : arena_strdup(replay->arena, d->reason_type ? d->reason_type : "");
    }
    past_request_free(&r);
    return ret->rule ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* Denials before any policy, and public methods, do not change with policies. */
static bool is_judged_by_policies(const struct audit_line *line)
{
    static const char *const reasons[] = {"POLICY_MATCH", "NO_POLICY_MATCH", "POLICY_MISSING",
                                          "EVALUATION_ERROR", "MISSING_INPUT"};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (cstr_eq(line->reason, reasons[i])) {
            return true;
        }
    }
    return false;
}

int replay_begin(struct gateway *g, size_t line_count, struct arena *arena, struct replay **ret,
                 struct error *err)
{
    struct replay *replay = arena_zalloc(arena, sizeof *replay);
    if (!replay || !g->config->audit_dir) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "there is no audit log to look at");
    }
    replay->g = g;
    replay->arena = arena;
    int rc = audit_read_decisions(g->config->audit_dir, line_count, arena, &replay->lines,
                                  &replay->count, err);
    if (rc) {
        return rc;
    }
    replay->before = arena_calloc(arena, replay->count, sizeof *replay->before);
    if (!replay->before) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    size_t kept = 0;
    for (size_t i = 0; rc == 0 && i < replay->count; i++) {
        if (is_judged_by_policies(&replay->lines[i])) {
            replay->lines[kept] = replay->lines[i];
            rc = decide(replay, &replay->lines[kept], &replay->before[kept], err);
            kept++;
        }
    }
    replay->count = kept;
    *ret = replay;
    return rc;
}

static char *copy(struct arena *arena, const char *s)
{
    static char nothing[1];
    char *text = arena_strdup(arena, s);
    return text ? text : nothing;
}

static int add_change(struct replay *replay, size_t i, const struct past_decision *after,
                      Ext__Replay *m, struct error *err)
{
    const struct audit_line *line = &replay->lines[i];
    struct arena *arena = replay->arena;
    Ext__Replay__Change *c = CODEC_NEW(arena, Ext__Replay__Change, ext__replay__change);
    if (!c) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    c->audit_id = copy(arena, line->id);
    c->time = copy(arena, line->started_at_text);
    c->user = copy(arena, line->user_name);
    c->method = copy(arena, line->path);
    c->was_allowed = replay->before[i].is_allowed;
    c->is_allowed = after->is_allowed;
    c->before = copy(arena, replay->before[i].rule);
    c->after = copy(arena, after->rule);
    m->changes[m->n_changes++] = c;
    return 0;
}

static int compare(struct replay *replay, size_t i, Ext__Replay *m, struct error *err)
{
    struct past_decision after;
    const struct past_decision *before = &replay->before[i];
    int rc = decide(replay, &replay->lines[i], &after, err);
    if (rc) {
        return rc;
    }
    m->examined++;
    if (before->outcome == OUTCOME_GONE || after.outcome == OUTCOME_GONE) {
        m->gone++;
    } else if (before->outcome == OUTCOME_UNDECIDABLE || after.outcome == OUTCOME_UNDECIDABLE) {
        m->undecidable++;
    } else if (before->is_allowed == after.is_allowed) {
        m->unchanged++;
    } else {
        rc = add_change(replay, i, &after, m, err);
    }
    return rc;
}

int replay_finish(struct replay *replay, struct policy_snapshot *next, Ext__Replay **ret,
                  struct error *err)
{
    Ext__Replay *m = CODEC_NEW(replay->arena, Ext__Replay, ext__replay);
    if (m) {
        m->changes = arena_calloc(replay->arena, replay->count, sizeof(Ext__Replay__Change *));
    }
    if (!m || !m->changes) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    struct policy_store *ps = replay->g->policies;
    struct policy_snapshot *before = policy_store_exchange(ps, next);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < replay->count; i++) {
        rc = compare(replay, i, m, err);
    }
    (void)policy_store_exchange(ps, before);
    *ret = m;
    return rc;
}
