#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/request.h"
#include "gateway/services/exec_outcome.h"
#include "gateway/telemetry/backoff.h"
#include "gateway/telemetry/endpoint.h"
#include "gateway/telemetry/line_queue.h"
#include "gateway/telemetry/metrics.h"
#include "gateway/telemetry/metrics_text.h"
#include "gateway/telemetry/otlp_message.h"
#include "gateway/telemetry/proto_out.h"
#include "gateway/telemetry/secret_file.h"
#include "gateway/telemetry/syslog_message.h"

Suite *suite_telemetry(void);

enum { TEXT_MAX_BYTES = 1 << 20 };

static struct metrics *new_metrics(void)
{
    struct metrics *m = NULL;
    ck_assert_int_eq(metrics_new(1764460800000000000, &m, NULL), 0);
    return m;
}

/* The exposition as a C string; the caller frees it. */
static char *text_of(const struct metrics *m)
{
    struct buf out;
    buf_init(&out, TEXT_MAX_BYTES);
    metrics_text_write(m, &out);
    buf_add_u8(&out, '\0');
    ck_assert(!out.failed);
    return (char *)out.ptr;
}

static void assert_has_line(const char *text, const char *line)
{
    char wanted[512];
    (void)snprintf(wanted, sizeof wanted, "\n%s\n", line);
    ck_assert_msg(strstr(text, wanted) != NULL, "no line '%s' in:\n%s", line, text);
}

START_TEST(counters_are_told_by_their_labels)
{
    struct metrics *m = new_metrics();
    const struct method *method =
        method_find(STR("/octelium.api.main.cordium.v1.MainService/GetSpace"));
    metrics_add(m, METRIC_REQUESTS, method->index, METRIC_DECISION_ALLOWED, STATUS_OK, 3);
    metrics_add(m, METRIC_REQUESTS, method->index, METRIC_DECISION_DENIED, STATUS_PERMISSION_DENIED,
                1);
    metrics_add(m, METRIC_REQUESTS, metrics_method_unknown(), METRIC_DECISION_DENIED,
                STATUS_UNIMPLEMENTED, 1);
    char *text = text_of(m);
    assert_has_line(text,
                    "cordium_requests_total{method=\"octelium.api.main.cordium.v1.MainService/"
                    "GetSpace\",decision=\"ALLOWED\",code=\"OK\"} 3");
    assert_has_line(text,
                    "cordium_requests_total{method=\"octelium.api.main.cordium.v1.MainService/"
                    "GetSpace\",decision=\"DENIED\",code=\"PERMISSION_DENIED\"} 1");
    assert_has_line(
        text,
        "cordium_requests_total{method=\"unknown\",decision=\"DENIED\",code=\"UNIMPLEMENTED\"} 1");
    assert_has_line(text, "# TYPE cordium_requests_total counter");
    ck_assert_ptr_eq(
        strstr(strstr(text, "# TYPE cordium_requests_total") + 1, "# TYPE cordium_requests_total"),
        NULL);
    free(text);
    metrics_free(m);
}
END_TEST

START_TEST(each_method_has_a_place_of_its_own)
{
    struct metrics *m = new_metrics();
    for (unsigned i = 0; i < method_count(); i++) {
        ck_assert_uint_eq(method_at(i)->index, i);
        ck_assert_ptr_eq(method_find(str_from(method_at(i)->schema->path)), method_at(i));
        metrics_add(m, METRIC_REQUESTS, i, METRIC_DECISION_ALLOWED, STATUS_OK, (int64_t)i + 1);
    }
    ck_assert_ptr_eq(method_at(method_count()), NULL);
    char *text = text_of(m);
    for (unsigned i = 0; i < method_count(); i++) {
        char line[512];
        (void)snprintf(line, sizeof line,
                       "cordium_requests_total{method=\"%s\",decision=\"ALLOWED\",code=\"OK\"} %u",
                       method_at(i)->schema->path + 1, i + 1);
        assert_has_line(text, line);
    }
    free(text);
    metrics_free(m);
}
END_TEST

