#include <check.h>
#include <string.h>

#include "gateway/edge/compression.h"
#include "gateway/edge/envelope.h"

START_TEST(envelope_round_trip)
{
    uint8_t bytes[ENVELOPE_HEAD_BYTES + 3];
    envelope_write_head(bytes, ENVELOPE_COMPRESSED, 3);
    memcpy(bytes + ENVELOPE_HEAD_BYTES, "abc", 3);
    struct bytes in = bytes_over(bytes, sizeof bytes);
    struct envelope e;
    size_t announced;
    ck_assert_int_eq(envelope_read(&in, 3, &e, &announced), ENVELOPE_WHOLE);
    ck_assert_uint_eq(e.flags, ENVELOPE_COMPRESSED);
    ck_assert(str_is(e.payload, "abc"));
    ck_assert_uint_eq(bytes_left(&in), 0);
}
END_TEST

START_TEST(envelope_short_does_not_move)
{
    uint8_t bytes[ENVELOPE_HEAD_BYTES + 3] = {0, 0, 0, 0, 3, 'a', 'b', 'c'};
    struct envelope e;
    size_t announced;
    for (size_t n = 0; n < sizeof bytes; n++) {
        struct bytes in = bytes_over(bytes, n);
        ck_assert_int_eq(envelope_read(&in, 100, &e, &announced), ENVELOPE_SHORT);
        ck_assert_uint_eq(bytes_left(&in), n);
    }
}
END_TEST

START_TEST(envelope_length_is_judged_by_the_head_alone)
{
    const uint8_t bytes[ENVELOPE_HEAD_BYTES] = {0, 0xff, 0xff, 0xff, 0xff};
    struct bytes in = bytes_over(bytes, sizeof bytes);
    struct envelope e;
    size_t announced;
    ck_assert_int_eq(envelope_read(&in, 8 << 20, &e, &announced), ENVELOPE_TOO_LARGE);
    ck_assert_uint_eq(announced, UINT32_MAX);
}
END_TEST

START_TEST(gzip_round_trip_and_limit)
{
    static const uint8_t plain[100000];
    struct buf packed;
    struct buf out;
    struct error err;
    buf_init(&packed, 1 << 20);
    ck_assert_int_eq(compression_gzip(&packed, str_make(plain, sizeof plain), &err), 0);
    buf_init(&out, sizeof plain);
    ck_assert_int_eq(compression_gunzip(&out, buf_str(&packed), &err), 0);
    ck_assert_uint_eq(out.len, sizeof plain);
    buf_free(&out);
    buf_init(&out, sizeof plain - 1);
    ck_assert_int_eq(compression_gunzip(&out, buf_str(&packed), &err), -STATUS_RESOURCE_EXHAUSTED);
    buf_free(&out);
    buf_init(&out, sizeof plain);
    for (size_t cut = 0; cut < packed.len; cut++) {
        buf_clear(&out);
        ck_assert_int_eq(compression_gunzip(&out, str_make(packed.ptr, cut), &err),
                         -STATUS_INVALID_ARGUMENT);
    }
    buf_add_u8(&packed, 'x');
    buf_clear(&out);
    ck_assert_int_eq(compression_gunzip(&out, buf_str(&packed), &err), -STATUS_INVALID_ARGUMENT);
    buf_free(&out);
    buf_free(&packed);
}
END_TEST

Suite *suite_envelope(void);

Suite *suite_envelope(void)
{
    Suite *s = suite_create("envelope");
    TCase *t = tcase_create("core");
    tcase_add_test(t, envelope_round_trip);
    tcase_add_test(t, envelope_short_does_not_move);
    tcase_add_test(t, envelope_length_is_judged_by_the_head_alone);
    tcase_add_test(t, gzip_round_trip_and_limit);
    suite_add_tcase(s, t);
    return s;
}
