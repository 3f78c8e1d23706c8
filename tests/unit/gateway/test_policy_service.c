#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "gateway/authorize/policy_store.h"
#include "gateway/identity/session.h"
#include "policy/base/json_out.h"

Suite *suite_policy_service(void);

static struct harness h;
static const char *admin;

static void setup(void)
{
    harness_open(&h);
    admin = harness_admin(&h);
}

static void teardown(void)
{
    harness_close(&h);
}

static void ok(const char *token, const char *method, const char *json)
{
    harness_core(&h, token, method, json);
    ck_assert_msg(h.status == 0, "%s %s: %s", method, json, h.text);
}

static void fails(const char *token, const char *method, const char *json, int status,
                  const char *part)
{
    harness_core(&h, token, method, json);
    harness_expect(&h, status, part);
}

static int apply(const char *token, const char *yaml, const char *more)
{
    struct buf out;
    buf_init(&out, 65536);
    struct json_out j = json_out_to(&out);
    json_begin_object(&j);
    json_member_string(&j, "documents", yaml);
    json_end_object(&j);
    out.len--;
    buf_add_cstr(&out, more);
    buf_add_u8(&out, '}');
    buf_add_u8(&out, 0);
    int status =
        harness_call(&h, token, "/cordium.ext.v1.PolicyService/Apply", (const char *)out.ptr);
    buf_free(&out);
    return status;
}

#define RULE(effect) "{\"effect\":\"" effect "\",\"condition\":{\"matchAny\":true}}"

START_TEST(policies_are_made_read_changed_and_deleted)
{
    ok(admin, "CreatePolicy",
       "{\"metadata\":{\"name\":\"mine\"},\"spec\":{\"rules\":[" RULE("ALLOW") "]}}");
    fails(admin, "CreatePolicy",
          "{\"metadata\":{\"name\":\"mine\"},\"spec\":{\"rules\":[" RULE("ALLOW") "]}}",
          STATUS_ALREADY_EXISTS, "mine");
    ok(admin, "GetPolicy", "{\"name\":\"mine\"}");
    ok(admin, "UpdatePolicy",
       "{\"metadata\":{\"name\":\"mine\"},\"spec\":{\"isDisabled\":true,\"rules\":[" RULE(
           "DENY") "]}}");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), "\"DENY\""));
    ok(admin, "ListPolicy", "{}");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), "\"mine\""));
    ok(admin, "DeletePolicy", "{\"name\":\"mine\"}");
    fails(admin, "GetPolicy", "{\"name\":\"mine\"}", STATUS_NOT_FOUND, "mine");
}
END_TEST

START_TEST(bad_policies_are_never_stored)
{
    fails(admin, "CreatePolicy",
          "{\"metadata\":{\"name\":\"bad\"},\"spec\":{\"rules\":[{\"effect\":\"DENY\","
          "\"condition\":{\"match\":\"ctx.a ==\"}}]}}",
          STATUS_INVALID_ARGUMENT, "rule #0");
    fails(admin, "CreatePolicy",
          "{\"metadata\":{\"name\":\"bad.nobody\"},\"spec\":{\"rules\":[" RULE("DENY") "]}}",
          STATUS_FAILED_PRECONDITION, "'nobody'");
    fails(admin, "UpdateClusterConfig",
          "{\"metadata\":{},\"spec\":{\"authorization\":{\"policies\":[\"gone\"]}}}",
          STATUS_FAILED_PRECONDITION, "'gone'");
    fails(admin, "GetPolicy", "{\"name\":\"bad\"}", STATUS_NOT_FOUND, "bad");
}
END_TEST

START_TEST(an_attached_policy_and_a_parent_stay)
{
    ok(admin, "CreatePolicy",
       "{\"metadata\":{\"name\":\"base\"},\"spec\":{\"rules\":[" RULE("ALLOW") "]}}");
    ok(admin, "CreatePolicy",
       "{\"metadata\":{\"name\":\"leaf.base\"},\"spec\":{\"rules\":[" RULE("ALLOW") "]}}");
    fails(admin, "DeletePolicy", "{\"name\":\"base\"}", STATUS_FAILED_PRECONDITION, "'leaf.base'");
    ok(admin, "UpdateClusterConfig",
       "{\"metadata\":{},\"spec\":{\"authorization\":{\"policies\":[\"leaf.base\"]}}}");
    fails(admin, "DeletePolicy", "{\"name\":\"leaf.base\"}", STATUS_FAILED_PRECONDITION,
          "ClusterConfig");
    fails(admin, "DeletePolicy", "{\"name\":\"allow-all\"}", STATUS_FAILED_PRECONDITION, "system");
}
END_TEST

START_TEST(only_administrators_apply)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    apply(ann, "kind: Group\nmetadata: {name: dev}\nspec: {}\n", "");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "no administrator");
    ck_assert_int_eq(apply(admin, "kind: Group\nmetadata: {name: dev}\nspec: {}\n", ""), 0);
}
END_TEST

START_TEST(nobody_locks_himself_out)
{
    apply(admin, "kind: ClusterConfig\nspec: {authorization: {policies: [deny-all]}}\n", "");
    harness_expect(&h, STATUS_FAILED_PRECONDITION, "lock you out");
    apply(admin, "kind: ClusterConfig\nspec: {authorization: {policies: [deny-all]}}\n",
          ",\"dryRun\":true");
    harness_expect(&h, STATUS_FAILED_PRECONDITION, "'deny-all'");
    fails(admin, "UpdateClusterConfig",
          "{\"metadata\":{},\"spec\":{\"authorization\":{\"policies\":[\"deny-all\"]}}}",
          STATUS_FAILED_PRECONDITION, "lock you out");
    ok(admin, "ListPolicy", "{}");
}
END_TEST

