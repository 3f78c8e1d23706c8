/* Verification of the audit log: what it accepts, and what it finds when somebody had his hands in.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/checkpoint.h"
#include "gateway/auditfile/erase.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/segment_reader.h"
#include "gateway/auditfile/segment_writer.h"
#include "gateway/auditfile/tombstone.h"
#include "tests/unit/gateway/audit_fixture.h"

Suite *suite_audit_verify(void);

enum { FILES = 4, LINES = 30 };

/* Three finished files and the active one. */
static void make_log(struct audit_fixture *f)
{
    struct segment *list;
    audit_begin_in_memory(f);
    f->options.checkpoint_lines = 10;
    audit_open(f);
    for (int i = 0; i < FILES; i++) {
        if (i > 0) {
            audit_log_rotate(f->log);
        }
        audit_append_many(f, LINES, 80);
    }
    audit_close(f);
    audit_open(f); /* compresses what the close cut short */
    audit_run(f);
    audit_close(f);
    ck_assert_uint_eq(audit_list(f, &list), FILES);
    audit_expect_intact(f);
}

/* The lines of a file, whether it is compressed or not. */
static struct str lines_of(struct audit_fixture *f, const struct segment *s)
{
    struct segment_reader *r;
    struct segment_block block;
    struct buf plain;
    struct buf all;
    struct str text;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(segment_reader_open(dir_fd, s, &r, &f->err), 0);
    segment_block_init(&block);
    buf_init(&plain, 1 << 24);
    buf_init(&all, 1 << 24);
    while (segment_reader_next(r, &block, &f->err) == 1) {
        ck_assert_int_eq(segment_block_text(&block, &plain, &text, &f->err), 0);
        buf_add_str(&all, text);
    }
    char *copy = arena_strndup(&f->arena, (const char *)all.ptr, all.len);
    struct str ret = str_make(copy, all.len);
    segment_reader_close(r);
    segment_block_free(&block);
    buf_free(&plain);
    buf_free(&all);
    return ret;
}

/* Puts lines into a file's place, in its form. */
static void replace(struct audit_fixture *f, const struct segment *s, struct str lines)
{
    struct segment_writer *w;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(segment_writer_open(dir_fd, s, &w, &f->err), 0);
    ck_assert_int_eq(segment_writer_add(w, lines, &f->err), 0);
    ck_assert_int_eq(segment_writer_finish(w, s->modified_seconds, &f->err), 0);
    ck_assert_int_eq(segment_writer_commit(w, &f->err), 0);
    segment_writer_free(w);
}

/* Line `number` (from 1) of a text, with its newline. */
static struct str line_at(struct str text, unsigned number)
{
    struct str line = STR_NONE;
    for (unsigned i = 0; i < number; i++) {
        ck_assert(line_take(&text, &line));
    }
    return str_make(line.ptr, line.len + 1);
}

/* The text with that part replaced. */
static struct str with(struct audit_fixture *f, struct str text, struct str part, const char *other)
{
    size_t before = (size_t)(part.ptr - text.ptr);
    size_t other_len = strlen(other);
    size_t after = text.len - before - part.len;
    char *copy = arena_alloc(&f->arena, before + other_len + after);
    memcpy(copy, text.ptr, before);
    memcpy(copy + before, other, other_len);
    memcpy(copy + before + other_len, part.ptr + part.len, after);
    return str_make(copy, before + other_len + after);
}

static void expect_at(struct audit_fixture *f, enum verify_fault fault, const char *file,
                      uint64_t line, uint64_t sequence)
{
    audit_expect_fault(f, fault);
    ck_assert_str_eq(f->report.file, file);
    ck_assert_uint_eq(f->report.line, line);
    ck_assert_uint_eq(f->report.sequence, sequence);
}

/* ---- lines ---- */

START_TEST(a_changed_line_breaks_the_chain_at_the_next_one)
{
    for (size_t i = 0; i < FILES; i++) {
        struct audit_fixture f;
        struct segment *list;
        make_log(&f);
        (void)audit_list(&f, &list);
        struct str text = lines_of(&f, &list[i]);
        struct line line;
        char *changed = arena_strndup(&f.arena, text.ptr, text.len);
        struct str fifth = line_at(str_make(changed, text.len), 5);
        ck_assert(line_read_head(str_make(fifth.ptr, fifth.len - 1), &line));
        ((char *)fifth.ptr)[fifth.len - 5] ^= 1;
        replace(&f, &list[i], str_make(changed, text.len));
        expect_at(&f, VERIFY_BROKEN_CHAIN, list[i].name, 6, line.sequence + 1);
        audit_end(&f);
    }
}
END_TEST

