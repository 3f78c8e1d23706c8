/* Conditions on the command line, and the filter that they become. */
#include "gateway/cli/audit_filter.h"

#include <check.h>
#include <string.h>

Suite *suite_audit_filter(void);

static struct arena arena;
static struct arguments args;
static struct error err;
static Ext__AuditFilter *filter;

static void setup(void)
{
    arena_init(&arena, 1 << 20);
    args = (struct arguments){0};
    err = (struct error){0};
    filter = NULL;
}

static void teardown(void)
{
    arena_free(&arena);
}

static void where(int key, const char *value)
{
    args.where[args.where_count++] = (struct argument_condition){key, value};
}

static int make(void)
{
    return audit_filter_make(&args, 1796034030, &arena, &filter, &err);
}

START_TEST(values_of_one_option_are_gathered)
{
    where(OPT_WHERE_USER, "alice");
    where(OPT_WHERE_DECISION, "denied");
    where(OPT_WHERE_USER, "bob");
    where(OPT_WHERE_CODE, "permission-denied");
    where(OPT_WHERE_REASON, "policy_match");
    where(OPT_WHERE_KIND, "accesslog");
    where(OPT_WHERE_OUTCOME, "OOM_KILLED");
    where(OPT_WHERE_RUN, "r");
    where(OPT_WHERE_REQUEST, "q");
    ck_assert_msg(make() == 0, "%s", err.text);
    ck_assert_uint_eq(filter->n_user, 2);
    ck_assert_str_eq(filter->user[0], "alice");
    ck_assert_str_eq(filter->user[1], "bob");
    ck_assert_str_eq(filter->decision[0], "DENIED");
    ck_assert_str_eq(filter->code[0], "PERMISSION_DENIED");
    ck_assert_str_eq(filter->reason[0], "POLICY_MATCH");
    ck_assert_str_eq(filter->kind[0], "AccessLog");
    ck_assert_str_eq(filter->outcome[0], "oom_killed");
    ck_assert_str_eq(filter->run_id[0], "r");
    ck_assert_str_eq(filter->request_id[0], "q");
    ck_assert_int_eq(filter->has_in_workspace_case, EXT__AUDIT_FILTER__HAS_IN_WORKSPACE__NOT_SET);
    ck_assert_ptr_null(filter->from);
}
END_TEST

START_TEST(every_option_has_its_member)
{
    for (int key = OPT_WHERE_FIRST; key <= OPT_WHERE_LAST; key++) {
        const char *value = key == OPT_WHERE_DECISION       ? "allowed"
                            : key == OPT_WHERE_OUTCOME      ? "lost"
                            : key == OPT_WHERE_CODE         ? "OK"
                            : key == OPT_WHERE_KIND         ? "RunLog"
                            : key == OPT_WHERE_EVENT        ? "end"
                            : key == OPT_WHERE_SINCE        ? "2d"
                            : key == OPT_WHERE_UNTIL        ? "1d"
                            : key == OPT_WHERE_IN_WORKSPACE ? NULL
                                                            : "x";
        where(key, value);
    }
    ck_assert_msg(make() == 0, "%s", err.text);
    ck_assert_uint_eq(
        filter->n_session + filter->n_space + filter->n_template_ + filter->n_workspace, 4);
    ck_assert_uint_eq(
        filter->n_method + filter->n_policy + filter->n_rule + filter->n_event + filter->n_peer, 5);
    ck_assert_int_eq(filter->from->seconds, 1796034030 - 2 * 86400);
    ck_assert_int_eq(filter->to->seconds, 1796034030 - 86400);
    ck_assert(filter->in_workspace);
}
END_TEST

START_TEST(wrong_values_are_refused_with_what_they_may_be)
{
    static const struct {
        int key;
        const char *value;
        const char *text;
    } wrong[] = {
        {OPT_WHERE_DECISION, "deny", "--decision 'deny': allowed or denied"},
        {OPT_WHERE_OUTCOME, "oom",
         "--outcome 'oom': exited, signaled, timed_out, cpu_limit, oom_killed, "
         "output_limit, cancelled or lost"},
        {OPT_WHERE_KIND, "Access", "--kind 'Access': AccessLog, DaemonLog"},
        {OPT_WHERE_CODE, "DENIED", "--code 'DENIED': a status of gRPC"},
        {OPT_WHERE_REASON, "no policy", "--reason 'no policy': a word"},
        {OPT_WHERE_USER, "", "--user '': a value"},
        {OPT_WHERE_USER, "\xff", "--user: the value is not UTF-8"},
        {OPT_WHERE_SINCE, "soon", "--since 'soon': expected"},
        {OPT_WHERE_SINCE, "1901-01-01", "--since '1901-01-01': no time between 1970 and 2262"},
        {OPT_WHERE_UNTIL, "9999-12-31", "--until '9999-12-31': no time between 1970 and 2262"},
        {OPT_WHERE_EVENT, "ended", "--event 'ended': DECISION, END, RUN_END"},
        {OPT_WHERE_IN_WORKSPACE, "maybe", "--in-workspace 'maybe': yes or no"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        args.where_count = 0;
        where(wrong[i].key, wrong[i].value);
        ck_assert_int_eq(make(), -STATUS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, wrong[i].text), "%s", err.text);
    }
    ck_assert_ptr_null(filter);
}
END_TEST

START_TEST(times_are_in_order_and_given_once)
{
    where(OPT_WHERE_SINCE, "1h");
    where(OPT_WHERE_UNTIL, "2h");
    ck_assert_int_eq(make(), -STATUS_INVALID_ARGUMENT);
    ck_assert_str_eq(err.text, "--since is not before --until");
    args.where_count = 1;
    where(OPT_WHERE_SINCE, "3h");
    ck_assert_int_eq(make(), -STATUS_INVALID_ARGUMENT);
    ck_assert_str_eq(err.text, "--since '3h': there is one already");
}
END_TEST

START_TEST(a_text_has_its_limits)
{
    char longest[202];
    memset(longest, 'x', 201);
    longest[201] = '\0';
    static const char *const bad[] = {"", "ab", "abc\xff"};
    args.words.count = 1;
    for (size_t i = 0; i < 3; i++) {
        args.words.items[0] = bad[i];
        ck_assert_int_eq(make(), -STATUS_INVALID_ARGUMENT);
    }
    args.words.items[0] = longest;
    ck_assert_int_eq(make(), -STATUS_INVALID_ARGUMENT);
    longest[200] = '\0';
    ck_assert_int_eq(make(), 0);
    ck_assert_str_eq(filter->text, longest);
}
END_TEST

Suite *suite_audit_filter(void)
{
    Suite *s = suite_create("audit_filter");
    TCase *t = tcase_create("make");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, values_of_one_option_are_gathered);
    tcase_add_test(t, every_option_has_its_member);
    tcase_add_test(t, wrong_values_are_refused_with_what_they_may_be);
    tcase_add_test(t, times_are_in_order_and_given_once);
    tcase_add_test(t, a_text_has_its_limits);
    suite_add_tcase(s, t);
    return s;
}
