/* policy test, policy explain FILE: requests that are written down. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/authorize/text_diff.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/output.h"
#include "gateway/cli/policy_explain.h"
#include "gateway/cli/policy_online.h"
#include "gateway/cli/yaml_folder.h"
#include "gateway/policyfile/diagnostic_message.h"
#include "gateway/policyfile/explanation.h"
#include "gateway/policyfile/test_report.h"

enum {
    TEST_MEMORY_MAX_BYTES = 1024 * 1024 * 1024,
    TEXT_MAX_BYTES = 64 * 1024 * 1024,
    REPORTS_MAX = 10000, /* files of tests in one answer */
    EXIT_FAILED_TESTS = 1,
    EXIT_UNCOVERED = 2,
};

/* Everything that a command runs. */
struct session_of_tests {
    const struct arguments *args;
    struct cli *cli;    /* NULL without a server */
    struct arena arena; /* of what is shown at the end, and of the walk */
    bool explains;
    bool has_failed; /* something could not be read or run */
    bool is_over;    /* nothing more can be run */
    size_t file_count;
    size_t passed;
    size_t failed;
    size_t rules;
    size_t uncovered;
    const Ext__TestResponse **reports; /* with -o: of each file */
    size_t report_count;
};

/* Where a message for people goes that is not the answer itself. */
static FILE *remarks_of(const struct session_of_tests *s)
{
    bool is_text = !s->args->output || strcmp(s->args->output, "text") == 0;
    return is_text || s->explains ? stdout : stderr;
}

static int add_policies_file(void *arg, const char *path, struct str text, struct error *err)
{
    (void)err;
    policy_files_add(arg, path, text);
    return 0;
}

/* For struct test_policies: from our own disk. */
static int add_from_disk(void *arg, const char *path, struct policy_files *files, struct error *err)
{
    (void)arg;
    return yaml_folder_visit(path, add_policies_file, files, files->arena, err);
}

struct gathering {
    struct cli *cli;
    struct policy_texts texts;
};

static int gather_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct gathering *g = arg;
    return policy_texts_add(g->cli, &g->texts, path, text, err);
}

/* For struct test_policies: to be sent. */
static int add_to_gathering(void *arg, const char *path, struct policy_files *files,
                            struct error *err)
{
    struct gathering *g = arg;
    (void)files;
    return yaml_folder_visit(path, gather_file, g, &g->cli->arena, err);
}

static void print_diagnostics(Ext__PolicyDiagnostic *const *items, size_t count, FILE *out)
{
    struct arena arena;
    struct diagnostics d;
    struct buf text;
    arena_init(&arena, TEXT_MAX_BYTES);
    diagnostics_init(&d, &arena);
    buf_init(&text, TEXT_MAX_BYTES);
    for (size_t i = 0; i < count; i++) {
        struct diagnostic one = diagnostic_of_message(items[i]);
        diagnostics_add(&d, &one);
    }
    diagnostics_print(&d, DIAGNOSTIC_TEXT, &text);
    (void)fwrite(text.ptr, 1, text.len, out);
    buf_free(&text);
    arena_free(&arena);
}

static int write_file(const char *path, struct str text, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t n = fd == -1 ? -1 : write(fd, text.ptr, text.len);
    return n == (ssize_t)text.len
               ? 0
               : error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'", path);
}

static void describe_results(const Ext__TestResponse *report, struct buf *out)
{
    for (size_t i = 0; i < report->n_results; i++) {
        buf_printf(out, "%s: %s\n", report->results[i]->name, report->results[i]->description);
    }
}

/* The golden file beside the tests, when there is one, or when it is to be made. */
static void compare_golden(struct session_of_tests *s, const char *path, struct str got)
{
    struct error err = {0};
    struct str want = STR_NONE;
    const char *dot = strrchr(path, '.');
    const char *golden = arena_printf(&s->arena, "%.*s.golden",
                                      (int)(dot ? (size_t)(dot - path) : strlen(path)), path);
    int rc = golden ? local_file_read(golden, &s->arena, &want, &err) : -STATUS_RESOURCE_EXHAUSTED;
    if (rc == -STATUS_NOT_FOUND && !s->args->update) {
        return;
    }
    if (s->args->update) {
        rc = rc == 0 && str_eq(want, got) ? 0 : write_file(golden, got, &err);
        s->has_failed |= rc != 0;
    } else if (rc == 0 && !str_eq(want, got)) {
        struct buf diff;
        buf_init(&diff, TEXT_MAX_BYTES);
        text_diff(golden, want, got, &diff);
        fprintf(remarks_of(s),
                "%.*s%s: FAIL the decisions differ from the golden file; --update takes them "
                "over\n",
                (int)diff.len, (const char *)diff.ptr, path);
        buf_free(&diff);
        s->failed++;
    }
    if (rc && rc != -STATUS_NOT_FOUND) {
        (void)cli_report(&err);
        s->has_failed = true;
    }
}

