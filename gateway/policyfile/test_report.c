#include "gateway/policyfile/test_report.h"

#include <inttypes.h>

#include "gateway/policyfile/diagnostic_message.h"
#include "gateway/rpc/codec.h"

enum {
    DESCRIPTION_MAX_BYTES = 8192,
    MEMORY_DEFAULT_MAX_BYTES = 1024 * 1024 * 1024,
};

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                     "the tests and their policies need too much "
                     "memory; send fewer at once");
}

int test_policies_add(const struct test_policies *policies, const char *path,
                      const struct tree_node *document, struct policy_files *files,
                      struct arena *arena, struct error *err)
{
    const struct tree_node *list = tree_member(document, "policies");
    const char *slash = strrchr(path, '/');
    int folder_len = slash ? (int)(slash - path) + 1 : 0;
    if (policies->is_fixed) {
        return policies->add(policies->arg, NULL, files, err);
    }
    if (!list || list->type != TREE_LIST) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, document->line, document->column,
                            "policies: a PolicyTest needs a list of files or folders");
    }
    for (const struct tree_node *n = list->first; n; n = n->next) {
        bool is_absolute = n->text.len > 0 && n->text.ptr[0] == '/';
        const char *named =
            arena_printf(arena, "%.*s%.*s", is_absolute ? 0 : folder_len, path, STR_ARG(n->text));
        int rc = named ? policies->add(policies->arg, named, files, err) : no_memory(err);
        if (rc) {
            err->line = n->line;
            err->column = n->column;
            return rc;
        }
    }
    return 0;
}

int test_setup_open(struct test_setup *setup, const char *path, const struct tree_node *document,
                    const struct test_policies *policies, struct arena *arena, struct error *err)
{
    *setup = (struct test_setup){0};
    int rc = policy_files_open(&setup->files, arena, err);
    rc = rc ? rc : test_policies_add(policies, path, document, &setup->files, arena, err);
    return rc ? rc : policy_test_open(&setup->test, &setup->files, path, document, arena, err);
}

void test_setup_close(struct test_setup *setup)
{
    policy_test_close(&setup->test);
    policy_files_close(&setup->files);
}

bool test_report_init(struct test_report *report, struct arena *arena)
{
    *report = (struct test_report){.arena = arena,
                                   .memory_max_bytes = MEMORY_DEFAULT_MAX_BYTES,
                                   .tests_max = SIZE_MAX,
                                   .rules_max = SIZE_MAX};
    report->message = CODEC_NEW(arena, Ext__TestResponse, ext__test_response);
    return report->message != NULL;
}

/* Makes room for one more pointer in a repeated member. */
static bool make_room(struct arena *arena, void *items, size_t count, size_t *room)
{
    void **old;
    memcpy(&old, items, sizeof old);
    void **more = arena_grow(arena, old, count, room, sizeof *more, 64);
    if (more) {
        memcpy(items, &more, sizeof more);
    }
    return more != NULL;
}

/* Protobuf-c's strings are not const; nobody writes to these. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)(s ? s : "");
}

static char *copy(struct test_report *report, struct str s)
{
    return s.len ? arena_strndup(report->arena, s.ptr, s.len) : text("");
}

static int add_diagnostic(struct test_report *report, const struct diagnostic *d, struct error *err)
{
    Ext__TestResponse *m = report->message;
    if (m->n_errors == DIAGNOSTIC_MESSAGES_MAX) {
        return 0;
    }
    Ext__PolicyDiagnostic *item = diagnostic_message_of(d, report->arena);
    if (!item || !make_room(report->arena, &m->errors, m->n_errors, &report->error_room)) {
        return no_memory(err);
    }
    m->errors[m->n_errors++] = item;
    return 0;
}

int test_report_add_error(struct test_report *report, const char *path, struct str source,
                          const struct error *why, struct error *err)
{
    struct text_lines lines;
    struct diagnostic d = {.file = path,
                           .line = why->line,
                           .column = why->line ? why->column : 0,
                           .length = 1,
                           .severity = POLICY_SEVERITY_ERROR,
                           .code = "test-invalid",
                           .text = arena_strdup(report->arena, why->text)};
    if (!d.text || !text_lines_find(&lines, source, report->arena)) {
        return no_memory(err);
    }
    if (why->line) {
        d.source = text_line_at(source, text_place_at(&lines, why->line, why->column).offset);
    }
    return add_diagnostic(report, &d, err);
}

/* Policies that do not compile: each mistake has its place. */
static int add_broken(struct test_report *report, struct test_setup *setup, struct error *err)
{
    int rc = 0;
    if (setup->files.env) {
        policy_files_check(&setup->files, true);
    }
    for (size_t i = 0; rc == 0 && i < setup->files.diagnostics.count; i++) {
        const struct diagnostic *d = &setup->files.diagnostics.items[i];
        rc = d->severity == POLICY_SEVERITY_ERROR ? add_diagnostic(report, d, err) : 0;
    }
    return rc;
}

