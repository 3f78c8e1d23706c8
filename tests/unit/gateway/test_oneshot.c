#include <check.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/oneshot_files.h"
#include "gateway/services/oneshot_output.h"
#include "gateway/services/oneshot_spec.h"

Suite *suite_oneshot(void);

static struct arena arena;
static struct error err;

static void open_arena(void)
{
    arena_init(&arena, 8 * 1024 * 1024);
    err = (struct error){0};
}

static void close_arena(void)
{
    arena_free(&arena);
}

static void *json(const ProtobufCMessageDescriptor *descriptor, const char *text)
{
    ProtobufCMessage *m;
    ck_assert_msg(!codec_decode_json(descriptor, str_from(text), CODEC_STRICT, &arena, &m, &err),
                  "%s", err.text);
    return m;
}

/* --- the program --- */

static int plan_of(const char *request, struct oneshot_plan *plan)
{
    return oneshot_plan_program(json(&ext__run_request__descriptor, request), &arena, plan, &err);
}

START_TEST(code_becomes_an_interpreter_and_a_file)
{
    struct oneshot_plan plan;
    ck_assert_int_eq(
        plan_of("{\"code\": \"print(1)\", \"language\": \"python\", \"argv\": [\"a\"]}", &plan), 0);
    ck_assert_uint_eq(plan.argc, 3);
    ck_assert_str_eq(plan.argv[0], "python3");
    ck_assert_str_eq(plan.argv[1], "/workspace/main.py");
    ck_assert_str_eq(plan.argv[2], "a");
    ck_assert_str_eq(plan.code_file, "main.py");
    ck_assert(str_is(plan.text, "print(1)"));
}
END_TEST

START_TEST(words_are_shown_as_a_shell_would_take_them)
{
    struct oneshot_plan plan;
    ck_assert_int_eq(plan_of("{\"argv\": [\"ls\", \"-l\", \"a b\", \"it's\", \"\"]}", &plan), 0);
    ck_assert(str_is(plan.text, "ls -l 'a b' 'it'\\''s' ''"));
}
END_TEST

START_TEST(a_request_that_cannot_be_meant_is_refused_by_its_field)
{
    static const char *const REQUESTS[][2] = {
        {"{}", "nothing to run"},
        {"{\"code\": \"1\"}", "language"},
        {"{\"code\": \"1\", \"language\": \"cobol\"}", "language 'cobol'"},
        {"{\"language\": \"python\"}", "code is empty"},
        {"{\"code\": \"1\", \"codeBytes\": \"MQ==\", \"language\": \"sh\"}", "codeBytes"},
        {"{\"command\": \"ls\", \"argv\": [\"ls\"]}", "command"},
        {"{\"argv\": [\"\"]}", "argv[0]"},
        {"{\"argv\": [\"ls\"], \"workingDir\": \"tmp\"}", "workingDir"},
        {"{\"argv\": [\"ls\"], \"env\": {\"A=B\": \"c\"}}", "env"},
        {"{\"argv\": [\"ls\"], \"stdin\": \"a\", \"stdinBytes\": \"YQ==\"}", "stdinBytes"},
        {"{\"argv\": [\"ls\"], \"files\": [{\"path\": \"/etc/passwd\"}]}", "files[0].path"},
        {"{\"argv\": [\"ls\"], \"files\": [{\"path\": \"a/../../b\"}]}", "files[0].path"},
        {"{\"argv\": [\"ls\"], \"files\": [{\"path\": \"a//b\"}]}", "files[0].path"},
        {"{\"argv\": [\"ls\"], \"collect\": [\"../*\"]}", "collect[0]"},
        {"{\"argv\": [\"ls\"], \"files\": [{\"path\": \"a\"}, {\"path\": \"b\"}, {\"path\": "
         "\"a\"}]}",
         "files[2].path 'a' is that of files[0]"},
        {"{\"code\": \"1\", \"language\": \"sh\", \"files\": [{\"path\": \"main.sh\"}]}",
         "files[0].path 'main.sh' is where the code goes"},
    };
    for (size_t i = 0; i < sizeof REQUESTS / sizeof REQUESTS[0]; i++) {
        struct oneshot_plan plan;
        ck_assert_int_eq(plan_of(REQUESTS[i][0], &plan), -STATUS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, REQUESTS[i][1]), "%s: %s", REQUESTS[i][0], err.text);
    }
}
END_TEST

/* --- limits --- */

