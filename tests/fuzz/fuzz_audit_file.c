/* Files of the audit log with any content. The first byte says what the rest is: the active file, a
 * finished one, a compressed one as it is, or lines that are compressed by us. Nothing may crash,
 * and whatever recovery takes as the end of an active file must verify once its gap record is
 * written. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_recovery.h"
#include "gateway/auditfile/erase.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/segment_pack.h"
#include "gateway/auditfile/segment_writer.h"
#include "gateway/auditfile/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIRST "audit-00000000000000000001.jsonl"

enum { ACTIVE, FINISHED, COMPRESSED, LINES, KIND_COUNT };

/* Made once; libFuzzer gives no place for it. */
static struct {
    char dir[64];
    int dir_fd;
    struct public_keys *keys;
} place;

static void remove_place(void)
{
    (void)rmdir(place.dir);
}

static void make_place(void)
{
    char key[96];
    char public_key[96];
    struct error err;
    (void)snprintf(place.dir, sizeof place.dir, "%s/fuzz-audit-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(place.dir)) {
        abort();
    }
    (void)snprintf(key, sizeof key, "%s/k", place.dir);
    (void)snprintf(public_key, sizeof public_key, "%s/p", place.dir);
    place.dir_fd = open(place.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place.dir_fd == -1 || signing_key_make(key, public_key, &err) < 0 ||
        public_keys_load(public_key, &place.keys, &err) < 0) {
        abort();
    }
    (void)atexit(remove_place);
    (void)unlink(key);
    (void)unlink(public_key);
}

static void put_file(const char *name, struct str content)
{
    AUTO_FD int fd = openat(place.dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd == -1 || fd_write_all(fd, content.ptr, content.len) < 0) {
        abort();
    }
}

static void put_compressed(struct str content)
{
    const struct segment s = {.name = FIRST ".zst", .is_compressed = true};
    struct segment_writer *w;
    struct error err;
    if (segment_writer_open(place.dir_fd, &s, &w, &err) < 0 ||
        segment_writer_add(w, content, &err) < 0 || segment_writer_commit(w, &err) < 0) {
        abort();
    }
    segment_writer_free(w);
}

static void remove_all(void)
{
    static const char *const names[] = {FIRST, FIRST ".zst", FIRST ".zst.tmp", SEGMENT_ACTIVE_NAME};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)unlinkat(place.dir_fd, names[i], 0);
    }
}

static enum verify_fault verify(void)
{
    struct verify_report report;
    struct error err;
    const struct verify_options options = {.keys = place.keys, .threads = 1};
    return verify_log(place.dir_fd, &options, &report, &err) < 0 ? VERIFY_DAMAGED_FILE
                                                                 : report.fault;
}

/* All lines from a place on come in their order. */
static void read_from(uint64_t sequence)
{
    struct log_reader *r;
    struct log_line line;
    struct error err;
    if (log_reader_open(place.dir_fd, sequence, &r, &err) == 0) {
        while (log_reader_next(r, &line, &err) == 1) {
            if (memchr(line.text.ptr ? line.text.ptr : "", '\n', line.text.len)) {
                abort();
            }
        }
        log_reader_close(r);
    }
}

static void handle_finished(const struct segment *s)
{
    struct tombstone_file summary;
    struct error err;
    struct buf found;
    struct erase_subject subject = {{"11111111-1111-4111-8111-111111111111"}, 1};
    buf_init(&found, 1 << 24);
    (void)segment_summarize(place.dir_fd, s, NULL, &summary, &err);
    if (erase_find_lines(place.dir_fd, s, &subject, &found, &err) == 0) {
        const struct chain *lines = (const void *)found.ptr;
        (void)erase_rewrite(place.dir_fd, s, lines, found.len / sizeof *lines, &err);
    }
    buf_free(&found);
    if (!s->is_compressed) {
        (void)segment_pack(place.dir_fd, s, NULL, &err);
    }
    (void)verify();
}

static void append_gap(struct audit_file *f, const struct audit_recovery *recovery)
{
    struct audit_group group;
    struct audit_write written;
    struct buf record;
    struct hasher *hasher = hasher_new();
    audit_group_init(&group);
    audit_group_clear(&group, &recovery->end);
    buf_init(&record, 4096);
    gap_write(&recovery->torn, 0, &record);
    if (!hasher || !audit_group_add_line(&group, buf_str(&record), hasher)) {
        abort();
    }
    audit_file_write_group(f, &group, recovery->end.file_first_sequence, false, &written);
    buf_free(&record);
    audit_group_free(&group);
    hasher_free(hasher);
}

static void handle_active(void)
{
    struct audit_file f;
    struct audit_recovery recovery;
    struct error err;
    if (audit_file_open(place.dir, &f, &err) < 0) {
        abort();
    }
    if (audit_recovery_run(&f, NULL, false, &recovery, &err) == 0) {
        if (recovery.is_torn) {
            append_gap(&f, &recovery);
        }
        enum verify_fault fault = verify();
        if (fault == VERIFY_BROKEN_CHAIN || fault == VERIFY_BAD_SEQUENCE ||
            fault == VERIFY_NO_LINE) {
            abort();
        }
    }
    audit_file_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!place.keys) {
        make_place();
    }
    if (size == 0) {
        return 0;
    }
    struct str content = str_make(data + 1, size - 1);
    struct segment s = {.first_sequence = 1};
    int kind = data[0] % KIND_COUNT;
    s.is_compressed = kind >= COMPRESSED;
    segment_format_name(1, s.is_compressed, s.name);
    if (kind == ACTIVE) {
        put_file(SEGMENT_ACTIVE_NAME, content);
    } else if (kind == LINES) {
        put_compressed(content);
    } else {
        put_file(s.name, content);
    }
    (void)verify();
    read_from(0);
    read_from(size % 7 + 1);
    if (kind == ACTIVE) {
        handle_active();
    } else {
        handle_finished(&s);
    }
    remove_all();
    return 0;
}