static void print_failures(const Ext__TestResponse *report)
{
    for (size_t i = 0; i < report->n_results; i++) {
        const Ext__TestResponse__Result *r = report->results[i];
        if (!r->passed) {
            printf("%s:%u:%u: FAIL %s: %s\n", r->file, r->line, r->column, r->name, r->mismatch);
        }
    }
}

static void print_coverage(const Ext__TestResponse *report)
{
    for (size_t i = 0; i < report->n_rules; i++) {
        const Ext__TestResponse__Rule *r = report->rules[i];
        if (r->decided > 0) {
            continue;
        }
        printf("%s: policy '%s' rule #%u%s%s%s %s\n", r->file, r->policy, r->rule_index,
               r->rule_name[0] ? " '" : "", r->rule_name, r->rule_name[0] ? "'" : "",
               r->matched ? "matched, but another one decided" : "decided no test");
    }
}

/* What came of one file, from here or from the server. */
static void take_report(struct session_of_tests *s, const char *path,
                        const Ext__TestResponse *report)
{
    struct buf described;
    bool is_text = remarks_of(s) == stdout;
    s->has_failed |= report->n_errors > 0;
    s->passed += report->succeeded;
    s->failed += report->failed;
    s->rules += report->n_rules;
    s->uncovered += report->uncovered;
    if (is_text) {
        print_diagnostics(report->errors, report->n_errors, stdout);
        print_failures(report);
    } else {
        s->reports[s->report_count++] = report;
    }
    if (report->n_errors == 0) {
        buf_init(&described, TEXT_MAX_BYTES);
        describe_results(report, &described);
        compare_golden(s, path, buf_str(&described));
        buf_free(&described);
    }
    if (is_text) {
        print_coverage(report);
    }
}

static int run_offline(const char *path, struct str text, struct test_report *report,
                       struct error *err)
{
    const struct test_policies policies = {.add = add_from_disk};
    int rc = test_report_add(report, path, text, &policies, err);
    test_report_finish(report, false);
    return rc;
}

/* The policies that all documents of the file name. What is wrong is told here, by its place. */
static int gather(struct session_of_tests *s, const char *path, struct str text,
                  struct gathering *g, struct error *why)
{
    const struct tree_node **documents;
    size_t count;
    const struct test_policies policies = {.add = add_to_gathering, .arg = g};
    int rc = policy_test_find(text, &s->cli->arena, &documents, &count, why);
    for (size_t i = 0; rc == 0 && i < count && !s->args->is_in_force; i++) {
        rc = test_policies_add(&policies, path, documents[i], NULL, &s->cli->arena, why);
    }
    if (rc == 0 && g->texts.count == 0 && !s->args->is_in_force) {
        rc = error_set(why, STATUS_INVALID_ARGUMENT,
                       "the tests name no policies; --in-force takes those of the server");
    }
    return rc;
}

static int run_online(struct session_of_tests *s, const char *path, struct str text,
                      struct test_report *report, struct error *err)
{
    struct error why = {0};
    struct gathering g = {.cli = s->cli};
    if (gather(s, path, text, &g, &why) == 0) {
        return policy_online_test(s->cli, &g.texts, path, text, &report->message, err);
    }
    int rc = test_report_add_error(report, path, text, &why, err);
    test_report_finish(report, false);
    return rc;
}

static int run_and_take(struct session_of_tests *s, const char *path, struct str text,
                        struct error *err)
{
    struct arena own;
    struct test_report report;
    bool is_kept = remarks_of(s) != stdout;
    arena_init(&own, TEST_MEMORY_MAX_BYTES);
    if (is_kept && s->report_count == REPORTS_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "more than %d files of tests",
                         REPORTS_MAX);
    }
    int rc = test_report_init(&report, is_kept ? &s->arena : &own)
                 ? 0
                 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    if (rc == 0) {
        rc = s->cli ? run_online(s, path, text, &report, err)
                    : run_offline(path, text, &report, err);
    }
    if (rc == 0) {
        take_report(s, path, report.message);
    }
    arena_free(&own);
    return rc;
}

