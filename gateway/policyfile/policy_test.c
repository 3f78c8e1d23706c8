#include "gateway/policyfile/policy_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/authorize/ctx_schema.h"
#include "gateway/policyfile/ctx_document.h"
#include "gateway/policyfile/explanation.h"
#include "gateway/text/yaml_reader.h"

#define POINT "the test"
enum { DECISION_MEMORY_MAX_BYTES = 64 << 20 };
#define NOW_DEFAULT_NS 1767322800000000000LL /* 2026-01-02T03:00:00Z, a Friday */

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

int policy_test_find(struct str text, struct arena *arena, const struct tree_node ***ret,
                     size_t *ret_count, struct error *err)
{
    struct yaml_stream *stream = NULL;
    size_t room = 0;
    int rc = yaml_stream_open(text, &stream, err);
    *ret = NULL;
    *ret_count = 0;
    while (rc == 0) {
        const struct tree_node *tree;
        rc = yaml_stream_next(stream, arena, &tree, err);
        if (rc || !tree) {
            break;
        }
        const struct tree_node *kind = tree_member(tree, "kind");
        if (!kind || !str_is(kind->text, "PolicyTest")) {
            continue;
        }
        if (*ret_count == room) {
            const struct tree_node **more = arena_calloc(arena, room * 2 + 4, sizeof *more);
            if (!more) {
                rc = no_memory(err);
                break;
            }
            if (room > 0) {
                memcpy(more, *ret, room * sizeof *more);
            }
            *ret = more;
            room = room * 2 + 4;
        }
        (*ret)[(*ret_count)++] = tree;
    }
    yaml_stream_close(stream);
    return rc;
}

static int fail_at(const struct tree_node *node, struct error *err, const char *what)
{
    return error_set_at(err, STATUS_INVALID_ARGUMENT, node->line, node->column, "%s", what);
}

static int check_keys(const struct tree_node *map, const char *const *known, struct error *err)
{
    for (const struct tree_node *n = map->first; n; n = n->next) {
        size_t i = 0;
        while (known[i] && !str_is(n->key, known[i])) {
            i++;
        }
        if (!known[i]) {
            return error_set_at(err, STATUS_INVALID_ARGUMENT, n->key_line, n->key_column,
                                "a PolicyTest has no '%.*s' here", STR_ARG(n->key));
        }
    }
    return 0;
}

/* The member of a test, or that of the document. */
static const struct tree_node *setting(const struct policy_test *t, const struct tree_node *test,
                                       const char *key)
{
    const struct tree_node *own = tree_member(test, key);
    return own ? own : tree_member(t->document.tree, key);
}

static int read_attached(struct policy_test *t, const struct tree_node *list, struct test_case *c,
                         struct error *err)
{
    if (list->type != TREE_LIST) {
        return fail_at(list, err, "attached: must be a list of policy names");
    }
    c->attached = arena_calloc(t->arena, list->count, sizeof *c->attached);
    for (const struct tree_node *n = list->first; n; n = n->next) {
        if (!c->attached) {
            return no_memory(err);
        }
        if (!policy_set_has(t->set, n->text)) {
            return error_set_at(err, STATUS_INVALID_ARGUMENT, n->line, n->column,
                                "attached: there is no policy '%.*s'", STR_ARG(n->text));
        }
        c->attached[c->attached_count++] = n->text;
    }
    return 0;
}

/* Every policy of the files that is nobody's parent, and allow-all: what is not denied is allowed.
 */
static int attach_all(struct policy_test *t, struct test_case *c, struct error *err)
{
    c->attached = arena_calloc(t->arena, t->files->policy_count + 1, sizeof *c->attached);
    if (!c->attached) {
        return no_memory(err);
    }
    for (size_t i = 0; i < t->files->policy_count; i++) {
        if (!t->files->policies[i].is_inline) {
            c->attached[c->attached_count++] = t->files->sources[i].name;
        }
    }
    c->attached[c->attached_count++] = STR("allow-all");
    return 0;
}

