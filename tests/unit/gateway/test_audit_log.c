/* The audit log as its writer makes it: lines, checkpoints, files. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_log.h"
#include "gateway/auditfile/checkpoint.h"
#include "gateway/identity/token.h"
#include "tests/unit/gateway/audit_fixture.h"

Suite *suite_audit_log(void);

#define DAY_NS (86400LL * 1000000000)

/* ---- lines ---- */

/* The rule of README, by hand: numbers from 1, and each prev the SHA-256 of the line before. */
static unsigned check_by_hand(struct audit_fixture *f)
{
    char prev[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    unsigned count = 0;
    const char *line = audit_read_file(f, "audit.jsonl").ptr;
    while (*line) {
        const char *end = strchr(line, '\n');
        char head[128];
        uint8_t digest[TOKEN_DIGEST_BYTES];
        ck_assert_ptr_nonnull(end);
        (void)snprintf(head, sizeof head, "{\"sequence\":%u,\"prev\":\"%s\"", ++count, prev);
        ck_assert_int_eq(strncmp(line, head, strlen(head)), 0);
        token_sha256(str_make(line, (size_t)(end - line)), digest);
        for (size_t i = 0; i < sizeof digest; i++) {
            (void)snprintf(prev + 2 * i, 3, "%02x", digest[i]);
        }
        line = end + 1;
    }
    return count;
}

START_TEST(lines_are_chained_and_durable_before_done)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
    }
    ck_assert_int_eq(f.done_count, 0);
    audit_run(&f);
    ck_assert_int_eq(f.done_count, 100);
    ck_assert_int_eq(f.last_status, 0);
    ck_assert_uint_eq(check_by_hand(&f), 100);
    ck_assert_uint_eq(audit_log_sequence(f.log), 100);
    struct stat st;
    ck_assert_int_eq(stat(f.path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(stat(f.dir, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    audit_end(&f);
}
END_TEST

START_TEST(the_chain_goes_on_after_a_restart)
{
    struct audit_fixture f;
    audit_begin(&f);
    for (int i = 0; i < 3; i++) {
        audit_open(&f);
        ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
        ck_assert_int_eq(audit_append(&f, "{}"), 0);
        audit_close(&f);
    }
    ck_assert_int_eq(f.done_count, 6);
    ck_assert_uint_eq(check_by_hand(&f), 9); /* with a checkpoint at each end */
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.checkpoints, 3);
    ck_assert_uint_eq(f.report.unsigned_lines, 0);
    audit_end(&f);
}
END_TEST

START_TEST(a_file_that_is_not_ours_is_refused)
{
    struct audit_fixture f;
    audit_begin(&f);
    ck_assert_int_eq(mkdir(f.dir, 0700), 0);
    audit_write_file(&f, "audit.jsonl", STR("hello\n"));
    ck_assert_int_eq(audit_try_open(&f), -STATUS_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f.err.text, f.path));
    ck_assert(str_is(audit_read_file(&f, "audit.jsonl"), "hello\n"));
    audit_end(&f);
}
END_TEST

START_TEST(foreign_text_behind_our_lines_is_refused)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
    audit_close(&f);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_write_file(&f, "audit.jsonl", str_from(arena_printf(&f.arena, "%shello\n", text.ptr)));
    ck_assert_int_eq(audit_try_open(&f), -STATUS_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f.err.text, "look at who wrote to it"));
    audit_end(&f);
}
END_TEST

START_TEST(two_writers_are_refused)
{
    struct audit_fixture f;
    struct audit_fixture second;
    audit_begin(&f);
    audit_open(&f);
    second = f;
    ck_assert_int_eq(audit_try_open(&second), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(second.err.text, "another process"));
    audit_end(&f);
}
END_TEST

START_TEST(what_is_no_object_on_one_line_is_refused)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "[]"), -STATUS_INTERNAL);
    ck_assert_int_eq(audit_append(&f, ""), -STATUS_INTERNAL);
    ck_assert_int_eq(audit_append(&f, "{\n}"), -STATUS_INTERNAL);
    audit_close(&f);
    ck_assert_int_eq(f.done_count, 0);
    ck_assert_uint_eq(check_by_hand(&f), 0);
    audit_end(&f);
}
END_TEST

/* A full disk, by the limit on file sizes. */
static struct rlimit limit_files(rlim_t bytes)
{
    struct rlimit old;
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = bytes, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    return old;
}

/* The group that does not fit fails whole, nothing that was acknowledged is lost, and the log goes
 * on when there is room again. */
