#include "policy/decide/lint.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy/decide/lint_expression.h"

static const struct policy_finding_kind kinds[] = {
#define FINDING(name, severity, code, summary) {code, POLICY_SEVERITY_##severity, summary},
#include "policy/decide/lint_codes.def"
#undef FINDING
};

const struct policy_finding_kind *policy_finding_kind(enum policy_finding_code code)
{
    return &kinds[code];
}

const char *policy_severity_name(enum policy_severity severity)
{
    return severity == POLICY_SEVERITY_ERROR     ? "error"
           : severity == POLICY_SEVERITY_WARNING ? "warning"
                                                 : "note";
}

size_t policy_text_offset(struct str text, uint32_t line, uint32_t column)
{
    size_t at = 0;
    for (uint32_t i = 1; i < line && at < text.len; at++) {
        i += text.ptr[at] == '\n';
    }
    for (uint32_t i = 1; i < column && at < text.len && text.ptr[at] != '\n';) {
        at++;
        while (at < text.len && ((unsigned char)text.ptr[at] & 0xC0) == 0x80) {
            at++;
        }
        i++;
    }
    return at;
}

/* The attributes of a policy as a shape: `of` is the map or list. */
static const struct policy_shape_ops value_ops;

static struct policy_shape shape_of_value(struct policy_value v)
{
    struct policy_shape s = {.kind = POLICY_SHAPE_ANY};
    switch (v.kind) {
    case POLICY_BOOL:
        s.kind = POLICY_SHAPE_BOOL;
        break;
    case POLICY_DOUBLE:
        s.kind = POLICY_SHAPE_NUMBER;
        break;
    case POLICY_STRING:
        s.kind = POLICY_SHAPE_STRING;
        break;
    case POLICY_MAP:
        s.kind = POLICY_SHAPE_OBJECT;
        s.of = v.as.map;
        s.ops = &value_ops;
        break;
    default:
        break;
    }
    return s;
}

static bool value_member(const struct policy_shape *object, struct str name, struct arena *arena,
                         struct policy_shape *ret)
{
    struct policy_value v;
    int rc = policy_map_get(object->of, policy_string(name), arena, &v);
    *ret = rc == 1 ? shape_of_value(v) : (struct policy_shape){.kind = POLICY_SHAPE_ANY};
    return rc != 0;
}

static const char *value_member_name(const struct policy_shape *object, size_t i)
{
    /* Keys of attrs are texts of the source, which end with NUL. */
    struct arena arena;
    struct policy_value key;
    size_t cursor = 0;
    const char *name = NULL;
    arena_init(&arena, POLICY_LINT_MEMORY_MAX_BYTES);
    while (policy_map_next(object->of, &cursor, &arena, &key, NULL) == 1) {
        if (i-- == 0) {
            name = key.kind == POLICY_STRING ? key.as.text : NULL;
            break;
        }
    }
    arena_free(&arena);
    return name;
}

static void value_element(const struct policy_shape *container, struct arena *arena,
                          struct policy_shape *ret)
{
    (void)container;
    (void)arena;
    *ret = (struct policy_shape){.kind = POLICY_SHAPE_ANY};
}

static const char *value_enum_text(const struct policy_shape *of, size_t i)
{
    (void)of;
    (void)i;
    return NULL;
}

static const struct policy_shape_ops value_ops = {
    value_member,
    value_member_name,
    value_element,
    value_enum_text,
};

/* Guards that one child of a condition gives its brothers. */
static void collect_child_guards(struct lint_run *run, const struct policy_condition_source *c,
                                 bool truth)
{
    if (c->kind == POLICY_CONDITION_MATCH || c->kind == POLICY_CONDITION_NOT) {
        struct ast *root = lint_parse(run, c->text);
        if (root) {
            lint_collect_guards(run, root, truth == (c->kind == POLICY_CONDITION_MATCH));
        }
        return;
    }
    bool is_all = c->kind == POLICY_CONDITION_ALL;
    for (size_t i = 0; i < c->of_count && is_all && truth; i++) {
        collect_child_guards(run, &c->of[i], true);
    }
}

static void lint_condition(struct lint_run *run, const struct policy_condition_source *c,
                           enum policy_effect effect, bool is_negated)
{
    if (c->kind == POLICY_CONDITION_MATCH || c->kind == POLICY_CONDITION_NOT) {
        bool leaf_negated = is_negated != (c->kind == POLICY_CONDITION_NOT);
        run->missing = effect == POLICY_DENY && !leaf_negated   ? LINT_MISSING_DENY
                       : effect == POLICY_ALLOW && leaf_negated ? LINT_MISSING_ALLOW
                                                                : LINT_MISSING_HARMLESS;
        struct ast *root = lint_parse(run, c->text);
        if (root) {
            lint_expression(run, root);
        }
        return;
    }
    if (run->place.depth >= POLICY_CONDITION_DEPTH_MAX) {
        return;
    }
    size_t guards = run->guard_count;
    bool negates = c->kind == POLICY_CONDITION_NONE;
    for (size_t i = 0; i < c->of_count; i++) {
        for (size_t k = 0; k < c->of_count; k++) {
            if (k != i) {
                collect_child_guards(run, &c->of[k], c->kind == POLICY_CONDITION_ALL);
            }
        }
        run->place.path[run->place.depth++] = (uint8_t)i;
        lint_condition(run, &c->of[i], effect, is_negated != negates);
        run->place.depth--;
        run->guard_count = guards;
    }
}

