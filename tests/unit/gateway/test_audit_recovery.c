/* What the audit log makes of kills, power cuts and missing ends. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/segment_pack.h"
#include "tests/unit/gateway/audit_fixture.h"

Suite *suite_audit_recovery(void);

#define FIRST_FILE "audit-00000000000000000001.jsonl"

/* Opens, adds a line that is acknowledged, closes; the log must be whole. */
static void go_on(struct audit_fixture *f)
{
    audit_open(f);
    int done = f->done_count;
    ck_assert_int_eq(audit_append(f, "{\"kind\":\"Later\"}"), 0);
    audit_run(f);
    ck_assert_int_eq(f->done_count, done + 1);
    ck_assert_int_eq(f->last_status, 0);
    audit_close(f);
    audit_expect_intact(f);
}

/* ---- torn lines ---- */

START_TEST(a_torn_last_line_is_ended_and_followed_by_a_gap_record)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 2, 10);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_close(&f);
    f.has_anchor = false; /* the checkpoint of the close did not happen either */
    audit_write_file(&f, "audit.jsonl", str_make(text.ptr, text.len - 5));
    go_on(&f);
    ck_assert_uint_eq(f.report.gaps, 1);
    ck_assert_uint_eq(f.report.torn_lines, 1);
    const char *after = audit_read_file(&f, "audit.jsonl").ptr;
    ck_assert_int_eq(memcmp(after, text.ptr, text.len - 5), 0);
    ck_assert_ptr_nonnull(strstr(after, "\"kind\":\"AuditGap\""));
    audit_end(&f);
}
END_TEST

/* Twice in a row, the second time in the record of the first. */
START_TEST(a_gap_record_that_is_torn_itself_is_accounted_for)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 2, 10);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_close(&f);
    f.has_anchor = false;
    char *twice =
        arena_printf(&f.arena, "%.*s\n{\"sequence\":3,\"prev\":\"", (int)text.len - 5, text.ptr);
    audit_write_file(&f, "audit.jsonl", str_from(twice));
    go_on(&f);
    ck_assert_uint_eq(f.report.gaps, 1);
    ck_assert_uint_eq(f.report.torn_lines, 2);
    audit_end(&f);
}
END_TEST

START_TEST(gap_records_of_earlier_versions_are_understood)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 2, 10);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_close(&f);
    struct hasher *hasher = hasher_new();
    uint8_t hash[HASH_BYTES];
    const char *torn = memrchr(text.ptr, '\n', text.len - 1) + 1;
    struct str left = str_make(torn, 40);
    ck_assert(hasher_digest(hasher, left, hash));
    hasher_free(hasher);
    char *old = arena_printf(&f.arena, "%.*s\n{\"sequence\":3,\"prev\":\"",
                             (int)(torn + 40 - text.ptr), text.ptr);
    for (size_t i = 0; i < sizeof hash; i++) {
        old = arena_printf(&f.arena, "%s%02x", old, hash[i]);
    }
    old = arena_printf(&f.arena,
                       "%s\",\"apiVersion\":\"cordium.ext/v1\",\"kind\":\"AuditGap\","
                       "\"reason\":\"the line before this one was cut\"}\n",
                       old);
    audit_write_file(&f, "audit.jsonl", str_from(old));
    f.has_anchor = false;
    go_on(&f);
    ck_assert_uint_eq(f.report.gaps, 1);
    ck_assert_uint_eq(f.report.torn_lines, 1);
    audit_end(&f);
}
END_TEST

/* ---- power cuts ---- */

enum { SECTOR_BYTES = 64 /* smaller than real ones: more of them fit a short file */ };

/* A log of which the disk has `synced` bytes for sure, and perhaps some of those that follow. */
struct power_cut {
    struct audit_fixture f;
    struct str whole;
    size_t synced;
    struct chain anchor;
    uint64_t seed;
};

static uint32_t next_random(struct power_cut *p)
{
    p->seed = p->seed * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(p->seed >> 33);
}

