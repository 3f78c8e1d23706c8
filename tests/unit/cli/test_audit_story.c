/* Lines of the audit log, told to a person. */
#include "gateway/cli/audit_story.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/cli/audit_printer.h"
#include "gateway/rpc/codec.h"

Suite *suite_audit_story(void);

#define REQUEST "0e75c79d190aa53aa09ec235b61d2e35"

#define COMMON                                                                                     \
    "\"requestID\":\"" REQUEST "\",\"inWorkspace\":true,\"peer\":\"192.0.2.7:4711\","              \
    "\"protocol\":\"grpc\",\"userAgent\":\"sdk/1 \\u001b[2J\","                                    \
    "\"spaceRef\":{\"kind\":\"Space\",\"uid\":\"s-1\",\"name\":\"tests.cordium\"},"                \
    "\"run\":{\"commandSHA256\":\"985e\",\"commandBytes\":1242,\"command\":\"echo a\\necho b\","   \
    "\"asRoot\":true,\"hasStdin\":false,\"envNames\":[\"PATH\",\"TOKEN\"],"                        \
    "\"limits\":{\"wallMs\":{\"value\":7000,\"setBy\":\"CALLER\"},"                                \
    "\"cpuMs\":{\"value\":0,\"setBy\":\"DEFAULT\"},"                                               \
    "\"memoryMegabytes\":{\"value\":512,\"setBy\":\"SPACE\"}}}"

static const char decision_line[] =
    "{\"sequence\":22,\"prev\":\"ab\",\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"d\","
    "\"targetRef\":{\"kind\":\"Space\",\"uid\":\"s-1\",\"name\":\"tests.cordium\"}},"
    "\"entry\":{\"common\":{\"userRef\":{\"uid\":\"u-1\",\"name\":\"alice\"},"
    "\"sessionRef\":{\"uid\":\"e-1\",\"name\":\"alice-x\"}}},"
    "\"cordium\":{\"event\":\"DECISION\",\"policySetVersion\":4,\"attachedTo\":\"User "
    "alice\"," COMMON "}}";

static const char end_line[] =
    "{\"sequence\":29,\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"e\"},\"entry\":{\"common\":{}},"
    "\"cordium\":{\"event\":\"END\",\"end\":\"FINISHED\",\"code\":\"OK\",\"durationMilliseconds\":"
    "1539.215,"
    "\"bytesIn\":512,\"bytesOut\":2844,\"outcome\":{\"runId\":\"r-1\",\"outcome\":\"oom_killed\","
    "\"oomKills\":3,"
    "\"pidsDenied\":0,"
    "\"diskFull\":true,\"isolation\":[\"seccomp\",\"network\"],\"usage\":{\"cpuUserUs\":185761,"
    "\"wallMs\":1537,\"memoryPeakBytes\":8921088}}," COMMON "}}";

static const char network_line[] = "{\"sequence\":28,\"kind\":\"NetworkLog\",\"metadata\":{\"id\":"
                                   "\"n\"},\"cordium\":{\"event\":\"NETWORK_DENIED\","
                                   "\"destinations\":[{\"address\":\"10.0.0.1\",\"port\":80,"
                                   "\"protocol\":\"TCP\",\"reason\":\"DENY_RULE\","
                                   "\"packets\":3}],\"others\":0}}";

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, 64 << 20);
}