static bool is_always(const struct policy_condition_source *c)
{
    return c->kind == POLICY_CONDITION_MATCH_ANY && c->match_any;
}

static bool is_never(const struct policy_condition_source *c)
{
    bool is_all = c->kind == POLICY_CONDITION_ALL;
    bool is_any = c->kind == POLICY_CONDITION_ANY;
    size_t never = 0;
    for (size_t i = 0; (is_all || is_any) && i < c->of_count; i++) {
        never += is_never(&c->of[i]);
    }
    return (c->kind == POLICY_CONDITION_MATCH_ANY && !c->match_any) || (is_all && never > 0) ||
           (is_any && never == c->of_count && never > 0);
}

static struct str trimmed(struct str s)
{
    while (s.len > 0 && (unsigned char)s.ptr[0] <= ' ') {
        s = str_make(s.ptr + 1, s.len - 1);
    }
    while (s.len > 0 && (unsigned char)s.ptr[s.len - 1] <= ' ') {
        s.len--;
    }
    return s;
}

static bool is_same(const struct policy_condition_source *a,
                    const struct policy_condition_source *b)
{
    if (a->kind != b->kind || a->match_any != b->match_any || a->of_count != b->of_count ||
        !str_eq(trimmed(a->text), trimmed(b->text))) {
        return false;
    }
    for (size_t i = 0; i < a->of_count; i++) {
        if (!is_same(&a->of[i], &b->of[i])) {
            return false;
        }
    }
    return true;
}

/* Is `a` asked before `b`, whatever their places in the file? */
static bool goes_before(const struct policy_rule_source *a, const struct policy_rule_source *b)
{
    return a->priority < b->priority ||
           (a->priority == b->priority && a->effect == POLICY_DENY && b->effect == POLICY_ALLOW);
}

static void lint_rule_place(struct lint_run *run, size_t i)
{
    const struct policy_rule_source *rule = &run->source->rules[i];
    for (size_t k = 0; k < run->source->rule_count; k++) {
        const struct policy_rule_source *other = &run->source->rules[k];
        bool same = k != i && is_same(&rule->condition, &other->condition);
        if (k != i && goes_before(other, rule) && (is_always(&other->condition) || same)) {
            lint_report(run, POLICY_FINDING_UNREACHABLE, "remove it, or change the priorities",
                        "the rule is never asked: rule #%zu %s before it", k,
                        same ? "with the same condition decides" : "always matches");
            return;
        }
        if (k < i && same && rule->effect == other->effect && rule->priority == other->priority) {
            lint_report(run, POLICY_FINDING_DUPLICATE, "remove one",
                        "the rule says the same as rule #%zu", k);
            return;
        }
    }
}

static void lint_rule(struct lint_run *run, size_t i)
{
    const struct policy_rule_source *rule = &run->source->rules[i];
    run->place = (struct policy_place){.section = POLICY_SECTION_RULE, .rule_index = i};
    run->reported_count = 0;
    run->guard_count = 0;
    lint_condition(run, &rule->condition, rule->effect, false);
    run->place.depth = 0;
    if (is_never(&rule->condition)) {
        lint_report(run, POLICY_FINDING_RULE_NEVER, "", "the rule never matches");
    }
    if (rule->effect == POLICY_ALLOW && rule->priority < 0) {
        lint_report(run, POLICY_FINDING_ALLOW_OVERRIDES, "",
                    "ALLOW at priority %d overrides every DENY at %d and above, of any other "
                    "policy too",
                    rule->priority, rule->priority + 1);
    }
    if (rule->effect == POLICY_DENY && rule->priority > 0) {
        lint_report(run, POLICY_FINDING_DENY_BEATEN, "give it priority 0 or less",
                    "DENY at priority %d is beaten by any ALLOW at %d and below, such as "
                    "'allow-all'",
                    rule->priority, rule->priority - 1);
    }
    lint_rule_place(run, i);
}

static void lint_enforcement(struct lint_run *run, size_t i)
{
    run->place = (struct policy_place){.section = POLICY_SECTION_ENFORCEMENT, .rule_index = i};
    run->reported_count = 0;
    run->guard_count = 0;
    lint_condition(run, &run->source->enforcement_rules[i].condition, POLICY_EFFECT_UNSET, false);
}

