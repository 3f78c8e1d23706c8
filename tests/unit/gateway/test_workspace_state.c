#include <check.h>
#include <stdio.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/build_record.h"
#include "gateway/services/workspace_log.h"
#include "gateway/services/workspace_reconcile.h"
#include "gateway/services/workspace_state.h"
#include "gateway/state/resource.h"

Suite *suite_workspace_state(void);

static struct arena arena;

static void open_arena(void)
{
    arena_init(&arena, 16 * 1024 * 1024);
}

static void close_arena(void)
{
    arena_free(&arena);
}

static void *decode(const ProtobufCMessageDescriptor *descriptor, const char *text)
{
    ProtobufCMessage *m;
    struct error err = {0};
    ck_assert_msg(!codec_decode_yaml(descriptor, str_from(text), CODEC_STRICT, &arena, &m, &err),
                  "%s", err.text);
    return m;
}

static Cordium__Workspace *workspace_of(const char *status)
{
    Cordium__Workspace *w = CODEC_NEW(&arena, Cordium__Workspace, cordium__workspace);
    w->status = decode(&cordium__workspace__status__descriptor, status);
    return w;
}

#define SECOND INT64_C(1000000000)

static void begin(Cordium__Workspace *w, const char *id, int64_t at_ns)
{
    const struct workspace_begin b = {
        .run_id = id,
        .limit = decode(&cordium__workspace__spec__limit__descriptor, "{cpu: {millicores: 1}}"),
        .session_ref = decode(&meta__object_reference__descriptor, "{uid: s}"),
        .region_ref = decode(&meta__object_reference__descriptor, "{name: default}"),
        .hostname = "abc.cordium.localhost",
    };
    ck_assert_int_eq(workspace_begin_run(w, &b, at_ns, &arena), 0);
}

START_TEST(states_only_go_forward)
{
    ck_assert(workspace_state_may_follow(WORKSPACE_STATE(STOPPED), WORKSPACE_STATE(INIT_REQUEST)));
    ck_assert(!workspace_state_may_follow(WORKSPACE_STATE(STOPPED), WORKSPACE_STATE(RUNNING)));
    ck_assert(workspace_state_may_follow(WORKSPACE_STATE(INITIALIZING), WORKSPACE_STATE(STOPPING)));
    ck_assert(!workspace_state_may_follow(WORKSPACE_STATE(STOPPING), WORKSPACE_STATE(RUNNING)));
    ck_assert(!workspace_state_may_follow(WORKSPACE_STATE(RUNNING), WORKSPACE_STATE(RUNNING)));
}
END_TEST

START_TEST(begin_fills_run_and_clears_failure)
{
    Cordium__Workspace *w = workspace_of(
        "{state: STOPPED, stoppingReason: STOPPING_REASON_API, failure: {message: x}}");
    begin(w, "run001", 5 * SECOND);
    ck_assert_int_eq(w->status->state, WORKSPACE_STATE(INIT_REQUEST));
    ck_assert_int_eq(w->status->last_state, WORKSPACE_STATE(STOPPED));
    ck_assert_str_eq(w->status->run->id, "run001");
    ck_assert_ptr_null(w->status->failure);
    ck_assert_int_eq(w->status->last_stopping_reason, WORKSPACE_STOPPING(API));
    ck_assert_int_eq(w->status->stopping_reason, WORKSPACE_STOPPING(UNSET));
    ck_assert_str_eq(w->status->session_ref->uid, "s");
    ck_assert_uint_eq(w->status->n_last_runs, 0);
}
END_TEST

START_TEST(second_run_keeps_the_first_one_in_front)
{
    Cordium__Workspace *w = workspace_of("{state: STOPPED}");
    for (int i = 0; i < 103; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "r%d", i);
        begin(w, id, 5 * SECOND);
    }
    ck_assert_uint_eq(w->status->n_last_runs, WORKSPACE_LAST_RUNS_MAX);
    ck_assert_str_eq(w->status->run->id, "r102");
    ck_assert_str_eq(w->status->last_runs[0]->id, "r101");
    ck_assert_str_eq(w->status->last_runs[99]->id, "r2");
}
END_TEST