START_TEST(a_removed_line_shows)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    (void)audit_list(&f, &list);
    struct str text = lines_of(&f, &list[1]);
    struct line line;
    struct str fifth = line_at(text, 5);
    ck_assert(line_read_head(str_make(fifth.ptr, fifth.len - 1), &line));
    replace(&f, &list[1], with(&f, text, fifth, ""));
    expect_at(&f, VERIFY_BAD_SEQUENCE, list[1].name, 5, line.sequence);
    audit_end(&f);
}
END_TEST

START_TEST(an_inserted_line_shows)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    (void)audit_list(&f, &list);
    struct str text = lines_of(&f, &list[3]);
    struct str fifth = line_at(text, 5);
    char *twice =
        arena_printf(&f.arena, "%.*s%.*s", (int)fifth.len, fifth.ptr, (int)fifth.len, fifth.ptr);
    replace(&f, &list[3], with(&f, text, fifth, twice));
    audit_expect_fault(&f, VERIFY_BAD_SEQUENCE);
    ck_assert_uint_eq(f.report.line, 6);
    audit_end(&f);
}
END_TEST

START_TEST(text_that_is_no_line_shows_unless_a_gap_record_tells_of_it)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    (void)audit_list(&f, &list);
    struct str text = lines_of(&f, &list[0]);
    replace(&f, &list[0], with(&f, text, line_at(text, 5), "hello\n"));
    expect_at(&f, VERIFY_NO_LINE, list[0].name, 5, 5);
    audit_end(&f);
}
END_TEST

/* A record that does not tell of exactly what stands before it accounts for nothing. */
START_TEST(a_gap_record_does_not_cover_a_line_that_was_changed)
{
    struct audit_fixture f;
    audit_begin_in_memory(&f);
    audit_open(&f);
    audit_append_many(&f, 3, 30);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_close(&f);
    f.has_anchor = false;
    audit_write_file(
        &f, "audit.jsonl",
        str_from(arena_printf(&f.arena, "%.*s\n\n{\"sequ", (int)text.len - 4, text.ptr)));
    audit_open(&f);
    audit_close(&f);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.torn_lines, 3);
    text = audit_read_file(&f, "audit.jsonl");
    /* The first torn line: the chain itself covers only the last. */
    char *torn = strstr(text.ptr, "\n\n") - 3;
    *torn ^= 1;
    audit_write_file(&f, "audit.jsonl", text);
    audit_expect_fault(&f, VERIFY_NO_LINE);
    ck_assert_uint_eq(f.report.sequence, 3);
    audit_end(&f);
}
END_TEST

/* ---- checkpoints ---- */

static struct str checkpoint_in(struct str text)
{
    const char *kind = strstr(text.ptr, "\"kind\":\"AuditCheckpoint\"");
    const char *begin = kind;
    while (begin > text.ptr && begin[-1] != '\n') {
        begin--;
    }
    return str_make(begin, (size_t)(strchr(kind, '\n') - begin) + 1);
}

START_TEST(a_checkpoint_with_another_signature_shows)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    (void)audit_list(&f, &list);
    /* The last line of the log: nothing behind it shows the change but the signature. */
    struct str text = lines_of(&f, &list[FILES - 1]);
    char *signature = memmem(text.ptr + text.len - 300, 300, "\"signature\":\"", 13);
    ck_assert_ptr_nonnull(signature);
    signature[20] = signature[20] == 'A' ? 'B' : 'A';
    audit_write_file(&f, "audit.jsonl", text);
    audit_expect_fault(&f, VERIFY_BAD_SIGNATURE);
    ck_assert_uint_eq(f.report.sequence, f.report.last.sequence);
    audit_end(&f);
}
END_TEST

START_TEST(a_log_of_another_key_shows)
{
    struct audit_fixture f;
    make_log(&f);
    ck_assert_int_eq(unlink(f.key), 0);
    ck_assert_int_eq(unlink(f.public_key), 0);
    ck_assert_int_eq(signing_key_make(f.key, f.public_key, &f.err), 0);
    audit_expect_fault(&f, VERIFY_UNKNOWN_KEY);
    ck_assert_uint_eq(f.report.sequence, 11);
    audit_end(&f);
}
END_TEST

