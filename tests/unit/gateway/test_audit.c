#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_record.h"
#include "gateway/audit/wall_time.h"
#include "gateway/identity/token.h"
#include "gateway/text/json_reader.h"
#include "gateway/text/tree.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_audit(void);

struct log_fixture {
    char folder[64];
    char path[96];
    uv_loop_t loop;
    struct audit_log *log;
    struct error err;
    int done_count;
    int last_status;
    char *text; /* of the file, after log_read() */
    size_t text_len;
};

static void log_begin(struct log_fixture *f)
{
    *f = (struct log_fixture){.folder = "/tmp/cordium-audit-XXXXXX", .last_status = 1};
    ck_assert_ptr_nonnull(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof f->path, "%s/audit.jsonl", f->folder);
    ck_assert_int_eq(uv_loop_init(&f->loop), 0);
}

static void log_open_it(struct log_fixture *f)
{
    ck_assert_msg(audit_log_open(&f->loop, f->folder, &f->log, &f->err) == 0, "%s", f->err.text);
}

static void log_close_it(struct log_fixture *f)
{
    audit_log_close(f->log);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    f->log = NULL;
}

static void log_end(struct log_fixture *f)
{
    log_close_it(f);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    (void)unlink(f->path);
    ck_assert_int_eq(rmdir(f->folder), 0);
    free(f->text);
}

static void on_done(void *arg, int status)
{
    struct log_fixture *f = arg;
    f->done_count++;
    f->last_status = status;
}

static int append(struct log_fixture *f, const char *json)
{
    struct buf record;
    buf_init(&record, 4096);
    buf_add_cstr(&record, json);
    int rc = audit_log_append(f->log, &record, on_done, f);
    buf_free(&record);
    return rc;
}

static void log_read(struct log_fixture *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(fstat(fd, &st), 0);
    free(f->text);
    f->text = malloc((size_t)st.st_size + 1);
    f->text_len = (size_t)st.st_size;
    ck_assert_int_eq(read(fd, f->text, f->text_len), (ssize_t)f->text_len);
    f->text[f->text_len] = '\0';
    (void)close(fd);
}

