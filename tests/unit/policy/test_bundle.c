#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/decide/bundle.h"
#include "policy/decide/bundle_match.h"
#include "policy/decide/decide.h"
#include "policy/policy.h"

Suite *suite_bundle(void);

/* Random policies are asked random requests twice: all rules, and through bundles. Nothing that a
 * decision says may differ. Few names and values, so that they meet often. */

enum {
    SETS = 200,
    REQUESTS_PER_SET = 25,
    POLICIES_MAX = 6,
    RULES_PER_POLICY_MAX = 4,
    ATTACHMENTS_MAX = 4,
    NAMES_MAX = 3,
};

struct world {
    uint64_t random;
    struct policy_env *env;
    struct arena arena; /* of one set */
    struct policy_set *set;
    struct policy_attachment attachments[ATTACHMENTS_MAX];
    size_t attachment_count;
    size_t asked;
    size_t matched;
    size_t failed;
    size_t indexed;
};

static unsigned pick(struct world *w, unsigned count)
{
    w->random = w->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)((w->random >> 33) % count);
}

#define PICK(w, table) (table)[pick(w, sizeof(table) / sizeof(table)[0])]

static const char *const paths[] = {"ctx.a", "ctx.a.b",   "ctx.m",      "ctx.m.p", "ctx.u.name",
                                    "ctx.g", "ctx.u.g.x", "ctx.gone.x", "ctx.bad", "ctx.n"};
static const char *const texts[] = {"p", "q", "r"};

static const char *atom(struct world *w)
{
    static const char *const fixed[] = {
        "ctx.n < 3.0",
        "ctx.a.startsWith('p')",
        "1.0 / ctx.n == 1.0",
        "1 / int(ctx.n) == 1",
        "ctx.flag",
        "true",
        "false",
        "ctx.g.exists(x, x == 'q')",
        "ctx.a == attrs.t",
        "attrs.t == ctx.u.name",
        "ctx.a in attrs.l",
        "ctx.u.name in attrs.gone",
        "has(attrs.t)",
        "'p' in ctx",
        "has(ctx.a)",
        "lists.range(400).all(x, lists.range(400).all(y, y >= 0))",
    };
    const char *path = PICK(w, paths);
    const char *text = PICK(w, texts);
    struct arena *a = &w->arena;
    switch (pick(w, 10)) {
    case 0:
        return arena_printf(a, "%s != '%s'", path, text);
    case 1:
        return arena_printf(a, "'%s' == %s", text, path);
    case 2:
        return arena_printf(a, "%s in ['%s', 's']", path, text);
    case 3:
        return arena_printf(a, "%s in ['%s', 's', 't', 'u']", path, text);
    case 4:
        return arena_printf(a, "'%s' in %s", text, path);
    case 5:
        return arena_printf(a, "has(%s.%s)", path, text);
    case 6:
        return arena_printf(a, "(%s == '%s' || %s == 'q')", path, text, path);
    case 7:
        return PICK(w, fixed);
    default:
        return arena_printf(a, "%s == '%s'", path, text);
    }
}

static struct str expression(struct world *w)
{
    const char *text = atom(w);
    for (unsigned more = pick(w, 4); more > 0; more--) {
        const char *joint = pick(w, 6) ? "&&" : "||";
        text =
            arena_printf(&w->arena, pick(w, 3) ? "%s %s %s" : "(%s) %s %s", text, joint, atom(w));
    }
    return str_from(text);
}

/* A failure that the first expression may give stands before the best condition for an index. */
static struct policy_condition_source guarded_failure(struct world *w)
{
    struct policy_condition_source *of = arena_calloc(&w->arena, 2, sizeof *of);
    of[0] = (struct policy_condition_source){
        .kind = POLICY_CONDITION_MATCH,
        .text = str_from(
            arena_printf(&w->arena, "has(ctx.m.%s) && 1 / int(ctx.n) == 1", PICK(w, texts)))};
    of[1] = (struct policy_condition_source){
        .kind = POLICY_CONDITION_MATCH,
        .text = str_from(arena_printf(&w->arena, "ctx.u.name == '%s'", PICK(w, texts)))};
    return (struct policy_condition_source){.kind = POLICY_CONDITION_ALL, .of = of, .of_count = 2};
}

