#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <string.h>

#include "api/auth.pb-c.h"

/* What the end record keeps of each change to who may do what. */

#define AUTH "/octelium.api.main.auth.v1.MainService/"
#define MANAGEMENT "/octelium.api.main.cordium.v1.ManagementService/"

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

static void core(const char *token, const char *method, const char *json)
{
    harness_core(&h, token, method, json);
    harness_expect(&h, 0, "");
}

static void cordium(const char *token, const char *method, const char *json)
{
    harness_cordium(&h, token, method, json);
    harness_expect(&h, 0, "");
}

static void diff_has(const char *part)
{
    ck_assert_msg(strstr(h.outcome, part) != NULL, "'%s' is not in '%s'", part, h.outcome);
}

START_TEST(a_deleted_group_leaves_its_diff)
{
    core(admin, "CreateGroup",
         "{\"metadata\":{\"name\":\"dev\"},"
         "\"spec\":{\"authorization\":{\"policies\":[\"allow-all\"]}}}");
    core(admin, "DeleteGroup", "{\"name\":\"dev\"}");
    diff_has("--- Group/dev\\n+++ /dev/null");
    diff_has("-    policies:\\n-      - allow-all");
}
END_TEST

START_TEST(with_a_deleted_user_all_that_let_him_in_is_told)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    harness_user(&h, "bob", "HUMAN");
    cordium(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools.cordium\"},\"spec\":{}}");
    cordium(ann, "CreateMembership",
            "{\"spaceRef\":{\"name\":\"tools.cordium\"},\"userRef\":{\"name\":\"bob\"}}");
    core(admin, "CreateCredential",
         "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"AUTH_TOKEN\",\"user\":\"bob\"}}");
    core(admin, "DeleteUser", "{\"name\":\"bob\"}");
    diff_has("--- User/bob\\n+++ /dev/null");
    diff_has("-  type: HUMAN");
    diff_has("--- Membership/bob.tools.cordium\\n+++ /dev/null");
    diff_has("--- Credential/key\\n+++ /dev/null");
    diff_has("--- Session/");
}
END_TEST

START_TEST(a_refused_change_leaves_no_diff)
{
    harness_core(&h, admin, "DeleteUser", "{\"name\":\"admin\"}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "himself");
    ck_assert_str_eq(h.outcome, "");
}
END_TEST

START_TEST(who_comes_into_a_space_and_who_goes_is_told)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    const char *bob = harness_user(&h, "bob", "HUMAN");
    cordium(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools.cordium\"},\"spec\":{}}");
    diff_has("--- /dev/null\\n+++ Membership/ann.tools.cordium");
    diff_has("+  role: OWNER");
    cordium(ann, "CreateMembership",
            "{\"spaceRef\":{\"name\":\"tools.cordium\"},\"userRef\":{\"name\":\"bob\"}}");
    cordium(bob, "LeaveSpace", "{\"spaceRef\":{\"name\":\"tools.cordium\"}}");
    diff_has("--- Membership/bob.tools.cordium\\n+++ /dev/null");
    diff_has("-  role: USER");
    cordium(ann, "CreateMembership",
            "{\"spaceRef\":{\"name\":\"tools.cordium\"},\"userRef\":{\"name\":\"bob\"}}");
    cordium(ann, "DeleteSpace", "{\"name\":\"tools.cordium\"}");
    diff_has("--- Membership/ann.tools.cordium\\n+++ /dev/null");
    diff_has("--- Membership/bob.tools.cordium\\n+++ /dev/null");
}
END_TEST

START_TEST(who_may_own_spaces_is_told_when_it_changes)
{
    harness_call(&h, admin, MANAGEMENT "GetClusterConfig", "{}");
    harness_expect(&h, 0, "");
    harness_call(&h, admin, MANAGEMENT "UpdateClusterConfig",
                 "{\"metadata\":{\"name\":\"default\"},\"spec\":{\"space\":{\"ownership\":"
                 "{\"rules\":[{\"effect\":\"ALLOW\",\"condition\":{\"match\":"
                 "\"ctx.user.metadata.name == 'ann'\"}}]}}}}");
    harness_expect(&h, 0, "");
    diff_has("--- ClusterConfig/default\\n+++ ClusterConfig/default");
    diff_has("ctx.user.metadata.name == 'ann'");
}
END_TEST

