#include <check.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/policyfile/policy_files.h"

Suite *suite_policy_check(void);

/* A policy with one rule, whose lines from the sixth are the case's. */
#define HEAD "kind: Policy\nmetadata:\n  name: case-one\nspec:\n  rules:\n"

struct check_case {
    const char *yaml;   /* behind HEAD */
    const char *places; /* "line:column:length code", one a finding; "" for none */
};

static void check_text(const char *text, bool is_alone, struct buf *places)
{
    struct arena arena;
    struct policy_files files;
    struct error err = {0};
    arena_init(&arena, 64 << 20);
    ck_assert_msg(policy_files_open(&files, &arena, &err) == 0, "%s", err.text);
    policy_files_add(&files, "x.yaml", str_from(text));
    policy_files_check(&files, is_alone);
    for (size_t i = 0; i < files.diagnostics.count; i++) {
        const struct diagnostic *d = &files.diagnostics.items[i];
        buf_printf(places, "%s%u:%u:%u %s", i ? ", " : "", d->line, d->column, d->length, d->code);
    }
    buf_add_u8(places, 0);
    policy_files_close(&files);
    arena_free(&arena);
}

static void expect(const char *text, const char *places)
{
    struct buf got;
    buf_init(&got, 65536);
    check_text(text, true, &got);
    ck_assert_msg(strcmp((const char *)got.ptr, places) == 0, "got \"%s\", want \"%s\" of\n%s",
                  (const char *)got.ptr, places, text);
    buf_free(&got);
}

#define DENY(condition) "    - effect: DENY\n      condition:\n" condition
#define ALLOW(condition) "    - effect: ALLOW\n      condition:\n" condition

static const struct check_case places_in_yaml[] = {
    {DENY("        match: ctx.usr.metadata.name == 'x'\n"), "8:16:7 ctx-unknown"},
    {DENY("        match: 'ctx.usr.metadata.name == \"x\"'\n"), "8:17:7 ctx-unknown"},
    {DENY("        match: \"ctx.usr.metadata.name == 'x'\"\n"), "8:17:7 ctx-unknown"},
    {DENY("        match: \"true && \\n ctx.usr.metadata.name == 'x'\"\n"), "8:28:7 ctx-unknown"},
    {DENY("        match: \"'\\u00e9\\x41' == ctx.usr.x\"\n"), "8:33:7 ctx-unknown"},
    {DENY("        match: '''a'' == ctx.usr.x'\n"), "8:26:7 ctx-unknown"},
    {DENY("        match: |\n          true &&\n            ctx.usr.x == 'y'\n"),
     "10:13:7 ctx-unknown"},
    {DENY("        match: |2-\n          ctx.usr.x == 'y'\n"), "9:11:7 ctx-unknown"},
    {DENY("        match: >\n          true &&\n          ctx.usr.x == 'y'\n"),
     "10:11:7 ctx-unknown"},
    {DENY("        match: >-\n\n          true\n\n          && ctx.usr.x == 'y'\n"),
     "12:14:7 ctx-unknown"},
    {DENY("        match: true &&\n          ctx.usr.x == 'y'\n"), "9:11:7 ctx-unknown"},
    {DENY("        match: 'true &&\n\n          ctx.usr.x == 1'\n"), "10:11:7 ctx-unknown"},
    {DENY("        match: ctx.user.metadata.name == 'é' && ctx.usr.x == 1\n"),
     "8:49:7 ctx-unknown"},
    {DENY("        all:\n          of:\n            - match: \"true\"\n            - any:\n"
          "                of:\n                  - match: ctx.usr == 1\n"),
     "10:23:4 condition-constant, 13:28:7 ctx-unknown"},
    {DENY("        match: ctx.user.metadata.name.contain('x')\n"), "8:39:1 expression-invalid"},
    {DENY("        match: |\n          ctx.user.metadata.name ==\n"), "9:36:1 expression-invalid"},
    {DENY("        match: 1 + 1\n"), "8:16:5 condition-not-bool, 8:16:5 condition-constant"},
};

