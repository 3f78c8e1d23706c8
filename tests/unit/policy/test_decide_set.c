#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/decide/policy_set.h"

Suite *suite_decide_set(void);

static struct policy_env *env_new(void)
{
    struct error err;
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    ck_assert_ptr_nonnull(env);
    return env;
}

/* Adds one policy with one rule of this condition; gives the status and the error. */
static int add_condition(const struct policy_condition_source *condition, struct error *err)
{
    struct policy_env *env = env_new();
    struct policy_set_builder *b = policy_set_builder_new(env, POLICY_SET_NAMED, 1);
    struct policy_rule_source rule = {
        .effect = POLICY_ALLOW, .name = STR("my rule"), .condition = *condition};
    struct policy_source p = {.name = STR("some-policy"), .rules = &rule, .rule_count = 1};
    int rc = policy_set_add(b, &p, err);
    policy_set_builder_free(b);
    policy_env_free(env);
    return rc;
}

static const struct {
    const char *name;
    bool is_valid;
} names[] = {
    {"ab", true},
    {"allow-all", true},
    {"a1-b2.parent", true},
    {"a0.b0.c0.d0.e0.f0", true},
    {"", false},
    {"a", false},
    {"a0.b0.c0.d0.e0.f0.g0", false},
    {"Upper", false},
    {"1digit", false},
    {"double--hyphen", false},
    {"end-", false},
    {"dot.", false},
    {".dot", false},
    {"under_score", false},
    {"sp ace", false},
    {"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd", true},
    {"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddde", false},
};

START_TEST(policy_names_are_checked)
{
    ck_assert_msg((policy_name_problem(str_from(names[_i].name)) == NULL) == names[_i].is_valid,
                  "%s", names[_i].name);
}
END_TEST