/* A lost key is replaced; what the old one signed is verified with its public half. */
START_TEST(a_new_key_goes_on_where_the_old_one_ended)
{
    struct audit_fixture f;
    make_log(&f);
    ck_assert_int_eq(unlink(f.key), 0);
    ck_assert_int_eq(signing_key_make(f.key, f.public_key, &f.err), 0);
    audit_open(&f);
    audit_append_many(&f, 20, 20);
    audit_close(&f);
    audit_expect_intact(&f);
    audit_end(&f);
}
END_TEST

/* Verification by hand, as checkpoint.h describes it, with another implementation's parts. */
START_TEST(the_signed_text_is_what_the_description_says)
{
    struct audit_fixture f;
    struct public_keys *keys;
    struct line line;
    audit_begin_in_memory(&f);
    audit_open(&f);
    audit_append_many(&f, 1, 5);
    audit_close(&f);
    struct str text = checkpoint_in(audit_read_file(&f, "audit.jsonl"));
    ck_assert(line_read_head(str_make(text.ptr, text.len - 1), &line));
    ck_assert_int_eq(public_keys_load(f.public_key, &keys, &f.err), 0);
    ck_assert_int_eq(checkpoint_verify(&line, keys), CHECKPOINT_GOOD);
    struct line other = line;
    other.sequence++;
    ck_assert_int_eq(checkpoint_verify(&other, keys), CHECKPOINT_FORGED);
    other = line;
    other.prev[31] ^= 1;
    ck_assert_int_eq(checkpoint_verify(&other, keys), CHECKPOINT_FORGED);
    const char *created_at = strstr(text.ptr, "\"createdAt\":\"") + 13;
    const char *signature_text = strstr(text.ptr, "\"signature\":\"") + 13;
    const char *id = strstr(text.ptr, "\"keyID\":\"") + 9;
    uint8_t signature[SIGNATURE_BYTES];
    ck_assert(signature_from_base64(str_make(signature_text, 88), signature));
    char *by_hand = arena_printf(&f.arena, "cordium-audit-checkpoint-v1\n2\n%.64s\n%.*s\n",
                                 text.ptr + strlen("{\"sequence\":2,\"prev\":\""),
                                 (int)strcspn(created_at, "\""), created_at);
    ck_assert(public_keys_verify(keys, str_make(id, 64), str_from(by_hand), signature));
    public_keys_free(keys);
    audit_end(&f);
}
END_TEST

START_TEST(a_key_that_others_can_read_is_refused)
{
    struct audit_fixture f;
    struct signing_key *key;
    audit_begin_in_memory(&f);
    ck_assert_int_eq(chmod(f.key, 0640), 0);
    ck_assert_int_eq(signing_key_load(f.key, &key, &f.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(f.err.text, "chmod 600"));
    ck_assert_int_eq(signing_key_make(f.key, f.public_key, &f.err), -STATUS_FAILED_PRECONDITION);
    audit_end(&f);
}
END_TEST

/* ---- files ---- */

START_TEST(a_missing_file_shows_wherever_it_stood)
{
    for (size_t i = 0; i + 1 < FILES; i++) {
        struct audit_fixture f;
        struct segment *list;
        make_log(&f);
        (void)audit_list(&f, &list);
        ck_assert_int_eq(unlink(audit_file_path(&f, list[i].name)), 0);
        audit_expect_fault(&f, VERIFY_MISSING_FILE);
        ck_assert_uint_eq(f.report.sequence, list[i].first_sequence);
        ck_assert_str_eq(f.report.file, list[i + 1].name);
        audit_end(&f);
    }
}
END_TEST

START_TEST(a_damaged_compressed_file_shows)
{
    for (size_t i = 0; i < 2; i++) {
        struct audit_fixture f;
        struct segment *list;
        make_log(&f);
        (void)audit_list(&f, &list);
        struct str bytes = audit_read_file(&f, list[i].name);
        struct str before = bytes;
        ((char *)bytes.ptr)[bytes.len / 2] ^= 0x10;
        audit_write_file(&f, list[i].name, bytes);
        expect_at(&f, VERIFY_DAMAGED_FILE, list[i].name, 0, list[i].first_sequence);
        bytes.len = before.len / 2;
        audit_write_file(&f, list[i].name, bytes);
        expect_at(&f, VERIFY_DAMAGED_FILE, list[i].name, 0, list[i].first_sequence);
        audit_end(&f);
    }
}
END_TEST

START_TEST(an_anchor_shows_that_the_end_was_cut_off)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    (void)audit_list(&f, &list);
    struct chain anchor = f.anchor;
    ck_assert_int_eq(audit_verify(&f, &anchor)->fault, VERIFY_INTACT);
    struct str text = lines_of(&f, &list[FILES - 1]);
    struct str cut = line_at(text, 12);
    audit_write_file(&f, "audit.jsonl", str_make(text.ptr, (size_t)(cut.ptr - text.ptr)));
    audit_expect_intact(&f); /* by itself it looks whole */
    ck_assert_int_eq(audit_verify(&f, &anchor)->fault, VERIFY_ANCHOR);
    audit_end(&f);
}
END_TEST