START_TEST(a_histogram_counts_each_duration_once_and_its_buckets_add_up)
{
    struct metrics *m = new_metrics();
    metrics_observe(m, METRIC_DECISION_DURATION, METRIC_DECISION_ALLOWED, 0);
    metrics_observe(m, METRIC_DECISION_DURATION, METRIC_DECISION_ALLOWED, 10000);
    metrics_observe(m, METRIC_DECISION_DURATION, METRIC_DECISION_ALLOWED, 10001);
    metrics_observe(m, METRIC_DECISION_DURATION, METRIC_DECISION_ALLOWED, 30000000000);
    metrics_observe(m, METRIC_DECISION_DURATION, METRIC_DECISION_ALLOWED, 30000000001);
    char *text = text_of(m);
#define BUCKET(le, n)                                                                              \
    "cordium_decision_duration_seconds_bucket{decision=\"ALLOWED\",le=\"" le "\"} " n
    assert_has_line(text, BUCKET("0.00001", "2")); /* a bound belongs to its bucket */
    assert_has_line(text, BUCKET("0.000025", "3"));
    assert_has_line(text, BUCKET("5", "3"));
    assert_has_line(text, BUCKET("30", "4"));
    assert_has_line(text, BUCKET("+Inf", "5"));
#undef BUCKET
    assert_has_line(text,
                    "cordium_decision_duration_seconds_sum{decision=\"ALLOWED\"} 60.000020002");
    assert_has_line(text, "cordium_decision_duration_seconds_count{decision=\"ALLOWED\"} 5");
    assert_has_line(text, "cordium_decision_duration_seconds_count{decision=\"DENIED\"} 0");
    free(text);
    metrics_free(m);
}
END_TEST

START_TEST(gauges_go_up_and_down_and_seconds_have_a_fraction)
{
    struct metrics *m = new_metrics();
    metrics_add(m, METRIC_REQUESTS_ACTIVE, 0, 0, 0, 1);
    metrics_add(m, METRIC_REQUESTS_ACTIVE, 0, 0, 0, 1);
    metrics_add(m, METRIC_REQUESTS_ACTIVE, 0, 0, 0, -1);
    metrics_set(m, METRIC_AUDIT_LAG, 0, 1500000000);
    metrics_set(m, METRIC_QUEUE_DEPTH, METRIC_QUEUE_SYSLOG, 7);
    metrics_set(m, METRIC_PROCESS_MEMORY, 0, 4096);
    char *text = text_of(m);
    assert_has_line(text, "cordium_requests_active 1");
    assert_has_line(text, "cordium_audit_lag_seconds 1.5");
    assert_has_line(text, "cordium_queue_depth{queue=\"syslog\"} 7");
    assert_has_line(text, "cordium_queue_depth{queue=\"otlp\"} 0");
    assert_has_line(text, "process_resident_memory_bytes 4096");
    free(text);
    metrics_free(m);
}
END_TEST

START_TEST(without_a_registry_nothing_is_counted)
{
    metrics_add(NULL, METRIC_REQUESTS, 0, 0, 0, 1);
    metrics_set(NULL, METRIC_AUDIT_LAG, 0, 1);
    metrics_observe(NULL, METRIC_RUN_START, 0, 1);
    metrics_free(NULL);
}
END_TEST

START_TEST(label_values_are_escaped)
{
    struct buf out;
    buf_init(&out, 64);
    metrics_text_escape(STR("a\\b\"c\nd"), &out);
    ck_assert(str_is(buf_str(&out), "a\\\\b\\\"c\\nd"));
    buf_free(&out);
}
END_TEST

