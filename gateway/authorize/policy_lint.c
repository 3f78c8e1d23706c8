#include "gateway/authorize/policy_lint.h"

#include <stdarg.h>
#include <stdio.h>

#include "policy/base/str.h"

struct lint {
    struct arena *arena;
    char **texts;
    size_t count;
};

__attribute__((format(printf, 3, 4))) static void doubt(struct lint *lint, const char *rule,
                                                        const char *format, ...)
{
    char text[512];
    va_list ap;
    if (lint->count >= POLICY_LINT_MAX) {
        return;
    }
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    char *copy = arena_printf(lint->arena, "%s: %s", rule, text);
    if (copy) {
        lint->texts[lint->count++] = copy;
    }
}

static bool condition_is_always(const Core__Condition *c, bool value)
{
    return c && c->type_case == CORE__CONDITION__TYPE_MATCH_ANY && (c->match_any != 0) == value;
}

/* `not` anywhere below. Recursion is bounded by the depth that compiled policies have. */
static bool condition_has_not(const Core__Condition *c)
{
    Core__Condition *const *of = NULL;
    size_t count = 0;
    if (!c) {
        return false;
    }
    switch (c->type_case) {
    case CORE__CONDITION__TYPE_NOT:
        return true;
    case CORE__CONDITION__TYPE_ALL:
        of = c->all->of;
        count = c->all->n_of;
        break;
    case CORE__CONDITION__TYPE_ANY:
        of = c->any->of;
        count = c->any->n_of;
        break;
    case CORE__CONDITION__TYPE_NONE:
        return c->none->n_of > 0;
    case CORE__CONDITION__TYPE_MATCH:
    case CORE__CONDITION__TYPE_MATCH_ANY:
    case CORE__CONDITION__TYPE_OPA:
    case CORE__CONDITION__TYPE__NOT_SET:
    case _CORE__CONDITION__TYPE__CASE_IS_INT_SIZE:
        break;
    }
    for (size_t i = 0; i < count; i++) {
        if (condition_has_not(of[i])) {
            return true;
        }
    }
    return false;
}

static void lint_rule(struct lint *lint, const Core__Policy__Spec__Rule *rule, const char *name)
{
    bool is_allow = rule->effect == CORE__POLICY__SPEC__RULE__EFFECT__ALLOW;
    if (condition_is_always(rule->condition, false)) {
        doubt(lint, name, "matchAny: false never matches");
    }
    if (is_allow && rule->priority < 0) {
        doubt(lint, name,
              "ALLOW at priority %d overrides every DENY at %d and above, of any other policy too",
              rule->priority, rule->priority + 1);
    }
    if (!is_allow && rule->priority > 0) {
        doubt(lint, name,
              "DENY at priority %d is beaten by any ALLOW at %d and below, such as 'allow-all'",
              rule->priority, rule->priority - 1);
    }
    if (is_allow && condition_has_not(rule->condition)) {
        doubt(lint, name,
              "'not' and 'none' match when the field that they look at is absent; an ALLOW should "
              "test what must be there");
    }
}

/* A rule behind one that always matches, in the same policy. */
static bool is_shadowed_by(const Core__Policy__Spec__Rule *rule,
                           const Core__Policy__Spec__Rule *other)
{
    bool other_denies = other->effect == CORE__POLICY__SPEC__RULE__EFFECT__DENY;
    bool rule_allows = rule->effect == CORE__POLICY__SPEC__RULE__EFFECT__ALLOW;
    return condition_is_always(other->condition, true) &&
           (other->priority < rule->priority ||
            (other->priority == rule->priority && other_denies && rule_allows));
}

size_t policy_lint(const Core__Policy__Spec *spec, struct arena *arena, char ***ret_texts)
{
    struct lint lint = {.arena = arena,
                        .texts = arena_calloc(arena, POLICY_LINT_MAX, sizeof(char *))};
    *ret_texts = lint.texts;
    for (size_t i = 0; spec && lint.texts && i < spec->n_rules; i++) {
        const Core__Policy__Spec__Rule *rule = spec->rules[i];
        char name[128];
        (void)snprintf(name, sizeof name, rule->name[0] ? "rule #%zu '%.64s'" : "rule #%zu", i,
                       rule->name);
        lint_rule(&lint, rule, name);
        for (size_t k = 0; k < spec->n_rules; k++) {
            if (k != i && is_shadowed_by(rule, spec->rules[k])) {
                doubt(&lint, name, "never reached: rule #%zu always matches before it", k);
                break;
            }
        }
    }
    return lint.count;
}