static int limits_with(enum executor_quota_backend backend, const char *asked,
                       const char *template_, const char *cluster, struct oneshot_plan *plan)
{
    const struct executor_host_report host = {.quota_backend = backend,
                                              .ceiling = {.memory_bytes = 4096ULL << 20,
                                                          .disk_bytes = 64000ULL << 20,
                                                          .inodes = 100016,
                                                          .cpu_millicores = 8000,
                                                          .pids = 512}};
    const struct oneshot_surroundings around = {
        .template_ = template_ ? json(&cordium__template__descriptor, template_) : NULL,
        .cluster = cluster ? json(&cordium__cluster_config__descriptor, cluster) : NULL,
        .host = &host,
        .output_bytes_max = 1024 * 1024,
    };
    memset(plan, 0, sizeof *plan);
    return oneshot_plan_limits(asked ? json(&ext__run_limits__descriptor, asked) : NULL, &around,
                               plan, &err);
}

static int limits_of(const char *asked, const char *template_, const char *cluster,
                     struct oneshot_plan *plan)
{
    return limits_with(EXECUTOR_QUOTA_BTRFS_SIMPLE, asked, template_, cluster, plan);
}

START_TEST(dev_shm_is_part_of_the_memory)
{
    struct oneshot_plan plan;
    ck_assert_int_eq(limits_of("{\"memoryMegabytes\": 100}", NULL, NULL, &plan), 0);
    ck_assert_uint_eq(plan.limits[ONESHOT_SHM_MEGABYTES].value, 50);
    ck_assert_uint_eq(plan.limits[ONESHOT_SHM_MEGABYTES].maximum, 100);
    const char *over = "{\"memoryMegabytes\": 100, \"shmMegabytes\": 101}";
    ck_assert_int_eq(limits_of(over, NULL, NULL, &plan), -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "limits.shmMegabytes is 101, over the maximum of 100"), "%s",
                  err.text);
}
END_TEST