START_TEST(reasons_outside_the_set_are_one_series)
{
    ck_assert_int_eq(metrics_reason("NO_POLICY_MATCH"), METRIC_REASON_NO_POLICY_MATCH);
    ck_assert_int_eq(metrics_reason("SCOPE_UNAUTHORIZED"), METRIC_REASON_SCOPE_UNAUTHORIZED);
    ck_assert_int_eq(metrics_reason("alice's own"), METRIC_REASON_OTHER);
    ck_assert_int_eq(metrics_reason(NULL), METRIC_REASON_OTHER);
}
END_TEST

START_TEST(outcomes_have_the_names_that_clients_see)
{
    struct metrics *m = new_metrics();
    for (int kind = EXEC_EXITED; kind <= EXEC_NOT_STARTED; kind++) {
        const struct exec_outcome outcome = {.kind = (enum exec_outcome_kind)kind};
        metrics_add(m, METRIC_OUTCOMES, METRIC_OPERATION_EXEC, exec_outcome_metric(&outcome), 0, 1);
    }
    char *text = text_of(m);
    for (int kind = EXEC_SIGNALED; kind < EXEC_NOT_STARTED; kind++) {
        const struct exec_outcome outcome = {.kind = (enum exec_outcome_kind)kind};
        char line[128];
        (void)snprintf(line, sizeof line,
                       "cordium_outcomes_total{operation=\"exec\",outcome=\"%s\"} 1",
                       exec_outcome_name(&outcome));
        assert_has_line(text, line);
    }
    assert_has_line(text, "cordium_outcomes_total{operation=\"exec\",outcome=\"exited\"} 2");
    free(text);
    metrics_free(m);
}
END_TEST

/* Not a benchmark: an order of magnitude that a hash or an allocation would break. */
START_TEST(counting_costs_nanoseconds)
{
    enum { ROUNDS = 1000000 };
    struct metrics *m = new_metrics();
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (unsigned i = 0; i < ROUNDS; i++) {
        metrics_add(m, METRIC_REQUESTS, i % method_count(), i & 1, i % STATUS_COUNT, 1);
        metrics_observe(m, METRIC_DECISION_DURATION, i & 1, (uint64_t)i * 100);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double ns =
        ((double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec)) /
        ROUNDS;
    printf("telemetry: a counter and a histogram take %.1f ns together\n", ns);
    ck_assert_msg(ns < 1000, "%.0f ns", ns);
    metrics_free(m);
}
END_TEST

/* ---- the queue ---- */

START_TEST(lines_leave_only_after_they_were_released)
{
    struct line_queue *q = line_queue_new(4096);
    struct str batch[8];
    ck_assert(line_queue_push(q, STR("one")));
    ck_assert(line_queue_push(q, STR("two")));
    ck_assert_uint_eq(line_queue_peek(q, 8, 4096, batch), 0);
    line_queue_release(q);
    ck_assert(line_queue_push(q, STR("three")));
    ck_assert_uint_eq(line_queue_ready(q), 2);
    ck_assert_uint_eq(line_queue_length(q), 3);
    ck_assert_uint_eq(line_queue_peek(q, 8, 4096, batch), 2);
    ck_assert(str_is(batch[0], "one") && str_is(batch[1], "two"));
    line_queue_drop(q, 2);
    ck_assert_uint_eq(line_queue_peek(q, 8, 4096, batch), 0);
    line_queue_release(q);
    ck_assert_uint_eq(line_queue_peek(q, 8, 4096, batch), 1);
    ck_assert(str_is(batch[0], "three"));
    line_queue_free(q);
}
END_TEST

START_TEST(a_full_queue_refuses_new_lines_and_keeps_the_old_ones)
{
    char line[1000];
    struct str batch[8];
    memset(line, 'x', sizeof line);
    struct line_queue *q = line_queue_new(3500);
    for (int i = 0; i < 3; i++) {
        line[0] = (char)('0' + i);
        ck_assert(line_queue_push(q, str_make(line, sizeof line)));
    }
    ck_assert(!line_queue_push(q, str_make(line, sizeof line)));
    ck_assert(!line_queue_push(q, STR("short, and later than what was refused")));
    line_queue_release(q);
    ck_assert_uint_eq(line_queue_peek(q, 8, 1 << 20, batch), 3);
    ck_assert(batch[0].ptr[0] == '0' && batch[2].ptr[0] == '2');
    line_queue_drop(q, 1);
    ck_assert(line_queue_push(q, str_make(line, sizeof line)));
    line_queue_free(q);
}
END_TEST

START_TEST(a_batch_has_a_bound_in_lines_and_in_bytes_and_always_one_line)
{
    struct line_queue *q = line_queue_new(1 << 20);
    struct str batch[512];
    for (int i = 0; i < 1000; i++) {
        ck_assert(line_queue_push(q, STR("0123456789")));
    }
    line_queue_release(q);
    ck_assert_uint_eq(line_queue_peek(q, 512, 1 << 20, batch), 512);
    ck_assert_uint_eq(line_queue_peek(q, 512, 100, batch), 10);
    ck_assert_uint_eq(line_queue_peek(q, 512, 5, batch), 1);
    line_queue_drop(q, 999);
    ck_assert_uint_eq(line_queue_length(q), 1);
    line_queue_free(q);
}
END_TEST

START_TEST(a_queue_that_goes_round_keeps_the_order)
{
    struct line_queue *q = line_queue_new(1 << 20);
    struct str batch[1];
    unsigned in = 0;
    unsigned out = 0;
    char text[16];
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 7; i++) {
            (void)snprintf(text, sizeof text, "%u", in++);
            ck_assert(line_queue_push(q, str_from(text)));
        }
        line_queue_release(q);
        for (int i = 0; i < 6; i++) {
            ck_assert_uint_eq(line_queue_peek(q, 1, 100, batch), 1);
            (void)snprintf(text, sizeof text, "%u", out++);
            ck_assert(str_is(batch[0], text));
            line_queue_drop(q, 1);
        }
    }
    ck_assert_uint_eq(line_queue_length(q), in - out);
    line_queue_free(q);
}
END_TEST

