#include <check.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "gateway/executor_link.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/watch.h"
#include "gateway/services/workspace_run.h"
#include "gateway/services/workspace_source.h"
#include "tests/unit/gateway/request_harness.h"

Suite *suite_workspace_service(void);

/* The calls on workspaces as far as they need no executor: nobody listens at its socket. */

static struct harness h;
static uv_loop_t loop;
static const char *ann;
static const char *bob;

static void setup(void)
{
    harness_open(&h);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    h.gateway.loop = &loop;
    h.config.start_wait_ms = 100;
    ck_assert_int_eq(watch_hub_new(&h.gateway, &h.gateway.watches, &h.err), 0);
    ck_assert_int_eq(image_table_new(&h.gateway, &h.gateway.images, &h.err), 0);
    ck_assert_int_eq(workspace_table_new(&h.gateway, &h.gateway.workspaces, &h.err), 0);
    const struct executor_link_events events = workspace_executor_events(&h.gateway);
    ck_assert_int_eq(executor_link_new(&loop, "/nonexistent/executor.sock", &events,
                                       &h.gateway.executor, &h.err),
                     0);
    ann = harness_user(&h, "ann", "HUMAN");
    bob = harness_user(&h, "bob", "WORKLOAD");
}

static void teardown(void)
{
    executor_link_free(h.gateway.executor);
    workspace_table_free(h.gateway.workspaces);
    image_table_free(h.gateway.images);
    watch_hub_free(h.gateway.watches);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    harness_close(&h);
}

static void ok(const char *token, const char *method, const char *json)
{
    harness_cordium(&h, token, method, json);
    ck_assert_msg(h.status == 0, "%s %s: %s: %s", method, json, status_name(h.status), h.text);
}

static void fails(const char *token, const char *method, const char *json, int status,
                  const char *part)
{
    harness_cordium(&h, token, method, json);
    harness_expect(&h, status, part);
}

static const Cordium__Workspace *create(const char *token, const char *spec)
{
    ok(token, "CreateWorkspace", arena_printf(&h.arena, "{\"metadata\":{},\"spec\":%s}", spec));
    return (const Cordium__Workspace *)h.reply;
}

static const char *by_name(const Cordium__Workspace *w)
{
    return arena_printf(&h.arena, "{\"name\":\"%s\"}", w->metadata->name);
}

static const char *by_ref(const Cordium__Workspace *w)
{
    return arena_printf(&h.arena, "{\"workspaceRef\":{\"uid\":\"%s\"}}", w->metadata->uid);
}

START_TEST(create_fills_name_state_limit_and_template)
{
    const Cordium__Workspace *w = create(ann, "{\"limit\":{\"cpu\":{\"millicores\":700}}}");
    ck_assert_uint_eq(strlen(w->metadata->name), 3);
    ck_assert(w->metadata->name[0] >= 'a' && w->metadata->name[0] <= 'z');
    ck_assert_int_eq(w->status->state, WORKSPACE_STATE(STOPPED));
    ck_assert_uint_eq(w->status->limit->cpu->millicores, 700);
    ck_assert_uint_eq(w->status->limit->memory->megabytes, 6000);
    ck_assert_str_eq(w->status->template_ref->name, "default.default.ann");
    ck_assert_str_eq(w->status->space_ref->name, "default.ann");
    ck_assert_uint_eq(w->status->successful_runs, 0);
    ck_assert_ptr_null(w->status->session_ref);
}
END_TEST

START_TEST(create_ignores_the_name_and_keeps_the_display_name)
{
    ok(ann, "CreateWorkspace",
       "{\"metadata\":{\"name\":\"mine\",\"displayName\":\"Mine\"},\"spec\":{}}");
    const Cordium__Workspace *w = (const Cordium__Workspace *)h.reply;
    ck_assert_str_ne(w->metadata->name, "mine");
    ck_assert_str_eq(w->metadata->display_name, "Mine");
}
END_TEST

START_TEST(create_refuses_what_is_wrong)
{
    fails(ann, "CreateWorkspace", "{\"metadata\":{}}", STATUS_INVALID_ARGUMENT, "spec");
    fails(ann, "CreateWorkspace", "{\"spec\":{}}", STATUS_INVALID_ARGUMENT, "metadata");
    fails(ann, "CreateWorkspace",
          "{\"metadata\":{},\"spec\":{},\"status\":{\"templateRef\":{\"name\":\"nope\"}}}",
          STATUS_NOT_FOUND, "nope");
    fails(ann, "CreateWorkspace",
          "{\"metadata\":{},\"spec\":{\"runtime\":{\"envVars\":[{\"key\":\"T\",\"fromSecret\":"
          "\"none\"}]}}}",
          STATUS_NOT_FOUND, "none");
}
END_TEST