START_TEST(inodes_are_limited_where_they_are_counted_and_else_refused)
{
    struct oneshot_plan plan;
    const char *asked = "{\"inodes\": 500}";
    ck_assert_int_eq(limits_with(EXECUTOR_QUOTA_PROJECT, asked, NULL, NULL, &plan), 0);
    ck_assert_uint_eq(plan.limits[ONESHOT_INODES].value, 500);
    ck_assert_uint_eq(plan.limits[ONESHOT_INODES].maximum, 100000);
    ck_assert_int_eq(
        limits_with(EXECUTOR_QUOTA_PROJECT, "{\"diskMegabytes\": 10}", NULL, NULL, &plan), 0);
    ck_assert_uint_eq(plan.limits[ONESHOT_INODES].value, 640);
    ck_assert_int_eq(limits_with(EXECUTOR_QUOTA_PROJECT, "{\"inodes\": 100001}", NULL, NULL, &plan),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(limits_of(asked, NULL, NULL, &plan), -STATUS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(err.text, "limits.inodes"), "%s", err.text);
    ck_assert_int_eq(limits_of(NULL, NULL, NULL, &plan), 0);
    ck_assert_uint_eq(plan.limits[ONESHOT_INODES].value, 0);
}
END_TEST

START_TEST(each_limit_says_who_set_it)
{
    struct oneshot_plan plan;
    ck_assert_int_eq(limits_of("{\"memoryMegabytes\": 128, \"wallMs\": 500}",
                               "{\"spec\": {\"limit\": {\"cpu\": {\"millicores\": 1500}}}}",
                               "{\"spec\": {\"workspace\": {\"limit\": {\"defaultUserSpaceLimit\": "
                               "{\"storage\": {\"megabytes\": 700}}}}}}",
                               &plan),
                     0);
    const struct oneshot_limit *l = plan.limits;
    ck_assert_uint_eq(l[ONESHOT_MEMORY_MEGABYTES].value, 128);
    ck_assert_int_eq(l[ONESHOT_MEMORY_MEGABYTES].set_by, EXT__RUN_RESULT__SOURCE__CALLER);
    ck_assert_uint_eq(l[ONESHOT_MEMORY_MEGABYTES].maximum, 4096);
    ck_assert_uint_eq(l[ONESHOT_CPU_MILLICORES].value, 1500);
    ck_assert_int_eq(l[ONESHOT_CPU_MILLICORES].set_by, EXT__RUN_RESULT__SOURCE__TEMPLATE);
    ck_assert_uint_eq(l[ONESHOT_DISK_MEGABYTES].value, 700);
    ck_assert_int_eq(l[ONESHOT_DISK_MEGABYTES].set_by, EXT__RUN_RESULT__SOURCE__CLUSTER);
    ck_assert_uint_eq(l[ONESHOT_WALL_MS].value, 500);
    ck_assert_int_eq(l[ONESHOT_PIDS].set_by, EXT__RUN_RESULT__SOURCE__DEFAULT);
    ck_assert_uint_eq(l[ONESHOT_PIDS].maximum, 504);
}
END_TEST

START_TEST(what_the_host_cuts_is_of_the_host)
{
    struct oneshot_plan plan;
    ck_assert_int_eq(limits_of(NULL, NULL, NULL, &plan), 0);
    ck_assert_uint_eq(plan.limits[ONESHOT_MEMORY_MEGABYTES].value, 4096);
    ck_assert_int_eq(plan.limits[ONESHOT_MEMORY_MEGABYTES].set_by, EXT__RUN_RESULT__SOURCE__HOST);
}
END_TEST

START_TEST(a_limit_over_its_maximum_is_refused_with_the_maximum)
{
    static const char *const ASKED[][2] = {
        {"{\"memoryMegabytes\": 5000}", "limits.memoryMegabytes is 5000, over the maximum of 4096"},
        {"{\"wallMs\": 4000000}", "limits.wallMs is 4000000, over the maximum of 3600000"},
        {"{\"stdoutBytes\": 2000000}",
         "limits.stdoutBytes is 2000000, over the maximum of 1048576"},
        {"{\"pids\": 600}", "limits.pids is 600, over the maximum of 504"},
        {"{\"cpuMillicores\": 9000}", "limits.cpuMillicores is 9000, over the maximum of 8000"},
    };
    for (size_t i = 0; i < sizeof ASKED / sizeof ASKED[0]; i++) {
        struct oneshot_plan plan;
        ck_assert_int_eq(limits_of(ASKED[i][0], NULL, NULL, &plan), -STATUS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(err.text, ASKED[i][1]), "%s", err.text);
    }
}
END_TEST

/* --- output --- */

static Ext__RunOutput *output_of(size_t max, const char *const *pieces, size_t count)
{
    struct oneshot_output o;
    oneshot_output_init(&o, max);
    for (size_t i = 0; i < count; i++) {
        oneshot_output_add(&o, str_from(pieces[i]));
    }
    Ext__RunOutput *m = oneshot_output_message(&o, &arena);
    oneshot_output_free(&o);
    ck_assert_ptr_nonnull(m);
    return m;
}

START_TEST(output_within_the_limit_is_whole)
{
    const char *const pieces[] = {"01234", "567", "89"};
    const Ext__RunOutput *m = output_of(10, pieces, 3);
    ck_assert_str_eq(m->text, "0123456789");
    ck_assert(!m->is_truncated);
    ck_assert_uint_eq(m->total_bytes, 10);
}
END_TEST

START_TEST(output_over_the_limit_keeps_both_ends_and_counts)
{
    const char *const pieces[] = {"012345", "6789abcdefghij", "XYZ"};
    const Ext__RunOutput *m = output_of(10, pieces, 3);
    ck_assert_str_eq(m->text, "01234");
    ck_assert_str_eq(m->tail_text, "ijXYZ");
    ck_assert(m->is_truncated);
    ck_assert_uint_eq(m->total_bytes, 23);
    ck_assert_uint_eq(m->dropped_bytes, 13);
}
END_TEST

START_TEST(a_cut_does_not_split_a_character)
{
    const char *const pieces[] = {"aaaa\xc3\xa9 and more of it \xc3\xa9zzzz"};
    const Ext__RunOutput *m = output_of(10, pieces, 1);
    ck_assert_str_eq(m->text, "aaaa");
    ck_assert_str_eq(m->tail_text, "zzzz");
    ck_assert_uint_eq(m->total_bytes, m->dropped_bytes + 8);
}
END_TEST

START_TEST(bytes_that_are_no_text_come_as_data)
{
    const char *const pieces[] = {"ok\n\xff\xfe"};
    const Ext__RunOutput *m = output_of(100, pieces, 1);
    ck_assert_str_eq(m->text, "");
    ck_assert_uint_eq(m->data.len, 5);
    ck_assert_int_eq(memcmp(m->data.data, "ok\n\xff\xfe", 5), 0);
}
END_TEST

START_TEST(every_limit_keeps_exactly_the_ends)
{
    char all[300];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (char)('a' + i % 26);
    }
    for (size_t max = 1; max < 80; max++) {
        struct oneshot_output o;
        oneshot_output_init(&o, max);
        for (size_t at = 0; at < sizeof all; at += 7) {
            size_t n = sizeof all - at < 7 ? sizeof all - at : 7;
            oneshot_output_add(&o, str_make(all + at, n));
        }
        const Ext__RunOutput *m = oneshot_output_message(&o, &arena);
        size_t head = strlen(m->text);
        size_t tail = strlen(m->tail_text);
        ck_assert_uint_eq(head + tail, max);
        ck_assert_int_eq(memcmp(m->text, all, head), 0);
        ck_assert_int_eq(memcmp(m->tail_text, all + sizeof all - tail, tail), 0);
        oneshot_output_free(&o);
    }
}
END_TEST