static void teardown(void)
{
    arena_free(&arena);
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static Ext__AuditRecord *record(uint64_t sequence, const char *line, const char *event, int32_t ms)
{
    Ext__AuditRecord *r = CODEC_NEW(&arena, Ext__AuditRecord, ext__audit_record);
    r->time = CODEC_NEW(&arena, Google__Protobuf__Timestamp, google__protobuf__timestamp);
    ck_assert(r && r->time);
    r->time->seconds = 1796012234 + ms / 1000;
    r->time->nanos = ms % 1000 * 1000000;
    r->sequence = sequence;
    r->line = text(line);
    r->event = text(event);
    return r;
}

static Ext__AuditRecord *of_request(Ext__AuditRecord *r)
{
    r->kind = text("AccessLog");
    r->request_id = text(REQUEST);
    r->user = text("alice");
    r->method = text("Run");
    r->decision = text("ALLOWED");
    r->reason = text("POLICY_MATCH");
    r->policy = text("allow-all");
    r->rule = text("allow");
    return r;
}

static Ext__AuditRecord *decision(void)
{
    return of_request(record(22, decision_line, "DECISION", 468));
}

static Ext__AuditRecord *end(void)
{
    Ext__AuditRecord *r = of_request(record(29, end_line, "END", 2007));
    r->outcome = text("oom_killed");
    r->code = text("OK");
    return r;
}

static Ext__AuditRecord *network(void)
{
    Ext__AuditRecord *r = record(28, network_line, "NETWORK_DENIED", 2000);
    r->kind = text("NetworkLog");
    return r;
}

/* The story as text, lines as long as they are. */
static const char *told(Ext__AuditRecord **records, size_t count, size_t width, bool has_colours)
{
    struct buf out;
    Ext__AuditStory *story = CODEC_NEW(&arena, Ext__AuditStory, ext__audit_story);
    struct page page = {&out, width, has_colours};
    ck_assert_ptr_nonnull(story);
    buf_init(&out, 1 << 20);
    story->records = records;
    story->n_records = count;
    ck_assert(audit_story_print(story, &arena, &page));
    ck_assert(!out.failed);
    char *copy = arena_strndup(&arena, (const char *)out.ptr, out.len);
    buf_free(&out);
    return copy;
}

static void has(const char *all, const char *part)
{
    ck_assert_msg(strstr(all, part), "'%s' is not in:\n%s", part, all);
}

START_TEST(story_tells_who_what_why_and_what_became_of_it)
{
    Ext__AuditRecord *records[] = {decision(), network(), end()};
    const char *all = told(records, 3, 0, false);
    has(all, "Run, 2026-11-30 04:17:14.468 UTC\n");
    has(all, "  request       " REQUEST "\n");
    has(all, "  user          alice (u-1)\n");
    has(all, "  session       alice-x (e-1)\n");
    has(all, "  from          192.0.2.7:4711 by grpc, sdk/1 \\u001b[2J, inside of a workspace\n");
    has(all, "  space         tests.cordium (s-1)\n");
    has(all,
        "  command       1.2 KiB, SHA-256 985e\n                echo a\n                echo b\n");
    has(all, "  run           as root\n");
    has(all, "  env names     PATH, TOKEN\n");
    has(all, "  decision      ALLOWED\n");
    has(all,
        "POLICY_MATCH: policy 'allow-all', rule 'allow', attached to User alice; policy set 4\n");
    has(all, "  limits        wall time 7.00 s (set by caller)\n");
    has(all, "                cpu time unlimited (set by default)\n");
    has(all, "                memory 512 MiB (set by space)\n");
    has(all, "  isolation     seccomp, network\n");
    has(all, "  04:17:14.468");
    has(all, "line 22  asked, allowed\n");
    has(all, "+ 1.54 s     line 29  ended (FINISHED) with OK after 1.54 s\n");
    has(all, "  answer        OK, 512 B received, 2.8 KiB sent\n");
    has(all, "  program       oom_killed\n");
    has(all, "oom kills 3");
    has(all, "disk full");
    ck_assert_ptr_null(strstr(all, "pids denied"));
    has(all, "  usage         cpu user 186 ms, wall 1.54 s, memory peak 8.5 MiB\n");
    has(all, "  network       refused 10.0.0.1:80 TCP, 3 packets (DENY_RULE)\n");
}
END_TEST

/* Colours aside, nothing that a terminal obeys comes through, and no line is too long. */
START_TEST(story_fits_the_terminal_and_cannot_command_it)
{
    Ext__AuditRecord *records[] = {decision(), end()};
    const char *all = told(records, 2, 60, true);
    for (const char *line = all; *line;) {
        size_t len = strcspn(line, "\n");
        size_t escapes = 0;
        for (size_t i = 0; i < len; i++) {
            if (line[i] == '\033') {
                ck_assert_int_eq(line[i + 1], '[');
                size_t n = strspn(line + i + 2, "0123456789");
                ck_assert_int_eq(line[i + 2 + n], 'm');
                escapes += 3 + n;
            }
        }
        ck_assert_msg(len - escapes <= 60, "%.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
}
END_TEST

START_TEST(other_lines_are_told_by_their_members)
{
    Ext__AuditRecord *r =
        record(3,
               "{\"sequence\":3,\"prev\":\"ab\",\"kind\":\"DaemonLog\",\"cordium\":{\"event\":"
               "\"START\",\"deep\":{\"list\":[\"x\",{\"y\":1}]}}}",
               "START", 0);
    r->kind = text("DaemonLog");
    const char *all = told(&r, 1, 0, false);
    has(all, "DaemonLog, ");
    has(all, "line 3, after ab");
    has(all, "START");
    has(all, "deep.list.y");
}
END_TEST

START_TEST(torn_lines_are_shown_as_text)
{
    Ext__AuditRecord *r = record(3, "{\"sequence\":3,\"pr\033[2J", "", 0);
    has(told(&r, 1, 0, false), "{\"sequence\":3,\"pr\\u001b[2J");
}
END_TEST

START_TEST(rows_tell_decision_and_outcome)
{
    struct table_cell cells[AUDIT_COLUMNS];
    struct audit_line line = audit_line_of(end(), &arena);
    ck_assert(audit_row_make(&line, true, &arena, cells));
    static const char *const expected[AUDIT_COLUMNS] = {
        "29",      "2026-11-30 04:17:16", "alice",      "Run",
        "ALLOWED", "allow-all/allow",     "oom_killed", "1.54 s",
        "r-1"};
    for (size_t i = 0; i < AUDIT_COLUMNS; i++) {
        ck_assert_str_eq(cells[i].text, expected[i]);
    }
    ck_assert_int_eq(cells[4].style, OUTPUT_GREEN);
    ck_assert_int_eq(cells[6].style, OUTPUT_YELLOW);
    line = audit_line_of(decision(), &arena);
    ck_assert(audit_row_make(&line, false, &arena, cells));
    ck_assert_str_eq(cells[1].text, "04:17:14.468");
    ck_assert_str_eq(cells[8].text, "Space tests.cordium");
    line = audit_line_of(network(), &arena);
    ck_assert(audit_row_make(&line, false, &arena, cells));
    ck_assert_str_eq(cells[2].text, "-");
    ck_assert_str_eq(cells[3].text, "NetworkLog NETWORK_DENIED");
}
END_TEST

/* What the printer writes of pages of one line each. */
static size_t print_rows(Ext__AuditRecord *const *pages, size_t count, char *ret, size_t size)
{
    struct error err = {0};
    struct audit_printer p = audit_printer_for("table");
    FILE *shown = tmpfile();
    int before = dup(STDOUT_FILENO);
    ck_assert(shown && before != -1 && fflush(stdout) == 0);
    p.joins_ends = true;
    ck_assert_int_eq(dup2(fileno(shown), STDOUT_FILENO), STDOUT_FILENO);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(audit_printer_add(&p, &pages[i], 1, &err), 0);
    }
    ck_assert_int_eq(dup2(before, STDOUT_FILENO), STDOUT_FILENO);
    (void)close(before);
    rewind(shown);
    size_t n = fread(ret, 1, size - 1, shown);
    ret[n] = '\0';
    (void)fclose(shown);
    return n;
}

START_TEST(a_decision_on_the_page_behind_its_end_is_no_row_of_its_own)
{
    char shown[4096];
    Ext__AuditRecord *const pages[] = {end(), decision()};
    ck_assert_uint_gt(print_rows(pages, 2, shown, sizeof shown), 0);
    ck_assert_ptr_nonnull(strstr(shown, "oom_killed"));
    size_t rows = 0;
    for (const char *c = shown; *c; c++) {
        rows += *c == '\n';
    }
    ck_assert_msg(rows == 2, "%s", shown); /* with the titles */
}
END_TEST

START_TEST(methods_are_told_by_what_tells_most)
{
    ck_assert_str_eq(audit_method_text("/a.b.v1.WorkspaceService/Exec"), "WorkspaceService/Exec");
    ck_assert_str_eq(audit_method_text("/a.b.v1.MainService/GetSpace"), "GetSpace");
    ck_assert_str_eq(audit_method_text("POST /oauth2/token"), "POST /oauth2/token");
    ck_assert_str_eq(audit_method_text("/v1"), "/v1");
    ck_assert_str_eq(audit_method_text("/Plain/Exec"), "Plain/Exec");
    ck_assert_str_eq(audit_method_text("/"), "/");
    ck_assert_str_eq(audit_method_text(""), "");
}
END_TEST

START_TEST(amounts_are_those_of_people)
{
    static const struct {
        double value;
        const char *duration, *bytes;
    } amounts[] = {
        {-1, "", ""},
        {0, "0 us", "0 B"},
        {0.82, "820 us", "1 B"},
        {12.34, "12.3 ms", "12 B"},
        {1023, "1.02 s", "1023 B"},
        {200000, "3 min 20 s", "195 KiB"},
        {7500000, "2 h 05 min", "7.2 MiB"},
    };
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        char out[AUDIT_AMOUNT_SIZE];
        audit_duration_text(amounts[i].value, out);
        ck_assert_str_eq(out, amounts[i].duration);
        audit_bytes_text(amounts[i].value, out);
        ck_assert_str_eq(out, amounts[i].bytes);
    }
}
END_TEST

Suite *suite_audit_story(void)
{
    Suite *s = suite_create("audit_story");
    TCase *t = tcase_create("told");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, story_tells_who_what_why_and_what_became_of_it);
    tcase_add_test(t, story_fits_the_terminal_and_cannot_command_it);
    tcase_add_test(t, other_lines_are_told_by_their_members);
    tcase_add_test(t, torn_lines_are_shown_as_text);
    tcase_add_test(t, rows_tell_decision_and_outcome);
    tcase_add_test(t, a_decision_on_the_page_behind_its_end_is_no_row_of_its_own);
    tcase_add_test(t, methods_are_told_by_what_tells_most);
    tcase_add_test(t, amounts_are_those_of_people);
    suite_add_tcase(s, t);
    return s;
}
