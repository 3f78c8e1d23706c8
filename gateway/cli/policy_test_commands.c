/* policy test, policy explain FILE: requests that are written down, decided without a server. */
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
#include "gateway/cli/yaml_folder.h"
#include "gateway/policyfile/explanation.h"
#include "gateway/policyfile/policy_test.h"

enum {
    TEST_MEMORY_MAX_BYTES = 1024 * 1024 * 1024,
    TEXT_MAX_BYTES = 64 * 1024 * 1024,
    EXIT_FAILED_TESTS = 1,
    EXIT_UNCOVERED = 2,
};

struct session_of_tests {
    const struct arguments *args;
    struct arena arena; /* of the walk */
    bool explains;
    bool has_failed; /* something could not be read or run */
    size_t file_count;
    size_t passed;
    size_t failed;
    size_t rules;
    size_t uncovered;
};

/* One file of tests at work. */
struct file_run {
    struct session_of_tests *session;
    struct arena arena;
    struct policy_files files;
    struct policy_test test;
    const char *path;
    struct str text;
    struct buf golden;
};

static int add_policies_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct file_run *run = arg;
    (void)err;
    policy_files_add(&run->files, path, text);
    return 0;
}

/* `policies` of the document, from the folder of the test's file. */
static int add_policies(struct file_run *run, const struct tree_node *document, struct error *err)
{
    const struct tree_node *list = tree_member(document, "policies");
    const char *slash = strrchr(run->path, '/');
    int folder_len = slash ? (int)(slash - run->path) + 1 : 0;
    if (!list || list->type != TREE_LIST) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, document->line, document->column,
                            "policies: a PolicyTest needs a list of files or folders");
    }
    for (const struct tree_node *n = list->first; n; n = n->next) {
        bool is_absolute = n->text.len > 0 && n->text.ptr[0] == '/';
        const char *path = arena_printf(&run->arena, "%.*s%.*s", is_absolute ? 0 : folder_len,
                                        run->path, STR_ARG(n->text));
        int rc = path ? yaml_folder_visit(path, add_policies_file, run, &run->arena, err)
                      : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        if (rc) {
            err->line = n->line;
            err->column = n->column;
            return rc;
        }
    }
    return 0;
}

static void print_errors(struct file_run *run, const struct error *err)
{
    struct buf out;
    buf_init(&out, TEXT_MAX_BYTES);
    if (err->line) {
        printf("%s:%u:%u: error: %s\n", run->path, err->line, err->column, err->text);
    } else {
        policy_files_check(&run->files, true);
        diagnostics_print(&run->files.diagnostics, DIAGNOSTIC_TEXT, &out);
        printf("%.*s%s: error: %s\n", (int)out.len, (const char *)out.ptr, run->path, err->text);
    }
    buf_free(&out);
}

static void explain_case(struct file_run *run, struct test_case *c)
{
    struct explainer explainer;
    struct error err = {0};
    if (run->session->args->test && !cstr_eq(run->session->args->test, c->name)) {
        return;
    }
    if (!explainer_init(&explainer, &run->arena)) {
        run->session->has_failed = true;
        return;
    }
    policy_test_run(&run->test, c, &explainer);
    run->session->passed++;
    if (!run->session->args->output) {
        printf("%s\n", c->name);
    }
    if (policy_explain_print(explainer.message, run->session->args, &err)) {
        (void)cli_report(&err);
        run->session->has_failed = true;
    }
}

static void run_case(struct file_run *run, struct test_case *c)
{
    policy_test_run(&run->test, c, NULL);
    buf_printf(&run->golden, "%s: ", c->name);
    policy_test_describe(&c->decision, &run->golden);
    buf_add_u8(&run->golden, '\n');
    if (c->mismatch) {
        printf("%s:%u:%u: FAIL %s: %s\n", run->path, c->node->line, c->node->column, c->name,
               c->mismatch);
        run->session->failed++;
    } else {
        run->session->passed++;
    }
}

static int write_file(const char *path, struct str text, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ssize_t n = fd == -1 ? -1 : write(fd, text.ptr, text.len);
    return n == (ssize_t)text.len
               ? 0
               : error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'", path);
}

/* The golden file beside the tests, when there is one, or when it is to be made. */
static void compare_golden(struct file_run *run)
{
    struct error err = {0};
    struct str want = STR_NONE;
    struct str got = buf_str(&run->golden);
    const char *dot = strrchr(run->path, '.');
    const char *path =
        arena_printf(&run->arena, "%.*s.golden",
                     (int)(dot ? (size_t)(dot - run->path) : strlen(run->path)), run->path);
    int rc = path ? local_file_read(path, &run->arena, &want, &err) : -STATUS_RESOURCE_EXHAUSTED;
    if (rc == -STATUS_NOT_FOUND && !run->session->args->update) {
        return;
    }
    if (run->session->args->update) {
        rc = rc == 0 && str_eq(want, got) ? 0 : write_file(path, got, &err);
        run->session->has_failed |= rc != 0;
    } else if (rc == 0 && !str_eq(want, got)) {
        struct buf diff;
        buf_init(&diff, TEXT_MAX_BYTES);
        text_diff(path, want, got, &diff);
        printf("%.*s%s: FAIL the decisions differ from the golden file; --update takes them over\n",
               (int)diff.len, (const char *)diff.ptr, run->path);
        buf_free(&diff);
        run->session->failed++;
    }
    if (rc && rc != -STATUS_NOT_FOUND) {
        (void)cli_report(&err);
        run->session->has_failed = true;
    }
}