static const struct check_case yaml_traps[] = {
    {DENY("        match: !has(ctx.run)\n"), "8:16:1 yaml-tag"},
    {DENY("        match: &x\n"), "8:16:1 yaml-tag"},
    {DENY("        match: a ? true : false\n"), "8:25:1 yaml-colon"},
    {DENY("        match: \"GET\" == ctx.request.http.method\n"), "8:22:1 yaml-quote"},
    {DENY("        match: ['GET'].exists(m, m == ctx.request.http.method)\n"), "8:23:1 yaml-quote"},
    {DENY("        match: ctx.user.metadata.name.contains(\" #x\")\n"), "8:49:1 yaml-comment"},
    {DENY("        match: \"ctx.user.metadata.name.matches('\\d')\"\n"), "8:49:1 yaml-escape"},
    {DENY("        match: @ctx\n"), "8:16:1 yaml-reserved"},
    {DENY("        match: ~\n"), "6:7:1 policy-invalid"},
    {DENY("        match: \"\"\n"), "6:7:1 policy-invalid"},
    {DENY("\tmatch: true\n"), "8:1:1 yaml-tab"},
    {"    - effect: DENY\n      priority: 010\n", "7:17:1 document-invalid"},
    {"    - effect: DNY\n", "6:15:1 document-invalid"},
    {"    - efect: DENY\n", "6:7:1 document-invalid"},
    {"    - effect: DENY\n      effect: DENY\n", "7:7:1 yaml-syntax"},
    {DENY("        matchAny: no\n"), "8:19:1 document-invalid"},
    {DENY("        matchAny: True\n"), ""},
    {DENY("        match: |\n        has(ctx.run)\n"), "9:1:1 yaml-block"},
    {DENY("        match: \"a\x1b\"\n"), "8:18:1 yaml-syntax"},
    {DENY("        match: \"a\xe9\"\n"), "8:18:1 yaml-syntax"},
    {DENY("        matchAny: true\n---\njust text\n"), "10:1:1 kind-unknown"},
    {DENY("        matchAny: true\n---\napiVersion: core/v2\nkind: Policy\n"),
     "10:13:1 kind-unknown"},
    {DENY("        match: ctx.user.metadata.name == 'x' and true\n"), "8:46:1 expression-invalid"},
};

/* Plain values of attributes: those that readers of YAML disagree on are told. */
static const struct {
    const char *value;
    bool is_told;
} attribute_values[] = {
    {"no", true},      {"Yes", true},         {"on", true},        {"0777", true},
    {"-010", true},    {"1_000", true},       {"0x1F", true},      {"0o17", true},
    {".inf", true},    {".5", true},          {"+1", true},        {"12:30", true},
    {"1:02:59", true}, {"2001-01-01", true},  {"'no'", false},     {"\"0777\"", false},
    {"10", false},     {"-1.5e3", false},     {"true", false},     {"null", false},
    {"norway", false}, {"10.0.0.1", false},   {"1.2.3", false},    {"2001:db8::1", false},
    {"::1", false},    {"10.0.0.0/8", false}, {"12:99", false},    {"1h", false},
    {"e3b0c4", false}, {"-", false},          {"2001-1-1", false}, {"a:b", false},
};

