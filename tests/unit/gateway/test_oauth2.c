#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_state.h"
#include "gateway/services/auth_service.h"

/* POST /oauth2/token with a real audit log; what the edge would send is caught. */

static struct harness h;
static uv_loop_t loop;
static const char *client_id;
static const char *client_secret;
static const char *admin;

static int http_status;
static char body[4096];
static char headers[1024];

static void catch_head(struct call *call, int status, const struct header *list, size_t count,
                       int64_t body_bytes)
{
    (void)call;
    (void)body_bytes;
    http_status = status;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += (size_t)snprintf(headers + n, sizeof headers - n, "%.*s: %.*s\n",
                              STR_ARG(list[i].name), STR_ARG(list[i].value));
    }
}

static void catch_data(struct call *call, struct str first, struct str second)
{
    (void)call;
    (void)second;
    (void)snprintf(body, sizeof body, "%.*s", STR_ARG(first));
}

static void catch_end(struct call *call)
{
    (void)call;
}

static const struct call_transport caught_transport = {
    .name = "test", .send_head = catch_head, .send_data = catch_data, .send_end = catch_end};

static void setup(void)
{
    harness_open(&h);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    h.gateway.loop = &loop;
    h.config.audit_dir = arena_printf(&h.arena, "%s/audit", h.folder);
    h.config.audit_rotate_mebibytes = 64;
    h.config.audit_checkpoint_lines = h.config.audit_checkpoint_seconds = 1000;
    int rc = audit_state_open_log(&h.gateway, &loop, &h.err);
    ck_assert_msg(rc == 0, "%s", h.err.text);
    admin = harness_admin(&h);
    (void)harness_user(&h, "bot", "WORKLOAD");
    harness_core(
        &h, admin, "CreateCredential",
        "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"OAUTH2\",\"user\":\"bot\"}}");
    harness_expect(&h, 0, "");
    harness_core(&h, admin, "GenerateCredentialToken", "{\"credentialRef\":{\"name\":\"key\"}}");
    harness_expect(&h, 0, "");
    const Core__CredentialToken *t = (const Core__CredentialToken *)h.reply;
    client_id = t->oauth2_credentials->client_id;
    client_secret = t->oauth2_credentials->client_secret;
}

static const char *audit_path(void)
{
    return arena_printf(&h.arena, "%s/audit/audit.jsonl", h.folder);
}

static void teardown(void)
{
    audit_log_close(h.gateway.audit);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    (void)unlink(audit_path());
    (void)rmdir(arena_printf(&h.arena, "%s/audit", h.folder));
    (void)unlink(arena_printf(&h.arena, "%s/audit.key", h.folder));
    (void)unlink(arena_printf(&h.arena, "%s/audit.pub", h.folder));
    harness_close(&h);
}

static const char *authorization;

static struct call call;
static struct connection connection;
static struct header sent_header;

/* Up to the decision, whose line is on its way to the disk: nothing leaves before it is there. */
static void begin(const char *form)
{
    sent_header = (struct header){STR("authorization"), str_from(authorization)};
    call = (struct call){0};
    connection = (struct connection){.transport = &caught_transport};
    (void)snprintf(connection.origin.peer, sizeof connection.origin.peer, "192.0.2.7:4711");
    call.connection = &connection;
    call.request_headers = (struct header_list){.items = &sent_header, .count = 1, .room = 1};
    call.method = STR("POST");
    call.path = STR("/oauth2/token");
    arena_init(&call.arena, 1 << 20);
    http_status = 0;
    body[0] = headers[0] = 0;
    oauth2_token_http(&h.gateway, &call, str_from(form));
    ck_assert_int_eq(http_status, 0);
}

static void finish(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_ptr_nonnull(call.state);
    request_events.gone(call.state, CALL_END_FINISHED);
    arena_free(&call.arena);
}

static void post(const char *form)
{
    begin(form);
    finish();
}

static const char *form_of(const char *id, const char *secret, const char *rest)
{
    return arena_printf(&h.arena, "grant_type=client_credentials&client_id=%s&client_secret=%s%s",
                        id, secret, rest);
}

START_TEST(client_credentials_give_a_bearer_token_that_works)
{
    post(form_of(client_id, client_secret, ""));
    ck_assert_int_eq(http_status, 200);
    ck_assert_ptr_nonnull(strstr(headers, "content-type: application/json"));
    ck_assert_ptr_nonnull(strstr(headers, "cache-control: no-store"));
    ck_assert_ptr_nonnull(strstr(body, "\"token_type\":\"Bearer\""));
    ck_assert_msg(strstr(body, "\"expires_in\":14400"), "%s", body);
    const char *token = strstr(body, "cat_");
    ck_assert_ptr_nonnull(token);
    token = arena_strndup(&h.arena, token, strcspn(token, "\""));
    harness_call(&h, token, "/octelium.api.main.user.v1.MainService/GetStatus", "{}");
    harness_expect(&h, 0, "");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), "\"name\":\"bot\""));
}
END_TEST

