#include <check.h>
#include <string.h>

#include "gateway/identity/token.h"

START_TEST(a_token_has_its_prefix_and_43_characters)
{
    static const struct {
        enum token_kind kind;
        const char *prefix;
    } kinds[] = {{TOKEN_ACCESS, "cat_"},
                 {TOKEN_REFRESH, "crt_"},
                 {TOKEN_AUTHENTICATION, "cauth_"},
                 {TOKEN_CLIENT_SECRET, "csec_"}};
    for (size_t i = 0; i < 4; i++) {
        struct secret s;
        uint8_t digest[TOKEN_DIGEST_BYTES];
        ck_assert_int_eq(token_generate(kinds[i].kind, &s, digest, NULL), 0);
        ck_assert(strncmp(s.text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0);
        ck_assert_uint_eq(s.len, strlen(kinds[i].prefix) + TOKEN_BASE64_LEN);
        ck_assert_uint_eq(strlen(s.text), s.len);
        secret_wipe(&s);
        ck_assert_uint_eq(s.len, 0);
        ck_assert_int_eq(s.text[0], 0);
    }
}
END_TEST

START_TEST(the_digest_of_a_token_is_found_from_its_text)
{
    struct secret s;
    uint8_t made[TOKEN_DIGEST_BYTES];
    uint8_t found[TOKEN_DIGEST_BYTES];
    ck_assert_int_eq(token_generate(TOKEN_ACCESS, &s, made, NULL), 0);
    ck_assert(token_digest(TOKEN_ACCESS, str_make(s.text, s.len), found));
    ck_assert(token_digest_equal(made, found));
    found[31] ^= 1;
    ck_assert(!token_digest_equal(made, found));
}
END_TEST

START_TEST(text_of_another_form_or_kind_is_no_token)
{
    struct secret s;
    uint8_t digest[TOKEN_DIGEST_BYTES];
    ck_assert_int_eq(token_generate(TOKEN_ACCESS, &s, digest, NULL), 0);
    ck_assert(!token_digest(TOKEN_REFRESH, str_make(s.text, s.len), digest));
    ck_assert(!token_digest(TOKEN_ACCESS, str_make(s.text, s.len - 1), digest));
    s.text[10] = '+';
    ck_assert(!token_digest(TOKEN_ACCESS, str_make(s.text, s.len), digest));
    s.text[10] = 0;
    ck_assert(!token_digest(TOKEN_ACCESS, str_make(s.text, s.len), digest));
    ck_assert(!token_digest(TOKEN_ACCESS, STR_NONE, digest));
}
END_TEST

START_TEST(sha256_is_that_of_fips_180)
{
    static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                  0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                  0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t digest[TOKEN_DIGEST_BYTES];
    token_sha256(STR("abc"), digest);
    ck_assert_mem_eq(digest, abc, sizeof abc);
}
END_TEST

START_TEST(random_labels_are_labels)
{
    char label[TOKEN_RANDOM_ID_MAX + 1];
    for (size_t len = 1; len <= TOKEN_RANDOM_ID_MAX; len++) {
        ck_assert_int_eq(token_random_label(len, label, NULL), 0);
        ck_assert_uint_eq(strlen(label), len);
        ck_assert(label[0] >= 'a' && label[0] <= 'z');
        ck_assert_uint_eq(strspn(label, "abcdefghijklmnopqrstuvwxyz0123456789"), len);
    }
}
END_TEST

Suite *suite_token(void);

Suite *suite_token(void)
{
    Suite *suite = suite_create("token");
    TCase *t = tcase_create("token");
    tcase_add_test(t, a_token_has_its_prefix_and_43_characters);
    tcase_add_test(t, the_digest_of_a_token_is_found_from_its_text);
    tcase_add_test(t, text_of_another_form_or_kind_is_no_token);
    tcase_add_test(t, sha256_is_that_of_fips_180);
    tcase_add_test(t, random_labels_are_labels);
    suite_add_tcase(suite, t);
    return suite;
}
