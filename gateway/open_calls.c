#include "gateway/open_calls.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/authorize/authorize.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/session.h"
#include "gateway/request.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum {
    SESSION_BUCKETS = 256,
    UID_BYTES = 40,
    JUDGE_ARENA_MAX_BYTES = 4 << 20,
    JUDGE_LENT_BYTES = 4096, /* a session and its user */
};

/* A session with calls; one that has no more goes at the next tick. */
struct open_session {
    struct open_session *next; /* in its bucket */
    struct open_call *first;   /* those whose policies are judged stand first */
    struct open_call *last;
    char uid[UID_BYTES];
    char user_uid[UID_BYTES];
    int64_t expires_at_ns; /* INT64_MAX: never */
    uint64_t changes;      /* it lived when the store had so many */
};

struct open_calls {
    struct gateway *gateway;
    uv_timer_t timer;
    struct open_session *buckets[SESSION_BUCKETS];
};

static struct request *request_of(struct open_call *call)
{
    return (struct request *)(void *)((char *)call - offsetof(struct request, open));
}

uint64_t open_calls_changes(const struct gateway *g)
{
    return store_changes(g->store, STORE_SESSION) + store_changes(g->store, STORE_USER);
}

/* ---- judging ---- */

struct tick {
    struct gateway *gateway;
    uint64_t changes;
    int64_t wall_ns;
};

/* Who calls, in what stands in the store now. */
struct judgement {
    struct request now;
    const char *reason; /* why no call of the session goes on; else NULL */
    struct error err;
};

static int64_t expiry_of(const Core__Session *session)
{
    const Core__Session__Spec *spec = session->spec;
    return spec && spec->expires_at ? resource_timestamp_ns(spec->expires_at) : INT64_MAX;
}

static int refuse(struct judgement *j, const char *reason, const char *text)
{
    j->reason = reason;
    (void)error_set(&j->err, STATUS_UNAUTHENTICATED, "%s", text);
    return 0;
}

/* Not 0 when it cannot be known. */
static int look_up(struct judgement *j, const struct open_session *s)
{
    struct store *store = j->now.gateway->store;
    struct arena *arena = &j->now.arena;
    ProtobufCMessage *message = NULL;
    int rc = store_get_by_uid(store, STORE_USER, s->user_uid, arena, &message, &j->err);
    if (rc == -STATUS_NOT_FOUND) {
        return refuse(j, "USER_GONE", "The User of this Session is gone");
    }
    j->now.actor.user = (const Core__User *)message;
    rc = rc ? rc : store_get_by_uid(store, STORE_SESSION, s->uid, arena, &message, &j->err);
    if (rc && rc != -STATUS_NOT_FOUND) {
        return rc;
    }
    j->now.actor.session = rc ? NULL : (const Core__Session *)message;
    int64_t expires_at_ns = rc ? s->expires_at_ns : expiry_of(j->now.actor.session);
    if (expires_at_ns <= j->now.started_at_ns) {
        return refuse(j, "SESSION_EXPIRED", "The Session has expired: log in again");
    }
    return rc ? refuse(j, "SESSION_GONE", "The Session has ended: log in again") : 0;
}

/* A session's scopes, which a gate holds against the method, never change: what they covered at the
 * start of a call they still cover, and the first call stands for all. */
static void judge_gates(struct judgement *j, struct open_session *s)
{
    struct decision decision = {.reason_type = NULL};
    j->now.method = request_of(s->first)->method;
    if (!j->reason && authorize_gates(&j->now, &decision, &j->err)) {
        j->reason = decision.reason_type;
    }
    for (struct open_call *call = j->reason ? s->first : NULL; call; call = call->next) {
        request_withdraw(request_of(call), j->reason, &j->err);
    }
}

static void judge_session(struct open_session *s, const struct tick *tick)
{
    if (s->changes == tick->changes && s->expires_at_ns > tick->wall_ns) {
        return;
    }
    _Alignas(16) char lent[JUDGE_LENT_BYTES];
    struct judgement j = {.now = {.gateway = tick->gateway, .started_at_ns = tick->wall_ns}};
    arena_init_with(&j.now.arena, lent, sizeof lent, JUDGE_ARENA_MAX_BYTES);
    if (look_up(&j, s) == 0) {
        judge_gates(&j, s);
        s->changes = tick->changes;
        s->expires_at_ns = j.reason ? s->expires_at_ns : expiry_of(j.now.actor.session);
    }
    arena_free(&j.now.arena);
}

/* As if the request came now. */
static void judge_policies(struct request *r)
{
    struct error err = {0};
    struct request now = {
        .gateway = r->gateway,
        .call = r->call,
        .method = r->method,
        .message = r->message,
        .started_ns = gateway_monotonic_ns(r->gateway),
        .started_at_ns = gateway_wall_ns(r->gateway),
    };
    arena_init(&now.arena, JUDGE_ARENA_MAX_BYTES);
    int rc = actor_load(&now, resource_uid(&r->actor.session->base), &err);
    now.actor.is_workspace = r->actor.is_workspace;
    rc = rc || !now.method->resolve ? rc : now.method->resolve(&now, &err);
    rc = rc ? rc : authorize_request(&now, &err);
    if (rc) {
        const char *reason = now.decision.reason_type;
        request_withdraw(r, reason ? reason : "NOT_ALLOWED", &err);
    }
    arena_free(&now.arena);
}

