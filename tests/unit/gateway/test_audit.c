#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_record.h"
#include "gateway/audit/wall_time.h"
#include "gateway/text/json_reader.h"
#include "gateway/text/tree.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_audit(void);

#define SENTINEL "S3NT1NEL"
#define TOKEN "cat_" SENTINEL "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static const struct tree_node *member(const struct tree_node *node, const char *path)
{
    char part[64];
    while (node && *path) {
        size_t n = strcspn(path, "/");
        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        node = tree_member(node, part);
        path += path[n] ? n + 1 : n;
    }
    return node;
}

static const char *text_at(const struct tree_node *node, const char *path)
{
    const struct tree_node *n = member(node, path);
    return n ? n->text.ptr : "(absent)";
}

static const struct tree_node *parse(struct actor_fixture *f, const struct buf *record)
{
    const struct tree_node *root;
    ck_assert(!record->failed);
    ck_assert_ptr_null(memchr(record->ptr, '\n', record->len));
    ck_assert_msg(json_read(buf_str(record), &f->arena, &root, &f->err) == 0, "%s", f->err.text);
    return root;
}

static void decide_by_rule(struct request *r)
{
    r->decision = (struct decision){.is_allowed = false,
                                    .reason_type = "POLICY_MATCH",
                                    .policy_name = "deny-sandboxes",
                                    .policy_uid = "33333333-3333-4333-8333-333333333333",
                                    .policy_resource_version = "v7",
                                    .attached_to = "ClusterConfig",
                                    .rule_name = "#0",
                                    .priority = -1,
                                    .set_version = 12};
}

START_TEST(a_decision_has_the_shape_of_an_access_log)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    struct request *r =
        fixture_request(&f, "/octelium.api.main.cordium.v1.MainService/CreateWorkspace");
    fixture_header(&f, "user-agent", "cordium-sdk/0.3.0");
    decide_by_rule(r);
    struct error refusal = {.status = STATUS_PERMISSION_DENIED, .text = "Denied by policy"};
    buf_init(&record, 65536);
    audit_record_decision(r, &refusal, &record);
    const struct tree_node *root = parse(&f, &record);
    ck_assert_str_eq(text_at(root, "apiVersion"), "core/v1");
    ck_assert_str_eq(text_at(root, "kind"), "AccessLog");
    ck_assert_str_eq(text_at(root, "metadata/actorRef/name"), "s1");
    ck_assert_uint_eq(strlen(text_at(root, "metadata/id")), 44);
    ck_assert_str_eq(text_at(root, "entry/common/status"), "DENIED");
    ck_assert_str_eq(text_at(root, "entry/common/startedAt"), "2026-09-21T14:13:20Z");
    ck_assert_str_eq(text_at(root, "entry/common/reason/type"), "POLICY_MATCH");
    ck_assert_str_eq(text_at(root, "entry/common/reason/details/policyMatch/policy/policyRef/name"),
                     "deny-sandboxes");
    ck_assert_str_eq(
        text_at(root, "entry/common/reason/details/policyMatch/policy/policyRef/resourceVersion"),
        "v7");
    ck_assert_str_eq(text_at(root, "entry/common/reason/details/policyMatch/ruleName"), "#0");
    ck_assert_str_eq(text_at(root, "entry/common/reason/details/policyMatch/priority"), "-1");
    ck_assert_str_eq(text_at(root, "entry/common/userRef/name"), "ann");
    ck_assert_str_eq(text_at(root, "entry/info/grpc/method"), "CreateWorkspace");
    ck_assert_str_eq(text_at(root, "cordium/event"), "DECISION");
    ck_assert_str_eq(text_at(root, "cordium/policySetVersion"), "12");
    ck_assert_str_eq(text_at(root, "cordium/refusal/code"), "PERMISSION_DENIED");
    ck_assert_str_eq(text_at(root, "cordium/peer"), "192.0.2.7:4711");
    ck_assert_str_eq(text_at(root, "cordium/userAgent"), "cordium-sdk/0.3.0");
    ck_assert_str_eq(text_at(root, "cordium/requestID"), r->id);
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