/* ---- tombstones ---- */

/* Deletes the oldest file as retention does: by size. */
static void retain_less(struct audit_fixture *f)
{
    uint64_t total = 0;
    struct segment *list;
    size_t count = audit_list(f, &list);
    for (size_t i = 0; i < count; i++) {
        total += list[i].bytes;
    }
    f->options.retention_bytes = total - 1;
    audit_open(f);
    audit_run(f);
    audit_close(f);
    f->options.retention_bytes = 0;
    ck_assert(!audit_has_file(f, list[0].name));
}

START_TEST(files_that_retention_deleted_may_be_missing_and_no_others)
{
    struct audit_fixture f;
    struct segment *list;
    make_log(&f);
    retain_less(&f);
    audit_expect_intact(&f);
    (void)audit_list(&f, &list);
    ck_assert_uint_eq(f.report.deleted_lines, list[0].first_sequence - 1);
    /* Also when the tombstone's own file goes, later. */
    for (int round = 0; round < 6; round++) {
        audit_open(&f);
        audit_log_rotate(f.log);
        audit_append_many(&f, 2, 10);
        audit_close(&f);
        retain_less(&f);
        audit_expect_intact(&f);
    }
    ck_assert_uint_gt(f.report.first.sequence, (LINES + 3) * FILES);
    audit_open(&f);
    audit_log_rotate(f.log);
    audit_append_many(&f, 2, 10);
    audit_close(&f);
    audit_expect_intact(&f);
    ck_assert_uint_ge(audit_list(&f, &list), 2);
    ck_assert_int_eq(unlink(audit_file_path(&f, list[0].name)), 0);
    audit_expect_fault(&f, VERIFY_MISSING_FILE);
    audit_end(&f);
}
END_TEST

/* ---- erasure ---- */

static const char *const ann = "11111111-1111-4111-8111-111111111111";
static const char *const bob = "22222222-2222-4222-8222-222222222222";

static void append_access(struct audit_fixture *f, const char *name, const char *uid)
{
    char json[512];
    (void)snprintf(json, sizeof json,
                   "{\"apiVersion\":\"core/v1\",\"kind\":\"AccessLog\",\"entry\":{\"common\":"
                   "{\"userRef\":{\"uid\":\"%s\",\"name\":\"%s\"}}}}",
                   uid, name);
    ck_assert_int_eq(audit_append(f, json), 0);
}

static void make_log_of_people(struct audit_fixture *f)
{
    audit_begin_in_memory(f);
    audit_open(f);
    for (int i = 0; i < 60; i++) {
        append_access(f, i % 3 == 0 ? "ann" : "bob", i % 3 == 0 ? ann : bob);
        if (i % 20 == 19) {
            audit_run(f);
            audit_log_rotate(f->log);
        }
    }
    ck_assert_int_eq(audit_append(f, "{\"cordium\":{\"userUID\":\"11111111-1111-4111-8111-"
                                     "111111111111\"}}"),
                     0);
    audit_run(f);
    audit_log_rotate(f->log);
    ck_assert_int_eq(audit_append(f, "{}"), 0);
    audit_close(f);
}

