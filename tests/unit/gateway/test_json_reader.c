#include <check.h>
#include <stdlib.h>

#include "gateway/text/json_reader.h"
#include "policy/base/bytes.h"

Suite *suite_json_reader(void);

/* NULL and the error's text in err, or the tree. */
static const struct tree_node *read_text(struct arena *a, struct str text, struct error *err)
{
    const struct tree_node *root = NULL;
    *err = (struct error){0};
    int status = json_read(text, a, &root, err);
    ck_assert_int_eq(status, -err->status);
    return root;
}

START_TEST(values_keep_their_text_and_place)
{
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    const struct tree_node *root = read_text(
        &a,
        STR("{\n \"a\": 9007199254740993,\n\t\"b\": [true, null, \"\\u00e9\\ud83d\\ude00\\n\"] }"),
        &err);
    ck_assert_msg(root != NULL, "%s", err.text);
    const struct tree_node *n = tree_member(root, "a");
    ck_assert_int_eq(n->type, TREE_NUMBER);
    ck_assert(str_is(n->text, "9007199254740993"));
    ck_assert_uint_eq(n->line, 2);
    ck_assert_uint_eq(n->column, 7);
    ck_assert_uint_eq(n->key_column, 2);
    n = tree_member(root, "b");
    ck_assert_int_eq(n->type, TREE_LIST);
    ck_assert_uint_eq(n->count, 3);
    ck_assert_int_eq(n->first->type, TREE_BOOL);
    ck_assert_int_eq(n->first->next->type, TREE_NULL);
    ck_assert(str_is(n->first->next->next->text, "\xc3\xa9\xf0\x9f\x98\x80\n"));
    ck_assert_ptr_null(tree_member(root, "c"));
    arena_free(&a);
}
END_TEST

START_TEST(what_is_not_json_is_refused)
{
    static const struct str cases[] = {
        STR(""),
        STR(" "),
        STR("{"),
        STR("[1,]"),
        STR("{\"a\":1,}"),
        STR("{a:1}"),
        STR("{'a':1}"),
        STR("[01]"),
        STR("[1.]"),
        STR("[.5]"),
        STR("[+1]"),
        STR("[1e]"),
        STR("[-]"),
        STR("[NaN]"),
        STR("[tru]"),
        STR("[truefalse]"),
        STR("1 2"),
        STR("[] x"),
        STR("[\"a"),
        STR("[\"\\\"]"),
        STR("[\"\\x\"]"),
        STR("[\"\\u12\"]"),
        STR("[\"\\u12G4\"]"),
        STR("[\"\\u0000\"]"),
        STR("[\"\0\"]"),
        STR("[\"\n\"]"),
        STR("[\"\\ud800\"]"),
        STR("[\"\\udc00\"]"),
        STR("[\"\\ud800\\u0041\"]"),
        STR("[\"\\ud800\\ud800\"]"),
        STR("[\"\xff\"]"),
        STR("[\"\xed\xa0\x80\"]"),
        STR("\xef\xbb\xbf[]"),
        STR("// x\n[]"),
        STR("[1 2]"),
        STR("{\"a\" 1}"),
        STR("{\"a\":}"),
        STR("{\"a\":1,\"b\":2,\"a\":3}"),
        STR("[\"\\ud800\\u\"]"),
        STR("[\"\\"),
    };
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(read_text(&a, cases[i], &err) == NULL, "case %zu: %s", i, cases[i].ptr);
        ck_assert_int_eq(err.status, STATUS_INVALID_ARGUMENT);
    }
    arena_free(&a);
}
END_TEST

START_TEST(duplicate_keys_are_found_in_large_objects_too)
{
    struct arena a;
    struct error err;
    struct buf text;
    arena_init(&a, 16 << 20);
    buf_init(&text, 1 << 20);
    buf_add_cstr(&text, "{");
    for (int i = 0; i < 5000; i++) {
        buf_printf(&text, "\"k%d\":1,\n", i);
    }
    buf_add_cstr(&text, "\"k4321\":2}");
    ck_assert_ptr_null(read_text(&a, buf_str(&text), &err));
    ck_assert_str_eq(err.text, "the key 'k4321' is given twice");
    ck_assert_uint_eq(err.line, 5001);
    buf_free(&text);
    arena_free(&a);
}
END_TEST

START_TEST(depth_and_memory_are_bounded)
{
    char deep[2 * 200 + 1];
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    struct arena a;
    struct error err;
    arena_init(&a, 1 << 20);
    ck_assert_ptr_null(read_text(&a, str_make(deep, 400), &err));
    ck_assert_str_eq(err.text, "JSON: nested too deeply");
    ck_assert_ptr_nonnull(read_text(&a, str_make(deep + 100, 200), &err));
    arena_free(&a);
    arena_init(&a, 4096);
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_add_cstr(&text, "[1");
    for (int i = 0; i < 10000; i++) {
        buf_add_cstr(&text, ",1");
    }
    buf_add_cstr(&text, "]");
    ck_assert_ptr_null(read_text(&a, buf_str(&text), &err));
    ck_assert_int_eq(err.status, STATUS_RESOURCE_EXHAUSTED);
    buf_free(&text);
    arena_free(&a);
}
END_TEST

Suite *suite_json_reader(void)
{
    Suite *s = suite_create("json_reader");
    TCase *t = tcase_create("all");
    tcase_add_test(t, values_keep_their_text_and_place);
    tcase_add_test(t, what_is_not_json_is_refused);
    tcase_add_test(t, duplicate_keys_are_found_in_large_objects_too);
    tcase_add_test(t, depth_and_memory_are_bounded);
    suite_add_tcase(s, t);
    return s;
}