START_TEST(an_unauthenticated_and_an_unknown_call_have_records_too)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    struct request *r = fixture_request(&f, "/octelium.api.main.cordium.v1.MainService/GetSpace");
    r->actor = (struct actor){0};
    r->method = NULL;
    r->decision.reason_type = "UNAUTHENTICATED";
    f.call.path = STR("/no/such\n\"method\"");
    struct error refusal = {.status = STATUS_UNAUTHENTICATED, .text = "bad token " TOKEN};
    buf_init(&record, 65536);
    audit_record_decision(r, &refusal, &record);
    const struct tree_node *root = parse(&f, &record);
    ck_assert_str_eq(text_at(root, "entry/common/status"), "DENIED");
    ck_assert_str_eq(text_at(root, "entry/info/grpc/path"), "/no/such\n\"method\"");
    ck_assert_str_eq(text_at(root, "cordium/refusal/code"), "UNAUTHENTICATED");
    ck_assert_ptr_null(member(root, "cordium/refusal/text"));
    ck_assert_ptr_null(member(root, "entry/common/userRef"));
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

/* Every place where a secret could stand holds one; none comes out. */
START_TEST(secrets_never_appear)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    struct request *r = fixture_request(&f, "/octelium.api.main.cordium.v1.WorkspaceService/Exec");
    fixture_header(&f, "authorization", "Bearer " TOKEN);
    fixture_header(&f, "x-octelium-auth", TOKEN);
    fixture_header(&f, "cookie", "octelium_auth=" TOKEN);
    fixture_header(&f, "user-agent", "curl crt_" SENTINEL "0123456789abcdef");
    const char *env[] = {"API_KEY", "PATH"};
    struct run_request run = {.command = STR("echo " SENTINEL),
                              .working_dir = "/workspace",
                              .has_stdin = true,
                              .env_names = env,
                              .env_name_count = 2};
    r->run = &run;
    r->message = fixture_message(&f, &cordium__exec_request__descriptor,
                                 "{\"request\": {\"command\": \"echo " SENTINEL
                                 "\", \"envVars\": [{\"key\": \"API_KEY\","
                                 " \"value\": \"" SENTINEL "\"}]}}");
    decide_by_rule(r);
    r->decision.is_allowed = true;
    struct error refusal = {.status = STATUS_NOT_FOUND, .text = "no '" TOKEN "' here"};
    buf_init(&record, 65536);
    audit_record_decision(r, &refusal, &record);
    audit_record_end(r, CALL_END_CANCELLED, &record);
    r->decision.reason_type = "MALFORMED";
    refusal.text[0] = '\0';
    (void)error_set(&refusal, STATUS_INVALID_ARGUMENT, "data: '%s' is not base64", SENTINEL);
    audit_record_decision(r, &refusal, &record);
    buf_add_u8(&record, 0);
    ck_assert_ptr_null(strstr((const char *)record.ptr, SENTINEL));
    ck_assert_ptr_nonnull(strstr((const char *)record.ptr, "\"API_KEY\""));
    ck_assert_ptr_nonnull(strstr((const char *)record.ptr, "[redacted]"));
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

START_TEST(the_end_says_how_it_ended)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    struct request *r = fixture_request(&f, "/octelium.api.main.cordium.v1.WorkspaceService/Exec");
    decide_by_rule(r);
    r->decision.is_allowed = true;
    r->is_answered = true;
    r->end_status = STATUS_OK;
    r->bytes_out = 123;
    r->outcome_facts = STR("{\"exitCode\":0}");
    buf_init(&record, 65536);
    audit_record_end(r, CALL_END_FINISHED, &record);
    const struct tree_node *root = parse(&f, &record);
    ck_assert_str_eq(text_at(root, "cordium/event"), "END");
    ck_assert_str_eq(text_at(root, "cordium/code"), "OK");
    ck_assert_str_eq(text_at(root, "cordium/end"), "FINISHED");
    ck_assert_str_eq(text_at(root, "cordium/bytesOut"), "123");
    ck_assert_str_eq(text_at(root, "cordium/outcome/exitCode"), "0");
    ck_assert_ptr_nonnull(member(root, "entry/common/endedAt"));
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

