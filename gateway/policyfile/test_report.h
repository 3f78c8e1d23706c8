#ifndef POLICYFILE_TEST_REPORT_H
#define POLICYFILE_TEST_REPORT_H

#include "api/ext.pb-c.h"
#include "gateway/policyfile/policy_test.h"

/* Files of tests run, and what came of it as the API's message: the same for the client without a
 * server and for the server. */

/* Where the policies come from that a test is about. */
struct test_policies {
    /* Gives policy_files_add() what a test names; `path` is as in the test, with the folder of the
     * test's file before it. The error needs no place. */
    int (*add)(void *arg, const char *path, struct policy_files *files, struct error *err);
    void *arg;
    bool is_fixed; /* whatever a test names: `add` is called once, with NULL */
};

/* A document of tests with its policies: what there is before the first decision. */
struct test_setup {
    struct policy_files files;
    struct policy_test test;
};

/* Gives `files` (passed through to `add`) what a document names. Errors have their place. */
int test_policies_add(const struct test_policies *policies, const char *path,
                      const struct tree_node *document, struct policy_files *files,
                      struct arena *arena, struct error *err);

/* Errors have their place in the test's file, or they are in files.diagnostics. To be closed in
 * either case. */
int test_setup_open(struct test_setup *setup, const char *path, const struct tree_node *document,
                    const struct test_policies *policies, struct arena *arena, struct error *err);
void test_setup_close(struct test_setup *setup);

struct test_report {
    struct arena *arena; /* of the message; borrowed */
    Ext__TestResponse *message;
    size_t memory_max_bytes; /* for the work on one file */
    uint64_t deadline_ns;    /* on the clock; 0: none */
    uint64_t (*clock_ns)(void *);
    size_t tests_max; /* in all files together */
    size_t rules_max; /* that are listed with what they were of use */
    size_t result_room;
    size_t rule_room;
    size_t error_room;
};

/* Without limits of time and number. False when the arena is full. */
bool test_report_init(struct test_report *report, struct arena *arena);

/* Runs all documents of a file. What is wrong with it becomes errors of the message; a failure is
 * RESOURCE_EXHAUSTED: memory, time or number. */
int test_report_add(struct test_report *report, const char *path, struct str text,
                    const struct test_policies *policies, struct error *err);

/* A file that could not be run, and why. */
int test_report_add_error(struct test_report *report, const char *path, struct str text,
                          const struct error *why, struct error *err);

/* Sums up; after the last file. */
void test_report_finish(struct test_report *report, bool is_strict);

#endif