static int read_now(const struct tree_node *node, int64_t *ret, struct error *err)
{
    struct arena arena;
    struct policy_value v = {0};
    const struct policy_program *program;
    struct policy_env *env = policy_env_new(0, err);
    struct policy_value vars[2] = {[POLICY_VAR_CTX] = policy_string(node->text)};
    struct policy_input input = {.vars = vars, .vars_count = 2};
    arena_init(&arena, 1 << 20);
    int rc = env ? policy_compile(env, STR("timestamp(ctx)"), &arena, &program, err) : -1;
    if (rc == 0 && policy_eval(program, &input, &arena, &v, NULL)) {
        rc = fail_at(node, err, "now: must be a time such as \"2026-01-02T03:04:05Z\"");
    }
    int64_t seconds_max = INT64_MAX / 1000000000 - 1;
    if (rc == 0 && (v.as.i > seconds_max || v.as.i < -seconds_max)) {
        rc = fail_at(node, err, "now: is out of range");
    }
    *ret = rc ? 0 : v.as.i * 1000000000 + v.len;
    arena_free(&arena);
    policy_env_free(env);
    return rc;
}

static int read_ctx(struct policy_test *t, const struct tree_node *test, struct test_case *c,
                    struct error *err)
{
    const struct tree_node *base = ctx_document_merge(
        ctx_document_defaults(t->arena), tree_member(t->document.tree, "ctx"), t->arena);
    const struct tree_node *tree = ctx_document_merge(base, tree_member(test, "ctx"), t->arena);
    struct policy_shape shape = ctx_schema();
    return tree ? ctx_document_value(tree, &shape, t->arena, &c->ctx, err) : no_memory(err);
}

static int check_expect(const struct tree_node *expect, struct error *err)
{
    static const char *const keys[] = {"decision", "policy", "rule", "reason", NULL};
    const struct tree_node *decision =
        expect->type == TREE_MAP ? tree_member(expect, "decision") : expect;
    if (decision && !str_is(decision->text, "ALLOW") && !str_is(decision->text, "DENY")) {
        return fail_at(decision, err, "expect: the decision is ALLOW or DENY");
    }
    return expect->type == TREE_MAP ? check_keys(expect, keys, err) : 0;
}

static int read_case(struct policy_test *t, const struct tree_node *test, struct test_case *c,
                     struct error *err)
{
    static const char *const keys[] = {"name", "ctx", "attached", "strict", "now", "expect", NULL};
    if (test->type != TREE_MAP) {
        return fail_at(test, err, "a test must be a map");
    }
    const struct tree_node *name = tree_member(test, "name");
    const struct tree_node *strict = setting(t, test, "strict");
    const struct tree_node *now = setting(t, test, "now");
    const struct tree_node *attached = setting(t, test, "attached");
    int rc = check_keys(test, keys, err);
    if (rc == 0 && (!name || name->text.len == 0)) {
        rc = fail_at(test, err, "a test needs a name");
    }
    c->node = test;
    c->name = rc ? "" : name->text.ptr;
    c->expect = tree_member(test, "expect");
    if (rc == 0 && strict && strict->type != TREE_BOOL) {
        rc = fail_at(strict, err, "strict: must be true or false");
    }
    c->is_strict = strict && tree_is_true(strict);
    c->now_ns = NOW_DEFAULT_NS;
    rc = rc || !now ? rc : read_now(now, &c->now_ns, err);
    rc = rc || !c->expect ? rc : check_expect(c->expect, err);
    rc = rc ? rc : attached ? read_attached(t, attached, c, err) : attach_all(t, c, err);
    return rc ? rc : read_ctx(t, test, c, err);
}

static int compare_names(const void *x, const void *y)
{
    const struct test_case *a = *(const struct test_case *const *)x;
    const struct test_case *b = *(const struct test_case *const *)y;
    int by_name = strcmp(a->name, b->name);
    return by_name ? by_name : a < b ? -1 : a > b;
}

/* A name says which test is meant, in reports and for `policy explain --test`. */
static int check_names(const struct policy_test *t, struct error *err)
{
    const struct test_case **sorted = arena_calloc(t->arena, t->case_count, sizeof(void *));
    if (!sorted) {
        return no_memory(err);
    }
    for (size_t i = 0; i < t->case_count; i++) {
        sorted[i] = &t->cases[i];
    }
    qsort(sorted, t->case_count, sizeof(void *), compare_names);
    for (size_t i = 1; i < t->case_count; i++) {
        if (cstr_eq(sorted[i - 1]->name, sorted[i]->name)) {
            return error_set_at(err, STATUS_INVALID_ARGUMENT, sorted[i]->node->line,
                                sorted[i]->node->column, "the test on line %u has this name too",
                                sorted[i - 1]->node->line);
        }
    }
    return 0;
}

static int compare_ranges(const void *x, const void *y)
{
    const struct rule_range *a = x;
    const struct rule_range *b = y;
    return str_cmp(a->policy_name, b->policy_name);
}

