#include <check.h>

#include "gateway/edge/header_text.h"

static void expect_timeout(const char *text, uint64_t want_ns)
{
    uint64_t ns = 0;
    ck_assert_msg(header_text_parse_grpc_timeout(str_from(text), &ns), "%s", text);
    ck_assert_msg(ns == want_ns, "%s: %llu", text, (unsigned long long)ns);
}

START_TEST(grpc_timeout_units)
{
    expect_timeout("1H", 3600000000000);
    expect_timeout("2M", 120000000000);
    expect_timeout("3S", 3000000000);
    expect_timeout("4m", 4000000);
    expect_timeout("5u", 5000);
    expect_timeout("00000006n", 6);
    expect_timeout("0S", 0);
    expect_timeout("99999999H", UINT64_MAX);
}
END_TEST

START_TEST(grpc_timeout_malformed_is_refused)
{
    static const char *const bad[] = {"",     "S",          "1",   "1x",  "-1S",
                                      "1.5S", "123456789S", " 1S", "1S ", "1 S"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t ns;
        ck_assert_msg(!header_text_parse_grpc_timeout(str_from(bad[i]), &ns), "%s", bad[i]);
    }
}
END_TEST

START_TEST(connect_timeout)
{
    uint64_t ns;
    ck_assert(header_text_parse_connect_timeout(STR("9999999999"), &ns));
    ck_assert_uint_eq(ns, 9999999999000000);
    ck_assert(!header_text_parse_connect_timeout(STR("12345678901"), &ns));
    ck_assert(!header_text_parse_connect_timeout(STR("1s"), &ns));
    ck_assert(!header_text_parse_connect_timeout(STR_NONE, &ns));
}
END_TEST

static void expect_percent(struct str in, const char *want)
{
    struct buf out;
    buf_init(&out, 256);
    header_text_add_percent_encoded(&out, in);
    ck_assert(str_is(buf_str(&out), want));
    buf_free(&out);
}

START_TEST(percent_encoding)
{
    expect_percent(STR("plain ~text!"), "plain ~text!");
    expect_percent(STR("100%\r\n\xc3\xa9\0\x7f"), "100%25%0D%0A%C3%A9%00%7F");
}
END_TEST

static void expect_base64(struct str in, const char *want)
{
    struct buf out;
    buf_init(&out, 256);
    header_text_add_base64(&out, in);
    ck_assert(str_is(buf_str(&out), want));
    buf_free(&out);
}

START_TEST(base64_has_no_padding)
{
    expect_base64(STR_NONE, "");
    expect_base64(STR("f"), "Zg");
    expect_base64(STR("fo"), "Zm8");
    expect_base64(STR("foo"), "Zm9v");
    expect_base64(STR("\xff\xfe\xfd\x00"), "//79AA");
}
END_TEST

START_TEST(lists_and_case)
{
    ck_assert(header_text_list_has(STR("br, GZip;q=1"), "gzip"));
    ck_assert(header_text_list_has(STR("close"), "close"));
    ck_assert(!header_text_list_has(STR("xgzip,gzipx,"), "gzip"));
    ck_assert(!header_text_list_has(STR_NONE, "gzip"));
    ck_assert(header_text_is_nocase(STR("Content-Length"), "content-length"));
    ck_assert(!header_text_is_nocase(STR("Content-Lengt"), "content-length"));
    ck_assert(!header_text_is_nocase(STR("Content-Length2"), "content-length"));
    ck_assert(header_text_is_token(STR("x-A_1")));
    ck_assert(!header_text_is_token(STR("x y")));
    ck_assert(!header_text_is_token(STR_NONE));
}
END_TEST

Suite *suite_header_text(void);

Suite *suite_header_text(void)
{
    Suite *s = suite_create("header_text");
    TCase *t = tcase_create("core");
    tcase_add_test(t, grpc_timeout_units);
    tcase_add_test(t, grpc_timeout_malformed_is_refused);
    tcase_add_test(t, connect_timeout);
    tcase_add_test(t, percent_encoding);
    tcase_add_test(t, base64_has_no_padding);
    tcase_add_test(t, lists_and_case);
    suite_add_tcase(s, t);
    return s;
}