/* --- files --- */

static void add_file(struct buf *out, const char *path, uint8_t kind, const char *content)
{
    buf_add_counted(out, str_from(path));
    buf_add_u32(out, 0644);
    buf_add_u64(out, strlen(content));
    buf_add_u8(out, kind);
    buf_add_counted(out, str_from(kind ? "" : content));
}

static void end_files(struct buf *out, uint32_t left_out)
{
    buf_add_u32(out, UINT32_MAX);
    buf_add_u32(out, left_out);
}

START_TEST(files_come_back_with_what_was_skipped)
{
    struct buf b;
    struct oneshot_files files;
    buf_init(&b, 4096);
    add_file(&b, "out/a.txt", ONESHOT_FILE_REGULAR, "hello");
    add_file(&b, "link", ONESHOT_FILE_LINK, "/etc/passwd");
    end_files(&b, 3);
    ck_assert_msg(!oneshot_files_parse(buf_str(&b), &arena, &files, &err), "%s", err.text);
    ck_assert_uint_eq(files.count, 2);
    ck_assert_str_eq(files.items[0]->path, "out/a.txt");
    ck_assert_str_eq(files.items[0]->text, "hello");
    ck_assert_str_eq(files.items[1]->skipped, "symbolic link");
    ck_assert_str_eq(files.items[1]->text, "");
    ck_assert_uint_eq(files.left_out, 3);
    buf_free(&b);
}
END_TEST

START_TEST(anything_but_our_own_format_is_refused)
{
    struct buf b;
    struct oneshot_files files;
    buf_init(&b, 4096);
    add_file(&b, "a", ONESHOT_FILE_REGULAR, "hello");
    end_files(&b, 0);
    for (size_t n = 0; n < b.len; n++) {
        ck_assert_int_eq(oneshot_files_parse(str_make(b.ptr, n), &arena, &files, &err),
                         -STATUS_INVALID_ARGUMENT);
    }
    static const char *const PATHS[] = {"a\xff", "/etc/passwd", "../a", "a/..", "a//b", "a/"};
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        buf_clear(&b);
        add_file(&b, PATHS[i], ONESHOT_FILE_REGULAR, "");
        end_files(&b, 0);
        ck_assert_int_lt(oneshot_files_parse(buf_str(&b), &arena, &files, &err), 0);
    }
    buf_clear(&b);
    add_file(&b, "a", ONESHOT_FILE_KIND_COUNT, "");
    end_files(&b, 0);
    ck_assert_int_lt(oneshot_files_parse(buf_str(&b), &arena, &files, &err), 0);
    buf_free(&b);
}
END_TEST

Suite *suite_oneshot(void)
{
    Suite *suite = suite_create("oneshot");
    TCase *tc = tcase_create("oneshot");
    tcase_add_checked_fixture(tc, open_arena, close_arena);
    tcase_add_test(tc, code_becomes_an_interpreter_and_a_file);
    tcase_add_test(tc, words_are_shown_as_a_shell_would_take_them);
    tcase_add_test(tc, a_request_that_cannot_be_meant_is_refused_by_its_field);
    tcase_add_test(tc, dev_shm_is_part_of_the_memory);
    tcase_add_test(tc, inodes_are_limited_where_they_are_counted_and_else_refused);
    tcase_add_test(tc, each_limit_says_who_set_it);
    tcase_add_test(tc, what_the_host_cuts_is_of_the_host);
    tcase_add_test(tc, a_limit_over_its_maximum_is_refused_with_the_maximum);
    tcase_add_test(tc, output_within_the_limit_is_whole);
    tcase_add_test(tc, output_over_the_limit_keeps_both_ends_and_counts);
    tcase_add_test(tc, a_cut_does_not_split_a_character);
    tcase_add_test(tc, bytes_that_are_no_text_come_as_data);
    tcase_add_test(tc, every_limit_keeps_exactly_the_ends);
    tcase_add_test(tc, files_come_back_with_what_was_skipped);
    tcase_add_test(tc, anything_but_our_own_format_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}