START_TEST(a_full_disk_stops_effects_and_not_the_log)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
    audit_run(&f);
    /* One line fits and no second one, whether the two go together or, on a slow disk, apart. */
    struct rlimit old = limit_files(150);
    ck_assert_int_eq(audit_append(&f, "{\"a\":2}"), 0);
    ck_assert_int_eq(audit_append(&f, "{\"a\":3}"), 0);
    audit_run(&f);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(f.done_count, 3);
    ck_assert_int_eq(f.last_status, -STATUS_UNAVAILABLE);
    ck_assert_uint_eq(check_by_hand(&f), 1);
    ck_assert_int_eq(audit_append(&f, "{\"a\":4}"), 0);
    audit_run(&f);
    ck_assert_int_eq(f.last_status, 0);
    ck_assert_uint_eq(check_by_hand(&f), 2);
    audit_end(&f);
}
END_TEST

/* Each does to the active file what nobody but its writer may. */
static void remove_active(struct audit_fixture *f)
{
    ck_assert_int_eq(unlink(f->path), 0);
}

static void replace_active(struct audit_fixture *f)
{
    struct str text = audit_read_file(f, "audit.jsonl");
    audit_write_file(f, "copy", text);
    ck_assert_int_eq(rename(audit_file_path(f, "copy"), f->path), 0);
}

static void cut_active(struct audit_fixture *f)
{
    ck_assert_int_eq(truncate(f->path, 0), 0);
}

static void write_to_active(struct audit_fixture *f)
{
    AUTO_FD int fd = open(f->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_eq(write(fd, "{}\n", 3), 3);
}

static void (*const meddlers[])(struct audit_fixture *f) = {remove_active, replace_active,
                                                            cut_active, write_to_active};

/* Lines would be acknowledged that nobody finds. */
START_TEST(nothing_is_acknowledged_once_others_touched_the_file)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
    audit_run(&f);
    ck_assert_int_eq(f.last_status, 0);
    meddlers[_i](&f);
    ck_assert_int_eq(audit_append(&f, "{\"a\":2}"), 0);
    audit_run(&f);
    ck_assert_int_eq(f.done_count, 2);
    ck_assert_int_eq(f.last_status, -STATUS_UNAVAILABLE);
    ck_assert_int_eq(audit_append(&f, "{\"a\":3}"), -STATUS_UNAVAILABLE);
    audit_end(&f);
}
END_TEST

/* ---- checkpoints ---- */

START_TEST(a_checkpoint_comes_after_so_many_lines)
{
    struct audit_fixture f;
    audit_begin(&f);
    f.options.checkpoint_lines = 10;
    audit_open(&f);
    audit_append_many(&f, 25, 10);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.checkpoints, 2);
    ck_assert_uint_eq(f.report.lines, 27);
    ck_assert_uint_eq(f.report.last_checkpoint.sequence, 22);
    ck_assert_uint_eq(f.report.unsigned_lines, 5);
    ck_assert(chain_equal(&f.anchor, &f.report.last_checkpoint));
    audit_close(&f);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.unsigned_lines, 0);
    audit_end(&f);
}
END_TEST

static void stop_loop(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

START_TEST(a_checkpoint_comes_a_while_after_a_line_and_not_without_one)
{
    struct audit_fixture f;
    uv_timer_t wait;
    audit_begin(&f);
    f.options.checkpoint_seconds = 1;
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "{}"), 0);
    (void)uv_timer_init(&f.loop, &wait);
    (void)uv_timer_start(&wait, stop_loop, 2500, 0);
    (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&wait, NULL);
    ck_assert_uint_eq(audit_log_sequence(f.log), 2);
    audit_close(&f);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.lines, 2);
    ck_assert_uint_eq(f.report.checkpoints, 1);
    audit_end(&f);
}
END_TEST

START_TEST(nothing_is_added_to_a_log_that_is_opened_and_closed)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    ck_assert_int_eq(audit_append(&f, "{}"), 0);
    audit_close(&f);
    struct str before = audit_read_file(&f, "audit.jsonl");
    audit_open(&f);
    audit_close(&f);
    ck_assert(str_eq(before, audit_read_file(&f, "audit.jsonl")));
    audit_end(&f);
}
END_TEST

