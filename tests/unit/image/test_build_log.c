#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/image/command.h"

/* Standard error goes to a file while the log is written, and back. */
struct capture {
    int saved;
    FILE *file;
};

static struct capture capture_start(void)
{
    struct capture c = {dup(STDERR_FILENO), tmpfile()};
    ck_assert_ptr_nonnull(c.file);
    ck_assert_int_ne(dup2(fileno(c.file), STDERR_FILENO), -1);
    return c;
}

static void capture_end(struct capture *c, char *text, size_t size)
{
    ck_assert_int_ne(dup2(c->saved, STDERR_FILENO), -1);
    close(c->saved);
    rewind(c->file);
    text[fread(text, 1, size - 1, c->file)] = 0;
    fclose(c->file);
}

static void feed(struct build_log *log, const char *text, char *shown, size_t size)
{
    struct capture c = capture_start();
    for (const char *p = text; *p; p++) {
        build_log_write(log, p, 1); /* a byte at a time: pipes cut anywhere */
    }
    build_log_flush(log);
    capture_end(&c, shown, size);
}

START_TEST(added_steps_are_left_out_of_the_count)
{
    struct build_log log;
    char shown[1024];

    build_log_init(&log, 2);
    feed(&log,
         "STEP 1/5: FROM a\nSTEP 2/5: ARG X\n--> Using cache 1\nSTEP 3/5: ARG Y\n"
         "STEP 4/5: RUN b\nout\n[1/2] STEP 5/5: RUN c\n",
         shown, sizeof(shown));
    ck_assert_str_eq(shown, "STEP 1/3: FROM a\nSTEP 2/3: RUN b\nout\n[1/2] STEP 3/3: RUN c\n");
    ck_assert_uint_eq(log.step, 3);
    ck_assert_uint_eq(log.step_count, 3);
    ck_assert_str_eq(log.step_text, "RUN c");
}
END_TEST

START_TEST(last_lines_and_exit_code_of_the_step_are_kept)
{
    struct build_log log;
    char text[4096] = "STEP 1/1: RUN x\n";
    char shown[8192];

    build_log_init(&log, 0);
    for (int i = 0; i < LOG_KEPT_LINES + 5; i++) {
        char line[32];
        snprintf(line, sizeof(line), "line %d\n", i);
        strncat(text, line, sizeof(text) - strlen(text) - 1);
    }
    strncat(text, "\n\nsubprocess exited with status 7\nno end", sizeof(text) - strlen(text) - 1);
    feed(&log, text, shown, sizeof(shown));
    ck_assert_int_eq(log.exit_code, 7);
    ck_assert_str_eq(build_log_kept(&log, 0), "line 6");
    ck_assert_str_eq(build_log_kept(&log, LOG_KEPT_LINES - 1), "no end");
    ck_assert_ptr_null(build_log_kept(&log, LOG_KEPT_LINES));
}
END_TEST

START_TEST(hostile_output_only_fills_the_log)
{
    struct build_log log;
    static char text[3 * LOG_LINE_MAX], shown[4 * LOG_LINE_MAX];

    build_log_init(&log, 7);
    memset(text, 'x', sizeof(text) - 1);
    feed(&log, text, shown, sizeof(shown));
    ck_assert_uint_eq(strlen(shown), sizeof(text) - 1);
    feed(&log, "STEP 99999/99999: \nSTEP 1/0: a\nSTEP x\n[1/ STEP\nSTEP 4294967296/1: b\n", shown,
         sizeof(shown));
    ck_assert(log.step <= 99999);
}
END_TEST

START_TEST(command_reports_exit_code_signal_and_missing_program)
{
    struct build_log log;
    struct buf out;
    struct error err = {0};
    const char *fails[] = {"sh", "-c", "echo one; echo two >&2; exit 9", NULL};
    const char *killed[] = {"sh", "-c", "kill -KILL $$", NULL};
    const char *missing[] = {"no-such-program-here", NULL};
    struct command c = {.argv = fails, .stdin_fd = -1, .log = &log, .capture = &out};
    char shown[256];
    int code = 0;

    build_log_init(&log, 0);
    buf_init(&out, 1024);
    struct capture stderr_to = capture_start();
    ck_assert_int_eq(command_run(&c, &code, &err), 0);
    capture_end(&stderr_to, shown, sizeof(shown));
    ck_assert_int_eq(code, 9);
    ck_assert_str_eq(shown, "two\n");
    ck_assert(str_is(buf_str(&out), "one\n"));
    c.argv = killed;
    ck_assert_int_eq(command_run(&c, &code, &err), 0);
    ck_assert_int_eq(code, 128 + 9);
    c.argv = missing;
    ck_assert_int_eq(command_run(&c, &code, &err), -STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.text, "no-such-program-here"));
    buf_free(&out);
}
END_TEST

START_TEST(command_does_not_wait_for_what_it_left_behind)
{
    struct build_log log;
    struct error err = {0};
    const char *argv[] = {"sh", "-c", "sleep 3 & echo gone", NULL};
    struct command c = {.argv = argv, .stdin_fd = -1, .log = &log};
    char shown[64];
    int code = -1;

    build_log_init(&log, 0);
    struct capture stderr_to = capture_start();
    ck_assert_int_eq(command_run(&c, &code, &err), 0);
    capture_end(&stderr_to, shown, sizeof(shown));
    ck_assert_int_eq(code, 0);
    ck_assert_str_eq(shown, "gone\n");
}
END_TEST

Suite *suite_build_log(void);

Suite *suite_build_log(void)
{
    Suite *s = suite_create("build_log");
    TCase *c = tcase_create("build_log");
    tcase_add_test(c, added_steps_are_left_out_of_the_count);
    tcase_add_test(c, last_lines_and_exit_code_of_the_step_are_kept);
    tcase_add_test(c, hostile_output_only_fills_the_log);
    tcase_add_test(c, command_reports_exit_code_signal_and_missing_program);
    tcase_add_test(c, command_does_not_wait_for_what_it_left_behind);
    suite_add_tcase(s, c);
    return s;
}
