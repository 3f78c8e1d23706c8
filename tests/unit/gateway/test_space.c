#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* Spaces, memberships, templates and secrets, as two users and an administrator see them. */

static struct harness h;
static const char *ann;
static const char *bob;

static void setup(void)
{
    harness_open(&h);
    ann = harness_user(&h, "ann", "HUMAN");
    bob = harness_user(&h, "bob", "WORKLOAD");
}

static void teardown(void)
{
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
    ck_assert_msg(h.status == status, "%s %s: %s: %s", method, json, status_name(h.status), h.text);
    ck_assert_msg(strstr(h.text, part), "'%s' is not in '%s'", part, h.text);
}

static void reply_has(const char *part)
{
    const char *json = harness_json(&h);
    ck_assert_msg(strstr(json, part), "'%s' is not in %s", part, json);
}

static void make_sandboxes(void)
{
    ok(ann, "CreateSpace",
       "{\"metadata\":{\"name\":\"sandboxes.cordium\"},\"spec\":{\"limit\":{\"defaultLimit\":{"
       "\"cpu\":{\"millicores\":1000}}},\"authorization\":{\"disableSSH\":true}}}");
}

static void add_bob(const char *role)
{
    ok(ann, "CreateMembership",
       arena_printf(&h.arena,
                    "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"userRef\":{\"name\":\"bob\"},"
                    "\"role\":\"%s\"}",
                    role));
}

START_TEST(a_space_comes_with_its_owner_and_a_default_template)
{
    make_sandboxes();
    reply_has("\"type\":\"ORGANIZATION\"");
    reply_has("\"disableSSH\":true");
    ok(ann, "GetSpaceMembership", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}");
    reply_has("\"role\":\"OWNER\"");
    reply_has("\"name\":\"ann.sandboxes.cordium\"");
    ok(ann, "GetTemplate", "{\"name\":\"default.sandboxes.cordium\"}");
    fails(ann, "DeleteTemplate", "{\"name\":\"default.sandboxes.cordium\"}",
          STATUS_INVALID_ARGUMENT, "stays");
    fails(ann, "CreateSpace", "{\"metadata\":{\"name\":\"sandboxes.cordium\"},\"spec\":{}}",
          STATUS_ALREADY_EXISTS, "sandboxes.cordium");
}
END_TEST

START_TEST(wrong_space_requests_name_what_is_wrong)
{
    fails(ann, "CreateSpace", "{\"metadata\":{\"name\":\"x1.bob\"},\"spec\":{}}",
          STATUS_INVALID_ARGUMENT, "Invalid Space name");
    fails(ann, "CreateSpace", "{\"spec\":{}}", STATUS_INVALID_ARGUMENT, "name");
    fails(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools\"}}", STATUS_INVALID_ARGUMENT,
          "spec of the Space is unset");
    fails(ann, "CreateSpace",
          "{\"metadata\":{\"name\":\"tools\"},\"spec\":{\"limit\":{\"maxLimit\":{}}}}",
          STATUS_PERMISSION_DENIED, "cannot carry limits");
    fails(ann, "GetSpace", "{\"name\":\"nowhere.cordium\"}", STATUS_NOT_FOUND, "nowhere.cordium");
    fails(ann, "GetSpace", "{\"uid\":\"x\"}", STATUS_INVALID_ARGUMENT, "UID");
    fails(ann, "GetSpace", "{}", STATUS_INVALID_ARGUMENT, "");
}
END_TEST