static const struct check_case model[] = {
    {DENY("        any:\n          of: []\n"), "6:7:1 policy-invalid"},
    {DENY("        any:\n          of:\n            - all:\n                of: []\n"),
     "10:15:1 policy-invalid"},
    {"    - condition:\n        matchAny: true\n", "6:7:1 policy-invalid"},
    {"    - effect: DENY\n      priority: 7\n      condition:\n        matchAny: true\n",
     "6:7:1 policy-invalid, 6:7:1 deny-beaten"},
    {"    - effect: DENY\n", "6:7:1 policy-invalid"},
    {DENY("        opa:\n          inline: x\n"), "6:7:1 policy-invalid"},
    {"    - effect: DENY\n      condition:\n        matchAny: true\n"
     "---\nkind: Policy\nmetadata:\n  name: case-one\nspec:\n  rules: []\n",
     "10:1:1 policy-duplicate, 14:3:1 policy-empty"},
    {"    - effect: DENY\n      condition:\n        matchAny: true\n"
     "---\nkind: ClusterConfig\nspec:\n  authorization:\n    policies: [case-one, allow-all, no]\n",
     "13:37:1 attached-missing"},
    {"    - effect: DENY\n      condition:\n        matchAny: true\n"
     "---\nkind: Group\nmetadata: {name: g1}\nspec:\n  authorization:\n    inlinePolicies:\n"
     "      - name: inner\n        spec:\n          rules:\n            - effect: ALLOW\n"
     "              condition:\n                match: ctx.usr == 1\n",
     "20:24:7 ctx-unknown"},
};