START_TEST(only_the_owner_may_touch_a_workspace)
{
    const Cordium__Workspace *w = create(ann, "{}");
    ok(ann, "GetWorkspace", by_name(w));
    fails(bob, "GetWorkspace", by_name(w), STATUS_PERMISSION_DENIED, "another User");
    fails(bob, "DeleteWorkspace", by_name(w), STATUS_PERMISSION_DENIED, "another User");
    fails(bob, "StartWorkspace", by_ref(w), STATUS_PERMISSION_DENIED, "another User");
    fails(ann, "GetWorkspace", "{\"name\":\"zzz\"}", STATUS_NOT_FOUND, "zzz");
    ok(bob, "ListWorkspace", "{}");
    ck_assert_uint_eq(((const Cordium__WorkspaceList *)h.reply)->n_items, 0);
}
END_TEST

START_TEST(quota_of_workspaces_names_the_remedy)
{
    h.config.workspaces_per_user_max = 2;
    (void)create(ann, "{}");
    (void)create(ann, "{}");
    fails(ann, "CreateWorkspace", "{\"metadata\":{},\"spec\":{}}", STATUS_INVALID_ARGUMENT,
          "Number of Workspaces per User has been exceeded");
    ck_assert_ptr_nonnull(strstr(h.text, "maxPerUser"));
    (void)create(bob, "{}");
}
END_TEST

START_TEST(list_pages_in_order_of_creation)
{
    const char *names[3];
    for (int i = 0; i < 3; i++) {
        names[i] = create(ann, "{}")->metadata->name;
    }
    ok(ann, "ListWorkspace", "{\"common\":{\"itemsPerPage\":2}}");
    const Cordium__WorkspaceList *list = (const Cordium__WorkspaceList *)h.reply;
    ck_assert_uint_eq(list->n_items, 2);
    ck_assert_str_eq(list->items[0]->metadata->name, names[0]);
    ck_assert(list->list_response_meta->has_more);
    ok(ann, "ListWorkspace", "{\"common\":{\"itemsPerPage\":2,\"page\":1}}");
    list = (const Cordium__WorkspaceList *)h.reply;
    ck_assert_uint_eq(list->n_items, 1);
    ck_assert_str_eq(list->items[0]->metadata->name, names[2]);
}
END_TEST

START_TEST(update_changes_spec_and_display_name_only)
{
    const Cordium__Workspace *w = create(ann, "{}");
    ok(ann, "UpdateWorkspace",
       arena_printf(&h.arena,
                    "{\"metadata\":{\"uid\":\"%s\",\"name\":\"other\",\"displayName\":\"D\"},"
                    "\"spec\":{\"isEphemeral\":true},\"status\":{\"state\":\"RUNNING\"}}",
                    w->metadata->uid));
    const Cordium__Workspace *after = (const Cordium__Workspace *)h.reply;
    ck_assert(after->spec->is_ephemeral);
    ck_assert_str_eq(after->metadata->display_name, "D");
    ck_assert_str_eq(after->metadata->name, w->metadata->name);
    ck_assert_int_eq(after->status->state, WORKSPACE_STATE(STOPPED));
    ck_assert_str_ne(after->metadata->resource_version, w->metadata->resource_version);
    fails(ann, "UpdateWorkspace",
          arena_printf(&h.arena, "{\"metadata\":{\"uid\":\"%s\"}}", w->metadata->uid),
          STATUS_INVALID_ARGUMENT, "spec");
}
END_TEST

START_TEST(update_without_a_change_keeps_the_version)
{
    const Cordium__Workspace *w = create(ann, "{}");
    ok(ann, "UpdateWorkspace",
       arena_printf(&h.arena, "{\"metadata\":{\"uid\":\"%s\"},\"spec\":{}}", w->metadata->uid));
    ck_assert_str_eq(((const Cordium__Workspace *)h.reply)->metadata->resource_version,
                     w->metadata->resource_version);
}
END_TEST

START_TEST(start_without_an_executor_changes_nothing)
{
    const Cordium__Workspace *w = create(ann, "{}");
    fails(ann, "StartWorkspace", by_ref(w), STATUS_UNAVAILABLE, "executor is not connected");
    ok(ann, "GetWorkspace", by_name(w));
    ck_assert_int_eq(((const Cordium__Workspace *)h.reply)->status->state,
                     WORKSPACE_STATE(STOPPED));
}
END_TEST