START_TEST(running_counts_and_stopped_clears)
{
    Cordium__Workspace *w = workspace_of("{state: STOPPED}");
    begin(w, "run001", 5 * SECOND);
    ck_assert_int_eq(workspace_enter(w, WORKSPACE_STATE(RUNNING), 6 * SECOND, &arena), 0);
    ck_assert_uint_eq(w->status->successful_runs, 1);
    ck_assert_int_eq(workspace_enter(w, WORKSPACE_STATE(STOPPING), 15 * SECOND, &arena), 0);
    ck_assert_uint_eq(w->status->total_last_runs_duration->seconds, 10);
    ck_assert_int_eq(workspace_enter(w, WORKSPACE_STATE(STOPPED), 16 * SECOND, &arena), 0);
    ck_assert_ptr_null(w->status->session_ref);
    ck_assert_ptr_null(w->status->region_ref);
    ck_assert_str_eq(w->status->last_region_ref->name, "default");
    ck_assert_str_eq(w->status->hostname, "");
    ck_assert_int_eq(resource_timestamp_ns(w->status->run->stopped_at), 16 * SECOND);
    ck_assert_int_eq(resource_timestamp_ns(w->status->last_stopped_at), 16 * SECOND);
}
END_TEST

START_TEST(failure_is_in_status_and_run)
{
    Cordium__Workspace *w = workspace_of("{state: STOPPED}");
    begin(w, "run001", 5 * SECOND);
    const struct workspace_failure f = {
        .kind = WORKSPACE_FAILURE(TASK), .message = "m", .name = "setup", .exit_code = 3};
    ck_assert_int_eq(workspace_set_failure(w, &f, &arena), 0);
    ck_assert_str_eq(w->status->failure->task->name, "setup");
    ck_assert_int_eq(w->status->run->failure->task->exit_code, 3);
    ck_assert_int_eq(w->status->stopping_reason, WORKSPACE_STOPPING(ERROR));
}
END_TEST

START_TEST(each_failure_kind_can_be_made_and_encoded)
{
    for (int kind = 2; kind <= 17; kind++) {
        const struct workspace_failure f = {
            .kind = (workspace_failure_kind)kind, .message = "m", .name = "n"};
        Cordium__Workspace__Status__Failure *m = workspace_make_failure(&f, &arena);
        struct buf out;
        ck_assert_ptr_nonnull(m);
        buf_init(&out, 4096);
        ck_assert_int_eq(codec_encode_wire(&m->base, &out, NULL), 0);
        ck_assert_uint_gt(out.len, 0);
        buf_free(&out);
    }
}
END_TEST

/* --- builds --- */

START_TEST(build_ready_becomes_the_current_one)
{
    Cordium__Template *t = CODEC_NEW(&arena, Cordium__Template, cordium__template);
    ck_assert_int_eq(build_begin(t, "aaaaaa", 0, NULL, SECOND, &arena), 0);
    ck_assert_str_eq(t->status->build_info->current_running_build_id, "aaaaaa");
    ck_assert_str_eq(t->status->build_info->builds[0]->tags[0], "latest");
    ck_assert_int_eq(build_end(t, "aaaaaa", NULL, false, 2 * SECOND, &arena), 0);
    ck_assert_str_eq(t->status->build_info->current_ready_build_id, "aaaaaa");
    ck_assert_str_eq(t->status->build_info->current_running_build_id, "");
    ck_assert_int_eq(build_find(t, "aaaaaa")->state, BUILD_STATE(READY));
}
END_TEST

START_TEST(build_failed_or_canceled_leaves_the_ready_one)
{
    Cordium__Template *t = CODEC_NEW(&arena, Cordium__Template, cordium__template);
    Cordium__Workspace__Status__Failure f = CORDIUM__WORKSPACE__STATUS__FAILURE__INIT;
    f.message = (char *)"why";
    ck_assert_int_eq(build_begin(t, "aaaaaa", 0, NULL, SECOND, &arena), 0);
    ck_assert_int_eq(build_end(t, "aaaaaa", NULL, false, SECOND, &arena), 0);
    ck_assert_int_eq(build_begin(t, "bbbbbb", 0, NULL, SECOND, &arena), 0);
    ck_assert_int_eq(build_end(t, "bbbbbb", &f, true, SECOND, &arena), 0);
    ck_assert_int_eq(build_end(t, "bbbbbb", NULL, false, SECOND, &arena), 0); /* late */
    ck_assert_str_eq(t->status->build_info->current_ready_build_id, "aaaaaa");
    ck_assert_str_eq(t->status->build_info->builds[0]->id, "bbbbbb");
    ck_assert(t->status->build_info->builds[0]->is_canceled);
    ck_assert_str_eq(t->status->build_info->builds[0]->failure->message, "why");
}
END_TEST