/* request_withdraw() calls nobody back: the lists stay as they are. */
static void judge(struct open_session *s, const struct tick *tick)
{
    judge_session(s, tick);
    for (struct open_call *call = s->first; call && call->judges_policies; call = call->next) {
        if (!request_is_over(request_of(call))) {
            judge_policies(request_of(call));
        }
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct open_calls *oc = timer->data;
    bool is_empty = true;
    const struct tick tick = {
        .gateway = oc->gateway,
        .changes = open_calls_changes(oc->gateway),
        .wall_ns = gateway_wall_ns(oc->gateway),
    };
    for (size_t i = 0; i < SESSION_BUCKETS; i++) {
        struct open_session **at = &oc->buckets[i];
        while (*at) {
            struct open_session *s = *at;
            if (!s->first) {
                *at = s->next;
                free(s);
                continue;
            }
            is_empty = false;
            judge(s, &tick);
            at = &s->next;
        }
    }
    if (is_empty) {
        (void)uv_timer_stop(timer);
    }
}

/* ---- the calls ---- */

/* Uids are random: their first digits spread them. */
static struct open_session **bucket_of(struct open_calls *oc, const char *uid)
{
    unsigned hash = 0;
    for (size_t i = 0; i < 8 && uid[i]; i++) {
        hash = hash * 31 + (unsigned char)uid[i];
    }
    return &oc->buckets[hash % SESSION_BUCKETS];
}

static struct open_session *find_or_make(struct request *r)
{
    const char *uid = resource_uid(&r->actor.session->base);
    struct open_session **bucket = bucket_of(r->gateway->open_calls, uid);
    for (struct open_session *s = *bucket; s; s = s->next) {
        if (strcmp(s->uid, uid) == 0) {
            /* What changed since this call looked is to be looked at for all of them. */
            s->changes = r->open.changes < s->changes ? r->open.changes : s->changes;
            return s;
        }
    }
    struct open_session *s = calloc(1, sizeof *s);
    if (s) {
        (void)snprintf(s->uid, sizeof s->uid, "%s", uid);
        (void)snprintf(s->user_uid, sizeof s->user_uid, "%s", resource_uid(&r->actor.user->base));
        s->expires_at_ns = expiry_of(r->actor.session);
        s->changes = r->open.changes;
        s->next = *bucket;
        *bucket = s;
    }
    return s;
}

static void put_first(struct open_session *s, struct open_call *call)
{
    call->prev = NULL;
    call->next = s->first;
    *(s->first ? &s->first->prev : &s->last) = call;
    s->first = call;
}

static void put_last(struct open_session *s, struct open_call *call)
{
    call->next = NULL;
    call->prev = s->last;
    *(s->last ? &s->last->next : &s->first) = call;
    s->last = call;
}

static void take_out(struct open_session *s, struct open_call *call)
{
    *(call->prev ? &call->prev->next : &s->first) = call->next;
    *(call->next ? &call->next->prev : &s->last) = call->prev;
}

int open_calls_add(struct request *r, struct error *err)
{
    struct open_calls *oc = r->gateway->open_calls;
    struct open_session *s = find_or_make(r);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for a call that stays");
    }
    r->open.session = s;
    put_last(s, &r->open);
    if (!uv_is_active((uv_handle_t *)&oc->timer)) {
        (void)uv_timer_start(&oc->timer, on_tick, OPEN_CALLS_TICK_MS, OPEN_CALLS_TICK_MS);
    }
    return 0;
}

int open_calls_judge_policies(struct request *r, struct error *err)
{
    int rc = r->open.session ? 0 : open_calls_add(r, err);
    if (rc == 0) {
        take_out(r->open.session, &r->open);
        put_first(r->open.session, &r->open);
        r->open.judges_policies = true;
    }
    return rc;
}

void open_calls_remove(struct request *r)
{
    if (r->open.session) {
        take_out(r->open.session, &r->open);
        r->open.session = NULL;
    }
}

/* ---- life ---- */

int open_calls_new(struct gateway *g, struct open_calls **ret, struct error *err)
{
    struct open_calls *oc = calloc(1, sizeof *oc);
    if (!oc) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for open calls");
    }
    oc->gateway = g;
    (void)uv_timer_init(g->loop, &oc->timer);
    oc->timer.data = oc;
    uv_unref((uv_handle_t *)&oc->timer);
    *ret = oc;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void open_calls_free(struct open_calls *oc)
{
    if (!oc) {
        return;
    }
    for (size_t i = 0; i < SESSION_BUCKETS; i++) {
        while (oc->buckets[i]) {
            struct open_session *s = oc->buckets[i];
            oc->buckets[i] = s->next;
            free(s);
        }
    }
    uv_close((uv_handle_t *)&oc->timer, on_closed);
}