START_TEST(a_session_that_is_ended_is_told)
{
    const char *login = arena_printf(&h.arena, "{\"authenticationToken\":\"%s\"}", h.admin_token);
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken", login);
    harness_expect(&h, 0, "");
    ck_assert_str_eq(h.outcome, "");
    const char *refresh = ((const Auth__SessionToken *)h.reply)->refresh_token;
    harness_call_refresh(&h, refresh, AUTH "Logout");
    harness_expect(&h, 0, "");
    diff_has("--- Session/");
    diff_has("\\n+++ /dev/null");
}
END_TEST

START_TEST(the_session_of_an_access_token_is_told_and_so_is_that_which_it_replaces)
{
    core(admin, "CreateCredential",
         "{\"metadata\":{\"name\":\"key\"},"
         "\"spec\":{\"type\":\"ACCESS_TOKEN\",\"user\":\"admin\"}}");
    core(admin, "GenerateCredentialToken", "{\"credentialRef\":{\"name\":\"key\"}}");
    diff_has("--- /dev/null\\n+++ Session/");
    ck_assert_ptr_null(strstr(h.outcome, "--- Session/"));
    core(admin, "GenerateCredentialToken", "{\"credentialRef\":{\"name\":\"key\"}}");
    diff_has("--- Session/");
    diff_has("+++ Session/");
    core(admin, "DeleteCredential", "{\"name\":\"key\"}");
    diff_has("--- Credential/key\\n+++ /dev/null");
    diff_has("--- Session/");
}
END_TEST

START_TEST(a_credential_that_its_last_use_removes_is_told)
{
    core(admin, "CreateCredential",
         "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"AUTH_TOKEN\",\"user\":\"admin\","
         "\"maxAuthentications\":2,\"autoDelete\":true}}");
    core(admin, "GenerateCredentialToken", "{\"credentialRef\":{\"name\":\"key\"}}");
    const char *login = arena_printf(
        &h.arena, "{\"authenticationToken\":\"%s\"}",
        ((const Core__CredentialToken *)h.reply)->authentication_token->authentication_token);
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken", login);
    harness_expect(&h, 0, "");
    ck_assert_str_eq(h.outcome, "");
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken", login);
    harness_expect(&h, 0, "");
    diff_has("--- Credential/key\\n+++ /dev/null");
}
END_TEST

START_TEST(a_diff_of_many_is_cut_and_says_so)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    cordium(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools.cordium\"},\"spec\":{}}");
    for (int i = 0; i < 50; i++) {
        core(admin, "CreateCredential",
             arena_printf(&h.arena,
                          "{\"metadata\":{\"name\":\"key-%d\",\"description\":\"%0*d\"},\"spec\":"
                          "{\"type\":\"AUTH_TOKEN\",\"user\":\"ann\"}}",
                          i, 1000, i));
    }
    cordium(ann, "DeleteSpace", "{\"name\":\"tools.cordium\"}");
    diff_has("\"diffIsCut\":false");
    core(admin, "DeleteUser", "{\"name\":\"ann\"}");
    diff_has("\"diffIsCut\":true");
    diff_has("--- Credential/key-1\\n");
    ck_assert_uint_lt(strlen(h.outcome), 40000);
}
END_TEST

Suite *suite_change_outcome(void);

Suite *suite_change_outcome(void)
{
    Suite *s = suite_create("change_outcome");
    TCase *t = tcase_create("diffs");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_deleted_group_leaves_its_diff);
    tcase_add_test(t, with_a_deleted_user_all_that_let_him_in_is_told);
    tcase_add_test(t, a_refused_change_leaves_no_diff);
    tcase_add_test(t, who_comes_into_a_space_and_who_goes_is_told);
    tcase_add_test(t, who_may_own_spaces_is_told_when_it_changes);
    tcase_add_test(t, a_session_that_is_ended_is_told);
    tcase_add_test(t, the_session_of_an_access_token_is_told_and_so_is_that_which_it_replaces);
    tcase_add_test(t, a_credential_that_its_last_use_removes_is_told);
    tcase_add_test(t, a_diff_of_many_is_cut_and_says_so);
    suite_add_tcase(s, t);
    return s;
}
