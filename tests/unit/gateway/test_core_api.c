#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <string.h>

/* Users, groups, credentials and sessions through core.v1. */

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
    ck_assert_msg(h.status == 0, "%s %s: %s: %s", method, json, status_name(h.status), h.text);
}

static void fails(const char *token, const char *method, const char *json, int status,
                  const char *part)
{
    harness_core(&h, token, method, json);
    ck_assert_msg(h.status == status, "%s %s: %s: %s", method, json, status_name(h.status), h.text);
    ck_assert_msg(strstr(h.text, part), "'%s' is not in '%s'", part, h.text);
}

static void reply_has(const char *part)
{
    const char *json = harness_json(&h);
    ck_assert_msg(strstr(json, part), "'%s' is not in %s", part, json);
}

START_TEST(only_administrators_use_the_core_api)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    static const char *const methods[] = {"ListUser", "ListGroup", "ListCredential", "ListSession",
                                          "ListPolicy"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        fails(ann, methods[i], "{}", STATUS_PERMISSION_DENIED, "no administrator");
        ok(admin, methods[i], "{}");
    }
    fails(ann, "GetUser", "{\"name\":\"admin\"}", STATUS_PERMISSION_DENIED, "no administrator");
    /* What exists is told to administrators only. */
    fails(ann, "GetUser", "{\"name\":\"nobody\"}", STATUS_PERMISSION_DENIED, "no administrator");
    fails(admin, "GetUser", "{\"name\":\"nobody\"}", STATUS_NOT_FOUND, "nobody");
}
END_TEST

START_TEST(the_admin_policy_makes_an_administrator_also_by_group)
{
    ok(admin, "CreateGroup",
       "{\"metadata\":{\"name\":\"ops\"},\"spec\":{\"authorization\":{\"policies\":"
       "[\"cluster-admin\"]}}}");
    const char *ann = harness_user(&h, "ann", "HUMAN");
    fails(ann, "ListUser", "{}", STATUS_PERMISSION_DENIED, "");
    ok(admin, "UpdateUser",
       "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\",\"groups\":[\"ops\"]}}");
    ok(ann, "ListUser", "{}");
    fails(admin, "DeleteGroup", "{\"name\":\"ops\"}", STATUS_FAILED_PRECONDITION, "'ann'");
}
END_TEST

START_TEST(a_new_user_gets_allow_all_unless_told_otherwise)
{
    ok(admin, "CreateUser", "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\"}}");
    reply_has("\"policies\":[\"allow-all\"]");
    ok(admin, "CreateUser",
       "{\"metadata\":{\"name\":\"bob\"},\"spec\":{\"type\":\"HUMAN\",\"authorization\":{}}}");
    ck_assert_ptr_null(strstr(harness_json(&h), "allow-all"));
}
END_TEST

START_TEST(wrong_users_are_refused_by_field)
{
    fails(admin, "CreateUser", "{\"metadata\":{\"name\":\"a.b\"},\"spec\":{\"type\":\"HUMAN\"}}",
          STATUS_INVALID_ARGUMENT, "Invalid User name");
    fails(admin, "CreateUser",
          "{\"metadata\":{\"name\":\"cordium\"},\"spec\":{\"type\":\"HUMAN\"}}",
          STATUS_INVALID_ARGUMENT, "choose another name");
    fails(admin, "CreateUser", "{\"metadata\":{\"name\":\"ann\"},\"spec\":{}}",
          STATUS_INVALID_ARGUMENT, "HUMAN or WORKLOAD");
    fails(admin, "CreateUser",
          "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\",\"groups\":[\"none\"]}}",
          STATUS_INVALID_ARGUMENT, "spec.groups[0]");
    harness_core(&h, admin, "CreateUser",
                 "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\",\"authorization\":"
                 "{\"policies\":[\"no-such-policy\"]}}}");
    ck_assert_int_ne(h.status, 0);
    ck_assert_ptr_nonnull(strstr(h.text, "no-such-policy"));
    ok(admin, "CreateUser",
       "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\",\"email\":\"a@b\"}}");
    fails(admin, "CreateUser",
          "{\"metadata\":{\"name\":\"bob\"},\"spec\":{\"type\":\"HUMAN\",\"email\":\"A@b\"}}",
          STATUS_INVALID_ARGUMENT, "'ann' already");
    fails(admin, "CreateUser", "{\"metadata\":{\"name\":\"ann\"},\"spec\":{\"type\":\"HUMAN\"}}",
          STATUS_ALREADY_EXISTS, "ann");
}
END_TEST