START_TEST(a_login_over_plain_http_has_a_record)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    struct request *r = fixture_request(&f, "/octelium.api.main.cordium.v1.MainService/GetSpace");
    struct audit_http facts = {.method = "POST",
                               .path = "/oauth2/token",
                               .is_allowed = true,
                               .reason_type = "LOGIN",
                               .http_status = 200,
                               .user = r->actor.user,
                               .session = r->actor.session};
    buf_init(&record, 65536);
    audit_record_http(&f.gateway, &f.call, &facts, &record);
    const struct tree_node *root = parse(&f, &record);
    ck_assert_str_eq(text_at(root, "entry/common/userRef/name"), "ann");
    ck_assert_str_eq(text_at(root, "entry/info/http/request/path"), "/oauth2/token");
    ck_assert_str_eq(text_at(root, "cordium/peer"), "192.0.2.7:4711");
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

START_TEST(what_the_edge_refuses_has_a_record_with_its_id)
{
    struct actor_fixture f;
    struct buf record;
    fixture_open(&f);
    const struct call_origin origin = {.peer = "192.0.2.7:4711"};
    const struct call_refusal refusal = {.origin = &origin,
                                         .request_id = "0123456789abcdef0123456789abcdef",
                                         .protocol = "connect",
                                         .http_status = 400,
                                         .status = STATUS_INVALID_ARGUMENT,
                                         .reason = "BAD_TIMEOUT"};
    buf_init(&record, 65536);
    audit_record_refused(&f.gateway, &refusal, &record);
    const struct tree_node *root = parse(&f, &record);
    ck_assert_str_eq(text_at(root, "cordium/requestID"), refusal.request_id);
    ck_assert_str_eq(text_at(root, "entry/common/reason/type"), "BAD_TIMEOUT");
    ck_assert_str_eq(text_at(root, "cordium/refusal/code"), "INVALID_ARGUMENT");
    buf_free(&record);
    fixture_close(&f);
}
END_TEST

START_TEST(times_are_written_as_protobuf_writes_them)
{
    char text[WALL_TIME_TEXT_SIZE];
    wall_time_format_ns(0, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00Z");
    wall_time_format_ns(1500000000, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:01.500Z");
    wall_time_format_ns(-1, text);
    ck_assert_str_eq(text, "1969-12-31T23:59:59.999999999Z");
    ck_assert(wall_time_format(253402300799, 1000, text));
    ck_assert_str_eq(text, "9999-12-31T23:59:59.000001Z");
    ck_assert(!wall_time_format(253402300800, 0, text));
    ck_assert(!wall_time_format(-62135596801, 0, text));
    ck_assert(!wall_time_format(0, 1000000000, text));
}
END_TEST

Suite *suite_audit(void)
{
    Suite *s = suite_create("audit");
    TCase *t = tcase_create("records");
    tcase_add_test(t, a_decision_has_the_shape_of_an_access_log);
    tcase_add_test(t, an_unauthenticated_and_an_unknown_call_have_records_too);
    tcase_add_test(t, secrets_never_appear);
    tcase_add_test(t, the_end_says_how_it_ended);
    tcase_add_test(t, a_login_over_plain_http_has_a_record);
    tcase_add_test(t, what_the_edge_refuses_has_a_record_with_its_id);
    tcase_add_test(t, times_are_written_as_protobuf_writes_them);
    suite_add_tcase(s, t);
    return s;
}