static const char *audit_text(void)
{
    static char log[65536];
    FILE *file = fopen(audit_path(), "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(log, 1, sizeof log - 1, file);
    (void)fclose(file);
    log[n] = 0;
    return log;
}

START_TEST(a_credential_that_its_last_use_removes_leaves_its_diff)
{
    harness_core(&h, admin, "UpdateCredential",
                 "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"OAUTH2\",\"user\":\"bot\","
                 "\"maxAuthentications\":1,\"autoDelete\":true}}");
    harness_expect(&h, 0, "");
    post(form_of(client_id, client_secret, ""));
    ck_assert_int_eq(http_status, 200);
    const char *end = strstr(audit_text(), "\"event\":\"END\"");
    ck_assert_ptr_nonnull(end);
    ck_assert_ptr_nonnull(strstr(end, "\"diff\":\"--- Credential/key\\n+++ /dev/null"));
}
END_TEST

START_TEST(each_try_has_an_audit_line_without_secrets)
{
    post(form_of(client_id, client_secret, ""));
    post(form_of(client_id, "wrong", ""));
    const char *log = audit_text();
    ck_assert_ptr_nonnull(strstr(log, "LOGIN"));
    ck_assert_ptr_nonnull(strstr(log, "UNAUTHENTICATED"));
    ck_assert_ptr_null(strstr(log, "csec_"));
    ck_assert_ptr_null(strstr(log, "cat_"));
}
END_TEST

static size_t sessions(void)
{
    size_t count = 0;
    harness_core(&h, admin, "ListSession", "{}");
    harness_expect(&h, 0, "");
    for (const char *at = harness_json(&h); (at = strstr(at, "\"kind\":\"Session\"")); at++) {
        count++;
    }
    return count;
}

START_TEST(a_session_is_there_only_after_its_decision)
{
    size_t before = sessions();
    begin(form_of(client_id, client_secret, ""));
    ck_assert_uint_eq(sessions(), before);
    finish();
    ck_assert_int_eq(http_status, 200);
    ck_assert_uint_eq(sessions(), before + 1);
    const char *log = audit_text();
    const char *decision = strstr(log, "\"event\":\"DECISION\"");
    const char *end = strstr(log, "\"event\":\"END\"");
    ck_assert(decision && end && decision < end);
    /* One request, of which the end names the session and the answer the id. */
    const char *id = strstr(headers, "x-request-id: ");
    ck_assert_ptr_nonnull(id);
    id = arena_strndup(&h.arena, id + 14, 32);
    ck_assert(strstr(decision, id) && strstr(decision, id) < end && strstr(end, id));
    const char *session = strstr(log, "\"sessionRef\"");
    const char *newline = strchr(decision, '\n');
    ck_assert(session && newline && session > newline);
}
END_TEST

START_TEST(a_client_that_left_gets_no_session)
{
    size_t before = sessions();
    begin(form_of(client_id, client_secret, ""));
    request_events.gone(call.state, CALL_END_CANCELLED);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    arena_free(&call.arena);
    ck_assert_int_eq(http_status, 0);
    ck_assert_uint_eq(sessions(), before);
}
END_TEST

START_TEST(wrong_secrets_and_ids_are_invalid_client)
{
    post(form_of(client_id, "wrong", ""));
    ck_assert_int_eq(http_status, 401);
    ck_assert_ptr_nonnull(strstr(body, "\"error\":\"invalid_client\""));
    post(form_of("another", client_secret, ""));
    ck_assert_int_eq(http_status, 401);
    post("grant_type=client_credentials");
    ck_assert_int_eq(http_status, 401);
}
END_TEST

START_TEST(malformed_forms_are_told_apart)
{
    static const struct {
        const char *form;
        const char *error;
    } cases[] = {
        {"", "invalid_request"},
        {"grant_type=%zz", "invalid_request"},
        {"grant_type=%00", "invalid_request"},
        {"grant_type=a&grant_type=b", "invalid_request"},
        {"grant_type=password", "unsupported_grant_type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        post(cases[i].form);
        ck_assert_int_eq(http_status, 400);
        ck_assert_msg(strstr(body, cases[i].error), "%s: %s", cases[i].form, body);
    }
    post(form_of(client_id, client_secret, "&scope=api%3A*+nonsense"));
    ck_assert_int_eq(http_status, 400);
    ck_assert_ptr_nonnull(strstr(body, "invalid_scope"));
    post(form_of(client_id, client_secret, "&scope=api%3A*"));
    ck_assert_int_eq(http_status, 200);
}
END_TEST

static void put_base64(const char *text, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned held = 0;
    unsigned bits = 0;
    for (; *text; text++) {
        held = (held << 8) | (unsigned char)*text;
        for (bits += 8; bits >= 6; bits -= 6) {
            *out++ = digits[(held >> (bits - 6)) & 63];
        }
    }
    if (bits > 0) {
        *out++ = digits[(held << (6 - bits)) & 63];
    }
    *out = 0;
}

START_TEST(a_basic_header_names_the_client_too)
{
    char pair[160];
    char header[256] = "Basic ";
    (void)snprintf(pair, sizeof pair, "%s:%s", client_id, client_secret);
    put_base64(pair, header + 6);
    authorization = header;
    post("grant_type=client_credentials");
    ck_assert_int_eq(http_status, 200);
    /* Two ways at once are one too many (section 2.3). */
    post(form_of(client_id, client_secret, ""));
    ck_assert_int_eq(http_status, 400);
    authorization = "Basic !!!";
    post("grant_type=client_credentials");
    ck_assert_int_eq(http_status, 400);
    authorization = NULL;
}
END_TEST

Suite *suite_oauth2(void);

Suite *suite_oauth2(void)
{
    Suite *suite = suite_create("oauth2");
    TCase *t = tcase_create("oauth2");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, client_credentials_give_a_bearer_token_that_works);
    tcase_add_test(t, a_credential_that_its_last_use_removes_leaves_its_diff);
    tcase_add_test(t, each_try_has_an_audit_line_without_secrets);
    tcase_add_test(t, a_session_is_there_only_after_its_decision);
    tcase_add_test(t, a_client_that_left_gets_no_session);
    tcase_add_test(t, wrong_secrets_and_ids_are_invalid_client);
    tcase_add_test(t, a_basic_header_names_the_client_too);
    tcase_add_test(t, malformed_forms_are_told_apart);
    suite_add_tcase(suite, t);
    return suite;
}
