#ifndef POLICYFILE_POLICY_TEST_H
#define POLICYFILE_POLICY_TEST_H

#include "gateway/policyfile/policy_files.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/decide/decide.h"

/* Tests of policies: a YAML document of kind PolicyTest.
 *
 *     kind: PolicyTest
 *     policies: [guards.yaml]         # files or folders, from the test's own folder
 *     attached: [guards, allow-all]   # default: every policy of the files, then allow-all
 *     strict: false
 *     now: "2026-01-02T03:04:05Z"
 *     ctx: {…}                        # what the tests have in common
 *     tests:
 *       - name: root is refused
 *         ctx: {…}                    # laid on it; null takes a member away
 *         expect: DENY                # or {decision, policy, rule, reason}; without one it fails
 *
 * `attached`, `strict` and `now` may stand in a test too. */

struct test_case {
    const char *name;
    const struct tree_node *node;   /* of the test */
    const struct tree_node *expect; /* NULL: nothing, and the test fails */
    struct policy_value ctx;
    struct str *attached;
    size_t attached_count;
    bool is_strict;
    int64_t now_ns;
    struct policy_decision decision; /* after it was run */
    const char *mismatch;            /* NULL: as expected */
};

/* How often a rule was asked and decided. */
struct rule_use {
    size_t policy; /* index in the files */
    size_t rule;
    size_t matched;
    size_t decided;
};

/* Where the rules of a policy begin in `uses`. */
struct rule_range {
    struct str policy_name;
    size_t first;
    size_t count;
};

struct policy_test {
    struct arena *arena;
    const char *file;
    struct policy_files *files; /* the policies; the test's own errors go to its diagnostics too */
    struct policy_set *set;
    struct policy_document document;
    struct test_case *cases;
    size_t case_count;
    struct rule_use *uses; /* policy by policy */
    size_t use_count;
    struct rule_range *ranges; /* by name */
    size_t range_count;
    /* For each decision, set before policy_test_run(); 0: none. */
    uint64_t deadline_ns;
    uint64_t (*clock_ns)(void *); /* monotonic */
};

/* The PolicyTest documents of a text, in order. Broken YAML is an error with its place. */
int policy_test_find(struct str text, struct arena *arena, const struct tree_node ***ret,
                     size_t *ret_count, struct error *err);

/* Reads the tests; `files` has the policies that they name and no errors. Errors have their place
 * in the test's file. To be closed. */
int policy_test_open(struct policy_test *t, struct policy_files *files, const char *file,
                     const struct tree_node *document, struct arena *arena, struct error *err);
void policy_test_close(struct policy_test *t);

/* Decides one case and compares. trace may be NULL: an explainer. */
struct explainer;
void policy_test_run(struct policy_test *t, struct test_case *c, struct explainer *explainer);

/* "DENY guards rule 'never root' (POLICY_MATCH)": the decision on one line. */
void policy_test_describe(const struct policy_decision *d, struct buf *out);

#endif