static void append_unwaited(struct audit_fixture *f, unsigned bytes)
{
    struct buf record;
    buf_init(&record, 1 << 20);
    buf_add_cstr(&record, "{\"text\":\"");
    for (unsigned i = 0; i < bytes; i++) {
        buf_add_u8(&record, (uint8_t)('a' + i % 26));
    }
    buf_add_cstr(&record, "\"}");
    ck_assert_int_eq(audit_log_append(f->log, &record, NULL, NULL), 0);
    buf_free(&record);
}

/* Acknowledged lines and a checkpoint, then lines that nobody waits for, written and not synced. */
static void power_cut_begin(struct power_cut *p, uint64_t seed)
{
    *p = (struct power_cut){.seed = seed};
    audit_begin_in_memory(&p->f);
    p->f.options.checkpoint_lines = 8;
    audit_open(&p->f);
    audit_append_many(&p->f, 10, 100);
    p->synced = audit_read_file(&p->f, "audit.jsonl").len;
    p->anchor = p->f.anchor;
    for (int i = 0; i < 3; i++) {
        append_unwaited(&p->f, next_random(p) % 100);
        (void)uv_run(&p->f.loop, UV_RUN_NOWAIT);
    }
    p->whole = audit_read_file(&p->f, "audit.jsonl");
    ck_assert_uint_gt(p->whole.len, p->synced);
    audit_close(&p->f);
}

/* This content is what the disk has: the log goes on, and nothing that was synced is gone. */
static void power_cut_check(struct power_cut *p, struct str content)
{
    struct audit_fixture *f = &p->f;
    audit_write_file(f, "audit.jsonl", content);
    f->has_anchor = true;
    f->anchor = p->anchor;
    go_on(f);
    struct str now = audit_read_file(f, "audit.jsonl");
    ck_assert_uint_gt(now.len, content.len);
    ck_assert_int_eq(memcmp(now.ptr, content.ptr, content.len), 0);
    bool ends_with_line = content.ptr[content.len - 1] == '\n';
    bool has_zeroes = memchr(content.ptr, 0, content.len);
    bool is_whole_line = ends_with_line || (content.len < p->whole.len &&
                                            p->whole.ptr[content.len] == '\n' && !has_zeroes);
    bool is_beginning = memcmp(content.ptr, p->whole.ptr, content.len) == 0;
    if (is_beginning) {
        ck_assert_uint_eq(f->report.gaps, is_whole_line ? 0 : 1);
    } else {
        ck_assert_uint_eq(f->report.gaps, 1);
    }
    arena_reset(&f->arena);
}

static void power_cut_reset(struct power_cut *p, char **whole)
{
    *whole = malloc(p->whole.len);
    ck_assert_ptr_nonnull(*whole);
    memcpy(*whole, p->whole.ptr, p->whole.len);
    p->whole.ptr = *whole;
}

START_TEST(a_power_cut_may_end_the_file_at_any_byte)
{
    struct power_cut p;
    char *whole;
    power_cut_begin(&p, 1);
    power_cut_reset(&p, &whole);
    for (size_t end = p.synced; end <= p.whole.len; end++) {
        power_cut_check(&p, str_make(whole, end));
    }
    free(whole);
    audit_end(&p.f);
}
END_TEST

START_TEST(a_power_cut_may_leave_zeroes_from_any_byte_on)
{
    struct power_cut p;
    char *whole;
    power_cut_begin(&p, 2);
    power_cut_reset(&p, &whole);
    char *content = malloc(p.whole.len);
    for (size_t end = p.synced; end < p.whole.len; end++) {
        memcpy(content, whole, p.whole.len);
        memset(content + end, 0, p.whole.len - end);
        power_cut_check(&p, str_make(content, p.whole.len));
    }
    free(content);
    free(whole);
    audit_end(&p.f);
}
END_TEST

/* Writes reach the disk in any order: some sectors came, some are zeroes, and the length may be
 * that of an earlier moment. */