static void explain_case(struct session_of_tests *s, struct policy_test *test, struct test_case *c,
                         struct arena *arena)
{
    struct explainer explainer;
    struct error err = {0};
    if (s->args->test && !cstr_eq(s->args->test, c->name)) {
        return;
    }
    if (!explainer_init(&explainer, arena)) {
        s->has_failed = true;
        return;
    }
    policy_test_run(test, c, &explainer);
    s->passed++;
    if (!s->args->output) {
        printf("%s\n", c->name);
    }
    if (policy_explain_print(explainer.message, s->args, &err)) {
        (void)cli_report(&err);
        s->has_failed = true;
    }
}

/* Tells what keeps a file from being explained, as `policy test` does. */
static void print_why(const char *path, struct str text)
{
    struct arena arena;
    struct test_report report;
    struct error err = {0};
    arena_init(&arena, TEST_MEMORY_MAX_BYTES);
    if (!test_report_init(&report, &arena) || run_offline(path, text, &report, &err)) {
        (void)cli_report(&err);
    } else {
        print_diagnostics(report.message->errors, report.message->n_errors, stdout);
    }
    arena_free(&arena);
}

static int explain_document(struct session_of_tests *s, const char *path,
                            const struct tree_node *document, struct arena *arena)
{
    struct test_setup setup;
    struct error why = {0};
    const struct test_policies policies = {.add = add_from_disk};
    int rc = test_setup_open(&setup, path, document, &policies, arena, &why);
    for (size_t i = 0; rc == 0 && i < setup.test.case_count; i++) {
        explain_case(s, &setup.test, &setup.test.cases[i], arena);
    }
    test_setup_close(&setup);
    return rc;
}

static void explain_file(struct session_of_tests *s, const char *path, struct str text,
                         const struct tree_node *const *documents, size_t count)
{
    struct arena arena;
    int rc = 0;
    arena_init(&arena, TEST_MEMORY_MAX_BYTES);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = explain_document(s, path, documents[i], &arena);
    }
    if (rc) {
        print_why(path, text);
        s->has_failed = true;
    }
    arena_free(&arena);
}

/* Files without tests are passed over; broken ones are told. */
static int run_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct session_of_tests *s = arg;
    struct arena arena;
    struct error ignored = {0};
    const struct tree_node **documents;
    size_t count;
    int rc = 0;
    arena_init(&arena, TEST_MEMORY_MAX_BYTES);
    bool is_broken = policy_test_find(text, &arena, &documents, &count, &ignored) != 0;
    s->file_count += count > 0 && !is_broken;
    if (s->explains && !is_broken) {
        explain_file(s, path, text, documents, count);
    } else if (s->explains) {
        print_why(path, text);
        s->has_failed = true;
    } else if (is_broken || count > 0) {
        rc = run_and_take(s, path, text, err);
        s->is_over = rc != 0;
    }
    arena_free(&arena);
    return rc;
}

static int finish(const struct session_of_tests *s)
{
    if (s->has_failed || s->failed > 0) {
        return EXIT_FAILED_TESTS;
    }
    return s->args->is_strict && s->uncovered > 0 ? EXIT_UNCOVERED : 0;
}

/* The files' reports as one message, as the server would have made it of all of them. */
static int print_reports(struct session_of_tests *s, struct error *err)
{
    Ext__TestResponse all = EXT__TEST_RESPONSE__INIT;
    for (size_t i = 0; i < s->report_count; i++) {
        all.n_results += s->reports[i]->n_results;
        all.n_rules += s->reports[i]->n_rules;
        all.n_errors += s->reports[i]->n_errors;
    }
    all.results = arena_calloc(&s->arena, all.n_results, sizeof *all.results);
    all.rules = arena_calloc(&s->arena, all.n_rules, sizeof *all.rules);
    all.errors = arena_calloc(&s->arena, all.n_errors, sizeof *all.errors);
    if (!all.results || !all.rules || !all.errors) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    size_t at[3] = {0};
    for (size_t i = 0; i < s->report_count; i++) {
        const Ext__TestResponse *r = s->reports[i];
        for (size_t k = 0; k < r->n_results; k++) {
            all.results[at[0]++] = r->results[k];
        }
        for (size_t k = 0; k < r->n_rules; k++) {
            all.rules[at[1]++] = r->rules[k];
        }
        for (size_t k = 0; k < r->n_errors; k++) {
            all.errors[at[2]++] = r->errors[k];
        }
    }
    struct test_report sum = {.message = &all};
    test_report_finish(&sum, s->args->is_strict);
    return output_message(&all.base, s->args->output, err);
}