static Ext__TestResponse__Outcome *expected_of(struct test_report *report,
                                               const struct tree_node *e)
{
    Ext__TestResponse__Outcome *m =
        CODEC_NEW(report->arena, Ext__TestResponse__Outcome, ext__test_response__outcome);
    bool is_map = e && e->type == TREE_MAP;
    const struct tree_node *decision = is_map ? tree_member(e, "decision") : e;
    const struct tree_node *members[] = {decision, is_map ? tree_member(e, "policy") : NULL,
                                         is_map ? tree_member(e, "rule") : NULL,
                                         is_map ? tree_member(e, "reason") : NULL};
    char *texts[4];
    for (size_t i = 0; i < 4; i++) {
        texts[i] = copy(report, members[i] ? members[i]->text : STR_NONE);
        m = texts[i] ? m : NULL;
    }
    if (m) {
        m->decision = texts[0];
        m->policy = texts[1];
        m->rule = texts[2];
        m->reason = texts[3];
    }
    return m;
}

static Ext__TestResponse__Outcome *actual_of(struct test_report *report,
                                             const struct policy_decision *d)
{
    Ext__TestResponse__Outcome *m =
        CODEC_NEW(report->arena, Ext__TestResponse__Outcome, ext__test_response__outcome);
    if (!m) {
        return NULL;
    }
    bool has_rule = d->policy_name.len > 0 && d->reason != POLICY_REASON_MISSING;
    m->decision = text(d->is_allowed ? "ALLOW" : "DENY");
    m->reason = text(policy_reason_name(d->reason));
    m->policy = copy(report, d->policy_name);
    m->rule = !has_rule          ? text("")
              : d->rule_name.len ? copy(report, d->rule_name)
                                 : arena_printf(report->arena, "#%zu", d->rule_index);
    return m->policy && m->rule ? m : NULL;
}

static int add_result(struct test_report *report, const char *path, const struct test_case *c,
                      struct error *err)
{
    struct buf described;
    buf_init(&described, DESCRIPTION_MAX_BYTES);
    policy_test_describe(&c->decision, &described);
    Ext__TestResponse *m = report->message;
    Ext__TestResponse__Result *r =
        CODEC_NEW(report->arena, Ext__TestResponse__Result, ext__test_response__result);
    char *description = copy(report, buf_str(&described));
    buf_free(&described);
    if (!r || !description ||
        !make_room(report->arena, &m->results, m->n_results, &report->result_room)) {
        return no_memory(err);
    }
    r->file = copy(report, str_from(path));
    r->line = c->node->line;
    r->column = c->node->column;
    r->name = copy(report, str_from(c->name));
    r->passed = c->mismatch == NULL;
    r->expected = expected_of(report, c->expect);
    r->actual = actual_of(report, &c->decision);
    r->description = description;
    r->detail = copy(report, str_from(c->decision.detail));
    r->mismatch = copy(report, str_from(c->mismatch));
    if (!r->file || !r->name || !r->expected || !r->actual || !r->detail || !r->mismatch) {
        return no_memory(err);
    }
    m->results[m->n_results++] = r;
    return 0;
}

static bool is_late(const struct test_report *report)
{
    return report->deadline_ns && report->clock_ns(NULL) >= report->deadline_ns;
}