/* The session of a running workspace in that space, owned by ann, and a listener that is it. */
static void listen_in(struct listener_identity *identity, const char *user_name, const char *space)
{
    ProtobufCMessage *user;
    Core__Session *session;
    ck_assert_int_eq(
        store_get_by_name(h.gateway.store, STORE_USER, user_name, &h.arena, &user, &h.err), 0);
    Cordium__SessionExtInfo info = CORDIUM__SESSION_EXT_INFO__INIT;
    Meta__ObjectReference space_ref = META__OBJECT_REFERENCE__INIT;
    space_ref.name = arena_strdup(&h.arena, space);
    info.space_ref = &space_ref;
    int rc = session_open_for_workspace(&h.gateway, (const Core__User *)user, &info, &h.arena,
                                        &session, &h.err);
    ck_assert_msg(rc == 0, "%s", h.err.text);
    (void)snprintf(identity->session_uid, sizeof identity->session_uid, "%s",
                   session->metadata->uid);
    h.listener = identity;
}

START_TEST(the_documented_file_shuts_the_sandboxes_out_and_nobody_else)
{
    struct listener_identity identity;
    char yaml[4096];
    int fd = open("testdata/policies/deny-sandboxes.yaml", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, yaml, sizeof yaml - 1);
    (void)close(fd);
    ck_assert_int_gt(n, 0);
    yaml[n] = '\0';
    const char *ann = harness_user(&h, "ann", "WORKLOAD");
    listen_in(&identity, "ann", "sandboxes.cordium");
    ck_assert_int_eq(harness_cordium(&h, NULL, "ListSpace", "{}"), 0);
    h.listener = NULL;
    ck_assert_msg(apply(admin, yaml, "") == 0, "%s", h.text);
    ck_assert_int_eq(harness_cordium(&h, ann, "ListSpace", "{}"), 0);
    listen_in(&identity, "ann", "sandboxes.cordium");
    harness_cordium(&h, NULL, "ListSpace", "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED,
                   "Denied by policy 'deny-sandboxes' (rule #0), attached to ClusterConfig");
    /* A stolen token of the owner's does not help inside. */
    harness_cordium(&h, ann, "ListSpace", "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "deny-sandboxes");
    listen_in(&identity, "ann", "dev.ann");
    ck_assert_int_eq(harness_cordium(&h, NULL, "ListSpace", "{}"), 0);
    h.listener = NULL;
}
END_TEST

START_TEST(auditors_read_and_change_nothing)
{
    char yaml[4096];
    int fd = open("testdata/policies/auditor-read-only.yaml", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, yaml, sizeof yaml - 1);
    (void)close(fd);
    ck_assert_int_gt(n, 0);
    yaml[n] = '\0';
    ck_assert_msg(apply(admin, yaml, "") == 0, "%s", h.text);
    const char *eve = harness_user(&h, "eve", "HUMAN");
    ok(admin, "UpdateUser",
       "{\"metadata\":{\"name\":\"eve\"},\"spec\":{\"type\":\"HUMAN\",\"groups\":[\"reviewers\"],"
       "\"authorization\":{\"policies\":[\"allow-all\"]}}}");
    ck_assert_int_eq(harness_cordium(&h, eve, "ListSpace", "{}"), 0);
    harness_cordium(&h, eve, "CreateSpace", "{\"metadata\":{\"name\":\"mine\"},\"spec\":{}}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "'api-read-only' (rule everything else)");
}
END_TEST

/* ListenTerminal begins with "List" too. */
START_TEST(the_read_only_policy_of_the_system_listens_to_nobody)
{
    const char *eve = harness_user(&h, "eve", "HUMAN");
    ok(admin, "UpdateUser",
       "{\"metadata\":{\"name\":\"eve\"},\"spec\":{\"type\":\"HUMAN\","
       "\"authorization\":{\"policies\":[\"octelium-api-read-only\",\"allow-all\"]}}}");
    ck_assert_int_eq(harness_cordium(&h, eve, "ListSpace", "{}"), 0);
    harness_cordium(&h, eve, "CreateSpace", "{\"metadata\":{\"name\":\"mine\"},\"spec\":{}}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "'octelium-api-read-only' (rule rest)");
    harness_call(&h, eve, "/octelium.api.main.cordium.v1.WorkspaceService/ListenTerminal", "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "'octelium-api-read-only' (rule rest)");
}
END_TEST

Suite *suite_policy_service(void)
{
    Suite *s = suite_create("policy_service");
    TCase *t = tcase_create("calls");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, policies_are_made_read_changed_and_deleted);
    tcase_add_test(t, bad_policies_are_never_stored);
    tcase_add_test(t, an_attached_policy_and_a_parent_stay);
    tcase_add_test(t, only_administrators_apply);
    tcase_add_test(t, nobody_locks_himself_out);
    tcase_add_test(t, the_documented_file_shuts_the_sandboxes_out_and_nobody_else);
    tcase_add_test(t, auditors_read_and_change_nothing);
    tcase_add_test(t, the_read_only_policy_of_the_system_listens_to_nobody);
    suite_add_tcase(s, t);
    return s;
}