static int print_end(struct session_of_tests *s, struct error *err)
{
    if (s->explains && s->passed == 0 && !s->has_failed) {
        fprintf(stderr, "cordium: no test is named '%s'\n", s->args->test);
        s->has_failed = true;
    }
    if (s->explains) {
        return 0;
    }
    if (remarks_of(s) != stdout) {
        return print_reports(s, err);
    }
    printf("%zu of %zu rules decided a test\n", s->rules - s->uncovered, s->rules);
    printf("%zu passed, %zu failed\n", s->passed, s->failed + (s->has_failed ? 1 : 0));
    return 0;
}

static int run_words(struct session_of_tests *s, struct error *err)
{
    const struct argument_list *words = &s->args->words;
    for (size_t i = 0; i < words->count; i++) {
        size_t before = s->file_count;
        int rc = yaml_folder_visit(words->items[i], run_file, s, &s->arena, err);
        if (s->is_over) {
            return rc;
        }
        if (rc) {
            (void)cli_report(err);
            s->has_failed = true;
        }
        if (s->file_count == before && !s->has_failed) {
            fprintf(stderr, "cordium: no document of kind PolicyTest in '%s'\n", words->items[i]);
            s->has_failed = true;
        }
    }
    return print_end(s, err);
}

static int run_session(struct cli *cli, const struct arguments *args, bool explains, int *exit_code,
                       struct error *err)
{
    struct session_of_tests s = {.args = args, .cli = cli, .explains = explains};
    arena_init(&s.arena, TEST_MEMORY_MAX_BYTES);
    s.reports = arena_calloc(&s.arena, REPORTS_MAX, sizeof *s.reports);
    int rc =
        s.reports ? run_words(&s, err) : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    *exit_code = finish(&s);
    arena_free(&s.arena);
    return rc;
}

static int run_session_offline(const struct arguments *args, bool explains)
{
    struct error err = {0};
    int exit_code = 0;
    int rc = run_session(NULL, args, explains, &exit_code, &err);
    return rc ? cli_report(&err) : exit_code;
}

static int test_online(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    return run_session(cli, args, false, exit_code, err);
}

static int run_test(const struct command *self, const struct arguments *args)
{
    (void)self;
    return policy_is_online(args) ? cli_run(args, test_online) : run_session_offline(args, false);
}

static int run_explain(const struct command *self, const struct arguments *args)
{
    (void)self;
    bool is_live = args->method || args->session || args->user || args->audit_id;
    if (is_live == (args->words.count > 0)) {
        fprintf(stderr, "cordium: explain what? Either a FILE of tests, or --method, or --audit\n");
        return CLI_EXIT_USAGE;
    }
    return is_live ? policy_explain_live(args) : run_session_offline(args, true);
}

static const struct argp_option test_options[] = {
    {"update", OPT_UPDATE, NULL, 0, "write the decisions to FILE's golden file", 0},
    {"strict", OPT_STRICT, NULL, 0, "exit with 2 when a rule decided no test", 0},
    {"output", 'o', "FORMAT", 0, "text, json or yaml", 0},
    {"online", OPT_ONLINE, NULL, 0, "let the server decide; --server does too", 0},
    {"in-force", OPT_IN_FORCE, NULL, 0,
     "let the server decide by the policies in force, whatever the tests name", 0},
    ARG_END,
};

static const struct argp_option explain_options[] = {
    {"test", OPT_TEST, "NAME", 0, "only this test of the file", 0},
    {"method", OPT_METHOD, "METHOD", 0, "ask the server: CreateWorkspace, Service/Method …", 0},
    {"body", OPT_BODY, "JSON", 0, "the request message", 0},
    {"session", OPT_SESSION, "NAME|UID", 0, "another session than one's own (administrators)", 0},
    {"user", OPT_USER, "NAME", 0, "a user's newest session (administrators)", 0},
    {"audit", OPT_AUDIT_ID, "ID", 0, "a line of the audit log, by metadata.id", 0},
    {"all", OPT_ALL, NULL, 0, "the value of each sub-expression", 0},
    ARG_OUTPUT,
    ARG_END,
};

const struct command policy_test_commands[] = {
    {"policy test",
     "Decide requests that are written down and compare with what is expected.\v"
     "Needs no server, but can ask one. Exit codes: 0 all as expected, 1 not, 2 with --strict when "
     "a rule decided "
     "no test, 64 usage.",
     "FILE|FOLDER...", test_options, 0, 1, ARGUMENTS_LIST_MAX, run_test},
    {"policy explain", "Show why a request is allowed or denied: rule by rule, value by value.",
     "[FILE...]", explain_options, 0, 0, ARGUMENTS_LIST_MAX, run_explain},
    {0},
};