static int add_results(struct test_report *report, const char *path, struct test_setup *setup,
                       struct error *err)
{
    struct policy_test *test = &setup->test;
    int rc = 0;
    if (test->case_count > report->tests_max - report->message->n_results) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "more than %zu tests; send fewer files at once", report->tests_max);
    }
    test->deadline_ns = report->deadline_ns;
    test->clock_ns = report->clock_ns;
    for (size_t i = 0; rc == 0 && i < test->case_count; i++) {
        policy_test_run(test, &test->cases[i], NULL);
        /* A decision that ran out of time says nothing about the policies. */
        rc = is_late(report) ? error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                         "%s: the tests take too long, up to '%.100s'; send fewer "
                                         "at once, or run them without the server",
                                         path, test->cases[i].name)
                             : add_result(report, path, &test->cases[i], err);
    }
    return rc;
}

static int add_rules(struct test_report *report, const char *path, struct test_setup *setup,
                     struct error *err)
{
    Ext__TestResponse *m = report->message;
    if (setup->test.use_count > report->rules_max - m->n_rules) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "%.200s: more than %zu rules; send fewer files of tests at once, or only "
                         "the policies that they are about",
                         path, report->rules_max);
    }
    for (size_t i = 0; i < setup->test.use_count; i++) {
        const struct rule_use *use = &setup->test.uses[i];
        const struct policy_source *policy = &setup->files.sources[use->policy];
        Ext__TestResponse__Rule *r =
            CODEC_NEW(report->arena, Ext__TestResponse__Rule, ext__test_response__rule);
        if (!r || !make_room(report->arena, &m->rules, m->n_rules, &report->rule_room)) {
            return no_memory(err);
        }
        r->file = copy(report, str_from(path));
        r->policy = copy(report, policy->name);
        r->rule_index = (uint32_t)use->rule;
        r->rule_name = copy(report, policy->rules[use->rule].name);
        r->matched = (uint32_t)use->matched;
        r->decided = (uint32_t)use->decided;
        if (!r->file || !r->policy || !r->rule_name) {
            return no_memory(err);
        }
        m->rules[m->n_rules++] = r;
    }
    return 0;
}

static int add_document(struct test_report *report, const char *path, struct str source,
                        const struct tree_node *document, const struct test_policies *policies,
                        struct arena *scratch, struct error *err)
{
    struct test_setup setup;
    struct error why = {0};
    int rc;
    if (test_setup_open(&setup, path, document, policies, scratch, &why)) {
        rc = why.line ? 0 : add_broken(report, &setup, err);
        rc = rc ? rc : test_report_add_error(report, path, source, &why, err);
    } else {
        rc = add_results(report, path, &setup, err);
        rc = rc ? rc : add_rules(report, path, &setup, err);
    }
    test_setup_close(&setup);
    return rc;
}

static int add_documents(struct test_report *report, const char *path, struct str source,
                         const struct test_policies *policies, struct arena *scratch,
                         struct error *err)
{
    const struct tree_node **documents;
    size_t count;
    struct error why = {0};
    int rc = policy_test_find(source, scratch, &documents, &count, &why);
    if (rc == 0 && count == 0) {
        rc = error_set(&why, STATUS_INVALID_ARGUMENT, "no document of kind PolicyTest");
    }
    if (rc) {
        return test_report_add_error(report, path, source, &why, err);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = is_late(report)
                 ? error_set(err, STATUS_RESOURCE_EXHAUSTED,
                             "the tests take too long, up to '%.200s'; send fewer at once", path)
                 : add_document(report, path, source, documents[i], policies, scratch, err);
    }
    return rc;
}

int test_report_add(struct test_report *report, const char *path, struct str source,
                    const struct test_policies *policies, struct error *err)
{
    struct arena scratch;
    arena_init(&scratch, report->memory_max_bytes);
    int rc = add_documents(report, path, source, policies, &scratch, err);
    arena_free(&scratch);
    return rc;
}

void test_report_finish(struct test_report *report, bool is_strict)
{
    Ext__TestResponse *m = report->message;
    m->succeeded = 0;
    m->uncovered = 0;
    for (size_t i = 0; i < m->n_results; i++) {
        m->succeeded += m->results[i]->passed ? 1 : 0;
    }
    for (size_t i = 0; i < m->n_rules; i++) {
        m->uncovered += m->rules[i]->decided == 0;
    }
    m->failed = (uint32_t)m->n_results - m->succeeded;
    m->passed = m->failed == 0 && m->n_errors == 0 && !(is_strict && m->uncovered > 0);
}