START_TEST(a_power_cut_may_lose_any_sectors_that_were_not_synced)
{
    struct power_cut p;
    char *whole;
    power_cut_begin(&p, 3);
    power_cut_reset(&p, &whole);
    char *content = malloc(p.whole.len);
    for (int round = 0; round < 200; round++) {
        size_t len = p.synced + next_random(&p) % (p.whole.len - p.synced + 1);
        len = round % 3 == 0 ? p.whole.len : len;
        memcpy(content, whole, p.whole.len);
        for (size_t at = 0; at < len; at += SECTOR_BYTES) {
            size_t from = at < p.synced ? p.synced : at;
            size_t to = at + SECTOR_BYTES < len ? at + SECTOR_BYTES : len;
            if (from < to && next_random(&p) % 2) {
                memset(content + from, 0, to - from);
            }
        }
        power_cut_check(&p, str_make(content, len));
    }
    free(content);
    free(whole);
    audit_end(&p.f);
}
END_TEST

/* One power cut after the other, each in what the last recovery wrote. */
START_TEST(power_cuts_in_a_row_are_each_accounted_for)
{
    struct power_cut p;
    power_cut_begin(&p, 4);
    p.f.has_anchor = true;
    p.f.anchor = p.anchor;
    audit_write_file(&p.f, "audit.jsonl", str_make(p.whole.ptr, p.synced));
    for (int round = 0; round < 40; round++) {
        audit_open(&p.f);
        audit_append_many(&p.f, next_random(&p) % 3, 100);
        size_t synced = audit_read_file(&p.f, "audit.jsonl").len;
        struct chain anchor = p.f.anchor;
        append_unwaited(&p.f, 300);
        append_unwaited(&p.f, 300);
        (void)uv_run(&p.f.loop, UV_RUN_NOWAIT);
        struct str written = audit_read_file(&p.f, "audit.jsonl");
        audit_close(&p.f);
        p.f.anchor = anchor;
        size_t lost = next_random(&p) % (written.len - synced);
        if (round % 2) {
            memset((char *)written.ptr + written.len - lost, 0, lost);
        } else {
            written.len -= lost;
        }
        audit_write_file(&p.f, "audit.jsonl", written);
    }
    go_on(&p.f);
    ck_assert_uint_gt(p.f.report.gaps, 20);
    audit_end(&p.f);
}
END_TEST

/* ---- kills ---- */

enum { LINES_PER_FILE = 40 };

struct shared {
    atomic_uint acknowledged; /* lines */
    atomic_uint anchor_count;
    struct chain anchors[2]; /* the one of anchor_count % 2 is whole */
};

static struct shared *shared;

static void share_anchor(void *arg, const struct chain *checkpoint)
{
    (void)arg;
    unsigned count = atomic_load(&shared->anchor_count) + 1;
    shared->anchors[count % 2] = *checkpoint;
    atomic_store(&shared->anchor_count, count);
}

static void acknowledge(void *arg, int status)
{
    (void)arg;
    if (status == 0) {
        atomic_fetch_add(&shared->acknowledged, 1);
    }
}

/* Writes until it is killed. */
static void be_victim(struct audit_fixture *f)
{
    f->options.on_checkpoint = share_anchor;
    if (audit_try_open(f) != 0) {
        (void)fprintf(stderr, "%s\n", f->err.text);
        _exit(1);
    }
    for (unsigned i = 0;; i++) {
        struct buf record;
        buf_init(&record, 4096);
        buf_printf(&record, "{\"kind\":\"Victim\",\"text\":\"%0*d\"}", (int)(i * 37 % 500), 7);
        (void)audit_log_append(f->log, &record, acknowledge, NULL);
        buf_free(&record);
        if (i % 5 == 4) {
            audit_run(f);
        }
    }
}

static unsigned count_victims(struct audit_fixture *f)
{
    unsigned count = 0;
    struct log_reader *reader;
    struct log_line line;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(log_reader_open(dir_fd, 0, &reader, &f->err), 0);
    while (log_reader_next(reader, &line, &f->err) == 1) {
        count += memmem(line.text.ptr, line.text.len, "\"Victim\"", 8) != NULL;
    }
    log_reader_close(reader);
    return count;
}