/* A log of before there were checkpoints is signed when it is opened. */
START_TEST(an_unsigned_log_is_signed_when_it_is_opened)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 5, 10);
    struct str lines = audit_read_file(&f, "audit.jsonl");
    audit_close(&f);
    audit_write_file(&f, "audit.jsonl", lines);
    f.has_anchor = false;
    audit_open(&f);
    audit_run(&f);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.checkpoints, 1);
    ck_assert_uint_eq(f.report.last_checkpoint.sequence, 6);
    audit_end(&f);
}
END_TEST

/* ---- files ---- */

static bool ends_with_checkpoint(struct str text)
{
    struct str line = STR_NONE;
    struct line look;
    while (line_take(&text, &line)) {
    }
    return line_read_head(line, &look) && look.kind == LINE_CHECKPOINT;
}

START_TEST(a_large_file_is_finished_signed_and_compressed)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    f.options.rotate_bytes = 100000;
    audit_open(&f);
    audit_append_many(&f, 1000, 1000);
    ck_assert_int_eq(f.done_count, 1000);
    ck_assert_int_eq(f.last_status, 0);
    audit_close(&f);
    audit_expect_intact(&f);
    size_t count = audit_list(&f, &list);
    ck_assert_uint_ge(count, 10);
    ck_assert_uint_eq(f.report.files, count);
    ck_assert_uint_eq(f.report.lines, 1000 + f.report.checkpoints);
    for (size_t i = 0; i + 1 < count; i++) {
        ck_assert(!list[i].has_both);
        if (!list[i].is_compressed) {
            ck_assert(ends_with_checkpoint(audit_read_file(&f, list[i].name)));
        }
    }
    ck_assert(list[count - 1].is_active);
    /* Closing ends the compression early; the next open goes on with it. */
    audit_open(&f);
    audit_run(&f);
    count = audit_list(&f, &list);
    ck_assert_uint_eq(audit_count_files(&f, ".zst"), count - 1);
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

START_TEST(a_new_day_begins_a_new_file)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 3, 10);
    f.clock_offset_ns += DAY_NS;
    audit_append_many(&f, 3, 10);
    f.clock_offset_ns += DAY_NS;
    audit_append_many(&f, 1, 10);
    audit_append_many(&f, 1, 10);
    ck_assert_uint_eq(audit_list(&f, &list), 3);
    ck_assert_uint_eq(list[0].first_sequence, 1);
    ck_assert_uint_eq(list[1].first_sequence, 5); /* behind a checkpoint */
    audit_close(&f);
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

START_TEST(the_day_of_the_last_line_counts_after_a_restart)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 3, 10);
    audit_close(&f);
    audit_open(&f);
    audit_append_many(&f, 1, 10);
    audit_close(&f);
    ck_assert_uint_eq(audit_list(&f, &list), 1);
    f.clock_offset_ns += DAY_NS;
    audit_open(&f);
    audit_append_many(&f, 1, 10);
    audit_close(&f);
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

START_TEST(a_file_that_cannot_be_finished_is_gone_on_with)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 3, 10);
    /* A folder stands where the finished file has to. */
    ck_assert_int_eq(mkdir(audit_file_path(&f, "audit-00000000000000000001.jsonl"), 0700), 0);
    audit_log_rotate(f.log);
    audit_append_many(&f, 20, 10);
    ck_assert_int_eq(f.done_count, 23);
    ck_assert_int_eq(f.last_status, 0);
    ck_assert_uint_eq(audit_list(&f, &list), 1);
    audit_close(&f);
    ck_assert_int_eq(rmdir(audit_file_path(&f, "audit-00000000000000000001.jsonl")), 0);
    audit_expect_intact(&f);
    audit_open(&f);
    audit_log_rotate(f.log);
    audit_append_many(&f, 1, 10);
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    ck_assert_uint_eq(list[0].first_sequence, 1);
    audit_close(&f);
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

/* The disk is full just behind a rotation: who waited for the lines in front of it is told the
 * truth. */
START_TEST(lines_before_a_rotation_hold_when_those_behind_it_fail)
{
    struct audit_fixture f;
    struct segment *list;
    char *large = malloc(70000);
    audit_begin(&f);
    audit_open(&f);
    memset(large, 'x', 70000);
    memcpy(large, "{\"a\":\"", 6);
    memcpy(large + 69990, "\"}", 3);
    ck_assert_int_eq(audit_append(&f, "{\"a\":1}"), 0);
    audit_log_rotate(f.log);
    ck_assert_int_eq(audit_append(&f, large), 0);
    struct rlimit old = limit_files(20000);
    audit_run(&f);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(f.done_count, 2);
    ck_assert_int_eq(f.last_status, -STATUS_UNAVAILABLE);
    ck_assert_uint_eq(audit_log_sequence(f.log), 2); /* the line, and the file's checkpoint */
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    ck_assert_int_eq(audit_append(&f, "{\"a\":2}"), 0);
    audit_close(&f);
    ck_assert_int_eq(f.last_status, 0);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.lines, 4);
    free(large);
    audit_end(&f);
}
END_TEST

