#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/edge/server_internal.h"
#include "gateway/identity/session.h"
#include "gateway/open_calls.h"

Suite *suite_open_calls(void);

enum { TICKS_MS = 2 * OPEN_CALLS_TICK_MS + 100 };

static struct harness h;
static struct edge_server *edge;
static struct connection connection; /* that nothing is sent to */

static void ignore_end(struct call *call, int status, struct str message)
{
    (void)call;
    (void)status;
    (void)message;
}

static const struct call_protocol silent_protocol = {.name = "test", .finish = ignore_end};

static void setup(void)
{
    harness_open(&h);
    ck_assert_int_eq(open_calls_new(&h.gateway, &h.gateway.open_calls, &h.err), 0);
    int rc =
        edge_server_new(&h.loop, edge_limits_default(), &request_events, &h.gateway, &edge, &h.err);
    ck_assert_int_eq(rc, 0);
    connection = (struct connection){.server = edge};
}

static void teardown(void)
{
    while (connection.calls) {
        call_close(connection.calls, CALL_END_CANCELLED);
    }
    edge_server_free(edge);
    open_calls_free(h.gateway.open_calls);
    harness_close(&h);
}

static const char *new_session(const char *user)
{
    struct store_list sessions;
    struct store_filter all = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    (void)harness_user(&h, user, "WORKLOAD");
    int rc = store_list_all(h.gateway.store, STORE_SESSION, &all, &h.arena, &sessions, &h.err);
    ck_assert_int_eq(rc, 0);
    return resource_uid(sessions.items[sessions.count - 1]); /* in order of creation */
}

/* A request of that session, which is not handled yet. The test holds it. */
static struct request *begin(const char *session_uid)
{
    static const Cordium__WatchWorkspaceRequest message = CORDIUM__WATCH_WORKSPACE_REQUEST__INIT;
    struct call *call = call_new(&connection, 1);
    struct request *r = calloc(1, sizeof *r);
    ck_assert(call && r);
    call->protocol = &silent_protocol;
    call->state = r;
    r->gateway = &h.gateway;
    r->call = call;
    r->method = method_find(STR("/octelium.api.main.cordium.v1.MainService/WatchWorkspace"));
    r->message = &message.base;
    r->holds = 2;
    r->is_recorded = true;
    arena_init(&r->arena, 1 << 20);
    r->open.changes = open_calls_changes(&h.gateway);
    ck_assert_int_eq(actor_load(r, session_uid, &h.err), 0);
    return r;
}

static void run_loop(unsigned ms)
{
    uint64_t end_ns = gateway_monotonic_ns(&h.gateway) + (uint64_t)ms * 1000000;
    while (gateway_monotonic_ns(&h.gateway) < end_ns) {
        (void)uv_run(&h.loop, UV_RUN_NOWAIT);
        (void)usleep(1000);
    }
}

static void expect_withdrawn(struct request *r, const char *reason, int status)
{
    ck_assert(r->is_gone && r->end == CALL_END_WITHDRAWN);
    ck_assert_str_eq(r->withdrawn_for, reason);
    ck_assert_int_eq(r->end_status, status);
}

START_TEST(calls_end_with_their_session_and_no_other)
{
    const char *one = new_session("one");
    const char *two = new_session("two");
    struct request *ended[] = {begin(one), begin(one)};
    struct request *other = begin(two);
    ck_assert_int_eq(open_calls_add(ended[0], &h.err), 0);
    ck_assert_int_eq(open_calls_add(other, &h.err), 0);
    ck_assert_int_eq(open_calls_add(ended[1], &h.err), 0);
    run_loop(TICKS_MS);
    ck_assert(!ended[0]->is_gone && !ended[1]->is_gone);
    ck_assert_int_eq(session_delete(&h.gateway, one, &h.err), 0);
    run_loop(TICKS_MS);
    expect_withdrawn(ended[0], "SESSION_GONE", STATUS_UNAUTHENTICATED);
    expect_withdrawn(ended[1], "SESSION_GONE", STATUS_UNAUTHENTICATED);
    ck_assert(!other->is_gone);
    request_release(ended[0]);
    request_release(ended[1]);
    request_release(other);
}
END_TEST

START_TEST(a_session_that_ended_on_the_way_to_the_handler_is_seen)
{
    const char *uid = new_session("late");
    struct request *first = begin(uid);
    ck_assert_int_eq(open_calls_add(first, &h.err), 0);
    struct request *r = begin(uid);
    ck_assert_int_eq(session_delete(&h.gateway, uid, &h.err), 0);
    run_loop(OPEN_CALLS_TICK_MS + 100); /* what changed is known for all that are there */
    expect_withdrawn(first, "SESSION_GONE", STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(open_calls_add(r, &h.err), 0);
    run_loop(TICKS_MS);
    expect_withdrawn(r, "SESSION_GONE", STATUS_UNAUTHENTICATED);
    request_release(first);
    request_release(r);
}
END_TEST

START_TEST(a_call_that_asks_for_it_must_be_allowed_anew)
{
    const char *uid = new_session("judged");
    struct request *plain = begin(uid);
    struct request *judged = begin(uid);
    ck_assert_int_eq(open_calls_add(plain, &h.err), 0);
    ck_assert_int_eq(open_calls_judge_policies(judged, &h.err), 0);
    harness_core(&h, harness_admin(&h), "UpdateUser",
                 "{\"metadata\":{\"name\":\"judged\"},\"spec\":{\"type\":\"WORKLOAD\","
                 "\"authorization\":{\"policies\":[\"deny-all\"]}}}");
    harness_expect(&h, 0, "");
    run_loop(TICKS_MS);
    ck_assert(!plain->is_gone);
    expect_withdrawn(judged, "POLICY_MATCH", STATUS_PERMISSION_DENIED);
    request_release(plain);
    request_release(judged);
}
END_TEST

Suite *suite_open_calls(void)
{
    Suite *s = suite_create("open_calls");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, calls_end_with_their_session_and_no_other);
    tcase_add_test(t, a_session_that_ended_on_the_way_to_the_handler_is_seen);
    tcase_add_test(t, a_call_that_asks_for_it_must_be_allowed_anew);
    suite_add_tcase(s, t);
    return s;
}
