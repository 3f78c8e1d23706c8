#include "gateway/services/policy_check_service.h"

#include <stdlib.h>

#include "api/ext.pb-c.h"
#include "executor/proc/clock.h"
#include "gateway/authorize/policy_history.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/policyfile/diagnostic_message.h"
#include "gateway/policyfile/test_report.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/work_queue.h"

enum { WORK_MEMORY_MAX_BYTES = 256 << 20 };

static int compare_paths(const void *x, const void *y)
{
    const Ext__PolicyFile *a = *(Ext__PolicyFile *const *)x;
    const Ext__PolicyFile *b = *(Ext__PolicyFile *const *)y;
    return strcmp(a->path, b->path);
}

/* Paths say which file a finding is in, so no two may be the same. */
static int check_paths(const char *field, Ext__PolicyFile *const *files, size_t count,
                       struct arena *arena, struct error *err)
{
    Ext__PolicyFile **sorted = arena_calloc(arena, count, sizeof *sorted);
    if (!sorted) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request needs too much memory");
    }
    if (count == 0) {
        return 0;
    }
    memcpy(sorted, files, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_paths);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i]->path, sorted[i - 1]->path) == 0) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s: two files have the path '%.200s'; each needs its own", field,
                             sorted[i]->path);
        }
    }
    return 0;
}

static int check_files(const char *field, Ext__PolicyFile *const *files, size_t count,
                       size_t *bytes, struct arena *arena, struct error *err)
{
    if (count > POLICY_CHECK_FILES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: %zu files, at most %d are allowed",
                         field, count, POLICY_CHECK_FILES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        *bytes += strlen(files[i]->path) + strlen(files[i]->text);
    }
    if (*bytes > POLICY_CHECK_TEXT_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: the files of a request may hold %d bytes together; send fewer at "
                         "once, or use `cordium policy` without the server",
                         field, POLICY_CHECK_TEXT_MAX_BYTES);
    }
    return check_paths(field, files, count, arena, err);
}

static int fill_check(const struct policy_files *files, const Ext__CheckRequest *q,
                      struct arena *arena, Ext__CheckResponse *m, struct error *err)
{
    const struct diagnostics *d = &files->diagnostics;
    m->errors = (uint32_t)d->by_severity[POLICY_SEVERITY_ERROR];
    m->warnings = (uint32_t)d->by_severity[POLICY_SEVERITY_WARNING];
    m->notes = (uint32_t)d->by_severity[POLICY_SEVERITY_NOTE];
    m->policies = (uint32_t)files->policy_count;
    m->passed = m->errors == 0 && !(q->strict && m->warnings > 0);
    m->is_cut = d->is_cut;
    m->diagnostics = arena_calloc(arena, DIAGNOSTIC_MESSAGES_MAX, sizeof *m->diagnostics);
    for (size_t i = 0; m->diagnostics && i < d->count; i++) {
        if (d->items[i].severity == POLICY_SEVERITY_NOTE && !q->notes) {
            continue;
        }
        if (m->n_diagnostics == DIAGNOSTIC_MESSAGES_MAX) {
            m->is_cut = true;
            break;
        }
        Ext__PolicyDiagnostic *item = diagnostic_message_of(&d->items[i], arena);
        if (!item) {
            m->diagnostics = NULL;
            break;
        }
        m->diagnostics[m->n_diagnostics++] = item;
    }
    return m->diagnostics ? 0
                          : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                      "the check needs too much memory; send fewer files at once");
}

static int run_check(struct work *work, const ProtobufCMessage **ret, struct error *err)
{
    struct policy_files files;
    const Ext__CheckRequest *q = (const Ext__CheckRequest *)work->request->message;
    Ext__CheckResponse *m = CODEC_NEW(&work->arena, Ext__CheckResponse, ext__check_response);
    if (!m) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int rc = policy_files_open(&files, &work->arena, err);
    if (rc) {
        return rc;
    }
    files.in_force = work->state;
    for (size_t i = 0; i < q->n_files; i++) {
        policy_files_add(&files, q->files[i]->path, str_from(q->files[i]->text));
    }
    policy_files_check(&files, true);
    rc = fill_check(&files, q, &work->arena, m, err);
    policy_files_close(&files);
    *ret = &m->base;
    return rc;
}

static void end_check(struct work *work)
{
    policy_set_unref(work->state);
}