START_TEST(the_default_space_and_template_come_when_first_named)
{
    ok(ann, "GetTemplate", "{\"name\":\"default\"}");
    reply_has("\"name\":\"default.default.ann\"");
    const char *first = arena_strdup(&h.arena, resource_uid(h.reply));
    ok(ann, "GetTemplate", "{\"name\":\"default.default.ann\"}");
    ck_assert_str_eq(resource_uid(h.reply), first);
    ok(ann, "GetSpace", "{\"name\":\"default\"}");
    reply_has("\"type\":\"USER\"");
    ok(bob, "CreateTemplate", "{\"metadata\":{\"name\":\"web\"},\"spec\":{}}");
    reply_has("\"name\":\"web.default.bob\"");
    ok(bob, "GetSpaceMembership", "{\"spaceRef\":{\"name\":\"default\"}}");
    /* Another user's default Space does not come into being by being named. */
    fails(bob, "GetSpace", "{\"name\":\"default.carol\"}", STATUS_NOT_FOUND, "");
    fails(bob, "GetSpace", "{\"name\":\"default.ann\"}", STATUS_PERMISSION_DENIED, "no member");
}
END_TEST

START_TEST(who_is_no_member_sees_nothing_of_a_space)
{
    make_sandboxes();
    fails(bob, "GetSpace", "{\"name\":\"sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "no member");
    fails(bob, "GetTemplate", "{\"name\":\"default.sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "no member");
    fails(bob, "GetTemplate", "{\"name\":\"missing.sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "no member");
    fails(bob, "ListTemplate", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}",
          STATUS_PERMISSION_DENIED, "no member");
}
END_TEST

START_TEST(roles_bound_what_members_do)
{
    make_sandboxes();
    add_bob("USER");
    ok(bob, "GetTemplate", "{\"name\":\"default.sandboxes.cordium\"}");
    fails(bob, "CreateTemplate", "{\"metadata\":{\"name\":\"py.sandboxes.cordium\"},\"spec\":{}}",
          STATUS_PERMISSION_DENIED, "the role ADMIN is needed to create Templates");
    fails(bob, "UpdateSpace", "{\"metadata\":{\"name\":\"sandboxes.cordium\"},\"spec\":{}}",
          STATUS_PERMISSION_DENIED, "OWNER");
    fails(bob, "DeleteSpace", "{\"name\":\"sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "OWNER");
    ok(ann, "UpdateMembership",
       "{\"metadata\":{\"name\":\"bob.sandboxes.cordium\"},\"spec\":{\"role\":\"ADMIN\"}}");
    ok(bob, "CreateTemplate", "{\"metadata\":{\"name\":\"py.sandboxes.cordium\"},\"spec\":{}}");
    fails(bob, "CreateTemplate", "{\"metadata\":{\"name\":\"py.sandboxes.cordium\"},\"spec\":{}}",
          STATUS_INVALID_ARGUMENT, "exists already");
    fails(bob, "DeleteSpace", "{\"name\":\"sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "OWNER");
    ok(bob, "DeleteTemplate", "{\"name\":\"py.sandboxes.cordium\"}");
}
END_TEST

START_TEST(memberships_follow_the_rules_of_roles)
{
    make_sandboxes();
    add_bob("ADMIN");
    fails(ann, "CreateMembership",
          "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"email\":\"BOB@example.test\"}",
          STATUS_INVALID_ARGUMENT, "is a member of the Space");
    fails(ann, "CreateMembership",
          "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"email\":\"no@example.test\"}",
          STATUS_NOT_FOUND, "no@example.test");
    fails(bob, "CreateMembership",
          "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"userRef\":{\"name\":\"admin\"},"
          "\"role\":\"OWNER\"}",
          STATUS_PERMISSION_DENIED, "OWNER");
    ok(bob, "CreateMembership",
       "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"userRef\":{\"name\":\"admin\"}}");
    reply_has("\"role\":\"USER\"");
    fails(bob, "UpdateMembership",
          "{\"metadata\":{\"name\":\"bob.sandboxes.cordium\"},\"spec\":{\"role\":\"OWNER\"}}",
          STATUS_PERMISSION_DENIED, "his own role");
    fails(bob, "UpdateMembership",
          "{\"metadata\":{\"name\":\"ann.sandboxes.cordium\"},\"spec\":{\"role\":\"USER\"}}",
          STATUS_PERMISSION_DENIED, "creator");
    fails(bob, "DeleteMembership", "{\"name\":\"ann.sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "creator");
    fails(ann, "LeaveSpace", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}",
          STATUS_PERMISSION_DENIED, "cannot leave");
    ok(bob, "LeaveSpace", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}");
    fails(bob, "GetSpace", "{\"name\":\"sandboxes.cordium\"}", STATUS_PERMISSION_DENIED, "");
    ok(ann, "ListMembership", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}");
    reply_has("\"totalCount\":2");
}
END_TEST

START_TEST(a_users_space_takes_no_members)
{
    ok(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools\"},\"spec\":{}}");
    fails(ann, "CreateMembership",
          "{\"spaceRef\":{\"name\":\"tools\"},\"userRef\":{\"name\":\"bob\"}}",
          STATUS_INVALID_ARGUMENT, "no other members");
}
END_TEST

START_TEST(lists_count_from_page_0_and_refuse_empty_pages)
{
    make_sandboxes();
    ok(ann, "CreateSpace", "{\"metadata\":{\"name\":\"tools\"},\"spec\":{}}");
    ok(ann, "ListSpace", "{}");
    reply_has("\"kind\":\"SpaceList\"");
    reply_has("\"totalCount\":2");
    ok(ann, "ListSpace", "{\"type\":\"ORGANIZATION\"}");
    reply_has("\"totalCount\":1");
    ok(ann, "ListSpace", "{\"common\":{\"itemsPerPage\":1,\"orderBy\":{\"type\":\"NAME\"}}}");
    reply_has("\"hasMore\":true");
    reply_has("sandboxes.cordium");
    ok(ann, "ListSpace", "{\"common\":{\"page\":1,\"itemsPerPage\":1}}");
    reply_has("\"page\":1");
    fails(ann, "ListSpace", "{\"common\":{\"page\":2,\"itemsPerPage\":1}}", STATUS_NOT_FOUND, "");
    fails(ann, "ListSpace", "{\"common\":{\"page\":10001}}", STATUS_INVALID_ARGUMENT, "");
    add_bob("USER");
    ok(bob, "ListSpace", "{}");
    ck_assert_ptr_null(strstr(harness_json(&h), "\"items\""));
    ok(bob, "ListSpace", "{\"mode\":\"MODE_MEMBER\"}");
    reply_has("sandboxes.cordium");
}
END_TEST

START_TEST(a_list_without_a_space_takes_all_of_the_members_spaces)
{
    make_sandboxes();
    ok(ann, "CreateTemplate", "{\"metadata\":{\"name\":\"py.sandboxes.cordium\"},\"spec\":{}}");
    add_bob("USER");
    ok(bob, "CreateTemplate", "{\"metadata\":{\"name\":\"web\"},\"spec\":{}}");
    ok(bob, "ListTemplate", "{\"common\":{\"orderBy\":{\"type\":\"NAME\",\"mode\":\"ASC\"}}}");
    reply_has("\"totalCount\":4");
    reply_has("py.sandboxes.cordium");
    ok(bob, "ListTemplate", "{\"common\":{\"page\":1,\"itemsPerPage\":3}}");
    reply_has("\"page\":1");
    fails(bob, "ListTemplate", "{\"common\":{\"page\":2,\"itemsPerPage\":3}}", STATUS_NOT_FOUND,
          "");
}
END_TEST

START_TEST(an_equal_update_changes_no_version)
{
    make_sandboxes();
    const char *before = arena_strdup(&h.arena, resource_metadata(h.reply)->resource_version);
    ok(ann, "GetSpace", "{\"name\":\"sandboxes.cordium\"}");
    ok(ann, "UpdateSpace", harness_json(&h));
    ck_assert_str_eq(resource_metadata(h.reply)->resource_version, before);
    ok(ann, "UpdateSpace",
       "{\"metadata\":{\"name\":\"sandboxes.cordium\",\"displayName\":\"Sandboxes\"},\"spec\":{}}");
    ck_assert_str_ne(resource_metadata(h.reply)->resource_version, before);
    ck_assert_str_eq(resource_metadata(h.reply)->last_resource_version, before);
    reply_has("\"displayName\":\"Sandboxes\"");
    reply_has("\"type\":\"ORGANIZATION\"");
}
END_TEST

START_TEST(a_deleted_space_takes_its_content_along)
{
    make_sandboxes();
    ok(ann, "CreateSecret",
       "{\"metadata\":{\"name\":\"key.sandboxes.cordium\"},\"spec\":{},\"data\":{\"value\":\"x\"}"
       "}");
    ok(ann, "DeleteSpace", "{\"name\":\"sandboxes.cordium\"}");
    fails(ann, "GetSpace", "{\"name\":\"sandboxes.cordium\"}", STATUS_NOT_FOUND, "");
    make_sandboxes();
    fails(ann, "GetSecret", "{\"name\":\"key.sandboxes.cordium\"}", STATUS_NOT_FOUND, "");
}
END_TEST

START_TEST(the_ownership_rules_decide_who_owns_organization_spaces)
{
    const char *admin = harness_admin(&h);
    const char *update = "/octelium.api.main.cordium.v1.ManagementService/UpdateClusterConfig";
    harness_call(&h, ann, update, "{\"metadata\":{},\"spec\":{}}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "no administrator");
    harness_call(&h, admin, update,
                 "{\"metadata\":{},\"spec\":{\"space\":{\"ownership\":{\"rules\":[{\"effect\":"
                 "\"ALLOW\",\"condition\":{\"match\":\"ctx.user.metadata.name == 'bob'\"}}]}}}}");
    harness_expect(&h, 0, "");
    fails(ann, "CreateSpace", "{\"metadata\":{\"name\":\"sandboxes.cordium\"},\"spec\":{}}",
          STATUS_PERMISSION_DENIED, "no ownership rule allows it");
    ok(bob, "CreateSpace", "{\"metadata\":{\"name\":\"sandboxes.cordium\"},\"spec\":{}}");
    fails(bob, "CreateMembership",
          "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"},\"userRef\":{\"name\":\"ann\"},"
          "\"role\":\"OWNER\"}",
          STATUS_PERMISSION_DENIED, "'ann' may not own");
    harness_call(&h, admin, update,
                 "{\"metadata\":{},\"spec\":{\"space\":{\"ownership\":{\"rules\":[{\"effect\":"
                 "\"ALLOW\",\"condition\":{\"match\":\"1 + \"}}]}}}}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "spec.space.ownership.rules[0].condition");
    harness_call(&h, admin, update, "{\"metadata\":{}}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "spec");
    /* An unset list denies. */
    harness_call(&h, admin, update, "{\"metadata\":{},\"spec\":{}}");
    harness_expect(&h, 0, "");
    fails(bob, "CreateSpace", "{\"metadata\":{\"name\":\"other.cordium\"},\"spec\":{}}",
          STATUS_PERMISSION_DENIED, "may not own");
    ok(bob, "CreateSpace", "{\"metadata\":{\"name\":\"other\"},\"spec\":{}}");
}
END_TEST

START_TEST(the_data_of_secrets_never_comes_back)
{
    make_sandboxes();
    ok(ann, "CreateSecret",
       "{\"metadata\":{\"name\":\"key.sandboxes.cordium\"},\"spec\":{},"
       "\"data\":{\"value\":\"s3cr3t\"}}");
    ck_assert_ptr_null(strstr(harness_json(&h), "s3cr3t"));
    ok(ann, "GetSecret", "{\"name\":\"key.sandboxes.cordium\"}");
    ck_assert_ptr_null(strstr(harness_json(&h), "\"data\""));
    ok(ann, "ListSecret", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}");
    ck_assert_ptr_null(strstr(harness_json(&h), "s3cr3t"));
    reply_has("key.sandboxes.cordium");
    fails(ann, "CreateSecret", "{\"metadata\":{\"name\":\"other.sandboxes.cordium\"},\"spec\":{}}",
          STATUS_INVALID_ARGUMENT, "value or valueBytes");
    fails(ann, "CreateSecret",
          "{\"metadata\":{\"name\":\"other.sandboxes.cordium\"},\"spec\":{},"
          "\"data\":{\"attrs\":{\"a\":1}}}",
          STATUS_INVALID_ARGUMENT, "value or valueBytes");
    add_bob("USER");
    fails(bob, "GetSecret", "{\"name\":\"key.sandboxes.cordium\"}", STATUS_PERMISSION_DENIED,
          "ADMIN");
    ok(bob, "ListSecret", "{\"spaceRef\":{\"name\":\"sandboxes.cordium\"}}");
}
END_TEST

START_TEST(what_a_template_names_must_exist)
{
    make_sandboxes();
    const char *spec = "{\"metadata\":{\"name\":\"py.sandboxes.cordium\"},\"spec\":{\"runtime\":{"
                       "\"envVars\":[{\"key\":\"A\",\"fromSecret\":\"key\"}]}}}";
    fails(ann, "CreateTemplate", spec, STATUS_NOT_FOUND, "key.sandboxes.cordium");
    ok(ann, "CreateSecret",
       "{\"metadata\":{\"name\":\"key.sandboxes.cordium\"},\"spec\":{},\"data\":{\"value\":\"x\"}"
       "}");
    ok(ann, "CreateTemplate", spec);
    fails(ann, "CreateTemplate",
          "{\"metadata\":{\"name\":\"p2.sandboxes.cordium\"},\"spec\":{\"gitProvider\":\"hub\"}}",
          STATUS_NOT_FOUND, "hub.sandboxes.cordium");
    fails(ann, "CreateTemplate",
          "{\"metadata\":{\"name\":\"p2.sandboxes.cordium\"},\"spec\":{\"limit\":{\"cpu\":{"
          "\"millicores\":2000000}}}}",
          STATUS_INVALID_ARGUMENT, "spec.limit.cpu.millicores is 2000000");
    ok(ann, "CreateGitProvider",
       "{\"metadata\":{\"name\":\"hub.sandboxes.cordium\"},\"spec\":{\"github\":{\"clientID\":"
       "\"i\","
       "\"clientSecret\":{\"fromSecret\":\"key\"}}}}");
    ok(ann, "CreateTemplate",
       "{\"metadata\":{\"name\":\"p2.sandboxes.cordium\"},\"spec\":{\"gitProvider\":\"hub\"}}");
    reply_has("\"gitProviderRef\"");
    fails(ann, "DeleteGitProvider", "{\"name\":\"hub.sandboxes.cordium\"}", STATUS_INVALID_ARGUMENT,
          "p2.sandboxes.cordium");
}
END_TEST

START_TEST(the_seeds_template_is_stored_as_written)
{
    make_sandboxes();
    ok(ann, "CreateTemplate",
       "{\"metadata\":{\"name\":\"python-sandbox.sandboxes.cordium\"},\"spec\":{\"image\":{"
       "\"dockerfile\":{\"inline\":\"FROM python:3.13-slim\\nRUN useradd -m -u 1000 sandbox\\n\"}},"
       "\"runtime\":{\"filesystem\":{\"readOnly\":true},\"capabilities\":{\"drop\":[\"NET_RAW\"]},"
       "\"network\":{\"egress\":{\"defaultAction\":\"DENY\"}}}}}");
    reply_has("\"spaceRef\"");
    reply_has("\"defaultAction\":\"DENY\"");
    ok(ann, "UpdateTemplate",
       "{\"metadata\":{\"name\":\"python-sandbox.sandboxes.cordium\"},\"spec\":{\"image\":{"
       "\"registry\":{\"url\":\"debian:12\"}}}}");
    reply_has("debian:12");
    ck_assert_ptr_null(strstr(harness_json(&h), "defaultAction"));
}
END_TEST

START_TEST(user_secrets_and_the_user_config_are_the_users_own)
{
    ok(ann, "CreateUserSecret",
       "{\"metadata\":{\"name\":\"token\"},\"spec\":{},\"data\":{\"attrs\":{\"a\":\"s3cr3t\"}}}");
    ck_assert_ptr_null(strstr(harness_json(&h), "s3cr3t"));
    reply_has("\"name\":\"token.ann\"");
    const char *uid = resource_uid(h.reply);
    fails(bob, "GetUserSecret", arena_printf(&h.arena, "{\"uid\":\"%s\"}", uid),
          STATUS_PERMISSION_DENIED, "another User");
    fails(bob, "GetUserSecret", "{\"name\":\"token.ann\"}", STATUS_PERMISSION_DENIED,
          "Invalid User");
    ok(ann, "CreateUserSecret",
       "{\"metadata\":{\"name\":\"laptop\"},\"spec\":{\"type\":\"SSH_KEY\"}}");
    reply_has("ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABB");
    reply_has("laptop@cordium");
    ck_assert_ptr_null(strstr(harness_json(&h), "PRIVATE"));
    ok(ann, "ListUserSecret", "{}");
    ck_assert_ptr_null(strstr(harness_json(&h), "PRIVATE"));
    ok(ann, "GetUserConfig", "{}");
    const char *config = arena_strdup(&h.arena, resource_uid(h.reply));
    ok(ann, "UpdateUserConfig",
       "{\"metadata\":{},\"spec\":{\"envVars\":[{\"key\":\"A\",\"fromUserSecret\":\"token\"}],"
       "\"preferredRegion\":\"default\"}}");
    ck_assert_str_eq(resource_uid(h.reply), config);
    reply_has("\"preferredRegionRef\"");
    fails(
        ann, "UpdateUserConfig",
        "{\"metadata\":{},\"spec\":{\"envVars\":[{\"key\":\"A\",\"fromUserSecret\":\"no-such\"}]}}",
        STATUS_NOT_FOUND, "no-such.ann");
    fails(ann, "UpdateUserConfig", "{\"metadata\":{},\"spec\":{\"preferredRegion\":\"mars\"}}",
          STATUS_INVALID_ARGUMENT, "mars");
}
END_TEST

START_TEST(regions_and_what_is_not_served_answer_clearly)
{
    ok(ann, "ListRegion", "{}");
    reply_has("\"name\":\"default\"");
    fails(ann, "ListVolume", "{}", STATUS_UNIMPLEMENTED, "Volumes are not served");
    fails(ann, "ListWorkspaceSnapshot", "{}", STATUS_UNIMPLEMENTED, "Snapshots");
}
END_TEST

Suite *suite_space(void);

Suite *suite_space(void)
{
    Suite *suite = suite_create("space");
    TCase *t = tcase_create("space");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_space_comes_with_its_owner_and_a_default_template);
    tcase_add_test(t, wrong_space_requests_name_what_is_wrong);
    tcase_add_test(t, the_default_space_and_template_come_when_first_named);
    tcase_add_test(t, who_is_no_member_sees_nothing_of_a_space);
    tcase_add_test(t, roles_bound_what_members_do);
    tcase_add_test(t, memberships_follow_the_rules_of_roles);
    tcase_add_test(t, a_users_space_takes_no_members);
    tcase_add_test(t, lists_count_from_page_0_and_refuse_empty_pages);
    tcase_add_test(t, a_list_without_a_space_takes_all_of_the_members_spaces);
    tcase_add_test(t, an_equal_update_changes_no_version);
    tcase_add_test(t, a_deleted_space_takes_its_content_along);
    tcase_add_test(t, the_ownership_rules_decide_who_owns_organization_spaces);
    tcase_add_test(t, the_data_of_secrets_never_comes_back);
    tcase_add_test(t, what_a_template_names_must_exist);
    tcase_add_test(t, the_seeds_template_is_stored_as_written);
    tcase_add_test(t, user_secrets_and_the_user_config_are_the_users_own);
    tcase_add_test(t, regions_and_what_is_not_served_answer_clearly);
    suite_add_tcase(suite, t);
    return suite;
}
