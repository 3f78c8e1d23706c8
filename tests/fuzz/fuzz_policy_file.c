/* A file of policies through the checker and its linter, the formatter, and the tests' reader. */
#include <stdlib.h>

#include "gateway/policyfile/format.h"
#include "gateway/policyfile/policy_files.h"
#include "gateway/policyfile/policy_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 64 << 20, OUTPUT_BYTES_MAX = 16 << 20, INPUT_BYTES_MAX = 20000 };

static void check(struct policy_files *files, struct str text)
{
    struct buf out;
    buf_init(&out, OUTPUT_BYTES_MAX);
    policy_files_add(files, "f.yaml", text);
    policy_files_check(files, true);
    diagnostics_print(&files->diagnostics, DIAGNOSTIC_TEXT, &out);
    diagnostics_print(&files->diagnostics, DIAGNOSTIC_SARIF, &out);
    buf_free(&out);
}

/* What was formatted once stays as it is. */
static void format(struct str text, struct arena *arena)
{
    struct buf once;
    struct buf twice;
    struct error err = {0};
    buf_init(&once, OUTPUT_BYTES_MAX);
    buf_init(&twice, OUTPUT_BYTES_MAX);
    int rc = policy_format(text, arena, &once, &err);
    if (rc == -STATUS_INTERNAL) {
        abort();
    }
    if (rc == 0) {
        rc = policy_format(buf_str(&once), arena, &twice, &err);
        bool is_same = rc == 0 && str_eq(buf_str(&once), buf_str(&twice));
        if (!is_same && err.status != STATUS_RESOURCE_EXHAUSTED) {
            abort();
        }
    }
    buf_free(&once);
    buf_free(&twice);
}

static void run_tests(struct policy_files *files, struct str text, struct arena *arena)
{
    const struct tree_node **documents;
    size_t count;
    struct error err = {0};
    if (policy_test_find(text, arena, &documents, &count, &err)) {
        return;
    }
    for (size_t d = 0; d < count; d++) {
        struct policy_test test;
        if (policy_test_open(&test, files, "f.yaml", documents[d], arena, &err) == 0) {
            for (size_t i = 0; i < test.case_count; i++) {
                policy_test_run(&test, &test.cases[i], NULL);
            }
        }
        policy_test_close(&test);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct policy_files files;
    struct error err = {0};
    struct str text = str_make(data, size < INPUT_BYTES_MAX ? size : INPUT_BYTES_MAX);
    arena_init(&arena, ARENA_BYTES_MAX);
    if (policy_files_open(&files, &arena, &err) == 0) {
        check(&files, text);
        run_tests(&files, text, &arena);
        policy_files_close(&files);
    }
    arena_reset(&arena);
    format(text, &arena);
    arena_free(&arena);
    return 0;
}