static int list_rules(struct policy_test *t, struct error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < t->files->policy_count; i++) {
        count += t->files->policies[i].is_inline ? 0 : t->files->sources[i].rule_count;
    }
    t->uses = arena_calloc(t->arena, count, sizeof *t->uses);
    t->ranges = arena_calloc(t->arena, t->files->policy_count, sizeof *t->ranges);
    if (!t->uses || !t->ranges) {
        return no_memory(err);
    }
    for (size_t i = 0; i < t->files->policy_count; i++) {
        const struct policy_source *source = &t->files->sources[i];
        if (t->files->policies[i].is_inline) {
            continue;
        }
        t->ranges[t->range_count++] =
            (struct rule_range){source->name, t->use_count, source->rule_count};
        for (size_t k = 0; k < source->rule_count; k++) {
            t->uses[t->use_count++] = (struct rule_use){.policy = i, .rule = k};
        }
    }
    if (t->range_count > 0) {
        qsort(t->ranges, t->range_count, sizeof *t->ranges, compare_ranges);
    }
    return 0;
}

int policy_test_open(struct policy_test *t, struct policy_files *files, const char *file,
                     const struct tree_node *document, struct arena *arena, struct error *err)
{
    static const char *const keys[] = {"apiVersion", "kind", "metadata", "policies", "attached",
                                       "strict",     "now",  "ctx",      "tests",    NULL};
    *t = (struct policy_test){.arena = arena, .file = file, .files = files};
    t->document = (struct policy_document){.file = file, .tree = document, .name = ""};
    const struct tree_node *tests = tree_member(document, "tests");
    int rc = check_keys(document, keys, err);
    if (rc == 0 && (!tests || tests->type != TREE_LIST || tests->count == 0)) {
        rc = fail_at(tests ? tests : document, err, "tests: a PolicyTest needs a list of them");
    }
    if (rc) {
        return rc;
    }
    rc = policy_files_build(files, &t->set, err);
    if (rc) {
        err->line = 0; /* its place is in an expression, and not in the test's file */
        err->column = 0;
        return rc;
    }
    rc = list_rules(t, err);
    if (rc) {
        return rc;
    }
    t->cases = arena_calloc(arena, tests->count, sizeof *t->cases);
    if (!t->cases) {
        return no_memory(err);
    }
    for (const struct tree_node *n = tests->first; rc == 0 && n; n = n->next) {
        rc = read_case(t, n, &t->cases[t->case_count++], err);
    }
    return rc ? rc : check_names(t, err);
}

void policy_test_close(struct policy_test *t)
{
    policy_set_unref(t->set);
    t->set = NULL;
}

/* NULL for a policy that is not in the files. */
static const struct rule_range *range_of(const struct policy_test *t, struct str policy)
{
    struct rule_range key = {.policy_name = policy};
    return t->range_count == 0
               ? NULL
               : bsearch(&key, t->ranges, t->range_count, sizeof key, compare_ranges);
}

static struct rule_use *use_of(struct policy_test *t, struct str policy, size_t rule)
{
    const struct rule_range *range = range_of(t, policy);
    return range && rule < range->count ? &t->uses[range->first + rule] : NULL;
}

struct run_trace {
    struct policy_test *test;
    struct explainer *explainer;
};

static void on_step(void *context, const struct policy_rule_step *step)
{
    struct run_trace *trace = context;
    if (step->depth == 0 && !step->is_enforcement_rule && step->result == POLICY_RULE_TRUE) {
        struct rule_use *use = use_of(trace->test, step->policy_name, step->rule_index);
        if (use) {
            use->matched++;
        }
    }
    if (trace->explainer) {
        explainer_step(trace->explainer, step);
    }
}

static void on_value(void *context, const struct policy_trace_step *step)
{
    explainer_value(((struct run_trace *)context)->explainer, step);
}

void policy_test_describe(const struct policy_decision *d, struct buf *out)
{
    buf_add_cstr(out, d->is_allowed ? "ALLOW" : "DENY");
    if (d->policy_name.len > 0) {
        buf_printf(out, " by %.*s", STR_ARG(d->policy_name));
    }
    bool has_rule = d->policy_name.len > 0 && d->reason != POLICY_REASON_MISSING;
    if (has_rule && d->rule_name.len > 0) {
        buf_printf(out, " rule '%.*s'", STR_ARG(d->rule_name));
    } else if (has_rule) {
        buf_printf(out, " rule #%zu", d->rule_index);
    }
    buf_printf(out, " (%s)", policy_reason_name(d->reason));
}

