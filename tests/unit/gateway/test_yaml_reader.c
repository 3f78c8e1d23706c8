#include <check.h>
#include <stdlib.h>

#include "gateway/text/yaml_reader.h"
#include "policy/base/bytes.h"

Suite *suite_yaml_reader(void);

static const struct tree_node *read_text(struct arena *a, const char *text, struct error *err)
{
    const struct tree_node *root = NULL;
    *err = (struct error){0};
    int status = yaml_read(str_from(text), a, &root, err);
    ck_assert_int_eq(status, -err->status);
    return root;
}

START_TEST(plain_scalars_look_like_json_and_keep_their_text)
{
    static const struct {
        const char *text;
        enum tree_type type;
    } cases[] = {
        {"1", TREE_NUMBER},        {"-1.5e3", TREE_NUMBER},     {"1.10", TREE_NUMBER},
        {"0777", TREE_STRING},     {"0x1F", TREE_STRING},       {"1_000", TREE_STRING},
        {"true", TREE_BOOL},       {"True", TREE_BOOL},         {"yes", TREE_STRING},
        {"no", TREE_STRING},       {"on", TREE_STRING},         {"null", TREE_NULL},
        {"~", TREE_NULL},          {"Null", TREE_NULL},         {"'1'", TREE_STRING},
        {"\"true\"", TREE_STRING}, {"2026-01-01", TREE_STRING},
    };
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct tree_node *n = read_text(&a, cases[i].text, &err);
        ck_assert_msg(n && n->type == cases[i].type, "%s: %s", cases[i].text, err.text);
        ck_assert(n->is_plain == (cases[i].text[0] != '\'' && cases[i].text[0] != '"'));
    }
    arena_free(&a);
}
END_TEST

START_TEST(what_could_mislead_a_reviewer_is_refused_with_its_line)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *part;
    } cases[] = {
        {"a: &x 1\nb: 2\n", 1, "'&x' is an anchor"},
        {"a: 1\nb: *x\n", 2, "'*x' is an alias"},
        {"a:\n  <<: {b: 1}\n", 2, "merge keys"},
        {"a: !!str 1\n", 1, "is a tag, which is not allowed; put the value in quotes"},
        {"a: 1\nmatch: !has(ctx.x)\n", 2, "tag"},
        {"match: !ctx.user.spec.isDisabled && true\n", 1, "tag"},
        {"match: !(a == \"b\")\n", 1, "tag"},
        {"match: &&\n", 1, "anchor"},
        {"a: 1\nb: 2\na: 3\n", 3, "the key 'a' is given twice"},
        {"? [a]\n: 1\n", 1, "a key must be plain text"},
        {"*a : 1\n", 1, "alias"},
        {"!x {a: 1}\n", 1, "tag"},
        {"a: [1, &b 2]\n", 1, "anchor"},
        {"a: 1\n---\nb: 2\n", 3, "second document"},
        {"", 1, "empty"},
        {"# only a comment\n", 1, "empty"},
        {"a: \"\\0\"\n", 1, "NUL"},
        {"a: 'x\n", 2, "YAML: "},
        {"a: b: c\n", 1, "YAML: "},
        {"a:\n\t- 1\n", 2, "YAML: "},
    };
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(read_text(&a, cases[i].text, &err) == NULL, "%s", cases[i].text);
        ck_assert_int_eq(err.status, STATUS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, cases[i].part), "%s: %s", cases[i].text, err.text);
        ck_assert_msg(err.line == cases[i].line, "%s: line %u: %s", cases[i].text, err.line,
                      err.text);
    }
    arena_free(&a);
}
END_TEST

START_TEST(documents_come_one_by_one)
{
    struct arena a;
    struct error err = {0};
    struct yaml_stream *stream;
    const struct tree_node *n;
    arena_init(&a, 1 << 20);
    ck_assert_int_eq(yaml_stream_open(STR("\xef\xbb\xbf# first\nkind: A\n---\n---\n# nothing\n---\n"
                                          "kind: B\n...\n"),
                                      &stream, &err),
                     0);
    ck_assert_int_eq(yaml_stream_next(stream, &a, &n, &err), 0);
    ck_assert(str_is(tree_member(n, "kind")->text, "A"));
    ck_assert_int_eq(yaml_stream_next(stream, &a, &n, &err), 0);
    ck_assert(str_is(tree_member(n, "kind")->text, "B"));
    ck_assert_uint_eq(n->line, 7);
    ck_assert_int_eq(yaml_stream_next(stream, &a, &n, &err), 0);
    ck_assert_ptr_null(n);
    ck_assert_int_eq(yaml_stream_next(stream, &a, &n, &err), 0);
    ck_assert_ptr_null(n);
    yaml_stream_close(stream);
    yaml_stream_close(NULL);
    arena_free(&a);
}
END_TEST

START_TEST(depth_and_memory_are_bounded)
{
    char deep[401];
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    deep[400] = '\0';
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    ck_assert_ptr_null(read_text(&a, deep, &err));
    ck_assert_str_eq(err.text, "YAML: nested too deeply");
    arena_free(&a);
    arena_init(&a, 4096);
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        buf_printf(&text, "k%d: v\n", i);
    }
    buf_add_u8(&text, 0);
    ck_assert_ptr_null(read_text(&a, (const char *)text.ptr, &err));
    ck_assert_int_eq(err.status, STATUS_RESOURCE_EXHAUSTED);
    buf_free(&text);
    arena_free(&a);
}
END_TEST

START_TEST(text_that_is_not_utf8_is_refused)
{
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    ck_assert_ptr_null(read_text(&a, "a: \xff\n", &err));
    ck_assert_ptr_null(read_text(&a, "a: \xed\xa0\x80\n", &err));
    ck_assert_int_eq(err.status, STATUS_INVALID_ARGUMENT);
    arena_free(&a);
}
END_TEST

Suite *suite_yaml_reader(void)
{
    Suite *s = suite_create("yaml_reader");
    TCase *t = tcase_create("all");
    tcase_add_test(t, plain_scalars_look_like_json_and_keep_their_text);
    tcase_add_test(t, what_could_mislead_a_reviewer_is_refused_with_its_line);
    tcase_add_test(t, documents_come_one_by_one);
    tcase_add_test(t, depth_and_memory_are_bounded);
    tcase_add_test(t, text_that_is_not_utf8_is_refused);
    suite_add_tcase(s, t);
    return s;
}
