#include <check.h>
#include <fcntl.h>
#include <stdlib.h>

#include "gateway/authorize/apply.h"
#include "gateway/authorize/text_diff.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_apply(void);

#define POLICY(name, effect)                                                                       \
    "---\nkind: Policy\nmetadata: {name: " name "}\n"                                              \
    "spec: {rules: [{effect: " effect ", condition: {matchAny: true}}]}\n"

static int apply(struct actor_fixture *f, const char *yaml, bool dry_run, bool prune,
                 Ext__ApplyResponse **ret)
{
    struct apply_options options = {.dry_run = dry_run, .prune = prune, .wall_ns = FIXTURE_NOW_NS};
    return apply_documents(&f->gateway, str_from(yaml), &options, &f->arena, ret, &f->err);
}

static Ext__ApplyResponse *must_apply(struct actor_fixture *f, const char *yaml)
{
    Ext__ApplyResponse *r = NULL;
    int rc = apply(f, yaml, false, false, &r);
    ck_assert_msg(rc == 0, "%s", f->err.text);
    return r;
}

static bool has_policy(const struct actor_fixture *f, const char *name)
{
    return policy_set_has(policy_store_current(f->gateway.policies), str_from(name));
}

START_TEST(documents_take_effect_in_any_order)
{
    struct actor_fixture f;
    fixture_open(&f);
    Ext__ApplyResponse *r = must_apply(
        &f, "kind: ClusterConfig\nspec: {authorization: {policies: [child.parent]}}\n"
            "---\nkind: User\nmetadata: {name: ann}\nspec: {type: HUMAN, groups: [dev]}\n"
            "---\nkind: Group\nmetadata: {name: dev}\nspec: {}\n" POLICY("child.parent", "DENY")
                POLICY("parent", "ALLOW") POLICY("allow-all", "ALLOW"));
    ck_assert_uint_eq(r->created, 6);
    ck_assert_uint_eq(r->n_items, 6);
    ck_assert_str_eq(r->items[0]->name, "parent");
    ck_assert(has_policy(&f, "child.parent") && has_policy(&f, "parent"));
    const Core__ClusterConfig *c = policy_store_cluster_config(f.gateway.policies);
    ck_assert_str_eq(c->spec->authorization->policies[0], "child.parent");
    ProtobufCMessage *m;
    ck_assert_int_eq(store_get_by_name(f.gateway.store, STORE_USER, "ann", &f.arena, &m, &f.err),
                     0);
    ck_assert_str_eq(((Core__User *)m)->spec->authorization->policies[0], "allow-all");
    ck_assert_int_eq(
        store_get_by_name(f.gateway.store, STORE_POLICY, "child.parent", &f.arena, &m, &f.err), 0);
    ck_assert_str_eq(((Core__Policy *)m)->status->parent_policy_ref->name, "parent");
    fixture_close(&f);
}
END_TEST

START_TEST(a_second_time_changes_nothing)
{
    struct actor_fixture f;
    fixture_open(&f);
    const char *yaml = POLICY("allow-all", "ALLOW") POLICY(
        "one.allow-all", "DENY") "---\nkind: ClusterConfig\nspec: {authorization: {policies: "
                                 "[one.allow-all]}}\n---\nkind: User\nmetadata: {name: "
                                 "ann}\nspec: {type: HUMAN, authorization: {policies: "
                                 "[allow-all]}}\n";
    (void)must_apply(&f, yaml);
    uint64_t version = policy_store_version(f.gateway.policies);
    Ext__ApplyResponse *r = must_apply(&f, yaml);
    ck_assert_uint_eq(r->unchanged, 4);
    ck_assert_str_eq(r->diff, "");
    ck_assert_uint_eq(policy_store_version(f.gateway.policies), version);
    fixture_close(&f);
}
END_TEST

START_TEST(an_update_shows_a_diff_and_raises_the_version)
{
    struct actor_fixture f;
    fixture_open(&f);
    (void)must_apply(&f, POLICY("allow-all", "ALLOW"));
    uint64_t version = policy_store_version(f.gateway.policies);
    Ext__ApplyResponse *r = must_apply(&f, POLICY("allow-all", "DENY"));
    ck_assert_uint_eq(r->updated, 1);
    ck_assert_ptr_nonnull(strstr(r->diff, "--- Policy/allow-all\n+++ Policy/allow-all\n@@ "));
    ck_assert_ptr_nonnull(strstr(r->diff, "ALLOW"));
    ck_assert_ptr_nonnull(strstr(r->diff, "DENY"));
    ck_assert_uint_eq(policy_store_version(f.gateway.policies), version + 1);
    fixture_close(&f);
}
END_TEST

START_TEST(a_dry_run_changes_nothing)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    fixture_open(&f);
    ck_assert_msg(apply(&f, POLICY("new-one", "DENY"), true, false, &r) == 0, "%s", f.err.text);
    ck_assert_uint_eq(r->created, 1);
    ck_assert_ptr_nonnull(strstr(r->diff, "+++ Policy/new-one"));
    ck_assert(!has_policy(&f, "new-one"));
    uint32_t count = 9;
    ck_assert_int_eq(
        store_count(f.gateway.store, STORE_POLICY, &(struct store_filter){0}, &count, &f.err), 0);
    ck_assert_uint_eq(count, 0);
    fixture_close(&f);
}
END_TEST