static struct policy_condition_source condition(struct world *w, unsigned depth)
{
    static const enum policy_condition_kind trees[] = {POLICY_CONDITION_ALL, POLICY_CONDITION_ALL,
                                                       POLICY_CONDITION_ANY, POLICY_CONDITION_NONE};
    unsigned kind = pick(w, 12);
    if (kind == 0) {
        return (struct policy_condition_source){.kind = POLICY_CONDITION_MATCH_ANY,
                                                .match_any = pick(w, 3) == 0};
    }
    if (kind == 1) {
        return (struct policy_condition_source){.kind = POLICY_CONDITION_NOT,
                                                .text = expression(w)};
    }
    if (kind == 2) {
        return guarded_failure(w);
    }
    if (kind < 7 && depth < 3) {
        size_t count = 1 + pick(w, 3);
        struct policy_condition_source *of = arena_calloc(&w->arena, count, sizeof *of);
        for (size_t i = 0; i < count; i++) {
            of[i] = condition(w, depth + 1);
        }
        return (struct policy_condition_source){
            .kind = PICK(w, trees), .of = of, .of_count = count};
    }
    return (struct policy_condition_source){.kind = POLICY_CONDITION_MATCH, .text = expression(w)};
}

static const char *const policy_names[POLICIES_MAX] = {"aa", "bb", "cc", "dd.aa", "ee.dd.aa", "ff"};

static void add_policy(struct world *w, struct policy_set_builder *b, const char *name)
{
    size_t rule_count = pick(w, RULES_PER_POLICY_MAX + 1);
    struct policy_rule_source *rules = arena_calloc(&w->arena, rule_count, sizeof *rules);
    struct policy_enforcement_source enforcement[1];
    for (size_t i = 0; i < rule_count; i++) {
        rules[i] = (struct policy_rule_source){.effect = pick(w, 2) ? POLICY_ALLOW : POLICY_DENY,
                                               .priority = (int)pick(w, 3) - 1,
                                               .condition = condition(w, 1)};
    }
    enforcement[0] = (struct policy_enforcement_source){
        .effect = pick(w, 2) ? POLICY_ENFORCE : POLICY_IGNORE, .condition = condition(w, 1)};
    struct policy_source source = {.name = str_from(name),
                                   .is_disabled = pick(w, 10) == 0,
                                   .rules = rules,
                                   .rule_count = rule_count,
                                   .enforcement_rules = enforcement,
                                   .enforcement_rule_count = pick(w, 6) == 0};
    struct error err;
    ck_assert_int_eq(policy_value_from_json(STR("{\"t\": \"p\", \"l\": [\"q\", \"r\"], \"n\": 1}"),
                                            policy_set_builder_arena(b), &source.attrs, &err),
                     0);
    ck_assert_msg(policy_set_add(b, &source, &err) == 0, "%s", err.text);
}

static struct policy_set *make_set(struct world *w, enum policy_set_kind kind, size_t count)
{
    struct error err;
    struct policy_set *set;
    struct policy_set_builder *b = policy_set_builder_new(w->env, kind, 1);
    for (size_t i = 0; i < count; i++) {
        add_policy(w, b, policy_names[i]);
    }
    ck_assert_msg(policy_set_finish(b, &set, &err) == 0, "%s", err.text);
    return set;
}

static void make_attachments(struct world *w)
{
    w->attachment_count = 1 + pick(w, ATTACHMENTS_MAX);
    for (size_t i = 0; i < w->attachment_count; i++) {
        struct policy_attachment *a = &w->attachments[i];
        struct str *names = arena_calloc(&w->arena, NAMES_MAX, sizeof *names);
        *a = (struct policy_attachment){.point = str_from(arena_printf(&w->arena, "point %zu", i)),
                                        .names = names,
                                        .name_count = pick(w, NAMES_MAX + 1)};
        for (size_t k = 0; k < a->name_count; k++) {
            names[k] = str_from(pick(w, 40) ? PICK(w, policy_names) : "nobody");
        }
        if (pick(w, 3) == 0) {
            a->inline_policies = make_set(w, POLICY_SET_INLINE, 1 + pick(w, 2));
        }
    }
}

