#include <check.h>
#include <string.h>

#include "gateway/policyfile/format.h"

Suite *suite_policy_format(void);

static int format(const char *text, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, 64 << 20);
    buf_init(out, 1 << 20);
    int rc = policy_format(str_from(text), &arena, out, err);
    buf_add_u8(out, 0);
    arena_free(&arena);
    return rc;
}

static const struct {
    const char *text;
    const char *want;
} cases[] = {
    {"spec: {rules: [{condition: {match: a}, effect: DENY}]}\nkind: Policy\n",
     "kind: Policy\nspec:\n  rules:\n    - effect: DENY\n      condition:\n        match: a\n"},
    {"# head\n\n# more\nkind: Policy # \n", "# head\n\n# more\n#\nkind: Policy\n"},
    {"# head\nkind: Policy\n\n# of spec\nspec:\n    # of rules\n    rules: []\n# the end\n",
     "# head\nkind: Policy\n\n# of spec\nspec:\n  # of rules\n  rules: []\n# the end\n"},
    {"a: \"x: y\"\nb: 'it''s'\nc: \"tab\\there\"\nd: \"yes\"\ne: \"\"\nf: ~\ng:\n",
     "a: 'x: y'\nb: it's\nc: \"tab\\x09here\"\nd: 'yes'\ne: ''\nf: ~\ng:\n"},
    {"match: >\n  a &&\n  b\nnot: |\n  c &&\n    d\nlast: |-\n  e\n  f\n",
     "match: |\n  a && b\nnot: |\n  c &&\n    d\nlast: |-\n  e\n  f\n"},
    {"a: 1\n---\n# two\nb: \"1\"\n", "a: 1\n---\n# two\nb: '1'\n"},
    {"attrs: {zeta: 1, effect: 2, alpha: [1, {b: 2}]}\n",
     "attrs:\n  zeta: 1\n  effect: 2\n  alpha:\n    - 1\n    - b: 2\n"},
    {"rules:\n  - name: x\n    effect: DENY\n\n  # second\n  - effect: ALLOW\n",
     "rules:\n  - name: x\n    effect: DENY\n\n  # second\n  - effect: ALLOW\n"},
    {"match: |\n  # not a comment of YAML\n  true\n",
     "match: |\n  # not a comment of YAML\n  true\n"},
    {"rule: \"#0\"\nother: [\"#1\", b]\n", "rule: '#0'\nother:\n  - '#1'\n  - b\n"},
    {"a:\n  b: 1 # why\n", "a:\n  # why\n  b: 1\n"},
    {"a: # why\n  b: 1\n", "# why\na:\n  b: 1\n"},
    {"rules: [] # none\nspec: {} # none\n", "# none\nspec: {}\n# none\nrules: []\n"},
    {"a: [b, # of b\n  c # of c\n  ]\n", "# of b\na:\n  - b\n  # of c\n  - c\n"},
    {"a: [\"x # y\", 'it''s # z', p#q] # w\n", "# w\na:\n  - 'x # y'\n  - 'it''s # z'\n  - p#q\n"},
    {"\"k # l\": 1 # m\n", "# m\n'k # l': 1\n"},
    {"a: |  # of a\n  # text\n  b # text\n", "# of a\na: |\n  # text\n  b # text\n"},
    {"a: x\n  y # z\n", NULL},
    {"rules:\n  - effect: DENY # no\n    # its name\n    name: x # end\n    priority: 1 # late\n",
     "rules:\n  # no\n  # its name\n  # end\n  - name: x\n    effect: DENY\n    # late\n"
     "    priority: 1\n"},
    {"a: [1] # x\n...\n---\n# y\nb: 2\n", "# x\na:\n  - 1\n---\n# y\nb: 2\n"},
    {"a: 1\n--- # two\nb: 1\n", NULL},
    {"a: 1\n... # end\n", NULL},
    {"a: [ # open\n  ]\n", "# open\na: []\n"},
    {"a:\n  - # item\n    b: 1\n", NULL},
    {"a: [[1]]\n", NULL},
    {"a: !x\n", NULL},
    {"", ""},
};

START_TEST(files_have_one_form_and_keep_it)
{
    struct buf out;
    struct buf again;
    struct error err = {0};
    int rc = format(cases[_i].text, &out, &err);
    if (!cases[_i].want) {
        ck_assert_int_lt(rc, 0);
        ck_assert_uint_gt(err.line, 0);
        buf_free(&out);
        return;
    }
    ck_assert_msg(rc == 0, "%u: %s\n%s", err.line, err.text, (const char *)out.ptr);
    ck_assert_str_eq((const char *)out.ptr, cases[_i].want);
    ck_assert_msg(format((const char *)out.ptr, &again, &err) == 0, "%s", err.text);
    ck_assert_str_eq((const char *)again.ptr, cases[_i].want);
    buf_free(&again);
    buf_free(&out);
}
END_TEST

Suite *suite_policy_format(void)
{
    Suite *s = suite_create("policy_format");
    TCase *t = tcase_create("policy_format");
    tcase_add_loop_test(t, files_have_one_form_and_keep_it, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    suite_add_tcase(s, t);
    return s;
}