static const struct {
    const char *yaml;
    const char *text; /* part of the error */
} broken[] = {
    {"kind: Policy\nmetadata: {name: one}\nspec:\n  rule: []\n", "line 4"},
    {"kind: Policy\nmetadata: {name: one}\nspec:\n  rules:\n  - effect: DENY\n    condition:\n"
     "      match: ctx.a ==\n",
     "line 7, column 22: Policy 'one': rule #0: expected an expression"},
    {"kind: Policy\nmetadata: {name: one}\nspec: {rules: [{effect: DENY, condition: {opa: {inline: "
     "x}}}]}\n",
     "Rego"},
    {"kind: Service\nmetadata: {name: one}\n", "'Service' is not applied here"},
    {"metadata: {name: one}\n", "no 'kind'"},
    {"apiVersion: cordium/v1\nkind: ClusterConfig\nspec: {}\n", "cordium/v1"},
    {"kind: Policy\nmetadata: {name: One}\nspec: {}\n", "name"},
    {"kind: Policy\nmetadata: {name: child.nobody}\nspec: {}\n", "'nobody' does not exist"},
    {"kind: ClusterConfig\nspec: {authorization: {policies: [gone]}}\n", "'gone' does not exist"},
    {"kind: User\nmetadata: {name: ann}\nspec: {type: HUMAN, groups: [nope]}\n",
     "Group 'nope' does not exist"},
    {"kind: Credential\nmetadata: {name: cred}\nspec: {type: AUTH_TOKEN, user: nope}\n",
     "nope does not exist"},
    {"kind: Group\nmetadata: {name: dev}\nspec: {authorization: {inlinePolicies: [{name: x, spec: "
     "{rules: [{effect: DENY, condition: {match: '1 +'}}]}}]}}\n",
     "Group 'dev': inline policy 'x': rule #0: "},
    {"kind: Policy\nmetadata: {name: one}\nspec: {}\n---\nkind: Policy\nmetadata: {name: "
     "one}\nspec: {}\n",
     "also on line"},
    {"", "no documents"},
    {"kind: Policy\n\tmetadata: x\n", "line 2"},
    {"kind: Policy\nmetadata: {name: one}\nspec:\n  rules:\n  - effect: DENY\n    condition:\n"
     "      match: !has(ctx.device)\n",
     "line 7"},
};

START_TEST(one_broken_document_stops_the_whole_file)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    char yaml[2048];
    fixture_open(&f);
    (void)snprintf(yaml, sizeof yaml, "%s", broken[_i].yaml);
    if (yaml[0]) {
        /* A good document behind: neither of the two is kept. */
        (void)snprintf(yaml, sizeof yaml, "%s%s", broken[_i].yaml, POLICY("good-one", "DENY"));
    }
    ck_assert_int_lt(apply(&f, yaml, false, false, &r), 0);
    ck_assert_msg(strstr(f.err.text, broken[_i].text) != NULL, "%s", f.err.text);
    ck_assert(!has_policy(&f, "good-one"));
    uint32_t count = 9;
    ck_assert_int_eq(
        store_count(f.gateway.store, STORE_POLICY, &(struct store_filter){0}, &count, &f.err), 0);
    ck_assert_uint_eq(count, 0);
    fixture_close(&f);
}
END_TEST

START_TEST(all_broken_documents_are_told)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    fixture_open(&f);
    ck_assert_int_lt(apply(&f, "kind: Nonsense\n---\nkind: Policy\nmetadata: {name: X}\nspec: {}\n",
                           false, false, &r),
                     0);
    ck_assert_ptr_nonnull(strstr(f.err.text, "line 1"));
    ck_assert_ptr_nonnull(
        strstr(f.err.text, "\nline 4, column 18: Policy 'X': the name is not valid"));
    fixture_close(&f);
}
END_TEST

START_TEST(prune_takes_what_is_not_named_and_not_attached)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    fixture_open(&f);
    (void)must_apply(
        &f, POLICY("kept", "ALLOW") POLICY("used", "ALLOW") POLICY("old", "ALLOW") POLICY(
                "child.old",
                "ALLOW") "---\nkind: ClusterConfig\nspec: {authorization: {policies: [used]}}\n");
    ck_assert_msg(apply(&f, POLICY("kept", "ALLOW"), false, true, &r) == 0, "%s", f.err.text);
    ck_assert_uint_eq(r->deleted, 2);
    ck_assert(has_policy(&f, "kept") && has_policy(&f, "used"));
    ck_assert(!has_policy(&f, "old") && !has_policy(&f, "child.old"));
    fixture_close(&f);
}
END_TEST