static const struct check_case lint[] = {
    {DENY("        match: ctx.user.spec.type == 'WORKER'\n"), "8:16:30 comparison-never-true"},
    {DENY("        match: ctx.user.spec.type in ['WORKLOAD', 'WORKER']\n"),
     "8:16:44 comparison-never-true"},
    {DENY("        match: ctx.user.metadata.name == 5\n"), "8:16:27 comparison-never-true"},
    {DENY("        match: ctx.user.metadata.createdAt < now()\n"), "8:16:35 operation-fails"},
    {DENY("        match: timestamp(ctx.user.metadata.createdAt) < now()\n"), ""},
    {DENY("        match: ctx.user.metadata.createdAt.getHours() > 3\n"),
     "8:16:38 operation-fails"},
    {DENY("        match: ctx.user.status.isLocked == false\n"), "8:16:33 zero-is-absent"},
    {DENY("        match: '!ctx.user.status.isLocked'\n"), "8:17:25 zero-is-absent"},
    {DENY("        match: has(ctx.run) && ctx.run.isRoot == false\n"), ""},
    {DENY("        match: ctx.session.status.totalAuthentications + 1 > 5\n"),
     "8:16:39 deny-on-missing, 8:16:43 operation-fails"},
    {DENY("        match: ctx.session.status.totalAuthentications + 1.0 > 5.0\n"),
     "8:16:39 deny-on-missing"},
    {DENY("        match: ctx.device.status.osType == 'LINUX'\n"), "8:16:10 ctx-never"},
    {DENY("        match: ctx.workspace.spec.limit.memory.megabytes > 5\n"),
     "8:16:13 deny-on-missing"},
    {DENY("        match: has(ctx.workspace.spec.limit.memory) && "
          "ctx.workspace.spec.limit.memory.megabytes > 5\n"),
     ""},
    {DENY("        match: '!has(ctx.workspace.spec.limit.memory) || "
          "ctx.workspace.spec.limit.memory.megabytes > 5'\n"),
     "8:22:13 deny-on-missing"},
    {DENY("        match: '!has(ctx.run) || ctx.run.size > 5'\n"), ""},
    {DENY("        all:\n          of:\n            - match: has(ctx.run)\n"
          "            - match: ctx.run.size > 5\n"),
     ""},
    {DENY("        match: \"'ext' in ctx.session.status && 'cordium' in "
          "ctx.session.status.ext && ctx.session.status.ext.cordium.spaceRef.name == 'x'\"\n"),
     ""},
    {DENY("        none:\n          of:\n            - match: ctx.run.size > 5\n"), ""},
    {ALLOW("        not: ctx.run.size > 5\n"), "8:14:7 allow-on-missing"},
    {ALLOW("        none:\n          of:\n            - match: ctx.run.size > 5\n"),
     "10:22:7 allow-on-missing"},
    {ALLOW("        match: ctx.run.size > 5\n"), ""},
    {DENY("        match: ctx.user.metadata.name.matches('a$b')\n"), "8:16:37 regex-never-matches"},
    {DENY("        match: ctx.user.spec.type.matches('^work')\n"), "8:16:35 regex-never-matches"},
    {DENY("        match: ctx.user.spec.type.matches('^WORK')\n"), ""},
    {DENY("        match: has(ctx.session.status.authentication.info.geoip.network.asn) && "
          "ctx.session.status.authentication.info.geoip.network.asn > 5\n"),
     "8:81:60 operation-fails"},
    {DENY("        match: has(ctx.session.status.authentication.info.geoip.network.asn) && "
          "ctx.session.status.authentication.info.geoip.network.asn == 5\n"),
     "8:81:61 comparison-never-true"},
    {DENY("        match: attrs.x == 1\n"), "8:16:7 attr-unknown"},
    {DENY("        match: has(ctx.session.status.ext.cordum)\n"), "8:16:34 ctx-unknown"},
    {DENY("        match: \"'ext' in ctx.session.status && 'cordium' in "
          "ctx.session.status.ext && ctx.session.status.ext.cordium.space.name == 'x'\"\n"),
     "8:87:36 ctx-unknown"},
    {DENY("        match: ctx.groups.exists(g, g.metadta.name == 'x')\n"), "8:37:9 ctx-unknown"},
    {DENY("        match: ctx.groups.exists(g, g.metadata.name == 'x')\n"), ""},
    {DENY("        match: ctx.request.body.spec.type == 'x'\n"), "8:16:21 deny-on-missing"},
    {DENY("        match: ctx.request.boddy.spec == 'x'\n"), "8:16:17 ctx-unknown"},
    {DENY("        match: \"'x' in ctx.user.metadata.name\"\n"), "8:17:29 operation-fails"},
    {DENY("        match: ctx.user.metadata.labels['team'] == 'red'\n"), ""},
    {DENY("        match: ctx.user.metadata.labels['team'] != 'red'\n"), "8:16:32 deny-on-missing"},
    {DENY("        match: cel.bind(r, ctx.run, r.sise == 1)\n"),
     "8:28:7 deny-on-missing, 8:37:6 ctx-unknown"},
    {DENY("        match: size(ctx.user.metadata.name) > 3\n"), ""},
    {DENY("        match: ctx.user.metadata.name.substring(0, 3) != 'abc'\n"),
     "8:16:38 deny-on-missing"},
    {DENY("        match: '!ctx.user.metadata.name.charAt(3).matches(\"[a-z]\")'\n"),
     "8:18:32 deny-on-missing"},
    {DENY("        match: ctx.user.metadata.name.substring(0, 3) == 'abc'\n"), ""},
    {DENY("        match: size(ctx.user.metadata.name) < 3 || "
          "ctx.user.metadata.name.substring(0, 3) != 'abc'\n"),
     ""},
    {DENY("        match: ctx.user.metadata.name.split('-')[1] != 'x'\n"),
     "8:16:36 deny-on-missing"},
    {DENY("        match: has(ctx.groups) && ctx.groups[0].metadata.name != 'x'\n"),
     "8:35:13 deny-on-missing"},
    {DENY("        match: has(ctx.groups) && ctx.groups.size() > 0 && "
          "ctx.groups[0].metadata.name != 'x'\n"),
     ""},
    {ALLOW("        not: ctx.user.metadata.name.substring(0, 3) == 'abc'\n"), ""},
    {ALLOW("        not: ctx.user.metadata.name.substring(0, 3) != 'abc'\n"),
     "8:14:38 allow-on-missing"},
    {DENY("        match: ctx.request.grpc.method == 'ListSpaces'\n"),
     "8:16:39 comparison-never-true"},
    {DENY("        match: ctx.request.grpc.method in ['ListSpace', 'Exec', 'Run', 'Check']\n"), ""},
    {DENY("        match: ctx.request.grpc.method.startsWith('List')\n"), ""},
    {DENY("        match: ctx.?device.?x.orValue(1) == 2\n"), ""},
    {DENY("        matchAny: false\n"), "6:7:1 rule-never-matches"},
    {DENY("        matchAny: true\n") ALLOW("        match: ctx.user.spec.type == 'HUMAN'\n"),
     "9:7:1 rule-unreachable"},
    {ALLOW("        match: ctx.user.spec.type == 'HUMAN'\n")
         ALLOW("        match: ctx.user.spec.type == 'HUMAN'\n"),
     "9:7:1 rule-duplicate"},
    {"    - effect: ALLOW\n      priority: -1\n      condition:\n        matchAny: true\n"
     "---\nkind: Policy\nmetadata: {name: case-two}\nspec:\n  rules:\n    - effect: DENY\n"
     "      condition:\n        match: ctx.user.spec.type == 'HUMAN'\n",
     "6:7:1 allow-overrides, 15:7:1 deny-beaten"},
};