static void print_coverage(struct file_run *run)
{
    for (size_t i = 0; i < run->test.use_count; i++) {
        const struct rule_use *use = &run->test.uses[i];
        const struct policy_rule_source *rule = &run->files.sources[use->policy].rules[use->rule];
        run->session->rules++;
        if (use->decided > 0) {
            continue;
        }
        run->session->uncovered++;
        printf("%s: policy '%s' rule #%zu%s%.*s%s %s\n", run->path,
               run->files.policies[use->policy].name, use->rule, rule->name.len ? " '" : "",
               STR_ARG(rule->name), rule->name.len ? "'" : "",
               use->matched ? "matched, but another one decided" : "decided no test");
    }
}

static void run_cases(struct file_run *run)
{
    for (size_t i = 0; i < run->test.case_count; i++) {
        if (run->session->explains) {
            explain_case(run, &run->test.cases[i]);
        } else {
            run_case(run, &run->test.cases[i]);
        }
    }
    if (!run->session->explains) {
        compare_golden(run);
        print_coverage(run);
    }
}

static void run_document(struct file_run *run, const struct tree_node *document)
{
    struct error err = {0};
    int rc = policy_files_open(&run->files, &run->arena, &err);
    rc = rc ? rc : add_policies(run, document, &err);
    rc =
        rc ? rc : policy_test_open(&run->test, &run->files, run->path, document, &run->arena, &err);
    if (rc) {
        print_errors(run, &err);
        run->session->has_failed = true;
    } else {
        run_cases(run);
    }
    policy_test_close(&run->test);
    policy_files_close(&run->files);
}

static int run_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct session_of_tests *session = arg;
    struct file_run run = {.session = session, .path = path, .text = text};
    const struct tree_node *document;
    arena_init(&run.arena, TEST_MEMORY_MAX_BYTES);
    buf_init(&run.golden, TEXT_MAX_BYTES);
    if (policy_test_find(text, &run.arena, &document, err)) {
        print_errors(&run, err);
        session->has_failed = true;
    } else if (document) {
        session->file_count++;
        run_document(&run, document);
    }
    buf_free(&run.golden);
    arena_free(&run.arena);
    return 0;
}

static int finish(const struct session_of_tests *s)
{
    if (s->has_failed || s->failed > 0) {
        return EXIT_FAILED_TESTS;
    }
    return s->args->is_strict && s->uncovered > 0 ? EXIT_UNCOVERED : 0;
}

static int run_all(const struct arguments *args, bool explains)
{
    struct session_of_tests s = {.args = args, .explains = explains};
    arena_init(&s.arena, TEST_MEMORY_MAX_BYTES);
    for (size_t i = 0; i < args->words.count; i++) {
        struct error err = {0};
        size_t before = s.file_count;
        if (yaml_folder_visit(args->words.items[i], run_file, &s, &s.arena, &err)) {
            (void)cli_report(&err);
            s.has_failed = true;
        } else if (s.file_count == before && !s.has_failed) {
            fprintf(stderr, "cordium: no document of kind PolicyTest in '%s'\n",
                    args->words.items[i]);
            s.has_failed = true;
        }
    }
    if (explains && s.passed == 0 && !s.has_failed) {
        fprintf(stderr, "cordium: no test is named '%s'\n", args->test);
        s.has_failed = true;
    }
    if (!explains) {
        printf("%zu of %zu rules decided a test\n", s.rules - s.uncovered, s.rules);
        printf("%zu passed, %zu failed\n", s.passed, s.failed + (s.has_failed ? 1 : 0));
    }
    arena_free(&s.arena);
    return finish(&s);
}

static int run_test(const struct command *self, const struct arguments *args)
{
    (void)self;
    return run_all(args, false);
}

static int run_explain(const struct command *self, const struct arguments *args)
{
    (void)self;
    bool is_live = args->method || args->session || args->user || args->audit_id;
    if (is_live == (args->words.count > 0)) {
        fprintf(stderr, "cordium: explain what? Either a FILE of tests, or --method, or --audit\n");
        return CLI_EXIT_USAGE;
    }
    return is_live ? policy_explain_live(args) : run_all(args, true);
}

static const struct argp_option test_options[] = {
    {"update", OPT_UPDATE, NULL, 0, "write the decisions to FILE's golden file", 0},
    {"strict", OPT_STRICT, NULL, 0, "exit with 2 when a rule decided no test", 0},
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
     "Needs no server. Exit codes: 0 all as expected, 1 not, 2 with --strict when a rule decided "
     "no test, 64 usage.",
     "FILE|FOLDER...", test_options, 0, 1, ARGUMENTS_LIST_MAX, run_test},
    {"policy explain", "Show why a request is allowed or denied: rule by rule, value by value.",
     "[FILE...]", explain_options, 0, 0, ARGUMENTS_LIST_MAX, run_explain},
    {0},
};
