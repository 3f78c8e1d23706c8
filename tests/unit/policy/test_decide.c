#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/decide/decide.h"
#include "policy/decide/policy_set.h"
#include "policy/policy.h"

Suite *suite_decide(void);

/* A little language for tests: policies are added by hand, attached by name, and asked with a JSON
 * ctx. */
struct fixture {
    struct policy_env *env;
    struct policy_set_builder *builder;
    struct policy_set *set;
    struct arena arena;
    struct policy_attachment attachments[8];
    size_t attachment_count;
    bool is_strict;
    struct policy_decision decision;
};

static void fixture_begin(struct fixture *f)
{
    struct error err;
    *f = (struct fixture){0};
    f->env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    ck_assert_ptr_nonnull(f->env);
    f->builder = policy_set_builder_new(f->env, POLICY_SET_NAMED, 7);
    arena_init(&f->arena, 16 << 20);
}

static void fixture_end(struct fixture *f)
{
    for (size_t i = 0; i < f->attachment_count; i++) {
        policy_set_unref((struct policy_set *)(uintptr_t)f->attachments[i].inline_policies);
    }
    policy_set_builder_free(f->builder);
    policy_set_unref(f->set);
    policy_env_free(f->env);
    arena_free(&f->arena);
}

#define COND_MATCH(s)                                                                              \
    {                                                                                              \
        .kind = POLICY_CONDITION_MATCH, .text = { s, sizeof(s) - 1 }                               \
    }
#define COND_NOT(s)                                                                                \
    {                                                                                              \
        .kind = POLICY_CONDITION_NOT, .text = { s, sizeof(s) - 1 }                                 \
    }
#define COND_ALWAYS                                                                                \
    {                                                                                              \
        .kind = POLICY_CONDITION_MATCH_ANY, .match_any = true                                      \
    }
#define COND_OF(k, ...)                                                                            \
    {                                                                                              \
        .kind = POLICY_CONDITION_##k, .of = (struct policy_condition_source[]){__VA_ARGS__},       \
        .of_count = sizeof((struct policy_condition_source[]){__VA_ARGS__}) /                      \
                    sizeof(struct policy_condition_source)                                         \
    }

struct rules {
    const struct policy_rule_source *items;
    size_t count;
};

#define RULES(...)                                                                                 \
    (struct rules)                                                                                 \
    {                                                                                              \
        (struct policy_rule_source[]){__VA_ARGS__},                                                \
            sizeof((struct policy_rule_source[]){__VA_ARGS__}) / sizeof(struct policy_rule_source) \
    }

static void add(struct fixture *f, const char *name, struct rules rules)
{
    struct error err;
    struct policy_source p = {.name = str_from(name),
                              .uid = STR("uid"),
                              .rules = rules.items,
                              .rule_count = rules.count,
                              .attrs = policy_null()};
    ck_assert_msg(policy_set_add(f->builder, &p, &err) == 0, "%s", err.text);
}

static void attach(struct fixture *f, const char *point, const char *name)
{
    struct str *names = arena_calloc(&f->arena, 1, sizeof *names);
    names[0] = str_from(name);
    f->attachments[f->attachment_count++] =
        (struct policy_attachment){str_from(point), names, name ? 1 : 0, NULL, NULL};
}

static void finish(struct fixture *f)
{
    struct error err;
    ck_assert_msg(policy_set_finish(f->builder, &f->set, &err) == 0, "%s", err.text);
    f->builder = NULL;
}

static void ask(struct fixture *f, const char *json)
{
    struct error err;
    if (!f->set) {
        finish(f);
    }
    struct policy_query q = {.attachments = f->attachments,
                             .attachment_count = f->attachment_count,
                             .now_ns = 1000000000,
                             .is_strict = f->is_strict};
    ck_assert_msg(policy_value_from_json(str_from(json), &f->arena, &q.ctx, &err) == 0, "%s",
                  err.text);
    policy_decide(f->set, &q, &f->arena, &f->decision);
}

#define assert_decision(f, allowed, expected_reason)                                               \
    do {                                                                                           \
        ck_assert_str_eq(policy_reason_name((f).decision.reason),                                  \
                         policy_reason_name(expected_reason));                                     \
        ck_assert_int_eq((f).decision.is_allowed, allowed);                                        \
    } while (0)