void policy_check_handle(struct request *r)
{
    struct error err = {0};
    size_t bytes = 0;
    const Ext__CheckRequest *q = (const Ext__CheckRequest *)r->message;
    int rc = admin_require(r, &err);
    if (rc == 0 && q->n_files == 0) {
        rc = error_set(&err, STATUS_INVALID_ARGUMENT, "files: there is none to check");
    }
    rc = rc ? rc : check_files("files", q->files, q->n_files, &bytes, &r->arena, &err);
    if (rc) {
        request_fail(r, &err);
        return;
    }
    struct work *work = work_new(r, WORK_MEMORY_MAX_BYTES);
    if (!work) {
        request_fail_memory(r);
        return;
    }
    work->run = run_check;
    work->end = end_check;
    work->state =
        policy_set_ref((struct policy_set *)(uintptr_t)policy_store_current(r->gateway->policies));
    work_queue_add(r->gateway->work, work);
}

/* The policies that the tests of a request are about. */
struct test_subject {
    const Ext__TestRequest *request;
    struct str in_force; /* as YAML; used when the request brings none */
};

/* Is it the path, or in the folder of that path? */
static bool is_named(const char *path, const char *named)
{
    size_t len = strlen(named);
    if (strncmp(path, named, len) != 0) {
        return false;
    }
    return path[len] == '\0' || path[len] == '/' || (len > 0 && named[len - 1] == '/');
}

static int add_sent(void *arg, const char *named, struct policy_files *files, struct error *err)
{
    const struct test_subject *subject = arg;
    size_t found = 0;
    for (size_t i = 0; i < subject->request->n_policies; i++) {
        const Ext__PolicyFile *file = subject->request->policies[i];
        if (is_named(file->path, named)) {
            policy_files_add(files, file->path, str_from(file->text));
            found++;
        }
    }
    return found ? 0
                 : error_set(err, STATUS_NOT_FOUND, "policies: the request has no file '%.200s'",
                             named);
}

static int add_in_force(void *arg, const char *named, struct policy_files *files, struct error *err)
{
    const struct test_subject *subject = arg;
    (void)named;
    (void)err;
    policy_files_add(files, "policies in force", subject->in_force);
    return 0;
}

static uint64_t monotonic_ns(void *context)
{
    (void)context;
    return clock_now_ns();
}

static int run_test(struct work *work, const ProtobufCMessage **ret, struct error *err)
{
    struct test_report report;
    struct test_subject *subject = work->state;
    const Ext__TestRequest *q = subject->request;
    struct test_policies policies = {.add = q->n_policies ? add_sent : add_in_force,
                                     .arg = subject,
                                     .is_fixed = q->n_policies == 0};
    if (!test_report_init(&report, &work->arena)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    report.memory_max_bytes = WORK_MEMORY_MAX_BYTES;
    report.tests_max = POLICY_TESTS_MAX;
    report.rules_max = POLICY_TESTS_RULES_MAX;
    report.clock_ns = monotonic_ns;
    report.deadline_ns = monotonic_ns(NULL) + (uint64_t)POLICY_TESTS_TIME_MAX_MS * 1000000;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < q->n_tests; i++) {
        rc = test_report_add(&report, q->tests[i]->path, str_from(q->tests[i]->text), &policies,
                             err);
    }
    test_report_finish(&report, q->strict);
    *ret = &report.message->base;
    return rc;
}

/* What is in force is read here, on the loop, to which the store belongs. */
static int read_in_force(struct request *r, struct arena *arena, struct str *ret, struct error *err)
{
    int rc = policy_history_text(r->gateway->store, policy_store_version(r->gateway->policies),
                                 arena, ret, err);
    if (rc == 0 && ret->len > POLICY_TESTS_IN_FORCE_MAX_BYTES) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED,
                       "The policies in force are more than %d MiB of YAML; send those that the "
                       "tests are about",
                       POLICY_TESTS_IN_FORCE_MAX_BYTES >> 20);
    }
    return rc;
}

void policy_test_handle(struct request *r)
{
    struct error err = {0};
    size_t bytes = 0;
    const Ext__TestRequest *q = (const Ext__TestRequest *)r->message;
    int rc = admin_require(r, &err);
    if (rc == 0 && q->n_tests == 0) {
        rc = error_set(&err, STATUS_INVALID_ARGUMENT, "tests: there is none to run");
    }
    rc = rc ? rc : check_files("policies", q->policies, q->n_policies, &bytes, &r->arena, &err);
    rc = rc ? rc : check_files("tests", q->tests, q->n_tests, &bytes, &r->arena, &err);
    if (rc) {
        request_fail(r, &err);
        return;
    }
    struct work *work = work_new(r, WORK_MEMORY_MAX_BYTES);
    struct test_subject *subject = work ? arena_zalloc(&work->arena, sizeof *subject) : NULL;
    if (!subject) {
        work_cancel(work);
        request_fail_memory(r);
        return;
    }
    subject->request = q;
    work->run = run_test;
    work->state = subject;
    if (q->n_policies == 0 && read_in_force(r, &work->arena, &subject->in_force, &err)) {
        work_cancel(work);
        request_fail(r, &err);
        return;
    }
    work_queue_add(r->gateway->work, work);
}
