#include <check.h>

#include "gateway/services/names.h"

static struct arena arena;
static struct error err;

static void setup(void)
{
    arena_init(&arena, 1 << 20);
    err = (struct error){0};
}

static void teardown(void)
{
    arena_free(&arena);
}

START_TEST(labels_are_lower_case_words_with_single_hyphens)
{
    static const char *const good[] = {"ab", "a1", "a-b", "python-sandbox",
                                       "a123456789012345678901234567890123456789"};
    static const char *const bad[] = {"",
                                      "a",
                                      "1a",
                                      "-a",
                                      "a-",
                                      "a--b",
                                      "aB",
                                      "a_b",
                                      "a.b",
                                      "a\xc3\xa4",
                                      "a1234567890123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(name_is_label(str_from(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!name_is_label(str_from(bad[i])), "%s", bad[i]);
    }
}
END_TEST

START_TEST(a_short_space_name_gets_the_users_label)
{
    const char *full = NULL;
    bool organization = true;
    ck_assert_int_eq(name_complete_space("tools", "ann", &arena, &full, &organization, &err), 0);
    ck_assert_str_eq(full, "tools.ann");
    ck_assert(!organization);
    ck_assert_int_eq(
        name_complete_space("tools.cordium", "ann", &arena, &full, &organization, &err), 0);
    ck_assert_str_eq(full, "tools.cordium");
    ck_assert(organization);
}
END_TEST

START_TEST(a_space_below_another_parent_is_refused)
{
    const char *full = NULL;
    ck_assert_int_eq(name_complete_space("tools.bob", "ann", &arena, &full, NULL, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "Invalid Space name 'tools.bob'"), "%s", err.text);
    ck_assert_int_eq(name_complete_space("a.b.c", "ann", &arena, &full, NULL, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(name_find_space("tools.bob", "ann", &arena, &full, &err), 0);
}
END_TEST

START_TEST(names_in_spaces_are_completed_from_the_right)
{
    static const char *const cases[][2] = {{"web", "web.default.ann"},
                                           {"web.tools", "web.tools.ann"},
                                           {"web.tools.cordium", "web.tools.cordium"}};
    for (size_t i = 0; i < 3; i++) {
        const char *full = NULL;
        ck_assert_int_eq(
            name_complete_in_space("Template", cases[i][0], "ann", &arena, &full, &err), 0);
        ck_assert_str_eq(full, cases[i][1]);
    }
    const char *full = NULL;
    ck_assert_int_eq(name_complete_in_space("Template", "a1.b1.c1.d1", "ann", &arena, &full, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(name_complete_in_space("Template", "Web", "ann", &arena, &full, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "Invalid Template name 'Web'"), "%s", err.text);
}
END_TEST

START_TEST(another_users_label_is_permission_denied)
{
    const char *full = NULL;
    ck_assert_int_eq(name_complete_of_user("UserSecret", "key", "ann", &arena, &full, &err), 0);
    ck_assert_str_eq(full, "key.ann");
    ck_assert_int_eq(name_complete_of_user("UserSecret", "key.bob", "ann", &arena, &full, &err),
                     -STATUS_PERMISSION_DENIED);
    ck_assert_msg(strstr(err.text, "Invalid User"), "%s", err.text);
}
END_TEST

START_TEST(an_empty_name_says_what_to_set)
{
    ck_assert_int_eq(name_check_label("User", "", &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "metadata.name"), "%s", err.text);
}
END_TEST

START_TEST(a_uid_is_a_uuid_of_version_4)
{
    ck_assert_int_eq(name_check_uid("0f8fad5b-d9cb-469f-a165-70867728950e", &err), 0);
    static const char *const bad[] = {"",
                                      "x",
                                      "0f8fad5b-d9cb-169f-a165-70867728950e",
                                      "0F8FAD5B-d9cb-469f-a165-70867728950e",
                                      "0f8fad5b-d9cb-469f-c165-70867728950e",
                                      "0f8fad5bd9cb469fa16570867728950e"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(name_check_uid(bad[i], &err), -STATUS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, "Invalid UID"), "%s", err.text);
    }
}
END_TEST

Suite *suite_names(void);

Suite *suite_names(void)
{
    Suite *suite = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, labels_are_lower_case_words_with_single_hyphens);
    tcase_add_test(t, a_short_space_name_gets_the_users_label);
    tcase_add_test(t, a_space_below_another_parent_is_refused);
    tcase_add_test(t, names_in_spaces_are_completed_from_the_right);
    tcase_add_test(t, another_users_label_is_permission_denied);
    tcase_add_test(t, an_empty_name_says_what_to_set);
    tcase_add_test(t, a_uid_is_a_uuid_of_version_4);
    suite_add_tcase(suite, t);
    return suite;
}