START_TEST(pauses_grow_to_half_a_minute_and_heed_what_the_receiver_asks)
{
    struct backoff b = {0};
    uint64_t last = 0;
    for (unsigned i = 0; i < 40; i++) {
        uint64_t ms = backoff_next_ms(&b, 0, i * 2654435761U);
        ck_assert(ms >= 750 && ms <= 37500);
        last = ms;
    }
    ck_assert(last >= 22500);
    ck_assert_uint_eq(backoff_next_ms(&b, 120000, 0), 120000);
    ck_assert_uint_eq(backoff_next_ms(&b, UINT64_MAX, 0), BACKOFF_ASKED_MAX_MS);
    backoff_reset(&b);
    ck_assert(backoff_next_ms(&b, 0, 0) <= 1250);
}
END_TEST

/* ---- protobuf ---- */

START_TEST(nested_messages_have_their_lengths)
{
    struct buf out;
    buf_init(&out, 64);
    struct proto_out p = proto_out_to(&out);
    proto_begin(&p, 1);
    proto_text(&p, 2, STR("abc"));
    proto_begin(&p, 3);
    proto_varint(&p, 1, 150);
    proto_varint(&p, 2, 0);
    proto_end(&p);
    proto_end(&p);
    /* 1: 12 bytes { 2: "abc", 3: 5 bytes { 1: 150, 2: 0 } } */
    ck_assert_uint_eq(out.len, 14);
    ck_assert_mem_eq(out.ptr,
                     "\x0a\x0c\x12\x03"
                     "abc"
                     "\x1a\x05\x08\x96\x01\x10\x00",
                     14);
    buf_free(&out);
}
END_TEST