START_TEST(stopped_workspace_refuses_stop_exec_and_terminals)
{
    const Cordium__Workspace *w = create(ann, "{}");
    fails(ann, "StopWorkspace", by_ref(w), STATUS_INVALID_ARGUMENT, "stopped already");
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/Exec",
                 arena_printf(&h.arena,
                              "{\"request\":{\"workspaceRef\":{\"name\":\"%s\"},\"command\":"
                              "\"true\"}}",
                              w->metadata->name));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "The Workspace is not ready");
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/CreateTerminal",
                 by_ref(w));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "not ready");
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/ListenLog", by_ref(w));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "not ready");
}
END_TEST

START_TEST(exec_refuses_what_is_wrong)
{
    static const char PATH[] = "/octelium.api.main.cordium.v1.WorkspaceService/Exec";
    const Cordium__Workspace *w = create(ann, "{}");
    harness_call(&h, ann, PATH, "{\"kill\":{}}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "first message");
    harness_call(&h, ann, PATH, "{\"request\":{\"command\":\"x\"}}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "workspaceRef");
    harness_call(&h, ann, PATH,
                 arena_printf(&h.arena,
                              "{\"request\":{\"workspaceRef\":{\"name\":\"%s\"},\"command\":\"x\","
                              "\"workingDir\":\"rel\"}}",
                              w->metadata->name));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "workingDir");
    harness_call(&h, ann, PATH,
                 arena_printf(&h.arena,
                              "{\"request\":{\"workspaceRef\":{\"name\":\"%s\"},\"command\":\"x\","
                              "\"envVars\":[{\"key\":\"A=B\",\"value\":\"1\"}]}}",
                              w->metadata->name));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "envVars[0].key");
}
END_TEST

START_TEST(unknown_terminal_is_refused_but_may_be_removed)
{
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/WriteTerminalData",
                 "{\"id\":\"abc-zzzz\",\"data\":\"aGk=\"}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "abc-zzzz");
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/RemoveTerminal",
                 "{\"id\":\"abc-zzzz\"}");
    ck_assert_int_eq(h.status, 0);
    harness_call(&h, ann, "/octelium.api.main.cordium.v1.WorkspaceService/RemoveTerminal",
                 "{\"id\":\"../etc\"}");
    ck_assert_int_eq(h.status, 0);
}
END_TEST

START_TEST(delete_forgets_the_workspace_and_its_source)
{
    const Cordium__Workspace *w = create(ann, "{}");
    const char *value;
    ck_assert_int_eq(store_setting_put(h.gateway.store,
                                       arena_printf(&h.arena, "source/%s", w->metadata->uid),
                                       "k i -", &h.err),
                     0);
    ok(ann, "DeleteWorkspace", by_name(w));
    fails(ann, "GetWorkspace", by_name(w), STATUS_NOT_FOUND, w->metadata->name);
    ck_assert_int_eq(store_setting_get(h.gateway.store,
                                       arena_printf(&h.arena, "source/%s", w->metadata->uid),
                                       &h.arena, &value, &h.err),
                     -STATUS_NOT_FOUND);
}
END_TEST

START_TEST(what_an_earlier_gateway_left_running_is_stopped)
{
    Cordium__Workspace *w = CODEC_COPY(&h.arena, Cordium__Workspace, create(ann, "{}"));
    struct workspace_table *second;
    w->status->state = WORKSPACE_STATE(RUNNING);
    struct store_index index = workspace_index(w);
    ck_assert_int_eq(store_update(h.gateway.store, STORE_WORKSPACE, &w->base, &index, NULL, &h.err),
                     0);
    ck_assert_int_eq(workspace_table_new(&h.gateway, &second, &h.err), 0);
    workspace_table_free(second);
    ok(ann, "GetWorkspace", by_name(w));
    const Cordium__Workspace *after = (const Cordium__Workspace *)h.reply;
    ck_assert_int_eq(after->status->state, WORKSPACE_STATE(STOPPED));
    ck_assert_ptr_nonnull(strstr(after->status->failure->message, "restarted"));
    ck_assert_int_eq(after->status->stopping_reason, WORKSPACE_STOPPING(ERROR));
}
END_TEST