#define ALLOW_ALWAYS(p)                                                                            \
    {                                                                                              \
        .effect = POLICY_ALLOW, .priority = (p), .condition = COND_ALWAYS                          \
    }
#define DENY_ALWAYS(p)                                                                             \
    {                                                                                              \
        .effect = POLICY_DENY, .priority = (p), .condition = COND_ALWAYS                           \
    }

/* One rule that is evaluated alone, and an ALLOW behind it. */
static void ask_rule(struct fixture *f, struct policy_rule_source rule, const char *json)
{
    fixture_begin(f);
    struct policy_rule_source rules[] = {rule};
    add(f, "the-rule", (struct rules){rules, 1});
    attach(f, "User ann", "the-rule");
    ask(f, json);
}

/* Two rules on two attachment points: the table in 2.6 of the facts. 99 stands for "no rule". */
static const struct {
    int first_effect, first_priority, second_effect, second_priority;
    enum policy_reason reason;
    bool is_allowed;
} table[] = {
    {0, 99, 0, 99, POLICY_REASON_NO_MATCH, false},
    {POLICY_ALLOW, 0, POLICY_DENY, 0, POLICY_REASON_MATCH, false},
    {POLICY_DENY, 0, POLICY_ALLOW, 0, POLICY_REASON_MATCH, false},
    {POLICY_ALLOW, -1, POLICY_DENY, 0, POLICY_REASON_MATCH, true},
    {POLICY_ALLOW, -1, POLICY_DENY, -1, POLICY_REASON_MATCH, false},
    {POLICY_ALLOW, -2, POLICY_DENY, -1, POLICY_REASON_MATCH, true},
    {POLICY_ALLOW, -2, POLICY_DENY, 2, POLICY_REASON_MATCH, true},
    {POLICY_DENY, 0, POLICY_ALLOW, -1, POLICY_REASON_MATCH, true},
    {POLICY_DENY, 4, POLICY_ALLOW, 0, POLICY_REASON_MATCH, true},
};

START_TEST(decision_table_holds)
{
    struct fixture f;
    fixture_begin(&f);
    const int effects[] = {table[_i].first_effect, table[_i].second_effect};
    const int priorities[] = {table[_i].first_priority, table[_i].second_priority};
    const char *names[] = {"first", "second"};
    for (size_t k = 0; k < 2; k++) {
        if (priorities[k] != 99) {
            struct policy_rule_source rule = ALLOW_ALWAYS(priorities[k]);
            rule.effect = (enum policy_effect)effects[k];
            add(&f, names[k], (struct rules){&rule, 1});
            attach(&f, names[k], names[k]);
        }
    }
    ask(&f, "{}");
    assert_decision(f, table[_i].is_allowed, table[_i].reason);
    ck_assert_uint_eq(f.decision.set_version, 7);
    fixture_end(&f);
}
END_TEST

START_TEST(rules_of_one_policy_are_ordered_by_priority_then_deny_then_file)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "many",
        RULES(ALLOW_ALWAYS(2),
              {.effect = POLICY_DENY, .name = STR("late"), .condition = COND_ALWAYS},
              {.effect = POLICY_DENY, .name = STR("later"), .condition = COND_ALWAYS},
              ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "many");
    ask(&f, "{}");
    assert_decision(f, false, POLICY_REASON_MATCH);
    ck_assert_uint_eq(f.decision.rule_index, 1);
    ck_assert(str_is(f.decision.rule_name, "late"));
    ck_assert(str_is(f.decision.attached_to, "User ann"));
    fixture_end(&f);
}
END_TEST

START_TEST(equal_rules_are_attributed_to_the_first_attachment_each_time)
{
    for (int i = 0; i < 20; i++) {
        struct fixture f;
        fixture_begin(&f);
        add(&f, "zz-first", RULES(DENY_ALWAYS(0)));
        add(&f, "aa-second", RULES(DENY_ALWAYS(0)));
        attach(&f, "User ann", "zz-first");
        attach(&f, "ClusterConfig", "aa-second");
        ask(&f, "{}");
        ck_assert(str_is(f.decision.policy_name, "zz-first"));
        fixture_end(&f);
    }
}
END_TEST