/* JSON for one place of ctx; NULL: nothing is there. */
static const char *json_value(struct world *w)
{
    static const char *const values[] = {
        "\"p\"",          "\"q\"", "\"s\"", "\"\"",       "{\"p\": \"q\", \"b\": \"p\"}",
        "{\"b\": \"r\"}", "{}",    "[]",    "[\"p\", 1]", "[\"q\", \"r\", {}]",
        "null",           "true",  "1",     "\"p\"",      "\"q\""};
    if (pick(w, 5) == 0) {
        return NULL;
    }
    if (pick(w, 30) == 0) {
        struct buf b;
        buf_init(&b, 4096);
        for (unsigned i = 0; i < NECESSARY_ITEMS_MAX + 20; i++) {
            buf_add_cstr(&b, i ? ", \"x\"" : "\"x\"");
        }
        const char *list = arena_printf(&w->arena, "[%.*s]", (int)b.len, (const char *)b.ptr);
        buf_free(&b);
        return list;
    }
    return PICK(w, values);
}

static const char *member(struct world *w, const char *before, const char *name, const char *value)
{
    return value ? arena_printf(&w->arena, "%s%s\"%s\": %s", before, before[0] ? ", " : "", name,
                                value)
                 : before;
}

static struct policy_value make_ctx(struct world *w)
{
    const char *text = "";
    struct policy_value v;
    struct error err;
    const char *u = member(w, "", "name", json_value(w));
    u = arena_printf(&w->arena, "{%s}", member(w, u, "g", json_value(w)));
    text = member(w, text, "a", json_value(w));
    text = member(w, text, "m", json_value(w));
    text = member(w, text, "g", json_value(w));
    text = member(w, text, "flag", pick(w, 2) ? "true" : "false");
    text = member(w, text, "n", pick(w, 2) ? "1" : "0");
    text = member(w, text, "u", pick(w, 6) ? u : NULL);
    text = arena_printf(&w->arena, "{%s}", text);
    ck_assert_msg(policy_value_from_json(str_from(text), &w->arena, &v, &err) == 0, "%s: %s", text,
                  err.text);
    return v;
}

/* A map as the gateway's are: it cannot give "bad" when somebody asks for it, in some requests. */
struct lazy_map {
    struct policy_map map;
    const struct policy_map *inner;
    bool fails;
};

static size_t lazy_size(const struct policy_map *self)
{
    return policy_map_size(((const struct lazy_map *)(const void *)self)->inner);
}

static struct policy_value lazy_get(const struct policy_map *self, struct policy_value key,
                                    struct arena *arena)
{
    const struct lazy_map *m = (const struct lazy_map *)(const void *)self;
    if (m->fails && key.kind == POLICY_STRING && str_is(policy_value_str(key), "bad")) {
        return policy_unreadable(-STATUS_INVALID_ARGUMENT);
    }
    return m->inner->ops->get(m->inner, key, arena);
}

static int lazy_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                     struct policy_value *ret_key, struct policy_value *ret_value)
{
    return policy_map_next(((const struct lazy_map *)(const void *)self)->inner, cursor, arena,
                           ret_key, ret_value);
}

static const struct policy_map_ops lazy_map_ops = {lazy_size, lazy_get, lazy_next};

static void assert_same(const struct policy_decision *a, const struct policy_decision *b)
{
    ck_assert_str_eq(policy_reason_name(a->reason), policy_reason_name(b->reason));
    ck_assert_int_eq(a->is_allowed, b->is_allowed);
    ck_assert(str_eq(a->policy_name, b->policy_name));
    ck_assert(str_eq(a->attached_to, b->attached_to));
    ck_assert_int_eq(a->is_inline, b->is_inline);
    ck_assert_int_eq(a->is_enforcement_rule, b->is_enforcement_rule);
    ck_assert_uint_eq(a->rule_index, b->rule_index);
    ck_assert_int_eq(a->priority, b->priority);
    ck_assert_int_eq(a->effect, b->effect);
    ck_assert_int_eq(a->error_code, b->error_code);
    ck_assert_uint_eq(a->error_line, b->error_line);
    ck_assert_uint_eq(a->error_column, b->error_column);
    ck_assert_str_eq(a->detail, b->detail);
}