START_TEST(build_tags_are_checked)
{
    char *fine[] = {(char *)"v1", (char *)"latest"};
    char *bad[] = {(char *)"a"};
    char *many[11] = {NULL};
    struct error err = {0};
    ck_assert_int_eq(build_check_tags(2, fine, &err), 0);
    ck_assert_int_eq(build_check_tags(1, bad, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(build_check_tags(11, many, &err), -STATUS_INVALID_ARGUMENT);
}
END_TEST

/* --- log --- */

START_TEST(log_is_replayed_and_old_entries_make_room)
{
    struct workspace_log *log = workspace_log_new("u", "n", "o");
    struct workspace_log_entry e;
    uint64_t position = 0;
    bool was_cut;
    char text[4096];
    memset(text, 'x', sizeof text);
    workspace_log_append(log, 7, CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK,
                         CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR, STR("first"));
    ck_assert(workspace_log_read(log, &position, &e, &was_cut));
    ck_assert(str_is(e.data, "first"));
    ck_assert_int_eq(e.at_ns, 7);
    ck_assert_int_eq(e.mode, CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDERR);
    ck_assert(!workspace_log_read(log, &position, &e, &was_cut));
    for (int i = 0; i < 1000; i++) {
        workspace_log_append(log, i, CORDIUM__LISTEN_LOG_RESPONSE__TYPE__TYPE_TASK,
                             CORDIUM__LISTEN_LOG_RESPONSE__MODE__MODE_STDOUT,
                             str_make(text, sizeof text));
    }
    ck_assert(workspace_log_read(log, &position, &e, &was_cut));
    ck_assert(was_cut);
    ck_assert_uint_eq(e.data.len, sizeof text);
    int64_t last = e.at_ns;
    while (workspace_log_read(log, &position, &e, &was_cut)) {
        ck_assert_int_eq(e.at_ns, last + 1);
        last = e.at_ns;
    }
    ck_assert_int_eq(last, 999);
    workspace_log_unref(log);
}
END_TEST

/* --- time limits --- */

START_TEST(time_limits_follow_the_cluster_config)
{
    struct workspace_time_limits l =
        workspace_time_limits(NULL, NULL, CORDIUM__SPACE__STATUS__TYPE__USER);
    ck_assert_int_eq(l.idle_seconds, 30 * 3600);
    Cordium__ClusterConfig *c = decode(
        &cordium__cluster_config__descriptor,
        "{spec: {workspace: {timeout: {defaultDuration: {hours: 2}, organizationSpaceDuration: "
        "{minutes: 5}, maxActiveDuration: {days: 1}}}}}");
    l = workspace_time_limits(c, NULL, CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION);
    ck_assert_int_eq(l.idle_seconds, 300);
    ck_assert_int_eq(l.active_seconds, 86400);
    l = workspace_time_limits(c, NULL, CORDIUM__SPACE__STATUS__TYPE__USER);
    ck_assert_int_eq(l.idle_seconds, 7200);
    Cordium__Workspace__Spec__Runtime *off =
        decode(&cordium__workspace__spec__runtime__descriptor, "{timeout: {mode: DISABLED}}");
    l = workspace_time_limits(c, off, CORDIUM__SPACE__STATUS__TYPE__USER);
    ck_assert_int_eq(l.idle_seconds, 7200);
    c->spec->workspace->timeout->allow_no_timeout = true;
    l = workspace_time_limits(c, off, CORDIUM__SPACE__STATUS__TYPE__USER);
    ck_assert_int_eq(l.idle_seconds, 0);
}
END_TEST

Suite *suite_workspace_state(void)
{
    Suite *s = suite_create("workspace_state");
    TCase *t = tcase_create("state");
    tcase_add_checked_fixture(t, open_arena, close_arena);
    tcase_add_test(t, states_only_go_forward);
    tcase_add_test(t, begin_fills_run_and_clears_failure);
    tcase_add_test(t, second_run_keeps_the_first_one_in_front);
    tcase_add_test(t, running_counts_and_stopped_clears);
    tcase_add_test(t, failure_is_in_status_and_run);
    tcase_add_test(t, each_failure_kind_can_be_made_and_encoded);
    tcase_add_test(t, build_ready_becomes_the_current_one);
    tcase_add_test(t, build_failed_or_canceled_leaves_the_ready_one);
    tcase_add_test(t, build_tags_are_checked);
    tcase_add_test(t, log_is_replayed_and_old_entries_make_room);
    tcase_add_test(t, time_limits_follow_the_cluster_config);
    suite_add_tcase(s, t);
    return s;
}