START_TEST(image_that_is_forgotten_is_not_found_by_its_source)
{
    static const char ID[] = "0123456789012345678901234567890123456789012345678901234567890123";
    const struct store_image image = {.id = ID, .json = "{}", .created_at_seconds = 1};
    const char *found;
    ck_assert_int_eq(store_image_put(h.gateway.store, &image, &h.err), 0);
    ck_assert_int_eq(store_setting_put(h.gateway.store, "image/kk", ID, &h.err), 0);
    ck_assert_int_eq(store_setting_put(h.gateway.store, arena_printf(&h.arena, "image-key/%s", ID),
                                       "kk", &h.err),
                     0);
    ck_assert_int_eq(image_find_by_key(&h.gateway, "kk", &h.arena, &found, &h.err), 0);
    ck_assert_str_eq(found, ID);
    ck_assert(image_is_newest(&h.gateway, ID, &h.arena));
    image_forget(&h.gateway, ID, &h.arena);
    ck_assert_int_eq(image_find_by_key(&h.gateway, "kk", &h.arena, &found, &h.err),
                     -STATUS_NOT_FOUND);
    ck_assert(!image_is_newest(&h.gateway, ID, &h.arena));
}
END_TEST

START_TEST(sources_are_read_as_they_were_written)
{
    struct workspace_source a = {.has_snapshot = true};
    struct workspace_source b;
    (void)snprintf(a.key, sizeof a.key, "%s", "kk");
    (void)snprintf(a.image_id, sizeof a.image_id, "%s", "ii");
    (void)snprintf(a.snapshot, sizeof a.snapshot, "%s", "01234567-89ab-4cde-8f01-23456789abcd");
    ck_assert_int_eq(workspace_source_put_build(&h.gateway, "t", "b", &a, &h.err), 0);
    ck_assert_int_eq(workspace_source_get_build(&h.gateway, "t", "b", &h.arena, &b, &h.err), 0);
    ck_assert_str_eq(b.key, "kk");
    ck_assert_str_eq(b.image_id, "ii");
    ck_assert(b.has_snapshot);
    ck_assert_str_eq(b.snapshot, a.snapshot);
    ck_assert_int_eq(workspace_source_get(&h.gateway, "none", &h.arena, &b, &h.err),
                     -STATUS_NOT_FOUND);
}
END_TEST

START_TEST(build_needs_an_executor_and_a_template)
{
    fails(ann, "BuildTemplate", "{}", STATUS_INVALID_ARGUMENT, "templateRef");
    ok(ann, "CreateTemplate",
       "{\"metadata\":{\"name\":\"tt\"},\"spec\":{\"image\":{\"registry\":{\"url\":\"debian:13\"}}}"
       "}");
    fails(ann, "BuildTemplate", "{\"templateRef\":{\"name\":\"tt\"},\"tags\":[\"x\"]}",
          STATUS_INVALID_ARGUMENT, "tags[0]");
    fails(ann, "BuildTemplate", "{\"templateRef\":{\"name\":\"tt\"}}", STATUS_UNAVAILABLE,
          "executor");
    ok(ann, "CancelBuildTemplate", "{\"templateRef\":{\"name\":\"tt\"}}");
    ok(ann, "GetTemplate", "{\"name\":\"tt\"}");
    const Cordium__Template *t = (const Cordium__Template *)h.reply;
    ck_assert(!t->status->build_info || t->status->build_info->n_builds == 0);
}
END_TEST

Suite *suite_workspace_service(void)
{
    Suite *s = suite_create("workspace_service");
    TCase *t = tcase_create("service");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, create_fills_name_state_limit_and_template);
    tcase_add_test(t, create_ignores_the_name_and_keeps_the_display_name);
    tcase_add_test(t, create_refuses_what_is_wrong);
    tcase_add_test(t, only_the_owner_may_touch_a_workspace);
    tcase_add_test(t, quota_of_workspaces_names_the_remedy);
    tcase_add_test(t, list_pages_in_order_of_creation);
    tcase_add_test(t, update_changes_spec_and_display_name_only);
    tcase_add_test(t, update_without_a_change_keeps_the_version);
    tcase_add_test(t, start_without_an_executor_changes_nothing);
    tcase_add_test(t, stopped_workspace_refuses_stop_exec_and_terminals);
    tcase_add_test(t, exec_refuses_what_is_wrong);
    tcase_add_test(t, unknown_terminal_is_refused_but_may_be_removed);
    tcase_add_test(t, delete_forgets_the_workspace_and_its_source);
    tcase_add_test(t, what_an_earlier_gateway_left_running_is_stopped);
    tcase_add_test(t, image_that_is_forgotten_is_not_found_by_its_source);
    tcase_add_test(t, sources_are_read_as_they_were_written);
    tcase_add_test(t, build_needs_an_executor_and_a_template);
    suite_add_tcase(s, t);
    return s;
}