START_TEST(a_kill_at_any_instant_loses_nothing_that_was_acknowledged)
{
    struct audit_fixture f;
    audit_begin_in_memory(&f);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    f.options.rotate_bytes = 400 * LINES_PER_FILE;
    f.options.checkpoint_lines = 7;
    for (int round = 0; round < 25; round++) {
        pid_t pid = fork();
        ck_assert_int_ne(pid, -1);
        if (pid == 0) {
            be_victim(&f);
        }
        (void)usleep((useconds_t)(3000 + round * 7919 % 40000));
        (void)kill(pid, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
        unsigned anchors = atomic_load(&shared->anchor_count);
        f.has_anchor = anchors > 0;
        f.anchor = shared->anchors[anchors % 2];
        go_on(&f);
        share_anchor(NULL, &f.anchor);
        ck_assert_uint_ge(count_victims(&f), atomic_load(&shared->acknowledged));
        arena_reset(&f.arena);
    }
    ck_assert_uint_gt(f.report.files, 3);
    (void)munmap(shared, sizeof *shared);
    audit_end(&f);
}
END_TEST

/* ---- the instants of a rotation ---- */

static struct str two_lines(struct audit_fixture *f)
{
    audit_begin(f);
    audit_open(f);
    audit_append_many(f, 2, 10);
    audit_close(f);
    return audit_read_file(f, "audit.jsonl");
}

static void rename_in(struct audit_fixture *f, const char *from, const char *to)
{
    ck_assert_int_eq(rename(audit_file_path(f, from), audit_file_path(f, to)), 0);
}

START_TEST(a_crash_between_renaming_and_making_the_new_file_is_gone_on_from)
{
    struct audit_fixture f;
    struct segment *list;
    (void)two_lines(&f);
    rename_in(&f, "audit.jsonl", FIRST_FILE);
    go_on(&f);
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    ck_assert_uint_eq(f.report.lines, 5);
    audit_end(&f);
}
END_TEST

START_TEST(a_crash_before_the_new_files_first_line_is_gone_on_from)
{
    struct audit_fixture f;
    (void)two_lines(&f);
    rename_in(&f, "audit.jsonl", FIRST_FILE);
    audit_write_file(&f, "audit.jsonl", STR(""));
    go_on(&f);
    ck_assert_uint_eq(f.report.lines, 5);
    audit_end(&f);
}
END_TEST

START_TEST(a_crash_in_the_new_files_first_line_is_gone_on_from)
{
    struct audit_fixture f;
    (void)two_lines(&f);
    rename_in(&f, "audit.jsonl", FIRST_FILE);
    audit_write_file(&f, "audit.jsonl", STR("{\"seque"));
    go_on(&f);
    ck_assert_uint_eq(f.report.gaps, 1);
    ck_assert_uint_eq(f.report.lines, 8); /* 3, the torn one, its gap, 1, and 2 checkpoints */
    audit_open(&f);
    audit_log_rotate(f.log);
    audit_append_many(&f, 1, 10);
    audit_close(&f);
    ck_assert(audit_has_file(&f, "audit-00000000000000000004.jsonl.zst") ||
              audit_has_file(&f, "audit-00000000000000000004.jsonl"));
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

/* ---- the instants of a compression ---- */

/* A log with one finished file, plain. */
static struct str finished_file(struct audit_fixture *f)
{
    struct str text = two_lines(f);
    rename_in(f, "audit.jsonl", FIRST_FILE);
    return text;
}

static void pack(struct audit_fixture *f)
{
    struct segment *list;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)audit_list(f, &list);
    ck_assert_msg(segment_pack(dir_fd, &list[0], NULL, &f->err) == 0, "%s", f->err.text);
}

START_TEST(a_crash_while_a_file_is_compressed_leaves_the_plain_one)
{
    struct audit_fixture f;
    struct str text = finished_file(&f);
    audit_write_file(&f, FIRST_FILE ".zst.tmp", STR("half"));
    audit_expect_intact(&f);
    go_on(&f);
    ck_assert(!audit_has_file(&f, FIRST_FILE ".zst.tmp"));
    ck_assert(audit_has_file(&f, FIRST_FILE ".zst"));
    ck_assert(!audit_has_file(&f, FIRST_FILE));
    ck_assert_uint_eq(f.report.lines, 5);
    (void)text;
    audit_end(&f);
}
END_TEST

START_TEST(a_crash_before_the_plain_file_goes_leaves_both_and_the_plain_one_counts)
{
    struct audit_fixture f;
    struct segment *list;
    struct str text = finished_file(&f);
    pack(&f);
    audit_write_file(&f, FIRST_FILE, text);
    ck_assert_uint_eq(audit_list(&f, &list), 1);
    ck_assert(list[0].has_both && !list[0].is_compressed);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.lines, 3);
    /* Even when the compressed one is damaged. */
    audit_write_file(&f, FIRST_FILE ".zst", STR("no frame"));
    audit_expect_intact(&f);
    go_on(&f);
    ck_assert(!audit_has_file(&f, FIRST_FILE));
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

START_TEST(a_compressed_file_has_the_same_lines)
{
    struct audit_fixture f;
    audit_begin(&f);
    audit_open(&f);
    audit_append_many(&f, 3000, 700);
    audit_close(&f);
    struct str text = audit_read_file(&f, "audit.jsonl");
    rename_in(&f, "audit.jsonl", FIRST_FILE);
    pack(&f);
    struct log_reader *reader;
    struct log_line line;
    struct str left = text;
    struct str expected;
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(log_reader_open(dir_fd, 0, &reader, &f.err), 0);
    while (log_reader_next(reader, &line, &f.err) == 1) {
        ck_assert(line_take(&left, &expected));
        ck_assert(str_eq(line.text, expected));
    }
    ck_assert_uint_eq(left.len, 0);
    log_reader_close(reader);
    audit_end(&f);
}
END_TEST

/* ---- damage ---- */

/* From where the log goes on is not known: it says what to do, and that works. */
START_TEST(a_damaged_newest_finished_file_is_refused_until_it_is_moved_away)
{
    struct audit_fixture f;
    (void)finished_file(&f);
    go_on(&f);
    audit_write_file(&f, FIRST_FILE ".zst", STR("no frame"));
    ck_assert_int_lt(audit_try_open(&f), 0);
    ck_assert_ptr_nonnull(strstr(f.err.text, "put '" FIRST_FILE ".zst' back from a copy"));
    rename_in(&f, FIRST_FILE ".zst", "../moved-away");
    audit_open(&f);
    audit_append_many(&f, 1, 10);
    audit_close(&f);
    audit_expect_fault(&f, VERIFY_MISSING_FILE);
    audit_end(&f);
}
END_TEST

/* ---- ends that are missing ---- */

static void expect_refusal(struct audit_fixture *f)
{
    ck_assert_int_eq(audit_try_open(f), -STATUS_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(f->err.text, "accept-loss"));
}

START_TEST(an_end_that_was_cut_off_is_refused_until_the_loss_is_accepted)
{
    struct audit_fixture f;
    struct str text = two_lines(&f);
    const char *second = memchr(text.ptr, '\n', text.len);
    audit_write_file(&f, "audit.jsonl", str_make(text.ptr, (size_t)(second + 1 - text.ptr)));
    expect_refusal(&f);
    ck_assert_ptr_nonnull(strstr(f.err.text, "3:"));
    struct chain lost = f.anchor;
    f.options.accept_loss = true;
    go_on(&f);
    ck_assert_uint_eq(f.report.losses, 1);
    char told[256];
    char anchor[CHAIN_TEXT_SIZE];
    chain_format(&lost, anchor);
    (void)snprintf(told, sizeof told,
                   "\"reason\":\"TAIL_MISSING\",\"expectedSequence\":3,\"expectedHash\":\"%s\"",
                   strchr(anchor, ':') + 1);
    ck_assert_ptr_nonnull(strstr(audit_read_file(&f, "audit.jsonl").ptr, told));
    /* Whoever noted the anchor sees it, too. */
    ck_assert_int_eq(audit_verify(&f, &lost)->fault, VERIFY_ANCHOR);
    /* It is told once. */
    go_on(&f);
    ck_assert_uint_eq(f.report.losses, 1);
    audit_end(&f);
}
END_TEST

START_TEST(a_log_that_is_gone_is_refused)
{
    struct audit_fixture f;
    (void)two_lines(&f);
    ck_assert_int_eq(unlink(f.path), 0);
    expect_refusal(&f);
    f.options.accept_loss = true;
    go_on(&f);
    ck_assert_uint_eq(f.report.losses, 1);
    ck_assert_uint_eq(f.report.lines, 4); /* the gap, its checkpoint, a line, a checkpoint */
    audit_end(&f);
}
END_TEST

START_TEST(a_log_that_was_written_anew_is_refused)
{
    struct audit_fixture f;
    (void)two_lines(&f);
    struct chain anchor = f.anchor;
    ck_assert_int_eq(unlink(f.path), 0);
    f.has_anchor = false;
    audit_open(&f);
    audit_append_many(&f, 10, 20);
    audit_close(&f);
    f.has_anchor = true;
    f.anchor = anchor;
    expect_refusal(&f);
    audit_end(&f);
}
END_TEST

/* A power cut may take the newest notes of the anchor: an older one is in a file of before. */
START_TEST(an_old_anchor_is_found_in_an_earlier_file)
{
    struct audit_fixture f;
    (void)two_lines(&f);
    struct chain anchor = f.anchor;
    for (int i = 0; i < 3; i++) {
        audit_open(&f);
        audit_log_rotate(f.log);
        audit_append_many(&f, 5, 10);
        audit_close(&f);
    }
    f.anchor = anchor;
    go_on(&f);
    ck_assert_uint_eq(f.report.files, 4);
    f.anchor = anchor;
    f.anchor.hash[0] ^= 1;
    expect_refusal(&f);
    audit_end(&f);
}
END_TEST

Suite *suite_audit_recovery(void)
{
    Suite *s = suite_create("audit_recovery");
    TCase *t = tcase_create("torn");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_torn_last_line_is_ended_and_followed_by_a_gap_record);
    tcase_add_test(t, a_gap_record_that_is_torn_itself_is_accounted_for);
    tcase_add_test(t, gap_records_of_earlier_versions_are_understood);
    suite_add_tcase(s, t);
    t = tcase_create("power");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, a_power_cut_may_end_the_file_at_any_byte);
    tcase_add_test(t, a_power_cut_may_leave_zeroes_from_any_byte_on);
    tcase_add_test(t, a_power_cut_may_lose_any_sectors_that_were_not_synced);
    tcase_add_test(t, power_cuts_in_a_row_are_each_accounted_for);
    tcase_add_test(t, a_kill_at_any_instant_loses_nothing_that_was_acknowledged);
    suite_add_tcase(s, t);
    t = tcase_create("instants");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_crash_between_renaming_and_making_the_new_file_is_gone_on_from);
    tcase_add_test(t, a_crash_before_the_new_files_first_line_is_gone_on_from);
    tcase_add_test(t, a_crash_in_the_new_files_first_line_is_gone_on_from);
    tcase_add_test(t, a_crash_while_a_file_is_compressed_leaves_the_plain_one);
    tcase_add_test(t, a_crash_before_the_plain_file_goes_leaves_both_and_the_plain_one_counts);
    tcase_add_test(t, a_compressed_file_has_the_same_lines);
    suite_add_tcase(s, t);
    t = tcase_create("missing");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_damaged_newest_finished_file_is_refused_until_it_is_moved_away);
    tcase_add_test(t, an_end_that_was_cut_off_is_refused_until_the_loss_is_accepted);
    tcase_add_test(t, a_log_that_is_gone_is_refused);
    tcase_add_test(t, a_log_that_was_written_anew_is_refused);
    tcase_add_test(t, an_old_anchor_is_found_in_an_earlier_file);
    suite_add_tcase(s, t);
    return s;
}