static bool prepare_attrs(struct lint_run *run)
{
    const struct policy_map *attrs =
        run->source->attrs.kind == POLICY_MAP ? run->source->attrs.as.map : NULL;
    if (!attrs && policy_map_build(run->arena, NULL, 0, &attrs)) {
        return false;
    }
    run->attrs = shape_of_value(policy_map(attrs));
    run->attr_count = policy_map_size(attrs);
    run->attr_used = arena_calloc(run->arena, run->attr_count, sizeof *run->attr_used);
    run->attr_names = arena_calloc(run->arena, run->attr_count, sizeof *run->attr_names);
    if (!run->attr_used || !run->attr_names) {
        return false;
    }
    size_t cursor = 0;
    struct policy_value key;
    for (size_t i = 0; i < run->attr_count; i++) {
        if (policy_map_next(attrs, &cursor, run->arena, &key, NULL) == 1 &&
            key.kind == POLICY_STRING) {
            run->attr_names[i] = policy_value_str(key);
        }
    }
    return true;
}

static void report_unused(struct lint_run *run)
{
    for (size_t i = 0; i < run->attr_count; i++) {
        if (!run->attr_used[i]) {
            run->place =
                (struct policy_place){.section = POLICY_SECTION_ATTR, .attr = run->attr_names[i]};
            lint_report(run, POLICY_FINDING_ATTR_UNUSED, "remove it",
                        "attribute '%.*s' is read by no rule", STR_ARG(run->attr_names[i]));
        }
    }
}

static size_t lint_policy(const struct policy_lint *lint, const struct policy_source *policies,
                          size_t at, struct arena *arena)
{
    struct lint_run *run = arena_zalloc(arena, sizeof *run);
    if (!run) {
        return 0;
    }
    run->lint = lint;
    run->arena = arena;
    run->source = &policies[at];
    run->policy = at;
    if (!prepare_attrs(run)) {
        return 0;
    }
    for (size_t i = 0; i < run->source->rule_count; i++) {
        lint_rule(run, i);
    }
    for (size_t i = 0; i < run->source->enforcement_rule_count; i++) {
        lint_enforcement(run, i);
    }
    report_unused(run);
    if (run->source->rule_count == 0) {
        run->place = (struct policy_place){.section = POLICY_SECTION_POLICY};
        lint_report(run, POLICY_FINDING_NO_RULES, "",
                    "the policy has no rules and decides nothing");
    }
    return run->found;
}

/* Rules that allow everything: the one that is asked first, and the first of any other policy. */
struct always_allows {
    size_t policies[2];
    int priorities[2];
    size_t count;
};

static void note_always_allow(struct always_allows *a, size_t policy, int priority)
{
    bool is_first = a->count == 0 || priority < a->priorities[0];
    bool is_same_policy = a->count > 0 && a->policies[0] == policy;
    if (is_first && !is_same_policy && a->count > 0) {
        a->policies[1] = a->policies[0];
        a->priorities[1] = a->priorities[0];
        a->count = 2;
    }
    if (is_first) {
        a->policies[0] = policy;
        a->priorities[0] = priority;
        a->count = a->count ? a->count : 1;
    } else if (!is_same_policy && (a->count < 2 || priority < a->priorities[1])) {
        a->policies[1] = policy;
        a->priorities[1] = priority;
        a->count = 2;
    }
}

static struct always_allows find_always_allows(const struct policy_source *policies, size_t count)
{
    struct always_allows a = {0};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < policies[i].rule_count; k++) {
            const struct policy_rule_source *rule = &policies[i].rules[k];
            if (rule->effect == POLICY_ALLOW && is_always(&rule->condition)) {
                note_always_allow(&a, i, rule->priority);
            }
        }
    }
    return a;
}

/* A DENY at 0 or below that an unconditional ALLOW of another policy beats. */
static size_t lint_beaten(const struct policy_lint *lint, const struct policy_source *policies,
                          const struct always_allows *allows, size_t at, struct arena *arena)
{
    struct lint_run *run = arena_zalloc(arena, sizeof *run);
    const struct policy_source *p = &policies[at];
    size_t k = allows->count > 0 && allows->policies[0] == at ? 1 : 0;
    if (!run || k >= allows->count) {
        return 0;
    }
    run->lint = lint;
    run->arena = arena;
    run->policy = at;
    for (size_t i = 0; i < p->rule_count; i++) {
        int priority = p->rules[i].priority;
        if (p->rules[i].effect != POLICY_DENY || priority > 0 ||
            allows->priorities[k] >= priority) {
            continue;
        }
        run->place = (struct policy_place){.section = POLICY_SECTION_RULE, .rule_index = i};
        lint_report(run, POLICY_FINDING_DENY_BEATEN, "give it a smaller priority number",
                    "DENY at priority %d is beaten by '%.*s', which allows everything at %d",
                    priority, STR_ARG(policies[allows->policies[k]].name), allows->priorities[k]);
    }
    return run->found;
}

size_t policy_lint_policies(const struct policy_lint *lint, const struct policy_source *policies,
                            size_t count)
{
    struct arena arena;
    size_t found = 0;
    struct always_allows allows = find_always_allows(policies, count);
    arena_init(&arena, POLICY_LINT_MEMORY_MAX_BYTES);
    for (size_t i = 0; i < count; i++) {
        found += lint_policy(lint, policies, i, &arena);
        arena_reset(&arena);
        found += lint_beaten(lint, policies, &allows, i, &arena);
        arena_reset(&arena);
    }
    arena_free(&arena);
    return found;
}
