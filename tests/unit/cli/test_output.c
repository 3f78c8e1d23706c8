/* What reaches a terminal. */
#include "gateway/cli/output.h"

#include <check.h>
#include <string.h>

#include "gateway/cli/table.h"
#include "policy/base/utf8.h"

Suite *suite_output(void);

static const char *escaped(const char *text, size_t len, bool keep_lines)
{
    static char kept[512];
    struct buf b;
    buf_init(&b, sizeof kept - 1);
    output_escape(str_make(text, len), keep_lines, &b);
    ck_assert(!b.failed);
    memcpy(kept, b.ptr ? (const char *)b.ptr : "", b.len);
    kept[b.len] = '\0';
    buf_free(&b);
    return kept;
}

#define ESCAPED(literal) escaped(literal, sizeof(literal) - 1, false)

START_TEST(what_a_terminal_would_obey_is_escaped)
{
    ck_assert_str_eq(ESCAPED("\033]52;c;ZWNobyBvd25lZA==\a"),
                     "\\u001b]52;c;ZWNobyBvd25lZA==\\u0007");
    ck_assert_str_eq(ESCAPED("a\nb\r\tc\177"), "a\\u000ab\\u000d\\u0009c\\u007f");
    ck_assert_str_eq(ESCAPED("\0"), "\\u0000");
    /* CSI as one character, and as one byte of an eight-bit terminal */
    ck_assert_str_eq(ESCAPED("\xc2\x9b\x32J \x9b\x32J"), "\\u009b2J \\x9b2J");
}
END_TEST

START_TEST(what_turns_or_hides_text_is_escaped)
{
    ck_assert_str_eq(ESCAPED("\u202emoc\u2028\u200b\u2066\ufeff"),
                     "\\u202emoc\\u2028\\u200b\\u2066\\ufeff");
    ck_assert_str_eq(ESCAPED("\U000e0041"), "\\u{e0041}");
}
END_TEST

START_TEST(other_text_stays)
{
    ck_assert_str_eq(ESCAPED("Müller \\n 東京 🙂 e\u0301"), "Müller \\n 東京 🙂 e\u0301");
    ck_assert_str_eq(escaped("a\nb\033", 4, true), "a\nb\\u001b");
}
END_TEST

START_TEST(no_bytes_get_through)
{
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = (char)(seed >> 24);
        }
        const char *safe = escaped(text, sizeof text, false);
        ck_assert(utf8_is_valid(str_from(safe)));
        for (const char *c = safe; *c; c++) {
            ck_assert((unsigned char)*c >= 0x20 && *c != 0x7F);
            ck_assert(!((unsigned char)c[0] == 0xC2 && (unsigned char)c[1] < 0xA0));
        }
    }
}
END_TEST

START_TEST(width_is_that_of_terminals)
{
    ck_assert_uint_eq(output_width(STR("abc")), 3);
    ck_assert_uint_eq(output_width(STR("東京")), 4);
    ck_assert_uint_eq(output_width(STR("e\u0301")), 1);
    ck_assert_uint_eq(output_head(STR("東京"), 3).len, 3);
    ck_assert_uint_eq(output_head(STR("e\u0301x"), 1).len, 3);
    ck_assert_uint_eq(output_head(STR("abc"), 9).len, 3);
}
END_TEST

static const struct table_column columns[] = {
    {"Number", 0, 0, true}, {"Name", 6, 0, false}, {"Text", 6, 0, false}};

/* The rows of a table, as text. */
static const char *rows_of(size_t width_max, bool has_colours, const struct table_cell *cells,
                           size_t rows)
{
    static char kept[1024];
    struct buf b;
    struct table t = {
        .columns = columns, .count = 3, .width_max = width_max, .has_colours = has_colours};
    buf_init(&b, sizeof kept - 1);
    table_fit(&t, cells, rows);
    table_add_titles(&t, &b);
    for (size_t i = 0; i < rows; i++) {
        table_add_row(&t, cells + 3 * i, &b);
    }
    ck_assert(!b.failed);
    memcpy(kept, b.ptr, b.len);
    kept[b.len] = '\0';
    buf_free(&b);
    return kept;
}

static const struct table_cell cells[] = {
    {"7", OUTPUT_PLAIN},
    {"a name that is long", OUTPUT_RED},
    {"text\nof two lines", OUTPUT_PLAIN},
    {"12", OUTPUT_PLAIN},
    {"東京", OUTPUT_PLAIN},
    {"x", OUTPUT_PLAIN},
};

START_TEST(table_is_as_wide_as_it_needs_where_there_is_no_terminal)
{
    ck_assert_str_eq(rows_of(0, false, cells, 2),
                     "Number  Name                 Text\n"
                     "     7  a name that is long  text\\u000aof two lines\n"
                     "    12  東京                 x\n");
}
END_TEST

START_TEST(table_is_cut_to_the_terminals_width)
{
    ck_assert_str_eq(rows_of(32, false, cells, 2), "Number  Name         Text\n"
                                                   "     7  a name tha\u2026  text\\u000a\u2026\n"
                                                   "    12  東京         x\n");
}
END_TEST

START_TEST(table_colours_what_is_shown_and_not_the_padding)
{
    const char *text = rows_of(0, true, cells, 1);
    ck_assert_ptr_nonnull(strstr(text, "\033[31ma name that is long\033[0m  text\\u000a"));
    ck_assert_ptr_nonnull(strstr(text, "\033[1mName\033[0m  "));
}
END_TEST

Suite *suite_output(void)
{
    Suite *s = suite_create("output");
    TCase *t = tcase_create("escapes");
    tcase_add_test(t, what_a_terminal_would_obey_is_escaped);
    tcase_add_test(t, what_turns_or_hides_text_is_escaped);
    tcase_add_test(t, other_text_stays);
    tcase_add_test(t, no_bytes_get_through);
    tcase_add_test(t, width_is_that_of_terminals);
    suite_add_tcase(s, t);
    t = tcase_create("tables");
    tcase_add_test(t, table_is_as_wide_as_it_needs_where_there_is_no_terminal);
    tcase_add_test(t, table_is_cut_to_the_terminals_width);
    tcase_add_test(t, table_colours_what_is_shown_and_not_the_padding);
    suite_add_tcase(s, t);
    return s;
}