/* Would the index answer at all? So that the comparison is known to compare something. */
static bool is_indexed(const struct world *w, struct policy_value ctx, struct arena *arena)
{
    struct bundle_value items[256];
    struct bundle_values values = {.arena = arena, .ctx = ctx, .items = items, .room = 256};
    bool ok = true;
    for (size_t i = 0; ok && i < w->attachment_count; i++) {
        const struct policy_bundle *b = w->attachments[i].bundle;
        uint64_t *bits = arena_calloc(arena, b->word_count, sizeof *bits);
        bool any;
        ok = bundle_match(b, &values, bits, &any);
    }
    return ok;
}

static void ask(struct world *w)
{
    struct arena arena;
    struct policy_decision plain;
    struct policy_decision indexed;
    struct policy_attachment without[ATTACHMENTS_MAX];
    struct policy_value ctx = make_ctx(w);
    struct lazy_map lazy = {{&lazy_map_ops}, ctx.as.map, pick(w, 5) == 0};
    struct policy_query q = {.attachments = without,
                             .attachment_count = w->attachment_count,
                             .ctx = policy_map(&lazy.map),
                             .now_ns = 1000000000};
    for (size_t i = 0; i < w->attachment_count; i++) {
        without[i] = w->attachments[i];
        without[i].bundle = NULL;
    }
    arena_init(&arena, 16 << 20);
    policy_decide(w->set, &q, &arena, &plain);
    q.attachments = w->attachments;
    policy_decide(w->set, &q, &arena, &indexed);
    assert_same(&plain, &indexed);
    w->asked++;
    w->matched += plain.reason == POLICY_REASON_MATCH;
    w->failed += plain.reason == POLICY_REASON_EVALUATION_ERROR;
    w->indexed += is_indexed(w, q.ctx, &arena);
    arena_free(&arena);
}

static void try_set(struct world *w)
{
    arena_init(&w->arena, 64 << 20);
    w->set = make_set(w, POLICY_SET_NAMED, POLICIES_MAX);
    make_attachments(w);
    for (size_t i = 0; i < w->attachment_count; i++) {
        struct policy_attachment *a = &w->attachments[i];
        a->bundle = policy_bundle_new(w->set, a);
        ck_assert_ptr_nonnull(a->bundle);
        ck_assert(policy_bundle_serves(a->bundle, w->set, a));
    }
    for (unsigned i = 0; i < REQUESTS_PER_SET; i++) {
        ask(w);
    }
    for (size_t i = 0; i < w->attachment_count; i++) {
        policy_bundle_unref((struct policy_bundle *)(uintptr_t)w->attachments[i].bundle);
        policy_set_unref((struct policy_set *)(uintptr_t)w->attachments[i].inline_policies);
    }
    policy_set_unref(w->set);
    arena_free(&w->arena);
}

START_TEST(an_index_changes_no_decision)
{
    struct error err;
    struct world w = {.random = (uint64_t)_i * 77 + 5};
    w.env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    for (unsigned i = 0; i < SETS; i++) {
        try_set(&w);
    }
    policy_env_free(w.env);
    /* Each of the ways is taken often. */
    ck_assert_uint_gt(w.matched, w.asked / 10);
    ck_assert_uint_gt(w.failed, w.asked / 20);
    ck_assert_uint_gt(w.indexed, w.asked / 4);
    ck_assert_uint_lt(w.indexed, w.asked);
}
END_TEST

Suite *suite_bundle(void)
{
    Suite *s = suite_create("bundle");
    TCase *t = tcase_create("index");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, an_index_changes_no_decision, 0, 3);
    suite_add_tcase(s, t);
    return s;
}