static void expect_case(const struct check_case *c)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "%s%s", HEAD, c->yaml);
    expect(text, c->places);
}

START_TEST(errors_have_their_place_in_the_yaml_file)
{
    expect_case(&places_in_yaml[_i]);
}
END_TEST

START_TEST(traps_of_yaml_are_named)
{
    expect_case(&yaml_traps[_i]);
}
END_TEST

START_TEST(values_that_readers_of_yaml_disagree_on_are_told)
{
    char text[400];
    (void)snprintf(text, sizeof text,
                   "kind: Policy\nmetadata:\n  name: case-one\nspec:\n  attrs:\n    x: [%s]\n"
                   "  rules:\n    - effect: DENY\n      condition:\n"
                   "        match: ctx.user.metadata.name in attrs.x\n",
                   attribute_values[_i].value);
    struct buf got;
    buf_init(&got, 65536);
    check_text(text, true, &got);
    bool is_told = strstr((const char *)got.ptr, "yaml-scalar") != NULL;
    ck_assert_msg(is_told == attribute_values[_i].is_told, "%s gives \"%s\"",
                  attribute_values[_i].value, (const char *)got.ptr);
    buf_free(&got);
}
END_TEST

START_TEST(what_the_model_forbids_is_told_at_its_rule)
{
    expect_case(&model[_i]);
}
END_TEST

START_TEST(doubtful_rules_are_told)
{
    expect_case(&lint[_i]);
}
END_TEST

static const struct {
    const char *condition;
    const char *words;
} remedies[] = {
    {"session.status.type == 'CLIENT'", "did you mean ctx.session?"},
    {"ctx.session.stat.type == 'CLIENT'", "did you mean ctx.session.status?"},
    {"ctx.session.ext.cordium.spaceRef.name == 'x'", "did you mean ctx.session.status.ext?"},
    {"'ext' in ctx.session.status && ctx.session.status.ext.cordium.space_ref.name == 'x'",
     "did you mean ctx.session.status.ext.cordium.spaceRef?"},
    {"ctx.user.metadata.name == 'x' && True", "write true"},
    {"ctx.user.metadata.name == 'x' or ctx.run.isRoot", "write '||'"},
    {"ctx.user.metadata.name = 'x'", "write '=='"},
    {"ctx.user.metadata.name == \u201cx\u201d", "write ' or \""},
};

START_TEST(what_was_meant_is_told)
{
    char text[400];
    struct buf out;
    struct arena arena;
    struct policy_files files;
    struct error err = {0};
    (void)snprintf(text, sizeof text, HEAD DENY("        match: |\n          %s\n"),
                   remedies[_i].condition);
    arena_init(&arena, 64 << 20);
    buf_init(&out, 65536);
    ck_assert_int_eq(policy_files_open(&files, &arena, &err), 0);
    policy_files_add(&files, "x.yaml", str_from(text));
    policy_files_check(&files, true);
    diagnostics_print(&files.diagnostics, DIAGNOSTIC_TEXT, &out);
    buf_add_u8(&out, 0);
    ck_assert_msg(strstr((const char *)out.ptr, remedies[_i].words), "%s", (const char *)out.ptr);
    policy_files_close(&files);
    buf_free(&out);
    arena_free(&arena);
}
END_TEST