START_TEST(an_error_names_policy_rule_and_place)
{
    struct error err;
    struct policy_condition_source of[] = {
        {.kind = POLICY_CONDITION_MATCH_ANY},
        {.kind = POLICY_CONDITION_MATCH, .text = STR("ctx.a ==")},
    };
    struct policy_condition_source all = {.kind = POLICY_CONDITION_ALL, .of = of, .of_count = 2};
    ck_assert_int_eq(add_condition(&all, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(
        strstr(err.text, "Policy 'some-policy': rule #0 'my rule': condition: all.of[1]: match"));
    ck_assert_uint_eq(err.line, 1);
}
END_TEST

START_TEST(opa_is_refused_with_a_remedy)
{
    struct error err;
    struct policy_condition_source opa = {.kind = POLICY_CONDITION_OPA};
    ck_assert_int_eq(add_condition(&opa, &err), -STATUS_UNIMPLEMENTED);
    ck_assert_ptr_nonnull(strstr(err.text, "CEL"));
}
END_TEST

START_TEST(conditions_that_could_never_match_are_refused)
{
    struct error err;
    const struct policy_condition_source cases[] = {
        {.kind = POLICY_CONDITION_UNSET}, {.kind = POLICY_CONDITION_MATCH},
        {.kind = POLICY_CONDITION_NOT},   {.kind = POLICY_CONDITION_ALL},
        {.kind = POLICY_CONDITION_NONE},  {.kind = POLICY_CONDITION_MATCH, .text = STR("1 + 1")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(add_condition(&cases[i], &err), -STATUS_INVALID_ARGUMENT);
    }
}
END_TEST

START_TEST(an_expression_of_more_than_10000_bytes_is_refused)
{
    struct error err;
    char *text = malloc(10001);
    memset(text, ' ', 10001);
    memcpy(text, "true", 4);
    struct policy_condition_source c = {.kind = POLICY_CONDITION_MATCH,
                                        .text = str_make(text, 10000)};
    ck_assert_int_eq(add_condition(&c, &err), 0);
    c.text.len = 10001;
    ck_assert_int_eq(add_condition(&c, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "10001 bytes"));
    free(text);
}
END_TEST

START_TEST(nesting_is_bounded)
{
    struct error err;
    struct policy_condition_source chain[POLICY_CONDITION_DEPTH_MAX + 1];
    size_t last = POLICY_CONDITION_DEPTH_MAX;
    chain[last] =
        (struct policy_condition_source){.kind = POLICY_CONDITION_MATCH_ANY, .match_any = true};
    for (size_t i = last; i-- > 0;) {
        chain[i] = (struct policy_condition_source){
            .kind = POLICY_CONDITION_ALL, .of = &chain[i + 1], .of_count = 1};
    }
    ck_assert_int_eq(add_condition(&chain[1], &err), 0);
    ck_assert_int_eq(add_condition(&chain[0], &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "deeper than 16"));
}
END_TEST

START_TEST(counts_effects_and_priorities_are_checked)
{
    struct error err;
    struct policy_env *env = env_new();
    struct policy_set_builder *b = policy_set_builder_new(env, POLICY_SET_NAMED, 1);
    struct policy_rule_source rules[POLICY_RULES_MAX + 1];
    for (size_t i = 0; i <= POLICY_RULES_MAX; i++) {
        rules[i] = (struct policy_rule_source){.effect = POLICY_DENY,
                                               .condition = {.kind = POLICY_CONDITION_MATCH_ANY}};
    }
    struct policy_source p = {.name = STR("many"), .rules = rules, .rule_count = 101};
    ck_assert_int_eq(policy_set_add(b, &p, &err), -STATUS_INVALID_ARGUMENT);
    p.rule_count = 100;
    rules[3].priority = 5;
    ck_assert_int_eq(policy_set_add(b, &p, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "rule #3"));
    rules[3].priority = -4;
    rules[4].effect = POLICY_EFFECT_UNSET;
    ck_assert_int_eq(policy_set_add(b, &p, &err), -STATUS_INVALID_ARGUMENT);
    rules[4].effect = POLICY_ALLOW;
    ck_assert_int_eq(policy_set_add(b, &p, &err), 0);
    ck_assert_int_eq(policy_set_add(b, &p, &err), -STATUS_ALREADY_EXISTS);
    policy_set_builder_free(b);
    policy_env_free(env);
}
END_TEST

START_TEST(a_set_of_many_policies_finds_each)
{
    struct error err;
    struct policy_env *env = env_new();
    struct policy_set_builder *b = policy_set_builder_new(env, POLICY_SET_NAMED, 9);
    char name[32];
    struct policy_rule_source rule = {
        .effect = POLICY_DENY,
        .condition = {.kind = POLICY_CONDITION_MATCH, .text = STR("ctx.a == 'b'")}};
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "policy-%u", i);
        struct policy_source p = {.name = str_from(name), .rules = &rule, .rule_count = 1};
        ck_assert_msg(policy_set_add(b, &p, &err) == 0, "%s", err.text);
    }
    struct policy_set *set;
    ck_assert_int_eq(policy_set_finish(b, &set, &err), 0);
    ck_assert_uint_eq(policy_set_count(set), 1000);
    ck_assert_uint_eq(policy_set_version(set), 9);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "policy-%u", i);
        ck_assert(policy_set_has(set, str_from(name)));
    }
    ck_assert(!policy_set_has(set, STR("policy-1000")));
    ck_assert(!policy_set_has(set, STR("")));
    struct policy_set *second = policy_set_ref(set);
    policy_set_unref(set);
    ck_assert(policy_set_has(second, STR("policy-0")));
    policy_set_unref(second);
    policy_set_unref(NULL);
    policy_env_free(env);
}
END_TEST

Suite *suite_decide_set(void)
{
    Suite *s = suite_create("decide_set");
    TCase *t = tcase_create("sets");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, policy_names_are_checked, 0, sizeof names / sizeof names[0]);
    tcase_add_test(t, an_error_names_policy_rule_and_place);
    tcase_add_test(t, opa_is_refused_with_a_remedy);
    tcase_add_test(t, conditions_that_could_never_match_are_refused);
    tcase_add_test(t, an_expression_of_more_than_10000_bytes_is_refused);
    tcase_add_test(t, nesting_is_bounded);
    tcase_add_test(t, counts_effects_and_priorities_are_checked);
    tcase_add_test(t, a_set_of_many_policies_finds_each);
    suite_add_tcase(s, t);
    return s;
}