/* Both halves of an erasure, or the second alone. */
static size_t erase(struct audit_fixture *f, const char *uid, bool has_tombstone)
{
    struct segment *list;
    size_t erased = 0;
    struct erase_subject subject = {{uid}, 1};
    size_t count = audit_list(f, &list);
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    audit_open(f);
    audit_run(f);
    count = audit_list(f, &list);
    for (size_t i = 0; i < count; i++) {
        struct buf found;
        struct buf record;
        buf_init(&found, 1 << 20);
        buf_init(&record, 1 << 20);
        if (!list[i].is_active) {
            ck_assert_int_eq(erase_find_lines(dir_fd, &list[i], &subject, &found, &f->err), 0);
        }
        const struct chain *lines = (const void *)found.ptr;
        const struct tombstone_erasure t = {.name = list[i].name,
                                            .user_uid = uid,
                                            .lines = lines,
                                            .count = found.len / sizeof *lines};
        if (t.count > 0 && has_tombstone) {
            tombstone_write_erasure(&t, 0, &record);
            ck_assert_int_eq(audit_log_append_signed(f->log, &record, NULL, NULL), 0);
            audit_run(f);
        }
        if (t.count > 0) {
            ck_assert_int_eq(erase_rewrite(dir_fd, &list[i], lines, t.count, &f->err), 0);
        }
        erased += t.count;
        buf_free(&found);
        buf_free(&record);
    }
    audit_close(f);
    return erased;
}

static unsigned count_lines_with(struct audit_fixture *f, const char *text)
{
    struct segment *list;
    unsigned found = 0;
    size_t count = audit_list(f, &list);
    for (size_t i = 0; i < count; i++) {
        struct str left = lines_of(f, &list[i]);
        struct str line;
        while (line_take(&left, &line)) {
            found += memmem(line.ptr, line.len, text, strlen(text)) != NULL;
        }
    }
    return found;
}

START_TEST(erased_lines_are_gone_and_the_chain_holds)
{
    struct audit_fixture f;
    make_log_of_people(&f);
    ck_assert_uint_eq(count_lines_with(&f, ann), 21);
    ck_assert_uint_eq(erase(&f, ann, true), 21);
    ck_assert_uint_eq(count_lines_with(&f, "\"name\":\"ann\""), 0);
    ck_assert_uint_eq(count_lines_with(&f, "\"kind\":\"AuditErased\""), 21);
    ck_assert_uint_eq(count_lines_with(&f, "\"name\":\"bob\""), 40);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.erased_lines, 21);
    /* The next person; and the first one again finds nothing. */
    ck_assert_uint_eq(erase(&f, ann, true), 0);
    ck_assert_uint_eq(erase(&f, bob, true), 40);
    audit_expect_intact(&f);
    ck_assert_uint_eq(f.report.erased_lines, 61);
    audit_end(&f);
}
END_TEST

START_TEST(lines_that_are_erased_without_a_tombstone_show)
{
    struct audit_fixture f;
    make_log_of_people(&f);
    ck_assert_uint_gt(erase(&f, ann, false), 0);
    audit_expect_fault(&f, VERIFY_ERASED_UNORDERED);
    ck_assert_uint_eq(f.report.sequence, 1);
    audit_end(&f);
}
END_TEST

START_TEST(a_name_stands_for_every_user_that_had_it)
{
    struct audit_fixture f;
    struct erase_subject subject = {0};
    make_log_of_people(&f);
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(erase_find_uids(dir_fd, "bob", &subject, &f.arena, &f.err), 0);
    ck_assert_uint_eq(subject.count, 1);
    ck_assert_str_eq(subject.uids[0], bob);
    ck_assert_int_eq(erase_find_uids(dir_fd, "nobody", &subject, &f.arena, &f.err), 0);
    ck_assert_uint_eq(subject.count, 1);
    audit_end(&f);
}
END_TEST

/* ---- reading from a place ---- */

START_TEST(lines_are_found_by_their_sequence_in_every_file)
{
    struct audit_fixture f;
    struct segment *list;
    audit_begin_in_memory(&f);
    f.options.rotate_bytes = 3000000;
    audit_open(&f);
    audit_append_many(&f, 9000, 1000);
    audit_run(&f);
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t last = audit_log_sequence(f.log);
    ck_assert_uint_ge(audit_list(&f, &list), 3);
    ck_assert(list[0].is_compressed);
    for (uint64_t from = 1; from <= last; from += 97) {
        struct log_reader *reader;
        struct log_line line;
        struct line look;
        ck_assert_int_eq(log_reader_open(dir_fd, from, &reader, &f.err), 0);
        for (uint64_t k = 0; k < 3 && from + k <= last; k++) {
            ck_assert_int_eq(log_reader_next(reader, &line, &f.err), 1);
            ck_assert(line_read_head(line.text, &look));
            ck_assert_uint_eq(look.sequence, from + k);
        }
        log_reader_close(reader);
    }
    audit_end(&f);
}
END_TEST