START_TEST(a_long_message_gets_a_length_of_several_bytes)
{
    char text[300];
    memset(text, 'x', sizeof text);
    struct buf out;
    buf_init(&out, 1024);
    struct proto_out p = proto_out_to(&out);
    proto_begin(&p, 1);
    proto_text(&p, 1, str_make(text, sizeof text));
    proto_end(&p);
    ck_assert_mem_eq(out.ptr, "\x0a\xaf\x02\x0a\xac\x02x", 7);
    ck_assert_uint_eq(out.len, 3 + 3 + 300);
    buf_free(&out);
    buf_init(&out, 100); /* what does not fit fails, and stays harmless */
    p = proto_out_to(&out);
    proto_begin(&p, 1);
    proto_text(&p, 1, str_make(text, sizeof text));
    proto_end(&p);
    ck_assert(out.failed);
    buf_free(&out);
}
END_TEST

START_TEST(a_receivers_partial_success_is_understood)
{
    struct otlp_answer a;
    struct error err;
    ck_assert_int_eq(otlp_answer_read(STR(""), &a, &err), 0);
    ck_assert_uint_eq(a.rejected, 0);
    ck_assert_int_eq(otlp_answer_read(str_make("\x0a\x09\x08\x05\x12\x05"
                                               "a\nlot",
                                               11),
                                      &a, &err),
                     0);
    ck_assert_uint_eq(a.rejected, 5);
    ck_assert_str_eq(a.reason, "a?lot");
    /* -1, unknown fields of every kind, and what is no message */
    ck_assert_int_eq(
        otlp_answer_read(str_make("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13), &a,
                         &err),
        0);
    ck_assert_uint_eq(a.rejected, 0);
    ck_assert_int_eq(
        otlp_answer_read(str_make("\x18\x01\x21xxxxxxxx\x2dxxxx\x32\x01y", 19), &a, &err), 0);
    ck_assert_int_lt(otlp_answer_read(STR("{\"partialSuccess\":{}}"), &a, &err), 0);
    ck_assert_int_lt(otlp_answer_read(str_make("\x0a\x7f\x08", 3), &a, &err), 0);
    ck_assert_int_lt(otlp_answer_read(str_make("\x08\xff", 2), &a, &err), 0);
}
END_TEST

/* ---- syslog ---- */

#define LINE                                                                                       \
    "{\"sequence\":7,\"kind\":\"AccessLog\",\"metadata\":{\"createdAt\":\"2026-11-30T03:45:08."    \
    "123456789Z\"},\"entry\":{\"common\":{\"status\":\"DENIED\",\"reason\":{\"type\":\"NO_POLICY_" \
    "MATCH\"},\"userRef\":{\"name\":\"al\\\"i]c\\\\e\\n\"}}},\"cordium\":{\"event\":\"DECISION\"}" \
    "}"

static void assert_syslog(enum syslog_framing framing, struct str line, const char *expected)
{
    const struct syslog_source source = {.facility = 13, .host = "host 1", .pid = "42"};
    struct buf out;
    buf_init(&out, TEXT_MAX_BYTES);
    syslog_message_write(&source, framing, line, &out);
    ck_assert(!out.failed);
    ck_assert_msg(str_is(buf_str(&out), expected), "%.*s", STR_ARG(buf_str(&out)));
    buf_free(&out);
}

#define MESSAGE                                                                                    \
    "<108>1 2026-11-30T03:45:08.123456Z host?1 cordium-gateway 42 AccessLog [cordium@32473 "       \
    "sequence=\"7\" event=\"DECISION\" decision=\"DENIED\" reason=\"NO_POLICY_MATCH\" "            \
    "user=\"al\\\"i\\]c\\\\e \"] " LINE

START_TEST(a_line_becomes_a_message_of_rfc_5424)
{
    assert_syslog(SYSLOG_DATAGRAM, STR(LINE), MESSAGE);
}
END_TEST

START_TEST(octets_are_counted_on_a_stream)
{
    char expected[2048];
    (void)snprintf(expected, sizeof expected, "%zu %s", strlen(MESSAGE), MESSAGE);
    assert_syslog(SYSLOG_COUNTED, STR(LINE), expected);
}
END_TEST

START_TEST(a_line_without_facts_still_goes)
{
    assert_syslog(SYSLOG_DATAGRAM, STR("{torn"),
                  "<110>1 - host?1 cordium-gateway 42 - [cordium@32473] {torn");
    assert_syslog(SYSLOG_DATAGRAM, STR("{\"kind\":\"AuditGap\"}"),
                  "<107>1 - host?1 cordium-gateway 42 AuditGap [cordium@32473] "
                  "{\"kind\":\"AuditGap\"}");
}
END_TEST

/* ---- what the configuration says ---- */

START_TEST(endpoints_are_read_and_bad_ones_refused)
{
    struct endpoint e;
    struct error err;
    ck_assert_int_eq(endpoint_parse_otlp("http://127.0.0.1", &e, &err), 0);
    ck_assert(e.port == 4318 && e.path[0] == '\0' && endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_otlp("https://otel.example:443/in/put/", &e, &err), 0);
    ck_assert_str_eq(e.host, "otel.example");
    ck_assert_str_eq(e.path, "/in/put");
    ck_assert(e.scheme == ENDPOINT_HTTPS && e.port == 443 && endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_otlp("http://[::1]:1", &e, &err), 0);
    ck_assert(endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_otlp("http://10.0.0.1:4318", &e, &err), 0);
    ck_assert(!endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_syslog("udp://127.1.2.3", &e, &err), 0);
    ck_assert(e.port == 514 && e.scheme == ENDPOINT_UDP && endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_syslog("tcp://log.example", &e, &err), 0);
    ck_assert(e.port == 601 && !endpoint_is_safe(&e));
    ck_assert_int_eq(endpoint_parse_syslog("unix:///dev/log", &e, &err), 0);
    ck_assert_str_eq(e.path, "/dev/log");
    ck_assert_int_eq(endpoint_parse_listen("127.0.0.1:9464", &e, &err), 0);
    ck_assert_int_eq(endpoint_parse_listen("[::1]:9464", &e, &err), 0);
    static const char *const bad_otlp[] = {
        "127.0.0.1:4318",       "ftp://a",      "http://",         "http://a:0", "http://a:65536",
        "http://a:99999999999", "http://u:p@a", "http://a?b",      "http://a#b", "http://[::1",
        "http://[zz]:1",        "http://a b",   "http://a:1/x\ny", "HTTP://a",   "http://a:1:2",
    };
    for (size_t i = 0; i < sizeof bad_otlp / sizeof bad_otlp[0]; i++) {
        ck_assert_msg(endpoint_parse_otlp(bad_otlp[i], &e, &err) < 0, "%s", bad_otlp[i]);
    }
    static const char *const bad_syslog[] = {"udp://",   "tcp://a/b", "unix://dev/log",
                                             "/dev/log", "tls://a",   "udp://a:1x"};
    for (size_t i = 0; i < sizeof bad_syslog / sizeof bad_syslog[0]; i++) {
        ck_assert_msg(endpoint_parse_syslog(bad_syslog[i], &e, &err) < 0, "%s", bad_syslog[i]);
    }
    static const char *const bad_listen[] = {"0.0.0.0:9464",    "10.0.0.1:9464", "localhost:9464",
                                             "127.0.0.1",       "127.0.0.1:0",   "[::]:9464",
                                             "127.0.0.1:9464/", ":9464"};
    for (size_t i = 0; i < sizeof bad_listen / sizeof bad_listen[0]; i++) {
        ck_assert_msg(endpoint_parse_listen(bad_listen[i], &e, &err) < 0, "%s", bad_listen[i]);
    }
}
END_TEST

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    ck_assert_int_eq(close(fd), 0);
}