/* U+009B begins a command for terminals, as ESC [ does. */
START_TEST(no_file_commands_a_terminal)
{
    struct arena arena;
    struct diagnostics d;
    struct buf out;
    arena_init(&arena, 1 << 20);
    buf_init(&out, 4096);
    diagnostics_init(&d, &arena);
    diagnostics_add(&d, &(struct diagnostic){.file = "x.yaml",
                                             .line = 1,
                                             .column = 1,
                                             .severity = POLICY_SEVERITY_ERROR,
                                             .code = "yaml-syntax",
                                             .text = "a\x1b[31m",
                                             .source = STR("\xc2\x9b"
                                                           "31m \xff \x7f \xc3\xa9")});
    diagnostics_print(&d, DIAGNOSTIC_TEXT, &out);
    buf_add_u8(&out, 0);
    ck_assert_ptr_nonnull(strstr((const char *)out.ptr, "| ?31m ? ? \xc3\xa9\n"));
    ck_assert_ptr_null(strchr((const char *)out.ptr, '\x1b'));
    buf_free(&out);
    arena_free(&arena);
}
END_TEST

START_TEST(unused_attributes_are_told_at_their_name)
{
    expect("kind: Policy\nmetadata: {name: case-one}\nspec:\n  attrs:\n    used: 1\n    idle: 2\n"
           "  rules:\n    - effect: DENY\n      condition:\n"
           "        match: ctx.session.status.totalAuthentications > attrs.used\n",
           "6:5:4 attr-unused");
    expect("kind: Policy\nmetadata: {name: case-one}\nspec:\n  attrs:\n    a: 1\n    b: 2\n"
           "  rules:\n    - effect: DENY\n      condition:\n"
           "        match: ctx.user.metadata.name in attrs\n",
           "");
}
END_TEST

START_TEST(documents_of_other_commands_are_passed_over)
{
    expect("spec:\n  image: x\n", "");
    expect("apiVersion: cordium/v1\nkind: Space\nspec: {}\n", "");
    expect("kind: Polcy\nspec: {}\n", "1:7:1 kind-unknown");
    expect("spec:\n  rules: []\n", "1:1:1 kind-unknown");
    expect("", "");
}
END_TEST

#define ALWAYS(priority)                                                                           \
    "    - effect: ALLOW\n      priority: " priority "\n      condition: {matchAny: true}\n"
#define NEXT(name) "---\nkind: Policy\nmetadata: {name: " name "}\nspec:\n  rules:\n"
#define DENY_HUMANS DENY("        match: ctx.user.spec.type == 'HUMAN'\n")

/* One doubt for each rule, about the ALLOW that is asked first, and never about the rule's own
 * policy. */
START_TEST(a_denial_is_told_what_beats_it_once)
{
    expect(HEAD DENY_HUMANS NEXT("case-two") ALWAYS("-1") NEXT("case-three") ALWAYS("-2"),
           "6:7:1 deny-beaten, 14:7:1 allow-overrides, 22:7:1 allow-overrides");
    expect(HEAD ALWAYS("-2") DENY_HUMANS NEXT("case-two") ALWAYS("-1"),
           "6:7:1 allow-overrides, 9:7:1 rule-unreachable, 9:7:1 deny-beaten, "
           "17:7:1 allow-overrides");
    expect(HEAD ALWAYS("-1") NEXT("case-two") DENY_HUMANS, "6:7:1 allow-overrides, "
                                                           "14:7:1 deny-beaten");
}
END_TEST