START_TEST(the_end_that_is_being_written_is_not_read)
{
    struct audit_fixture f;
    struct log_reader *reader;
    struct log_line line;
    audit_begin_in_memory(&f);
    audit_open(&f);
    audit_append_many(&f, 2, 10);
    audit_close(&f);
    struct str text = audit_read_file(&f, "audit.jsonl");
    audit_write_file(&f, "audit.jsonl", str_make(text.ptr, text.len - 1));
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(log_reader_open(dir_fd, 0, &reader, &f.err), 0);
    ck_assert_int_eq(log_reader_next(reader, &line, &f.err), 1);
    ck_assert_int_eq(log_reader_next(reader, &line, &f.err), 1);
    ck_assert_int_eq(log_reader_next(reader, &line, &f.err), 0);
    log_reader_close(reader);
    audit_expect_intact(&f);
    ck_assert_uint_gt(f.report.unended_bytes, 100);
    f.has_anchor = false;
    audit_end(&f);
}
END_TEST

START_TEST(names_of_files_are_read_strictly)
{
    static const char *const bad[] = {"audit.jsonl",
                                      "audit-1.jsonl",
                                      "audit-00000000000000000000.jsonl",
                                      "audit-99999999999999999999.jsonl",
                                      "audit-0000000000000000001x.jsonl",
                                      "audit-00000000000000000001.jsonl.gz",
                                      "audit-00000000000000000001.jsonl.zst.tmp",
                                      "audit-"};
    char name[SEGMENT_NAME_SIZE];
    uint64_t sequence;
    bool is_compressed;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!segment_parse_name(bad[i], &sequence, &is_compressed), "%s", bad[i]);
    }
    segment_format_name(1234567890123456789U, true, name);
    ck_assert_str_eq(name, "audit-01234567890123456789.jsonl.zst");
    ck_assert(segment_parse_name(name, &sequence, &is_compressed));
    ck_assert_uint_eq(sequence, 1234567890123456789U);
    ck_assert(is_compressed);
}
END_TEST

Suite *suite_audit_verify(void)
{
    Suite *s = suite_create("audit_verify");
    TCase *t = tcase_create("lines");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_changed_line_breaks_the_chain_at_the_next_one);
    tcase_add_test(t, a_removed_line_shows);
    tcase_add_test(t, an_inserted_line_shows);
    tcase_add_test(t, text_that_is_no_line_shows_unless_a_gap_record_tells_of_it);
    tcase_add_test(t, a_gap_record_does_not_cover_a_line_that_was_changed);
    suite_add_tcase(s, t);
    t = tcase_create("checkpoints");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_checkpoint_with_another_signature_shows);
    tcase_add_test(t, a_log_of_another_key_shows);
    tcase_add_test(t, a_new_key_goes_on_where_the_old_one_ended);
    tcase_add_test(t, the_signed_text_is_what_the_description_says);
    tcase_add_test(t, a_key_that_others_can_read_is_refused);
    suite_add_tcase(s, t);
    t = tcase_create("files");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_missing_file_shows_wherever_it_stood);
    tcase_add_test(t, a_damaged_compressed_file_shows);
    tcase_add_test(t, an_anchor_shows_that_the_end_was_cut_off);
    tcase_add_test(t, files_that_retention_deleted_may_be_missing_and_no_others);
    suite_add_tcase(s, t);
    t = tcase_create("erasure");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, erased_lines_are_gone_and_the_chain_holds);
    tcase_add_test(t, lines_that_are_erased_without_a_tombstone_show);
    tcase_add_test(t, a_name_stands_for_every_user_that_had_it);
    suite_add_tcase(s, t);
    t = tcase_create("reading");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, lines_are_found_by_their_sequence_in_every_file);
    tcase_add_test(t, the_end_that_is_being_written_is_not_read);
    tcase_add_test(t, names_of_files_are_read_strictly);
    suite_add_tcase(s, t);
    return s;
}