START_TEST(an_administrator_cannot_lock_himself_out)
{
    fails(admin, "DeleteUser", "{\"name\":\"admin\"}", STATUS_PERMISSION_DENIED, "himself");
    fails(admin, "UpdateUser",
          "{\"metadata\":{\"name\":\"admin\"},\"spec\":{\"type\":\"HUMAN\",\"authorization\":"
          "{\"policies\":[\"allow-all\"]}}}",
          STATUS_PERMISSION_DENIED, "himself");
}
END_TEST

START_TEST(a_deleted_user_leaves_nothing_that_logs_in)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    harness_cordium(&h, ann, "GetSpace", "{\"name\":\"default\"}");
    harness_expect(&h, 0, "");
    ok(admin, "DeleteUser", "{\"name\":\"ann\"}");
    harness_cordium(&h, ann, "ListSpace", "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
    ok(admin, "ListSession", "{}");
    ck_assert_ptr_null(strstr(harness_json(&h), "\"ann"));
    uint32_t spaces = 1;
    ck_assert_int_eq(
        store_count(h.gateway.store, STORE_SPACE, &(struct store_filter){0}, &spaces, &h.err), 0);
    ck_assert_uint_eq(spaces, 0);
}
END_TEST

START_TEST(credentials_keep_their_user_and_type)
{
    (void)harness_user(&h, "bot", "WORKLOAD");
    (void)harness_user(&h, "ann", "HUMAN");
    fails(admin, "CreateCredential",
          "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"AUTH_TOKEN\",\"user\":\"carol\"}}",
          STATUS_NOT_FOUND, "carol");
    fails(admin, "CreateCredential",
          "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"OAUTH2\",\"user\":\"ann\"}}",
          STATUS_INVALID_ARGUMENT, "WORKLOAD");
    ok(admin, "CreateCredential",
       "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"OAUTH2\",\"user\":\"bot\"}}");
    fails(admin, "UpdateCredential",
          "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\"}}",
          STATUS_INVALID_ARGUMENT, "spec.type");
    fails(admin, "UpdateCredential",
          "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"OAUTH2\",\"user\":\"ann\"}}",
          STATUS_INVALID_ARGUMENT, "spec.user");
    ok(admin, "GenerateCredentialToken", "{\"credentialRef\":{\"name\":\"key\"}}");
    reply_has("\"clientSecret\":\"csec_");
    reply_has("\"clientID\"");
    ok(admin, "ListCredential", "{\"userRef\":{\"name\":\"bot\"}}");
    reply_has("\"totalCount\":1");
    ck_assert_ptr_null(strstr(harness_json(&h), "csec_"));
}
END_TEST

START_TEST(a_session_can_be_suspended_and_ended)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    ok(admin, "ListSession", "{\"userRef\":{\"name\":\"ann\"}}");
    const Core__SessionList *list = (const Core__SessionList *)h.reply;
    ck_assert_uint_eq(list->n_items, 1);
    const char *name = list->items[0]->metadata->name;
    ok(admin, "UpdateSession",
       arena_printf(&h.arena,
                    "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"state\":\"REJECTED\","
                    "\"expiresAt\":\"2099-01-01T00:00:00Z\"}}",
                    name));
    harness_cordium(&h, ann, "ListSpace", "{}");
    ck_assert_int_eq(h.status, STATUS_PERMISSION_DENIED);
    ok(admin, "DeleteSession", arena_printf(&h.arena, "{\"name\":\"%s\"}", name));
    harness_cordium(&h, ann, "ListSpace", "{}");
    ck_assert_int_eq(h.status, STATUS_UNAUTHENTICATED);
}
END_TEST

Suite *suite_core_api(void);

Suite *suite_core_api(void)
{
    Suite *suite = suite_create("core_api");
    TCase *t = tcase_create("core_api");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, only_administrators_use_the_core_api);
    tcase_add_test(t, the_admin_policy_makes_an_administrator_also_by_group);
    tcase_add_test(t, a_new_user_gets_allow_all_unless_told_otherwise);
    tcase_add_test(t, wrong_users_are_refused_by_field);
    tcase_add_test(t, an_administrator_cannot_lock_himself_out);
    tcase_add_test(t, a_deleted_user_leaves_nothing_that_logs_in);
    tcase_add_test(t, credentials_keep_their_user_and_type);
    tcase_add_test(t, a_session_can_be_suspended_and_ended);
    suite_add_tcase(suite, t);
    return suite;
}
