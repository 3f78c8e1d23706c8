#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/authorize/policy_store.h"
#include "gateway/services/work_queue.h"
#include "policy/base/json_out.h"

Suite *suite_policy_tools(void);

#define SERVICE "/cordium.ext.v1.PolicyService/"

static struct harness h;
static const char *admin;

static void setup(void)
{
    harness_open(&h);
    admin = harness_admin(&h);
}

static void teardown(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/audit.jsonl", h.folder);
    (void)unlink(path);
    harness_close(&h);
}

static void call(const char *token, const char *method, const char *json)
{
    char path[128];
    (void)snprintf(path, sizeof path, SERVICE "%s", method);
    (void)harness_call(&h, token, path, json);
}

static void must(const char *token, const char *method, const char *json)
{
    call(token, method, json);
    ck_assert_msg(h.status == 0, "%s %s: %s", method, json, h.text);
}

static void apply(const char *yaml, const char *more)
{
    struct buf out;
    buf_init(&out, 65536);
    struct json_out j = json_out_to(&out);
    json_begin_object(&j);
    json_member_string(&j, "documents", yaml);
    json_end_object(&j);
    out.len--;
    buf_printf(&out, "%s}", more);
    buf_add_u8(&out, 0);
    must(admin, "Apply", (const char *)out.ptr);
    buf_free(&out);
}

#define HAS(part)                                                                                  \
    ck_assert_msg(strstr(harness_json(&h), part) != NULL, "no %s in %s", part, harness_json(&h))
#define LACKS(part)                                                                                \
    ck_assert_msg(strstr(harness_json(&h), part) == NULL, "%s in %s", part, harness_json(&h))

#define DENY_LISTS                                                                                 \
    "kind: Policy\nmetadata: {name: no-lists}\nspec:\n  rules:\n  - name: lists\n"                 \
    "    effect: DENY\n    condition: {match: ctx.request.grpc.method == \"ListSpace\"}\n"         \
    "---\nkind: ClusterConfig\nspec: {authorization: {policies: [no-lists]}}\n"

START_TEST(an_administrator_is_told_rule_by_rule_and_value_by_value)
{
    apply(DENY_LISTS, "");
    must(admin, "Explain", "{\"method\":\"ListSpace\"}");
    LACKS("\"isAllowed\":true");
    HAS("\"reason\":\"POLICY_MATCH\"");
    HAS("\"policy\":\"no-lists\"");
    HAS("\"result\":\"TRUE\"");
    HAS("\"value\":\"\\\"ListSpace\\\"\"");
    must(admin, "Explain", "{\"method\":\"MainService/GetSpace\"}");
    HAS("\"isAllowed\":true");
    HAS("\"result\":\"FALSE\"");
    HAS("would be refused even if it is allowed");
}
END_TEST