/* ---- retention ---- */

START_TEST(files_over_the_size_are_deleted_oldest_first_with_tombstones)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    f.options.rotate_bytes = 600000;
    f.options.retention_bytes = 1 << 20;
    audit_open(&f);
    for (int i = 0; i < 8; i++) {
        audit_append_many(&f, 700, 1000);
    }
    audit_close(&f);
    audit_open(&f);
    audit_run(&f);
    audit_close(&f);
    uint64_t total = 0;
    size_t count = audit_list(&f, &list);
    for (size_t i = 0; i < count; i++) {
        total += list[i].bytes;
    }
    ck_assert_uint_le(total, (1 << 20) + 4096);
    ck_assert_uint_gt(list[0].first_sequence, 1);
    ck_assert_int_gt(f.anchor_syncs, 0);
    audit_expect_intact(&f);
    ck_assert_uint_gt(f.report.deleted_lines, 0);
    ck_assert_uint_eq(f.report.first.sequence, list[0].first_sequence - 1);
    audit_end(&f);
}
END_TEST

START_TEST(files_over_the_age_are_deleted_and_the_log_tells_by_which_setting)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin(&f);
    f.options.retention_days = 30;
    audit_open(&f);
    audit_append_many(&f, 3, 10);
    f.clock_offset_ns += 20 * DAY_NS;
    audit_append_many(&f, 3, 10);
    audit_close(&f);
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    audit_set_time(&f, list[0].name, time(NULL));
    audit_set_time(&f, list[1].name, time(NULL) + 20 * 86400);
    f.clock_offset_ns += 20 * DAY_NS;
    audit_open(&f);
    audit_run(&f);
    ck_assert_uint_eq(audit_list(&f, &list), 2); /* the tombstone's day began a new one */
    ck_assert_uint_eq(list[0].first_sequence, 5);
    audit_close(&f);
    const char *text = audit_read_file(&f, "audit.jsonl").ptr;
    ck_assert_ptr_nonnull(strstr(text, "\"setting\":\"audit.retentionDays=30\""));
    ck_assert_ptr_nonnull(strstr(text, "\"firstSequence\":1,\"lastSequence\":4,"));
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.deleted_lines, 4);
    audit_end(&f);
}
END_TEST

Suite *suite_audit_log(void)
{
    Suite *s = suite_create("audit_log");
    TCase *t = tcase_create("lines");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, lines_are_chained_and_durable_before_done);
    tcase_add_test(t, the_chain_goes_on_after_a_restart);
    tcase_add_test(t, a_file_that_is_not_ours_is_refused);
    tcase_add_test(t, foreign_text_behind_our_lines_is_refused);
    tcase_add_test(t, two_writers_are_refused);
    tcase_add_test(t, what_is_no_object_on_one_line_is_refused);
    tcase_add_test(t, a_full_disk_stops_effects_and_not_the_log);
    tcase_add_loop_test(t, nothing_is_acknowledged_once_others_touched_the_file, 0,
                        (int)(sizeof meddlers / sizeof meddlers[0]));
    suite_add_tcase(s, t);
    t = tcase_create("checkpoints");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_checkpoint_comes_after_so_many_lines);
    tcase_add_test(t, a_checkpoint_comes_a_while_after_a_line_and_not_without_one);
    tcase_add_test(t, nothing_is_added_to_a_log_that_is_opened_and_closed);
    tcase_add_test(t, an_unsigned_log_is_signed_when_it_is_opened);
    suite_add_tcase(s, t);
    t = tcase_create("files");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_large_file_is_finished_signed_and_compressed);
    tcase_add_test(t, a_new_day_begins_a_new_file);
    tcase_add_test(t, the_day_of_the_last_line_counts_after_a_restart);
    tcase_add_test(t, a_file_that_cannot_be_finished_is_gone_on_with);
    tcase_add_test(t, lines_before_a_rotation_hold_when_those_behind_it_fail);
    tcase_add_test(t, files_over_the_size_are_deleted_oldest_first_with_tombstones);
    tcase_add_test(t, files_over_the_age_are_deleted_and_the_log_tells_by_which_setting);
    suite_add_tcase(s, t);
    return s;
}