/* A set of which nothing may stay is another than one from which the useless goes. */
START_TEST(what_is_attached_stops_a_whole_set_from_going)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    struct apply_options options = {.prune_all = true, .wall_ns = FIXTURE_NOW_NS};
    fixture_open(&f);
    (void)must_apply(&f, POLICY("old", "ALLOW") POLICY("used", "ALLOW")
                             POLICY("child.used", "ALLOW") POLICY("second.child.used", "ALLOW"));
    (void)must_apply(&f, "kind: Group\nmetadata: {name: dev}\n"
                         "spec: {authorization: {policies: [used]}}\n");
    struct str text = STR(POLICY("kept", "ALLOW"));
    ck_assert_int_ne(apply_documents(&f.gateway, text, &options, &f.arena, &r, &f.err), 0);
    ck_assert_str_eq(f.err.text, "Policy 'used' is attached to Group 'dev'; detach it there first");
    ck_assert(has_policy(&f, "old") && has_policy(&f, "second.child.used"));
    (void)must_apply(&f, "kind: Group\nmetadata: {name: dev}\nspec: {}\n");
    ck_assert_msg(apply_documents(&f.gateway, text, &options, &f.arena, &r, &f.err) == 0, "%s",
                  f.err.text);
    ck_assert_uint_eq(r->deleted, 4);
    ck_assert(has_policy(&f, "kept") && !has_policy(&f, "used"));
    fixture_close(&f);
}
END_TEST

/* The child that is named holds its parent, and that one its own. */
START_TEST(prune_leaves_the_parents_of_what_is_named)
{
    struct actor_fixture f;
    Ext__ApplyResponse *r = NULL;
    fixture_open(&f);
    (void)must_apply(&f, POLICY("top", "ALLOW") POLICY("mid.top", "ALLOW")
                             POLICY("low.mid.top", "ALLOW") POLICY("other.top", "ALLOW"));
    ck_assert_msg(apply(&f, POLICY("low.mid.top", "ALLOW"), false, true, &r) == 0, "%s",
                  f.err.text);
    ck_assert_uint_eq(r->deleted, 1);
    ck_assert(has_policy(&f, "top") && has_policy(&f, "mid.top") && !has_policy(&f, "other.top"));
    fixture_close(&f);
}
END_TEST

START_TEST(doubts_are_told_and_do_not_stop)
{
    struct actor_fixture f;
    fixture_open(&f);
    Ext__ApplyResponse *r =
        must_apply(&f, "kind: Policy\nmetadata: {name: doubtful}\nspec:\n  rules:\n"
                       "  - {effect: ALLOW, priority: -1, condition: {matchAny: true}}\n"
                       "  - {effect: DENY, priority: 4, condition: {matchAny: false}}\n");
    ck_assert_uint_ge(r->items[0]->n_warnings, 3);
    fixture_close(&f);
}
END_TEST

START_TEST(the_files_in_testdata_apply)
{
    static const char *const files[] = {"deny-sandboxes.yaml", "auditor-read-only.yaml",
                                        "sandbox-guards.yaml"};
    struct actor_fixture f;
    fixture_open(&f);
    char path[128];
    char text[16384];
    (void)snprintf(path, sizeof path, "testdata/policies/%s", files[_i]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ne(fd, -1);
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    (void)must_apply(&f, text);
    fixture_close(&f);
}
END_TEST

START_TEST(diffs_have_hunks_with_context)
{
    struct buf out;
    buf_init(&out, 4096);
    text_diff("x", STR("a\nb\nc\nd\ne\nf\ng\nh\ni\n"), STR("a\nb\nc\nd\nE\nf\ng\nh\ni\n"), &out);
    buf_add_u8(&out, 0);
    ck_assert_str_eq((const char *)out.ptr,
                     "--- x\n+++ x\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n");
    buf_clear(&out);
    text_diff("x", STR(""), STR("a\nb"), &out);
    buf_add_u8(&out, 0);
    ck_assert_str_eq((const char *)out.ptr, "--- /dev/null\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    buf_clear(&out);
    text_diff("x", STR("same"), STR("same"), &out);
    ck_assert_uint_eq(out.len, 0);
    buf_free(&out);
}
END_TEST

Suite *suite_apply(void)
{
    Suite *s = suite_create("apply");
    TCase *t = tcase_create("files");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, documents_take_effect_in_any_order);
    tcase_add_test(t, a_second_time_changes_nothing);
    tcase_add_test(t, an_update_shows_a_diff_and_raises_the_version);
    tcase_add_test(t, a_dry_run_changes_nothing);
    tcase_add_loop_test(t, one_broken_document_stops_the_whole_file, 0,
                        sizeof broken / sizeof broken[0]);
    tcase_add_test(t, all_broken_documents_are_told);
    tcase_add_test(t, prune_takes_what_is_not_named_and_not_attached);
    tcase_add_test(t, what_is_attached_stops_a_whole_set_from_going);
    tcase_add_test(t, prune_leaves_the_parents_of_what_is_named);
    tcase_add_test(t, doubts_are_told_and_do_not_stop);
    tcase_add_loop_test(t, the_files_in_testdata_apply, 0, 3);
    tcase_add_test(t, diffs_have_hunks_with_context);
    suite_add_tcase(s, t);
    return s;
}
