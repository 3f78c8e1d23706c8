#include <check.h>
#include <string.h>

#include "executor/image/dockerfile.h"

static const char *const NAMES[] = {"A", "B"};

static void assert_becomes(const char *text, const char *expected)
{
    struct buf out;
    struct error err = {0};

    buf_init(&out, 1 << 20);
    int r = dockerfile_add_args(str_from(text), NAMES, 2, &out, &err);
    ck_assert_msg(r == 0, "%s", err.text);
    buf_add_u8(&out, 0);
    ck_assert_str_eq((const char *)out.ptr, expected);
    buf_free(&out);
}

START_TEST(args_stand_after_each_from)
{
    assert_becomes("FROM a\nRUN x\nfrom b AS c\nRUN y\n",
                   "FROM a\nARG A\nARG B\nRUN x\nfrom b AS c\nARG A\nARG B\nRUN y\n");
    assert_becomes("FROM a", "FROM a\nARG A\nARG B\n");
    assert_becomes("FROM a\r\nRUN x\r\n", "FROM a\r\nARG A\nARG B\nRUN x\r\n");
}
END_TEST

START_TEST(from_may_go_on_over_lines_and_comments)
{
    assert_becomes("ARG V=1\nFROM \\\n# why\n  a:$V\nRUN x\n",
                   "ARG V=1\nFROM \\\n# why\n  a:$V\nARG A\nARG B\nRUN x\n");
    assert_becomes("# escape=`\nFROM `\n a\n", "# escape=`\nFROM `\n a\nARG A\nARG B\n");
}
END_TEST

START_TEST(from_inside_an_instruction_is_no_instruction)
{
    assert_becomes("FROM a\nRUN echo \\\nFROM b\nRUN y\n",
                   "FROM a\nARG A\nARG B\nRUN echo \\\nFROM b\nRUN y\n");
    assert_becomes("FROM a\nRUN <<EOF\nFROM b\nEOF\nRUN y\n",
                   "FROM a\nARG A\nARG B\nRUN <<EOF\nFROM b\nEOF\nRUN y\n");
    assert_becomes("FROM a\nRUN <<-'EOF' cat\nFROM b\n\tEOF\nFROM c\n",
                   "FROM a\nARG A\nARG B\nRUN <<-'EOF' cat\nFROM b\n\tEOF\nFROM c\nARG A\nARG B\n");
    assert_becomes("FROM a\n# FROM b\nRUN FROMAGE\n",
                   "FROM a\nARG A\nARG B\n# FROM b\nRUN FROMAGE\n");
}
END_TEST

START_TEST(text_without_from_or_with_nul_is_refused)
{
    struct buf out;
    struct error err = {0};

    buf_init(&out, 1 << 20);
    ck_assert_int_eq(dockerfile_add_args(STR("RUN x\n"), NAMES, 2, &out, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "FROM"));
    ck_assert_int_eq(dockerfile_add_args(STR("FROM a\0b\n"), NAMES, 2, &out, &err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(dockerfile_add_args(STR_NONE, NAMES, 2, &out, &err), -STATUS_INVALID_ARGUMENT);
    buf_free(&out);
}
END_TEST

Suite *suite_dockerfile(void);

Suite *suite_dockerfile(void)
{
    Suite *s = suite_create("dockerfile");
    TCase *c = tcase_create("dockerfile");
    tcase_add_test(c, args_stand_after_each_from);
    tcase_add_test(c, from_may_go_on_over_lines_and_comments);
    tcase_add_test(c, from_inside_an_instruction_is_no_instruction);
    tcase_add_test(c, text_without_from_or_with_nul_is_refused);
    suite_add_tcase(s, c);
    return s;
}