START_TEST(a_file_of_secrets_is_read_only_when_nobody_else_can)
{
    static const char *const bad[] = {"no header\n", "Authorization:\n",    "Authorization:   \n",
                                      ": value\n",   "Content-Type: x/y\n", "host: elsewhere\n",
                                      "a b: c\n",    "X-Key: a\x01\n",      "X-Key: caf\xc3\xa9\n"};
    char path[] = "/tmp/cordium-headers-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ne(fd, -1);
    (void)close(fd);
    struct arena arena;
    struct error err;
    const char *const *headers;
    size_t count;
    arena_init(&arena, 1 << 20);
    write_file(path, "# keys\nAuthorization: Bearer hush-hush\n\nX-Scope: a b\n", 0600);
    ck_assert_int_eq(secret_file_headers(path, &arena, &headers, &count, &err), 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(headers[0], "Authorization: Bearer hush-hush");
    ck_assert_str_eq(headers[1], "X-Scope: a b");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "X-Good: hush-hush\n%s", bad[i]);
        write_file(path, text, 0600);
        ck_assert_msg(secret_file_headers(path, &arena, &headers, &count, &err) < 0, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(err.text, ":2:"));
        ck_assert_ptr_eq(strstr(err.text, "hush"), NULL);
    }
    write_file(path, "X-Good: 1\n", 0640);
    ck_assert_int_eq(secret_file_headers(path, &arena, &headers, &count, &err),
                     -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.text, "chmod 600"));
    ck_assert_int_eq(secret_file_headers("/dev/null", &arena, &headers, &count, &err),
                     -STATUS_FAILED_PRECONDITION);
    (void)unlink(path);
    ck_assert_int_eq(secret_file_headers(path, &arena, &headers, &count, &err),
                     -STATUS_FAILED_PRECONDITION);
    arena_free(&arena);
}
END_TEST