/* Does what is wanted under a key agree? A missing key wants nothing. */
static bool agrees(const struct tree_node *expect, const char *key, struct str got)
{
    const struct tree_node *want = tree_member(expect, key);
    return !want || str_eq(want->text, got);
}

static bool rule_agrees(const struct tree_node *expect, const struct policy_decision *d)
{
    char index[24];
    (void)snprintf(index, sizeof index, "#%zu", d->rule_index);
    const struct tree_node *want = tree_member(expect, "rule");
    return !want || str_is(want->text, index) ||
           (d->rule_name.len > 0 && str_eq(want->text, d->rule_name));
}

static bool has_rule(const struct policy_test *t, const struct rule_range *range, struct str name)
{
    for (size_t i = 0; i < range->count; i++) {
        const struct rule_use *use = &t->uses[range->first + i];
        char index[24];
        (void)snprintf(index, sizeof index, "#%zu", i);
        if (str_is(name, index) ||
            str_eq(t->files->sources[use->policy].rules[use->rule].name, name)) {
            return true;
        }
    }
    return false;
}

/* What is expected cannot be when its names are wrong: that is told, for it is easily overlooked.
 */
static void tell_unknown_names(const struct policy_test *t, const struct tree_node *expect,
                               struct buf *out)
{
    const struct tree_node *policy = tree_member(expect, "policy");
    const struct tree_node *rule = tree_member(expect, "rule");
    const struct rule_range *range = policy ? range_of(t, policy->text) : NULL;
    if (policy && policy->text.len > 0 && !policy_set_has(t->set, policy->text)) {
        buf_printf(out, "; there is no policy '%.*s'", STR_ARG(policy->text));
    } else if (range && rule && rule->text.len > 0 && !has_rule(t, range, rule->text)) {
        buf_printf(out, "; policy '%.*s' has no rule '%.*s'", STR_ARG(policy->text),
                   STR_ARG(rule->text));
    }
}

static const char *compare(struct policy_test *t, const struct test_case *c)
{
    const struct tree_node *e = c->expect;
    const struct policy_decision *d = &c->decision;
    if (!e) {
        return "nothing is expected, so that this test cannot fail; write expect: ALLOW or DENY";
    }
    const struct tree_node *decision = e->type == TREE_MAP ? tree_member(e, "decision") : e;
    bool is_right =
        (!decision || str_is(decision->text, d->is_allowed ? "ALLOW" : "DENY")) &&
        (e->type != TREE_MAP || (agrees(e, "policy", d->policy_name) && rule_agrees(e, d) &&
                                 agrees(e, "reason", str_from(policy_reason_name(d->reason)))));
    if (is_right) {
        return NULL;
    }
    struct buf out;
    buf_init(&out, 4096);
    buf_add_cstr(&out, "got ");
    policy_test_describe(d, &out);
    if (d->detail[0]) {
        buf_printf(&out, ": %.*s", (int)strcspn(d->detail, "\n"), d->detail);
    }
    tell_unknown_names(t, e, &out);
    const char *text = arena_strndup(t->arena, (const char *)out.ptr, out.len);
    buf_free(&out);
    return text ? text : "out of memory";
}

void policy_test_run(struct policy_test *t, struct test_case *c, struct explainer *explainer)
{
    struct run_trace trace = {t, explainer};
    struct policy_attachment attachment = {
        .point = STR(POINT), .names = c->attached, .name_count = c->attached_count};
    struct policy_query query = {
        .attachments = &attachment,
        .attachment_count = 1,
        .ctx = c->ctx,
        .now_ns = c->now_ns,
        .deadline_ns = t->deadline_ns,
        .clock_ns = t->clock_ns,
        .is_strict = c->is_strict,
        .trace = on_step,
        .trace_value = explainer ? on_value : NULL,
        .trace_context = &trace,
    };
    /* Its own memory, lest the cases before take away what this one needs. */
    struct arena scratch;
    arena_init(&scratch, DECISION_MEMORY_MAX_BYTES);
    policy_decide(t->set, &query, &scratch, &c->decision);
    const char *detail = arena_strdup(t->arena, c->decision.detail);
    c->decision.detail = detail ? detail : "out of memory";
    arena_free(&scratch);
    if (c->decision.reason == POLICY_REASON_MATCH && !c->decision.is_enforcement_rule) {
        struct rule_use *use = use_of(t, c->decision.policy_name, c->decision.rule_index);
        if (use) {
            use->decided++;
        }
    }
    if (explainer) {
        explainer_decide(explainer, &c->decision);
    }
    c->mismatch = compare(t, c);
}