/* Checks the whole chain; gives the number of lines. */
static unsigned verify(struct log_fixture *f)
{
    char prev[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    unsigned count = 0;
    log_read(f);
    for (char *line = f->text; *line;) {
        char *end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        char head[128];
        (void)snprintf(head, sizeof head, "{\"sequence\":%u,\"prev\":\"%s\"", ++count, prev);
        bool is_torn = strncmp(line, head, strlen(head)) != 0;
        if (is_torn) {
            /* Only what a gap record follows. */
            ck_assert_ptr_nonnull(strstr(end, "AuditGap"));
        }
        uint8_t digest[TOKEN_DIGEST_BYTES];
        token_sha256(str_make(line, (size_t)(end - line)), digest);
        for (size_t i = 0; i < sizeof digest; i++) {
            (void)snprintf(prev + 2 * i, 3, "%02x", digest[i]);
        }
        line = end + 1;
    }
    return count;
}

START_TEST(lines_are_chained_and_durable_before_done)
{
    struct log_fixture f;
    log_begin(&f);
    log_open_it(&f);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(append(&f, "{\"a\":1}"), 0);
    }
    ck_assert_int_eq(f.done_count, 0);
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(f.done_count, 100);
    ck_assert_int_eq(f.last_status, 0);
    ck_assert_uint_eq(verify(&f), 100);
    ck_assert_uint_eq(audit_log_sequence(f.log), 100);
    struct stat st;
    ck_assert_int_eq(stat(f.path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    log_end(&f);
}
END_TEST

START_TEST(the_chain_goes_on_after_a_restart)
{
    struct log_fixture f;
    log_begin(&f);
    for (int i = 0; i < 3; i++) {
        log_open_it(&f);
        ck_assert_int_eq(append(&f, "{\"a\":1}"), 0);
        ck_assert_int_eq(append(&f, "{}"), 0);
        log_close_it(&f);
    }
    ck_assert_int_eq(f.done_count, 6);
    ck_assert_uint_eq(verify(&f), 6);
    log_open_it(&f);
    ck_assert_uint_eq(audit_log_sequence(f.log), 6);
    log_end(&f);
}
END_TEST

START_TEST(a_torn_last_line_is_ended_and_followed_by_a_gap_record)
{
    struct log_fixture f;
    log_begin(&f);
    log_open_it(&f);
    ck_assert_int_eq(append(&f, "{\"a\":1}"), 0);
    ck_assert_int_eq(append(&f, "{\"a\":2}"), 0);
    log_close_it(&f);
    struct stat st;
    ck_assert_int_eq(stat(f.path, &st), 0);
    ck_assert_int_eq(truncate(f.path, st.st_size - 5), 0);
    log_open_it(&f);
    ck_assert_int_eq(append(&f, "{\"a\":3}"), 0);
    log_close_it(&f);
    ck_assert_uint_eq(verify(&f), 4);
    log_open_it(&f);
    log_end(&f);
}
END_TEST

START_TEST(a_file_that_is_not_ours_is_refused)
{
    struct log_fixture f;
    log_begin(&f);
    FILE *file = fopen(f.path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fputs("hello\n", file);
    (void)fclose(file);
    ck_assert_int_eq(audit_log_open(&f.loop, f.folder, &f.log, &f.err), -STATUS_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f.err.text, f.path));
    f.log = NULL;
    log_end(&f);
}
END_TEST

START_TEST(two_writers_are_refused)
{
    struct log_fixture f;
    struct audit_log *second;
    log_begin(&f);
    log_open_it(&f);
    ck_assert_int_eq(audit_log_open(&f.loop, f.folder, &second, &f.err),
                     -STATUS_FAILED_PRECONDITION);
    log_end(&f);
}
END_TEST

START_TEST(what_is_no_object_on_one_line_is_refused)
{
    struct log_fixture f;
    log_begin(&f);
    log_open_it(&f);
    ck_assert_int_eq(append(&f, "[]"), -STATUS_INTERNAL);
    ck_assert_int_eq(append(&f, ""), -STATUS_INTERNAL);
    ck_assert_int_eq(append(&f, "{\n}"), -STATUS_INTERNAL);
    log_close_it(&f);
    ck_assert_int_eq(f.done_count, 0);
    ck_assert_uint_eq(verify(&f), 0);
    log_open_it(&f);
    log_end(&f);
}
END_TEST

/* A full disk, by the limit on file sizes: the group that does not fit fails whole, nothing that
 * was acknowledged is lost, and the log goes on when there is room again. */
START_TEST(a_full_disk_stops_effects_and_not_the_log)
{
    struct log_fixture f;
    struct rlimit old;
    log_begin(&f);
    log_open_it(&f);
    ck_assert_int_eq(append(&f, "{\"a\":1}"), 0);
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 250, .rlim_max = old.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(append(&f, "{\"a\":2}"), 0);
    ck_assert_int_eq(append(&f, "{\"a\":3}"), 0);
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(f.done_count, 3);
    ck_assert_int_eq(f.last_status, -STATUS_UNAVAILABLE);
    unsigned kept = verify(&f);
    ck_assert_uint_lt(kept, 3);
    ck_assert_int_eq(append(&f, "{\"a\":4}"), 0);
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(f.last_status, 0);
    ck_assert_uint_eq(verify(&f), kept + 1);
    log_end(&f);
}
END_TEST

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
    TCase *t = tcase_create("log");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, lines_are_chained_and_durable_before_done);
    tcase_add_test(t, the_chain_goes_on_after_a_restart);
    tcase_add_test(t, a_torn_last_line_is_ended_and_followed_by_a_gap_record);
    tcase_add_test(t, a_file_that_is_not_ours_is_refused);
    tcase_add_test(t, two_writers_are_refused);
    tcase_add_test(t, what_is_no_object_on_one_line_is_refused);
    tcase_add_test(t, a_full_disk_stops_effects_and_not_the_log);
    suite_add_tcase(s, t);
    t = tcase_create("records");
    tcase_add_test(t, a_decision_has_the_shape_of_an_access_log);
    tcase_add_test(t, an_unauthenticated_and_an_unknown_call_have_records_too);
    tcase_add_test(t, secrets_never_appear);
    tcase_add_test(t, the_end_says_how_it_ended);
    tcase_add_test(t, a_login_over_plain_http_has_a_record);
    tcase_add_test(t, times_are_written_as_protobuf_writes_them);
    suite_add_tcase(s, t);
    return s;
}