Suite *suite_telemetry(void)
{
    Suite *s = suite_create("telemetry");
    TCase *t = tcase_create("metrics");
    tcase_add_test(t, counters_are_told_by_their_labels);
    tcase_add_test(t, each_method_has_a_place_of_its_own);
    tcase_add_test(t, a_histogram_counts_each_duration_once_and_its_buckets_add_up);
    tcase_add_test(t, gauges_go_up_and_down_and_seconds_have_a_fraction);
    tcase_add_test(t, without_a_registry_nothing_is_counted);
    tcase_add_test(t, label_values_are_escaped);
    tcase_add_test(t, reasons_outside_the_set_are_one_series);
    tcase_add_test(t, outcomes_have_the_names_that_clients_see);
    tcase_add_test(t, counting_costs_nanoseconds);
    suite_add_tcase(s, t);
    t = tcase_create("queue");
    tcase_add_test(t, lines_leave_only_after_they_were_released);
    tcase_add_test(t, a_full_queue_refuses_new_lines_and_keeps_the_old_ones);
    tcase_add_test(t, a_batch_has_a_bound_in_lines_and_in_bytes_and_always_one_line);
    tcase_add_test(t, a_queue_that_goes_round_keeps_the_order);
    tcase_add_test(t, pauses_grow_to_half_a_minute_and_heed_what_the_receiver_asks);
    suite_add_tcase(s, t);
    t = tcase_create("messages");
    tcase_add_test(t, nested_messages_have_their_lengths);
    tcase_add_test(t, a_long_message_gets_a_length_of_several_bytes);
    tcase_add_test(t, a_receivers_partial_success_is_understood);
    tcase_add_test(t, a_line_becomes_a_message_of_rfc_5424);
    tcase_add_test(t, octets_are_counted_on_a_stream);
    tcase_add_test(t, a_line_without_facts_still_goes);
    suite_add_tcase(s, t);
    t = tcase_create("configuration");
    tcase_add_test(t, endpoints_are_read_and_bad_ones_refused);
    tcase_add_test(t, a_file_of_secrets_is_read_only_when_nobody_else_can);
    suite_add_tcase(s, t);
    return s;
}
