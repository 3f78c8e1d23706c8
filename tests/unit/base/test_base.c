#include <check.h>
#include <stdlib.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/json_out.h"
#include "policy/base/status.h"
#include "policy/base/utf8.h"

Suite *suite_base(void);

START_TEST(arena_refuses_past_its_cap)
{
    struct arena a;
    arena_init(&a, 10000);
    ck_assert_ptr_nonnull(arena_alloc(&a, 4000));
    ck_assert_ptr_null(arena_alloc(&a, 8000));
    ck_assert_ptr_nonnull(arena_alloc(&a, 100));
    ck_assert_ptr_null(arena_calloc(&a, SIZE_MAX, 2));
    arena_free(&a);
    arena_free(&a);
}
END_TEST

START_TEST(arena_with_lent_memory_stays_in_it)
{
    _Alignas(16) char memory[1024];
    struct arena a;
    arena_init_with(&a, memory, sizeof memory, 0);
    char *p = arena_printf(&a, "%d-%s", 42, "x");
    ck_assert_str_eq(p, "42-x");
    ck_assert(p >= memory && p < memory + sizeof memory);
    ck_assert_ptr_null(arena_alloc(&a, 2000));
    arena_reset(&a);
    ck_assert_ptr_eq(arena_alloc(&a, 1), memory);
    arena_free(&a);
}
END_TEST

START_TEST(arena_large_request_keeps_the_block_in_use)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    char *first = arena_alloc(&a, 16);
    ck_assert_ptr_nonnull(arena_alloc(&a, 100000));
    char *second = arena_alloc(&a, 16);
    ck_assert(second == first + 16);
    arena_free(&a);
}
END_TEST

START_TEST(bytes_reader_stops_at_the_end)
{
    const uint8_t data[] = {2, 0, 0, 0, 'h', 'i', 9, 0, 0, 0, 'x'};
    struct bytes in = bytes_over(data, sizeof data);
    struct str s;
    ck_assert(bytes_read_str(&in, 10, &s));
    ck_assert(str_is(s, "hi"));
    ck_assert(!bytes_read_str(&in, 10, &s));
    ck_assert_uint_eq(bytes_left(&in), 5);
    uint64_t wide;
    ck_assert(!bytes_read_u64(&in, &wide));
    in = bytes_over(data, sizeof data);
    ck_assert(!bytes_read_str(&in, 1, &s));
}
END_TEST

START_TEST(buf_keeps_its_maximum)
{
    struct buf b;
    buf_init(&b, 8);
    buf_add_cstr(&b, "12345678");
    ck_assert(!b.failed);
    buf_add_u8(&b, 'x');
    ck_assert(b.failed);
    ck_assert_uint_eq(b.len, 8);
    buf_clear(&b);
    buf_add_cstr(&b, "abc");
    buf_consume(&b, 1);
    ck_assert(str_is(buf_str(&b), "bc"));
    buf_free(&b);
}
END_TEST

START_TEST(utf8_accepts_only_well_formed_text)
{
    ck_assert(utf8_is_valid(STR("plain ascii text")));
    ck_assert(utf8_is_valid(STR("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80")));
    static const char *const bad[] = {"\x80",         "\xC0\x80",         "\xE0\x80\x80",
                                      "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x8F\xBF\xBF",
                                      "\xC3",         "12345678\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!utf8_is_valid(str_from(bad[i])), "case %zu", i);
    }
    struct str s = STR("a\xC3\xA9"
                       "b");
    ck_assert_uint_eq(utf8_count(s), 3);
    ck_assert_uint_eq(utf8_offset(s, 2), 3);
    ck_assert_uint_eq(utf8_offset(s, 3), 4);
}
END_TEST

START_TEST(json_writer_escapes_what_would_break_a_line)
{
    struct buf b;
    buf_init(&b, 4096);
    struct json_out j = json_out_to(&b);
    json_begin_object(&j);
    json_member_string(&j, "a", "q\"\\\n\x01\xFF\xE2\x80\xA8");
    json_key(&j, "n");
    json_begin_array(&j);
    json_int(&j, -9007199254740993);
    json_double(&j, 0.1);
    json_null(&j);
    json_end_array(&j);
    json_member_bool(&j, "t", true);
    json_member_string_opt(&j, "empty", "");
    json_end_object(&j);
    ck_assert(str_is(buf_str(&b),
                     "{\"a\":\"q\\\"\\\\\\n\\u0001\\ufffd\\u2028\",\"n\":[-9007199254740993,0.1,"
                     "null],\"t\":true}"));
    buf_free(&b);
}
END_TEST

START_TEST(json_out_escapes_what_terminals_and_editors_act_upon)
{
    struct buf b;
    buf_init(&b, 4096);
    struct json_out j = json_out_to(&b);
    /* DEL, CSI and NEL of C1, right-to-left override and isolate; but not what is only beyond
     * ASCII. */
    json_string(&j,
                STR("\x7F\xC2\x9B\xC2\x85\xE2\x80\xAE\xE2\x81\xA6\xC2\xA0\xE2\x80\xA7\xC3\xA9"));
    ck_assert(
        str_is(buf_str(&b), "\"\\u007f\\u009b\\u0085\\u202e\\u2066\xC2\xA0\xE2\x80\xA7\xC3\xA9\""));
    buf_free(&b);
}
END_TEST

START_TEST(error_wrap_puts_context_in_front)
{
    struct error err;
    ck_assert_int_eq(error_set_at(&err, STATUS_NOT_FOUND, 3, 7, "no %s", "key"), -STATUS_NOT_FOUND);
    ck_assert_int_eq(error_wrap(&err, "policy '%s'", "p"), -STATUS_NOT_FOUND);
    ck_assert_str_eq(err.text, "policy 'p': no key");
    ck_assert_uint_eq(err.line, 3);
    ck_assert_int_eq(status_from_name("UNAUTHENTICATED"), STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(status_from_name("nonsense"), -1);
}
END_TEST

Suite *suite_base(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("base");
    tcase_add_test(t, arena_refuses_past_its_cap);
    tcase_add_test(t, arena_with_lent_memory_stays_in_it);
    tcase_add_test(t, arena_large_request_keeps_the_block_in_use);
    tcase_add_test(t, bytes_reader_stops_at_the_end);
    tcase_add_test(t, buf_keeps_its_maximum);
    tcase_add_test(t, utf8_accepts_only_well_formed_text);
    tcase_add_test(t, json_writer_escapes_what_would_break_a_line);
    tcase_add_test(t, json_out_escapes_what_terminals_and_editors_act_upon);
    tcase_add_test(t, error_wrap_puts_context_in_front);
    suite_add_tcase(s, t);
    return s;
}