static int64_t monotonic_ms(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A megabyte of them, so that anything quadratic shows: the check stands before an apply in the
 * gateway, where everybody would wait for it. */
START_TEST(many_mistakes_are_told_in_little_time)
{
    struct arena arena;
    struct policy_files files;
    struct error err = {0};
    struct buf text;
    arena_init(&arena, 256 << 20);
    buf_init(&text, 2 << 20);
    for (unsigned i = 0; i < 200; i++) {
        buf_printf(&text, "---\nkind: Policy\nmetadata: {name: many-%u}\nspec:\n  rules:\n", i);
        for (unsigned k = 0; k < 50; k++) {
            buf_add_cstr(&text, "  - {effect: DENY, condition: {match: '1+'}}\n");
            buf_add_cstr(&text, "  - {effect: ALLOW, priority: -1, condition: {matchAny: true}}\n");
        }
    }
    int64_t begin_ms = monotonic_ms();
    ck_assert_int_eq(policy_files_open(&files, &arena, &err), 0);
    policy_files_add(&files, "x.yaml", buf_str(&text));
    policy_files_check(&files, true);
    int64_t took_ms = monotonic_ms() - begin_ms;
    const struct diagnostics *d = &files.diagnostics;
    ck_assert_uint_eq(d->by_severity[POLICY_SEVERITY_ERROR], 10000);
    ck_assert_uint_eq(d->count, DIAGNOSTICS_MAX);
    ck_assert(d->is_cut && d->items[0].line == 6 && d->items[0].column == 42);
    /* 0.1 s as released; when each was searched for among all, it was half a minute. */
    ck_assert_msg(took_ms < 20000, "%ld ms", (long)took_ms);
    policy_files_close(&files);
    buf_free(&text);
    arena_free(&arena);
}
END_TEST

START_TEST(sarif_and_json_are_what_programs_read)
{
    struct arena arena;
    struct policy_files files;
    struct error err = {0};
    struct buf out;
    arena_init(&arena, 64 << 20);
    buf_init(&out, 1 << 20);
    ck_assert_int_eq(policy_files_open(&files, &arena, &err), 0);
    policy_files_add(&files, "a dir/x.yaml", STR(HEAD DENY("        match: ctx.usr == 1\n")));
    policy_files_check(&files, true);
    diagnostics_print(&files.diagnostics, DIAGNOSTIC_SARIF, &out);
    buf_add_u8(&out, 0);
    ck_assert_ptr_nonnull(strstr((char *)out.ptr, "\"uri\":\"a%20dir/x.yaml\""));
    ck_assert_ptr_nonnull(strstr(
        (char *)out.ptr, "\"region\":{\"startLine\":8,\"startColumn\":16,\"endColumn\":23}"));
    ck_assert_ptr_nonnull(
        strstr((char *)out.ptr, "\"ruleId\":\"ctx-unknown\",\"level\":\"error\""));
    buf_clear(&out);
    diagnostics_print(&files.diagnostics, DIAGNOSTIC_JSON, &out);
    buf_add_u8(&out, 0);
    ck_assert_ptr_nonnull(strstr((char *)out.ptr, "\"code\":\"ctx-unknown\""));
    ck_assert_ptr_nonnull(strstr((char *)out.ptr, "\"errors\":1,\"warnings\":0"));
    policy_files_close(&files);
    buf_free(&out);
    arena_free(&arena);
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

Suite *suite_policy_check(void)
{
    Suite *s = suite_create("policy_check");
    TCase *t = tcase_create("policy_check");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, errors_have_their_place_in_the_yaml_file, 0, COUNT(places_in_yaml));
    tcase_add_loop_test(t, traps_of_yaml_are_named, 0, COUNT(yaml_traps));
    tcase_add_loop_test(t, values_that_readers_of_yaml_disagree_on_are_told, 0,
                        COUNT(attribute_values));
    tcase_add_loop_test(t, what_the_model_forbids_is_told_at_its_rule, 0, COUNT(model));
    tcase_add_loop_test(t, doubtful_rules_are_told, 0, COUNT(lint));
    tcase_add_loop_test(t, what_was_meant_is_told, 0, COUNT(remedies));
    tcase_add_test(t, no_file_commands_a_terminal);
    tcase_add_test(t, unused_attributes_are_told_at_their_name);
    tcase_add_test(t, documents_of_other_commands_are_passed_over);
    tcase_add_test(t, a_denial_is_told_what_beats_it_once);
    tcase_add_test(t, many_mistakes_are_told_in_little_time);
    tcase_add_test(t, sarif_and_json_are_what_programs_read);
    suite_add_tcase(s, t);
    return s;
}