START_TEST(others_are_told_the_outcome_of_their_own_requests_only)
{
    const char *ann = harness_user(&h, "ann", "HUMAN");
    apply(DENY_LISTS, "");
    must(ann, "Explain", "{\"method\":\"ListSpace\"}");
    HAS("\"policy\":\"no-lists\"");
    LACKS("\"steps\"");
    call(ann, "Explain", "{\"method\":\"ListSpace\",\"user\":\"root\"}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "");
    call(ann, "Explain", "{\"method\":\"ListSpace\",\"auditId\":\"x\"}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "");
    must(admin, "Explain", "{\"method\":\"GetPolicy\",\"user\":\"ann\"}");
    HAS("\"attachedTo\":\"User ann\"");
    HAS("not known");
}
END_TEST

START_TEST(questions_that_make_no_sense_are_refused)
{
    call(admin, "Explain", "{\"method\":\"Nonsense\"}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "no method 'Nonsense'");
    call(admin, "Explain", "{\"method\":\"\"}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "no method");
    call(admin, "Explain", "{\"method\":\"GetSpace\",\"body\":\"{\\\"nam\\\":1}\"}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "body: ");
    call(admin, "Explain", "{\"method\":\"GetSpace\",\"user\":\"nobody\"}");
    harness_expect(&h, STATUS_NOT_FOUND, "nobody");
    call(admin, "Explain", "{\"method\":\"Health/Check\"}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "public");
    call(admin, "Explain", "{\"auditId\":\"x\"}");
    harness_expect(&h, STATUS_FAILED_PRECONDITION, "audit log");
}
END_TEST

START_TEST(versions_tell_who_and_why_and_can_be_put_back)
{
    char json[64];
    uint64_t first = policy_store_version(h.gateway.policies);
    apply(DENY_LISTS, "");
    harness_core(&h, admin, "DeletePolicy", "{\"name\":\"no-lists\"}");
    harness_expect(&h, STATUS_FAILED_PRECONDITION, "no-lists");
    must(admin, "ListVersions", "{}");
    HAS("\"reason\":\"apply\"");
    HAS("\"user\":\"admin\"");
    HAS("\"isCurrent\":true");
    ck_assert_uint_eq(policy_store_version(h.gateway.policies), first + 1);

    (void)snprintf(json, sizeof json, "{\"version\":\"%u\",\"dryRun\":true}", (unsigned)first);
    must(admin, "Rollback", json);
    HAS("\"deleted\":1");
    ck_assert_uint_eq(policy_store_version(h.gateway.policies), first + 1);

    (void)snprintf(json, sizeof json, "{\"version\":\"%u\"}", (unsigned)first);
    must(admin, "Rollback", json);
    ck_assert(!policy_set_has(policy_store_current(h.gateway.policies), STR("no-lists")));
    ck_assert_uint_eq(policy_store_version(h.gateway.policies), first + 2);
    must(admin, "Explain", "{\"method\":\"ListSpace\"}");
    HAS("\"isAllowed\":true");

    (void)snprintf(json, sizeof json, "{\"version\":\"%u\"}", (unsigned)first + 1);
    must(admin, "Rollback", json);
    must(admin, "Explain", "{\"method\":\"ListSpace\"}");
    HAS("\"policy\":\"no-lists\"");
    must(admin, "ListVersions", "{\"count\":2}");
    HAS("\"reason\":\"rollback to ");
    call(admin, "Rollback", "{\"version\":\"999\"}");
    harness_expect(&h, STATUS_NOT_FOUND, "999");
}
END_TEST

START_TEST(a_rollback_never_leaves_a_policy_behind_that_did_not_exist)
{
    char json[64];
    uint64_t first = policy_store_version(h.gateway.policies);
    apply("kind: Policy\nmetadata: {name: later}\nspec:\n  rules:\n"
          "  - {effect: ALLOW, condition: {matchAny: true}}\n"
          "---\nkind: Group\nmetadata: {name: dev}\nspec: {authorization: {policies: [later]}}\n",
          "");
    (void)snprintf(json, sizeof json, "{\"version\":\"%u\"}", (unsigned)first);
    call(admin, "Rollback", json);
    harness_expect(&h, STATUS_FAILED_PRECONDITION, "later");
    ck_assert(policy_set_has(policy_store_current(h.gateway.policies), STR("later")));
}
END_TEST

/* The line that request.c would write of a request of ann's. */
static void write_line(const char *path, const char *method, const char *more)
{
    ProtobufCMessage *user = NULL;
    struct store_list sessions;
    ck_assert_int_eq(store_get_by_name(h.gateway.store, STORE_USER, "ann", &h.arena, &user, &h.err),
                     0);
    struct store_filter filter = {.owner_uid = resource_uid(user)};
    ck_assert_int_eq(
        store_list_all(h.gateway.store, STORE_SESSION, &filter, &h.arena, &sessions, &h.err), 0);
    ck_assert_uint_gt(sessions.count, 0);
    FILE *f = fopen(path, "ae");
    ck_assert_ptr_nonnull(f);
    (void)fprintf(f,
                  "{\"sequence\":1,\"prev\":\"\",\"metadata\":{\"id\":\"id-%s\"},\"entry\":{"
                  "\"common\":{\"startedAt\":\"2026-11-29T20:00:00Z\",\"status\":\"ALLOWED\","
                  "\"reason\":{\"type\":\"POLICY_MATCH\"},\"sessionRef\":{\"uid\":\"%s\"},"
                  "\"userRef\":{\"uid\":\"%s\",\"name\":\"ann\"}},\"info\":{\"grpc\":{\"path\":"
                  "\"/octelium.api.main.cordium.v1.MainService/%s\"}}},\"cordium\":{\"event\":"
                  "\"DECISION\",\"policySetVersion\":1,\"peer\":\"192.0.2.7:80\"%s}}\n",
                  method, resource_uid(sessions.items[0]), resource_uid(user), method, more);
    (void)fclose(f);
}

START_TEST(a_dry_run_tells_which_decisions_of_the_past_would_change)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/audit.jsonl", h.folder);
    (void)harness_user(&h, "ann", "HUMAN");
    h.config.audit_dir = h.folder;
    write_line(path, "ListSpace", "");
    write_line(path, "GetSpace", "");
    write_line(path, "CreateSpace", "");
    write_line(path, "DeleteSpace", ",\"spaceRef\":{\"uid\":\"gone\"}");
    write_line(path, "NoSuchMethod", "");
    apply("kind: Policy\nmetadata: {name: no-lists}\nspec:\n  rules:\n"
          "  - name: lists\n    effect: DENY\n    condition:\n      any:\n        of:\n"
          "        - match: ctx.request.grpc.method == \"ListSpace\" && ctx.request.ip == "
          "\"192.0.2.7\"\n"
          "        - match: ctx.request.grpc.method == \"CreateSpace\" && "
          "has(ctx.request.body.spec)\n"
          "---\nkind: ClusterConfig\nspec: {authorization: {policies: [no-lists]}}\n",
          ",\"dryRun\":true,\"auditLines\":100");
    HAS("\"examined\":5");
    HAS("\"unchanged\":1");
    HAS("\"gone\":2");
    HAS("\"undecidable\":1");
    HAS("\"auditId\":\"id-ListSpace\"");
    HAS("\"wasAllowed\":true");
    HAS("\"before\":\"allow-all/allow\"");
    HAS("\"after\":\"no-lists/lists\"");
    ck_assert(!policy_set_has(policy_store_current(h.gateway.policies), STR("no-lists")));
}
END_TEST

START_TEST(a_line_of_the_audit_log_is_explained)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/audit.jsonl", h.folder);
    (void)harness_user(&h, "ann", "HUMAN");
    h.config.audit_dir = h.folder;
    write_line(path, "ListSpace", "");
    write_line(path, "CreateSpace", "");
    must(admin, "Explain", "{\"auditId\":\"id-ListSpace\"}");
    HAS("\"isAllowed\":true");
    HAS("it was allowed (POLICY_MATCH) under version 1");
    apply("kind: Policy\nmetadata: {name: by-body}\nspec:\n  rules:\n  - effect: DENY\n"
          "    condition: {match: has(ctx.request.body.spec)}\n"
          "---\nkind: ClusterConfig\nspec: {authorization: {policies: [by-body]}}\n",
          "");
    must(admin, "Explain", "{\"auditId\":\"id-CreateSpace\"}");
    HAS("depends on what the audit log does not keep");
    apply("kind: Policy\nmetadata: {name: no-lists}\nspec:\n  rules:\n"
          "  - {name: lists, effect: DENY, condition: {match: ctx.request.grpc.method == "
          "'ListSpace'}}\n---\nkind: ClusterConfig\nspec: {authorization: {policies: "
          "[no-lists]}}\n",
          "");
    must(admin, "Explain", "{\"auditId\":\"id-ListSpace\"}");
    HAS("\"policy\":\"no-lists\",\"rule\":\"lists\"");
    HAS("\"then\":{\"isAllowed\":true");
    HAS("\"isChanged\":true");
    /* Nothing of that was put in force. */
    ck_assert(policy_set_has(policy_store_current(h.gateway.policies), STR("no-lists")));
    call(admin, "Explain", "{\"auditId\":\"id-nothing\"}");
    harness_expect(&h, STATUS_NOT_FOUND, "id-nothing");
}
END_TEST

#define GUARD                                                                                      \
    "kind: Policy\\nmetadata: {name: guard}\\nspec:\\n  rules:\\n  - name: lists\\n    effect: "   \
    "DENY\\n    condition: {match: ctx.request.grpc.method == 'ListSpace'}\\n"
#define CASES                                                                                      \
    "kind: PolicyTest\\nctx: {request: {grpc: {method: ListSpace}}}\\nattached: [no-lists]\\n"     \
    "tests:\\n- {name: one, expect: {decision: DENY, rule: lists}}\\n- {name: two, expect: "       \
    "ALLOW}\\n"
#define FILE_OF(path, text) "{\"path\":\"" path "\",\"text\":\"" text "\"}"

START_TEST(policies_are_checked_beside_the_loop)
{
    must(admin, "Check", "{\"files\":[" FILE_OF("a.yaml", GUARD) "]}");
    HAS("\"passed\":true");
    HAS("\"policies\":1");
    must(admin, "Check",
         "{\"files\":[" FILE_OF("a.yaml", GUARD) "," FILE_OF("b.yaml", "kind: Polcy") "]}");
    HAS("\"file\":\"b.yaml\"");
    HAS("\"code\":\"kind-unknown\"");
    LACKS("\"passed\":true");
    call(harness_user(&h, "ann", "HUMAN"), "Check", "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "no administrator");
    call(admin, "Check", "{\"files\":[{\"path\":\"a\"},{\"path\":\"a\"}]}");
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "two files have the path 'a'");
}
END_TEST

START_TEST(written_requests_are_decided_by_what_is_in_force)
{
    const char *json = "{\"tests\":[" FILE_OF("t.yaml", CASES) "]}";
    must(admin, "Test", json);
    HAS("attached: there is no policy 'no-lists'");
    apply(DENY_LISTS, "");
    must(admin, "Test", json);
    HAS("\"succeeded\":1");
    HAS("\"failed\":1");
    HAS("\"mismatch\":\"got DENY by no-lists rule 'lists' (POLICY_MATCH)\"");
    HAS("\"decided\":2");
    must(admin, "Test",
         "{\"tests\":[" FILE_OF("t.yaml", CASES) "],\"policies\":[" FILE_OF("a", GUARD) "]}");
    HAS("policies: a PolicyTest needs a list of files or folders");
}
END_TEST

#define TESTS_OF(settings, tests)                                                                  \
    "{\"tests\":[" FILE_OF("t.yaml", "kind: PolicyTest\\n" settings "attached: "                   \
                                     "[allow-all]\\ntests:\\n" tests) "]}"

/* A test that cannot fail, or says something else than it seems to, is no test. */
START_TEST(a_test_must_be_able_to_fail)
{
    must(admin, "Test", TESTS_OF("", "- {name: one}\\n- {name: two, expect: ALLOW}\\n"));
    HAS("\"failed\":1");
    HAS("\"succeeded\":1");
    HAS("nothing is expected");
    must(admin, "Test", TESTS_OF("strict: yes\\n", "- {name: one, expect: ALLOW}\\n"));
    HAS("strict: must be true or false");
    must(admin, "Test", TESTS_OF("strict: True\\n", "- {name: one, expect: ALLOW}\\n"));
    HAS("\"succeeded\":1");
    must(admin, "Test",
         TESTS_OF("", "- {name: one, expect: ALLOW}\\n- {name: one, expect: DENY}\\n"));
    HAS("the test on line 4 has this name too");
}
END_TEST

/* One runs, so many wait, and the next is told so; those whose client went away are not begun. */
START_TEST(more_checks_than_can_wait_are_refused)
{
    enum { COUNT = WORK_QUEUE_MAX + 2 };
    struct harness_pending *pending[COUNT];
    const char *json = "{\"files\":[" FILE_OF("a.yaml", GUARD) "]}";
    for (size_t i = 0; i < COUNT; i++) {
        pending[i] = harness_begin(&h, admin, SERVICE "Check", json);
    }
    ck_assert_int_eq(harness_end(&h, pending[COUNT - 1]), STATUS_RESOURCE_EXHAUSTED);
    harness_expect(&h, STATUS_RESOURCE_EXHAUSTED, "wait already");
    for (size_t i = 0; i < COUNT - 1; i += 2) {
        harness_abandon(&h, pending[i]);
    }
    for (size_t i = 1; i < COUNT - 1; i += 2) {
        ck_assert_int_eq(harness_end(&h, pending[i]), 0);
        HAS("\"passed\":true");
    }
    must(admin, "Check", json);
}
END_TEST

Suite *suite_policy_tools(void)
{
    Suite *s = suite_create("policy_tools");
    TCase *t = tcase_create("policy_tools");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_administrator_is_told_rule_by_rule_and_value_by_value);
    tcase_add_test(t, others_are_told_the_outcome_of_their_own_requests_only);
    tcase_add_test(t, questions_that_make_no_sense_are_refused);
    tcase_add_test(t, versions_tell_who_and_why_and_can_be_put_back);
    tcase_add_test(t, a_rollback_never_leaves_a_policy_behind_that_did_not_exist);
    tcase_add_test(t, a_dry_run_tells_which_decisions_of_the_past_would_change);
    tcase_add_test(t, a_line_of_the_audit_log_is_explained);
    tcase_add_test(t, policies_are_checked_beside_the_loop);
    tcase_add_test(t, written_requests_are_decided_by_what_is_in_force);
    tcase_add_test(t, a_test_must_be_able_to_fail);
    tcase_add_test(t, more_checks_than_can_wait_are_refused);
    suite_add_tcase(s, t);
    return s;
}