static void add_enforced(struct fixture *f, const char *name, enum policy_effect effect,
                         const struct policy_enforcement_source *enforcement, size_t count)
{
    struct error err;
    struct policy_rule_source rule = {.effect = effect, .condition = COND_ALWAYS};
    struct policy_source p = {.name = str_from(name),
                              .rules = &rule,
                              .rule_count = 1,
                              .enforcement_rules = enforcement,
                              .enforcement_rule_count = count};
    ck_assert_msg(policy_set_add(f->builder, &p, &err) == 0, "%s", err.text);
}

START_TEST(a_matching_ignore_silences_the_policy)
{
    struct fixture f;
    fixture_begin(&f);
    struct policy_enforcement_source e[] = {{POLICY_IGNORE, COND_MATCH("ctx.a == 1.0")}};
    add_enforced(&f, "ignored", POLICY_ALLOW, e, 1);
    attach(&f, "User ann", "ignored");
    ask(&f, "{\"a\": 1}");
    assert_decision(f, false, POLICY_REASON_NO_MATCH);
    ask(&f, "{\"a\": 2}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(enforce_beats_ignore_whatever_the_order)
{
    struct fixture f;
    fixture_begin(&f);
    struct policy_enforcement_source e[] = {{POLICY_IGNORE, COND_ALWAYS},
                                            {POLICY_ENFORCE, COND_ALWAYS}};
    add_enforced(&f, "enforced", POLICY_ALLOW, e, 2);
    attach(&f, "User ann", "enforced");
    ask(&f, "{}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(an_ignored_child_does_not_silence_its_parent)
{
    struct fixture f;
    fixture_begin(&f);
    struct policy_enforcement_source e[] = {{POLICY_IGNORE, COND_ALWAYS}};
    add_enforced(&f, "child.parent", POLICY_ALLOW, e, 1);
    add(&f, "parent", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "child.parent");
    ask(&f, "{}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    ck_assert(str_is(f.decision.policy_name, "parent"));
    fixture_end(&f);
}
END_TEST

START_TEST(an_ignored_family_says_nothing)
{
    struct fixture f;
    fixture_begin(&f);
    struct policy_enforcement_source e[] = {{POLICY_IGNORE, COND_ALWAYS}};
    add_enforced(&f, "child.parent", POLICY_ALLOW, e, 1);
    add_enforced(&f, "parent", POLICY_ALLOW, e, 1);
    attach(&f, "User ann", "child.parent");
    ask(&f, "{}");
    assert_decision(f, false, POLICY_REASON_NO_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(a_disabled_policy_says_nothing_but_its_parent_does)
{
    struct fixture f;
    struct error err;
    fixture_begin(&f);
    struct policy_rule_source deny = DENY_ALWAYS(0);
    struct policy_source p = {
        .name = STR("child.parent"), .is_disabled = true, .rules = &deny, .rule_count = 1};
    ck_assert_int_eq(policy_set_add(f.builder, &p, &err), 0);
    add(&f, "parent", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "child.parent");
    ask(&f, "{}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(attrs_are_those_of_the_policy_that_holds_the_rule)
{
    struct fixture f;
    struct error err;
    fixture_begin(&f);
    struct policy_rule_source deny = {.effect = POLICY_DENY,
                                      .condition = COND_MATCH("ctx.level > attrs.max")};
    struct policy_source p = {.name = STR("with-attrs"), .rules = &deny, .rule_count = 1};
    ck_assert_int_eq(policy_value_from_json(STR("{\"max\": 3}"),
                                            policy_set_builder_arena(f.builder), &p.attrs, &err),
                     0);
    ck_assert_msg(policy_set_add(f.builder, &p, &err) == 0, "%s", err.text);
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "allow-all");
    attach(&f, "ClusterConfig", "with-attrs");
    ask(&f, "{\"level\": 4}");
    assert_decision(f, false, POLICY_REASON_MATCH);
    ask(&f, "{\"level\": 3}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(trap_1_a_missing_policy_denies)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(-4)));
    attach(&f, "User ann", "allow-all");
    attach(&f, "ClusterConfig", "gone");
    ask(&f, "{}");
    assert_decision(f, false, POLICY_REASON_MISSING);
    ck_assert(str_is(f.decision.policy_name, "gone"));
    ck_assert(str_is(f.decision.attached_to, "ClusterConfig"));
    fixture_end(&f);
}
END_TEST

START_TEST(a_missing_parent_is_an_error_when_the_set_is_made)
{
    struct fixture f;
    struct error err;
    fixture_begin(&f);
    add(&f, "child.parent", RULES(ALLOW_ALWAYS(0)));
    ck_assert_int_eq(policy_set_finish(f.builder, &f.set, &err), -STATUS_FAILED_PRECONDITION);
    f.builder = NULL;
    ck_assert_ptr_nonnull(strstr(err.text, "'parent'"));
    fixture_end(&f);
}
END_TEST

/* What a rule does when its input is not there: 2.5 of the facts. */
#define MISSING "ctx.device.status.posture.riskLevel == 'HIGH'"

static const struct {
    struct policy_rule_source rule;
    bool matches;          /* in the ordinary mode */
    bool is_strict_denial; /* MISSING_INPUT in strict mode */
} missing_cases[] = {
    {{.effect = POLICY_DENY, .condition = COND_MATCH(MISSING)}, false, true},
    {{.effect = POLICY_ALLOW, .condition = COND_MATCH(MISSING)}, false, false},
    {{.effect = POLICY_ALLOW, .condition = COND_NOT(MISSING)}, true, true},
    {{.effect = POLICY_DENY, .condition = COND_NOT(MISSING)}, true, true},
    {{.effect = POLICY_ALLOW, .condition = COND_OF(NONE, COND_MATCH(MISSING))}, true, true},
    {{.effect = POLICY_ALLOW, .condition = COND_OF(NONE, COND_NOT(MISSING))}, false, false},
    {{.effect = POLICY_ALLOW, .condition = COND_OF(ANY, COND_MATCH(MISSING), COND_ALWAYS)},
     true,
     false},
    {{.effect = POLICY_ALLOW, .condition = COND_OF(ALL, COND_MATCH(MISSING), COND_ALWAYS)},
     false,
     false},
    {{.effect = POLICY_DENY, .condition = COND_MATCH("ctx.list[3] == 1")}, false, true},
    {{.effect = POLICY_DENY, .condition = COND_MATCH("has(ctx.device.status.posture)")},
     false,
     true},
};

START_TEST(trap_2_and_3_missing_input_keeps_the_original_meaning)
{
    struct fixture f;
    ask_rule(&f, missing_cases[_i].rule, "{\"list\": [1]}");
    ck_assert_str_eq(policy_reason_name(f.decision.reason),
                     missing_cases[_i].matches ? "POLICY_MATCH" : "NO_POLICY_MATCH");
    fixture_end(&f);
}
END_TEST

START_TEST(trap_2_strict_mode_denies_on_missing_input_that_could_open)
{
    struct fixture f;
    fixture_begin(&f);
    f.is_strict = true;
    struct policy_rule_source rule = missing_cases[_i].rule;
    add(&f, "the-rule", (struct rules){&rule, 1});
    attach(&f, "User ann", "the-rule");
    ask(&f, "{\"list\": [1]}");
    if (missing_cases[_i].is_strict_denial) {
        assert_decision(f, false, POLICY_REASON_MISSING_INPUT);
        ck_assert_ptr_ne(f.decision.detail[0] ? f.decision.detail : NULL, NULL);
    } else {
        ck_assert_int_ne(f.decision.reason, POLICY_REASON_MISSING_INPUT);
    }
    fixture_end(&f);
}
END_TEST

START_TEST(the_two_spellings_of_negation_are_opposite_on_absent_fields)
{
    struct fixture f;
    ask_rule(&f,
             (struct policy_rule_source){.effect = POLICY_ALLOW,
                                         .condition = COND_NOT("ctx.user.status.isLocked")},
             "{\"user\": {\"status\": {}}}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
    ask_rule(&f,
             (struct policy_rule_source){.effect = POLICY_ALLOW,
                                         .condition = COND_MATCH("!ctx.user.status.isLocked")},
             "{\"user\": {\"status\": {}}}");
    assert_decision(f, false, POLICY_REASON_NO_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(trap_4_absent_zero_values_never_compare)
{
    struct fixture f;
    ask_rule(
        &f,
        (struct policy_rule_source){.effect = POLICY_ALLOW,
                                    .condition = COND_MATCH("ctx.service.spec.isPublic == false")},
        "{\"service\": {\"spec\": {}}}");
    assert_decision(f, false, POLICY_REASON_NO_MATCH);
    fixture_end(&f);
}
END_TEST

static const struct {
    struct policy_rule_source rule;
    int code;
} error_cases[] = {
    {{.effect = POLICY_ALLOW, .condition = COND_MATCH("ctx.size > 1000")},
     POLICY_E_NO_SUCH_OVERLOAD},
    {{.effect = POLICY_ALLOW, .condition = COND_NOT("ctx.size > 1000")}, POLICY_E_NO_SUCH_OVERLOAD},
    {{.effect = POLICY_DENY, .condition = COND_MATCH("1 / int(ctx.zero) == 1")},
     POLICY_E_DIVIDE_BY_ZERO},
    {{.effect = POLICY_ALLOW, .condition = COND_MATCH("ctx.zero")}, POLICY_E_NO_SUCH_OVERLOAD},
    {{.effect = POLICY_ALLOW, .condition = COND_OF(ANY, COND_MATCH("ctx.size > 1"), COND_ALWAYS)},
     POLICY_E_NO_SUCH_OVERLOAD},
    {{.effect = POLICY_ALLOW, .condition = COND_NOT("net.isPrivateIP(ctx.header)")},
     POLICY_E_CONVERSION},
};

/* The header of the last case says "no such key": an engine that reads its own error texts would
 * take the failure for missing input, and the `not` would match (traps 5 and 11). */
START_TEST(trap_5_and_11_errors_deny_whatever_their_text_says)
{
    struct fixture f;
    ask_rule(&f, error_cases[_i].rule,
             "{\"size\": \"1200\", \"zero\": 0, \"header\": \"no such key\"}");
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    ck_assert_int_eq(f.decision.error_code, error_cases[_i].code);
    ck_assert(str_is(f.decision.policy_name, "the-rule"));
    fixture_end(&f);
}
END_TEST

START_TEST(a_decided_any_hides_a_later_error)
{
    struct fixture f;
    ask_rule(&f,
             (struct policy_rule_source){.effect = POLICY_ALLOW,
                                         .condition =
                                             COND_OF(ANY, COND_ALWAYS, COND_MATCH("ctx.size > 1"))},
             "{\"size\": \"1\"}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(trap_8_an_error_counts_only_when_its_rule_is_reached)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "broken", RULES({.effect = POLICY_DENY, .condition = COND_MATCH("ctx.size > 1")}));
    add(&f, "first", RULES(ALLOW_ALWAYS(-1)));
    attach(&f, "User ann", "broken");
    ask(&f, "{\"size\": \"1\"}");
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    attach(&f, "ClusterConfig", "first");
    ask(&f, "{\"size\": \"1\"}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

START_TEST(an_error_in_an_enforcement_rule_denies)
{
    struct fixture f;
    fixture_begin(&f);
    struct policy_enforcement_source e[] = {{POLICY_ENFORCE, COND_MATCH("ctx.size > 1")},
                                            {POLICY_IGNORE, COND_ALWAYS}};
    add_enforced(&f, "deny-it", POLICY_DENY, e, 2);
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "allow-all");
    attach(&f, "ClusterConfig", "deny-it");
    ask(&f, "{\"size\": \"1\"}");
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    ck_assert(f.decision.is_enforcement_rule);
    fixture_end(&f);
}
END_TEST

START_TEST(trap_6_and_7_priorities_beat_effects)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "deny-late", RULES(DENY_ALWAYS(4)));
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "ClusterConfig", "deny-late");
    attach(&f, "User ann", "allow-all");
    ask(&f, "{}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

static void count_step(void *context, const struct policy_rule_step *step)
{
    size_t *count = context;
    *count += step->depth == 0;
}

START_TEST(trap_10_a_named_policy_counts_once_and_an_inline_one_each_time)
{
    struct fixture f;
    struct error err;
    size_t steps = 0;
    fixture_begin(&f);
    struct policy_rule_source never = {.effect = POLICY_DENY, .condition = COND_MATCH("1 > 2")};
    add(&f, "named", (struct rules){&never, 1});
    attach(&f, "User ann", "named");
    attach(&f, "Group dev", "named");
    struct policy_set_builder *b = policy_set_builder_new(f.env, POLICY_SET_INLINE, 0);
    struct policy_source p = {.name = STR("Any Text"), .rules = &never, .rule_count = 1};
    struct policy_set *inline_set;
    ck_assert_int_eq(policy_set_add(b, &p, &err), 0);
    ck_assert_int_eq(policy_set_add(b, &p, &err), 0);
    ck_assert_int_eq(policy_set_finish(b, &inline_set, &err), 0);
    f.attachments[1].inline_policies = inline_set;
    finish(&f);
    struct policy_query q = {.attachments = f.attachments,
                             .attachment_count = 2,
                             .ctx = policy_null(),
                             .trace = count_step,
                             .trace_context = &steps};
    policy_decide(f.set, &q, &f.arena, &f.decision);
    ck_assert_uint_eq(steps, 3);
    fixture_end(&f);
}
END_TEST

START_TEST(trap_12_the_clock_is_read_once)
{
    struct fixture f;
    ask_rule(&f,
             (struct policy_rule_source){.effect = POLICY_ALLOW,
                                         .condition =
                                             COND_MATCH("now() == now() && now() == timestamp(1)")},
             "{}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

static uint64_t late_clock(void *context)
{
    uint64_t *now = context;
    return *now += 1000000000;
}

START_TEST(a_passed_deadline_denies)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "slow",
        RULES({.effect = POLICY_ALLOW,
               .condition = COND_MATCH("ctx.list.all(a, ctx.list.all(b, ctx.list.all(c, "
                                       "ctx.list.all(d, a + b + c + d >= 0.0))))")}));
    attach(&f, "User ann", "slow");
    finish(&f);
    uint64_t now = 1;
    struct error err;
    struct policy_query q = {.attachments = f.attachments,
                             .attachment_count = 1,
                             .deadline_ns = 2000000000,
                             .clock_ns = late_clock,
                             .clock_context = &now};
    ck_assert_int_eq(
        policy_value_from_json(STR("{\"list\":[1,2,3,4,5,6,7,8,9,10]}"), &f.arena, &q.ctx, &err),
        0);
    policy_decide(f.set, &q, &f.arena, &f.decision);
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    ck_assert_int_eq(f.decision.error_code, POLICY_E_DEADLINE);
    fixture_end(&f);
}
END_TEST

START_TEST(a_budget_that_runs_out_denies)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "costly",
        RULES({.effect = POLICY_ALLOW,
               .condition =
                   COND_NOT("ctx.l.all(a, ctx.l.all(b, ctx.l.all(c, ctx.l.all(d, ctx.l.all(e, "
                            "ctx.l.all(f, ctx.l.all(g, a + b + c + d + e + f + g < 0.0)))))))")}));
    attach(&f, "User ann", "costly");
    ask(&f, "{\"l\":[1,2,3,4,5,6,7,8,9,10]}");
    ck_assert_int_eq(f.decision.is_allowed, f.decision.reason == POLICY_REASON_MATCH);
    ask(&f, "{\"l\":[-1,-2,-3,-4,-5,-6,-7,-8,-9,-10]}");
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    ck_assert(policy_error_is_limit(f.decision.error_code));
    fixture_end(&f);
}
END_TEST

START_TEST(a_full_arena_denies)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "allow-all");
    finish(&f);
    struct arena none;
    arena_init(&none, 0);
    struct policy_query q = {
        .attachments = f.attachments, .attachment_count = 1, .ctx = policy_null()};
    policy_decide(f.set, &q, &none, &f.decision);
    assert_decision(f, false, POLICY_REASON_EVALUATION_ERROR);
    fixture_end(&f);
}
END_TEST

START_TEST(the_sandbox_rule_of_the_documentation_denies_sandboxes_only)
{
    struct fixture f;
    fixture_begin(&f);
    add(&f, "deny-sandboxes",
        RULES({.effect = POLICY_DENY,
               .condition = COND_OF(
                   ALL,
                   COND_MATCH(
                       "\"ext\" in ctx.session.status && \"cordium\" in ctx.session.status.ext"),
                   COND_MATCH(
                       "ctx.session.status.ext.cordium.spaceRef.name == \"sandboxes.cordium\""))}));
    add(&f, "allow-all", RULES(ALLOW_ALWAYS(0)));
    attach(&f, "User ann", "allow-all");
    attach(&f, "ClusterConfig", "deny-sandboxes");
    f.is_strict = true;
    ask(&f, "{\"session\":{\"status\":{\"ext\":{\"cordium\":{\"spaceRef\":{\"name\":"
            "\"sandboxes.cordium\"}}}}}}");
    assert_decision(f, false, POLICY_REASON_MATCH);
    ck_assert(str_is(f.decision.policy_name, "deny-sandboxes"));
    ck_assert(str_is(f.decision.attached_to, "ClusterConfig"));
    ask(&f, "{\"session\":{\"status\":{\"type\":\"CLIENT\"}}}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    ask(&f, "{\"session\":{\"status\":{\"ext\":{\"cordium\":{\"spaceRef\":{\"name\":"
            "\"dev.ann\"}}}}}}");
    assert_decision(f, true, POLICY_REASON_MATCH);
    fixture_end(&f);
}
END_TEST

Suite *suite_decide(void)
{
    Suite *s = suite_create("decide");
    TCase *t = tcase_create("decisions");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, decision_table_holds, 0, sizeof table / sizeof table[0]);
    tcase_add_test(t, rules_of_one_policy_are_ordered_by_priority_then_deny_then_file);
    tcase_add_test(t, equal_rules_are_attributed_to_the_first_attachment_each_time);
    tcase_add_test(t, a_matching_ignore_silences_the_policy);
    tcase_add_test(t, enforce_beats_ignore_whatever_the_order);
    tcase_add_test(t, an_ignored_child_does_not_silence_its_parent);
    tcase_add_test(t, an_ignored_family_says_nothing);
    tcase_add_test(t, a_disabled_policy_says_nothing_but_its_parent_does);
    tcase_add_test(t, attrs_are_those_of_the_policy_that_holds_the_rule);
    tcase_add_test(t, trap_1_a_missing_policy_denies);
    tcase_add_test(t, a_missing_parent_is_an_error_when_the_set_is_made);
    size_t missing_count = sizeof missing_cases / sizeof missing_cases[0];
    tcase_add_loop_test(t, trap_2_and_3_missing_input_keeps_the_original_meaning, 0,
                        (int)missing_count);
    tcase_add_loop_test(t, trap_2_strict_mode_denies_on_missing_input_that_could_open, 0,
                        (int)missing_count);
    tcase_add_test(t, the_two_spellings_of_negation_are_opposite_on_absent_fields);
    tcase_add_test(t, trap_4_absent_zero_values_never_compare);
    tcase_add_loop_test(t, trap_5_and_11_errors_deny_whatever_their_text_says, 0,
                        sizeof error_cases / sizeof error_cases[0]);
    tcase_add_test(t, a_decided_any_hides_a_later_error);
    tcase_add_test(t, trap_8_an_error_counts_only_when_its_rule_is_reached);
    tcase_add_test(t, an_error_in_an_enforcement_rule_denies);
    tcase_add_test(t, trap_6_and_7_priorities_beat_effects);
    tcase_add_test(t, trap_10_a_named_policy_counts_once_and_an_inline_one_each_time);
    tcase_add_test(t, trap_12_the_clock_is_read_once);
    tcase_add_test(t, a_passed_deadline_denies);
    tcase_add_test(t, a_budget_that_runs_out_denies);
    tcase_add_test(t, a_full_arena_denies);
    tcase_add_test(t, the_sandbox_rule_of_the_documentation_denies_sandboxes_only);
    suite_add_tcase(s, t);
    return s;
}
