#include <check.h>
#include <string.h>

#include "gateway/audit/audit_out.h"
#include "gateway/audit/audit_record.h"
#include "gateway/config.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_audit_record(void);

/* What records say of programs: how much of the text, and which limits. */

#define COMMAND "make -j2 \"all\""

static void decision_text(struct actor_fixture *f, const struct gateway_config *config,
                          const struct run_request *run, struct buf *decision, struct buf *end)
{
    struct request *r = fixture_request(f, "/octelium.api.main.cordium.v1.WorkspaceService/Exec");
    struct run_request copy = *run;
    r->run = &copy;
    r->decision.is_allowed = true;
    r->decision.reason_type = "POLICY_MATCH";
    f->gateway.config = config;
    buf_init(decision, 1 << 20);
    buf_init(end, 1 << 20);
    audit_record_decision(r, NULL, decision);
    audit_record_end(r, CALL_END_FINISHED, end);
    buf_add_u8(decision, 0);
    buf_add_u8(end, 0);
    ck_assert(!decision->failed && !end->failed);
}

static bool says(const struct buf *record, const char *text)
{
    return strstr((const char *)record->ptr, text) != NULL;
}

START_TEST(the_text_of_a_command_is_recorded_once_and_only_when_it_is_asked_for)
{
    struct actor_fixture f;
    struct buf decision, end;
    const struct run_request run = {.command = STR(COMMAND)};
    const struct gateway_config quiet = {.region = "default"};
    const struct gateway_config open = {.region = "default", .audit_command_text = true};
    fixture_open(&f);
    decision_text(&f, &quiet, &run, &decision, &end);
    ck_assert(says(&decision, "\"commandBytes\":14") && !says(&decision, "make -j2"));
    buf_free(&decision);
    buf_free(&end);
    decision_text(&f, &open, &run, &decision, &end);
    ck_assert(says(&decision, "\"command\":\"make -j2 \\\"all\\\"\""));
    ck_assert(!says(&end, "make -j2"));
    buf_free(&decision);
    buf_free(&end);
    fixture_close(&f);
}
END_TEST

START_TEST(a_long_command_of_control_characters_still_fits)
{
    struct actor_fixture f;
    struct buf decision, end;
    static char text[100 * 1024];
    const struct gateway_config open = {.region = "default", .audit_command_text = true};
    memset(text, 1, sizeof text);
    const struct run_request run = {.command = str_make(text, sizeof text)};
    fixture_open(&f);
    decision_text(&f, &open, &run, &decision, &end);
    ck_assert_uint_lt(decision.len, 512 * 1024);
    ck_assert(says(&decision, "\"commandBytes\":102400"));
    ck_assert(says(&decision, "\\u0001\\u0001"));
    buf_free(&decision);
    buf_free(&end);
    fixture_close(&f);
}
END_TEST

START_TEST(a_token_in_a_recorded_command_is_masked)
{
    struct actor_fixture f;
    struct buf decision, end;
    const struct run_request run = {.command = STR("curl -H cat_Zx8Zx8Zx8Zx8Zx8Zx8Zx8 x")};
    const struct gateway_config open = {.region = "default", .audit_command_text = true};
    fixture_open(&f);
    decision_text(&f, &open, &run, &decision, &end);
    ck_assert(says(&decision, "\"curl -H [redacted] x\""));
    ck_assert(!says(&decision, "Zx8Zx8Zx8Zx8Zx8Zx8Zx8"));
    buf_free(&decision);
    buf_free(&end);
    fixture_close(&f);
}
END_TEST

/* What fails says its address: of an image, of a repository. */
START_TEST(a_password_in_an_address_is_masked)
{
    static const struct {
        const char *text;
        const char *written;
    } examples[] = {
        {"pull 'https://user:pass@host:5000/x:1': no",
         "\"pull 'https://[redacted]@host:5000/x:1': no\""},
        {"pull 'user:p:ss@127.0.0.1:1/x': no", "\"pull 'user:[redacted]@127.0.0.1:1/x': no\""},
        {"https://ghp_token@git.example/x", "\"https://[redacted]@git.example/x\""},
        {"ssh://a:p\xc3\xa4ss@h cat_Zx8Zx8Zx8Zx8Zx8Zx8Zx8", "\"ssh://[redacted]@h [redacted]\""},
        {"host:5000/x:1@sha256:0123", "\"host:5000/x:1@sha256:0123\""},
        {"git@host:path at 10:20:30, [::1]:80, bob@example.com",
         "\"git@host:path at 10:20:30, [::1]:80, bob@example.com\""},
        {"https://host/a@b", "\"https://host/a@b\""},
        {":::::", "\":::::\""},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct buf out;
        buf_init(&out, 4096);
        struct json_out j = json_out_to(&out);
        audit_put_text(&j, NULL, str_from(examples[i].text));
        ck_assert_msg(str_eq(buf_str(&out), str_from(examples[i].written)), "%.*s", (int)out.len,
                      (const char *)out.ptr);
        buf_free(&out);
    }
}
END_TEST

START_TEST(each_limit_of_a_run_is_recorded_with_who_set_it)
{
    struct actor_fixture f;
    struct buf decision, end;
    const struct run_limit limits[] = {{"wallMs", 5000, "CALLER"}, {"pids", 64, "TEMPLATE"}};
    const struct run_request run = {
        .command = STR(COMMAND), .limits = limits, .limit_count = sizeof limits / sizeof limits[0]};
    const struct gateway_config quiet = {.region = "default"};
    fixture_open(&f);
    decision_text(&f, &quiet, &run, &decision, &end);
    ck_assert(says(&decision, "\"limits\":{\"wallMs\":{\"value\":5000,\"setBy\":\"CALLER\"},"
                              "\"pids\":{\"value\":64,\"setBy\":\"TEMPLATE\"}}"));
    buf_free(&decision);
    buf_free(&end);
    fixture_close(&f);
}
END_TEST

Suite *suite_audit_record(void)
{
    Suite *s = suite_create("audit_record");
    TCase *t = tcase_create("programs");
    tcase_add_test(t, the_text_of_a_command_is_recorded_once_and_only_when_it_is_asked_for);
    tcase_add_test(t, a_long_command_of_control_characters_still_fits);
    tcase_add_test(t, a_token_in_a_recorded_command_is_masked);
    tcase_add_test(t, a_password_in_an_address_is_masked);
    tcase_add_test(t, each_limit_of_a_run_is_recorded_with_who_set_it);
    suite_add_tcase(s, t);
    return s;
}
