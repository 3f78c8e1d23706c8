#include "tests/unit/gateway/audit_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { VERIFY_THREADS = 3 };

static int64_t clock_of(void *arg)
{
    const struct audit_fixture *f = arg;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + f->clock_offset_ns;
}

static void on_checkpoint(void *arg, const struct chain *checkpoint)
{
    struct audit_fixture *f = arg;
    f->has_anchor = true;
    f->anchor = *checkpoint;
}

static int sync_anchor(void *arg, struct error *err)
{
    struct audit_fixture *f = arg;
    (void)err;
    f->anchor_syncs++;
    return 0;
}

static void begin_in(struct audit_fixture *f, const char *place)
{
    *f = (struct audit_fixture){.last_status = 1};
    (void)snprintf(f->folder, sizeof f->folder, "%s/cordium-audit-XXXXXX", place);
    ck_assert_ptr_nonnull(mkdtemp(f->folder));
    (void)snprintf(f->dir, sizeof f->dir, "%s/log", f->folder);
    (void)snprintf(f->path, sizeof f->path, "%s/audit.jsonl", f->dir);
    (void)snprintf(f->key, sizeof f->key, "%s/audit.key", f->folder);
    (void)snprintf(f->public_key, sizeof f->public_key, "%s/audit.pub", f->folder);
    ck_assert_msg(signing_key_make(f->key, f->public_key, &f->err) == 0, "%s", f->err.text);
    ck_assert_int_eq(uv_loop_init(&f->loop), 0);
    arena_init(&f->arena, 1UL << 30);
    f->options = (struct audit_log_options){.dir = f->dir,
                                            .rotate_bytes = 1UL << 40,
                                            .checkpoint_lines = 1000000,
                                            .checkpoint_seconds = 3600,
                                            .on_checkpoint = on_checkpoint,
                                            .sync_anchor = sync_anchor,
                                            .wall_ns = clock_of,
                                            .arg = f};
}

void audit_begin(struct audit_fixture *f)
{
    begin_in(f, "/tmp");
}

void audit_begin_in_memory(struct audit_fixture *f)
{
    begin_in(f, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

int audit_try_open(struct audit_fixture *f)
{
    ck_assert_msg(signing_key_load(f->key, &f->options.key, &f->err) == 0, "%s", f->err.text);
    f->options.anchor = f->has_anchor ? &f->anchor : NULL;
    int rc = audit_log_open(&f->loop, &f->options, &f->log, &f->err);
    if (rc) {
        signing_key_free(f->options.key);
        f->log = NULL;
    }
    return rc;
}

void audit_open(struct audit_fixture *f)
{
    ck_assert_msg(audit_try_open(f) == 0, "%s", f->err.text);
}

void audit_run(struct audit_fixture *f)
{
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
}

void audit_close(struct audit_fixture *f)
{
    audit_log_close(f->log);
    audit_run(f);
    f->log = NULL;
}

void audit_end(struct audit_fixture *f)
{
    char *name = strrchr(f->folder, '/');
    audit_close(f);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    *name = '\0';
    AUTO_FD int dir_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fd_remove_tree(dir_fd, name + 1), 0);
    arena_free(&f->arena);
}

static void on_done(void *arg, int status)
{
    struct audit_fixture *f = arg;
    f->done_count++;
    f->last_status = status;
}

int audit_append(struct audit_fixture *f, const char *json)
{
    struct buf record;
    buf_init(&record, 4 << 20);
    buf_add_cstr(&record, json);
    int rc = audit_log_append(f->log, &record, on_done, f);
    buf_free(&record);
    return rc;
}

void audit_append_many(struct audit_fixture *f, unsigned count, unsigned bytes)
{
    char *json = malloc(bytes + 64);
    ck_assert_ptr_nonnull(json);
    for (unsigned i = 0; i < count; i++) {
        int n = snprintf(json, 64, "{\"number\":%u,\"text\":\"", i);
        for (unsigned k = 0; k < bytes; k++) {
            /* Text that does not compress well. */
            f->random = f->random * 6364136223846793005U + 1442695040888963407U;
            json[n++] = (char)('A' + (f->random >> 33) % 26 + (f->random >> 40) % 2 * 32);
        }
        memcpy(json + n, "\"}", 3);
        ck_assert_int_eq(audit_append(f, json), 0);
        if (i % 16 == 15) {
            audit_run(f);
        }
    }
    audit_run(f);
    free(json);
}

const struct verify_report *audit_verify(struct audit_fixture *f, const struct chain *anchor)
{
    struct public_keys *keys;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ne(dir_fd, -1);
    ck_assert_msg(public_keys_load(f->public_key, &keys, &f->err) == 0, "%s", f->err.text);
    const struct verify_options options = {
        .keys = keys, .anchor = anchor, .threads = VERIFY_THREADS};
    int rc = verify_log(dir_fd, &options, &f->report, &f->err);
    ck_assert_msg(rc == 0, "%s", f->err.text);
    public_keys_free(keys);
    return &f->report;
}

void audit_expect_intact(struct audit_fixture *f)
{
    const struct verify_report *r = audit_verify(f, NULL);
    ck_assert_msg(r->fault == VERIFY_INTACT, "%s: %s:%lu, line %lu of the log: %s",
                  verify_fault_name(r->fault), r->file, r->line, r->sequence, r->text);
}

void audit_expect_fault(struct audit_fixture *f, enum verify_fault fault)
{
    const struct verify_report *r = audit_verify(f, NULL);
    ck_assert_msg(r->fault == fault, "expected %s, got %s: %s", verify_fault_name(fault),
                  verify_fault_name(r->fault), r->text);
}

char *audit_file_path(struct audit_fixture *f, const char *name)
{
    return arena_printf(&f->arena, "%s/%s", f->dir, name);
}

struct str audit_read_file(struct audit_fixture *f, const char *name)
{
    struct stat st;
    AUTO_FD int fd = open(audit_file_path(f, name), O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd != -1, "no %s", name);
    ck_assert_int_eq(fstat(fd, &st), 0);
    char *text = arena_alloc(&f->arena, (size_t)st.st_size + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(read(fd, text, (size_t)st.st_size), st.st_size);
    text[st.st_size] = '\0';
    return str_make(text, (size_t)st.st_size);
}

void audit_write_file(struct audit_fixture *f, const char *name, struct str content)
{
    AUTO_FD int fd = open(audit_file_path(f, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(fd_write_all(fd, content.ptr, content.len), 0);
}

bool audit_has_file(struct audit_fixture *f, const char *name)
{
    return access(audit_file_path(f, name), F_OK) == 0;
}

void audit_set_time(struct audit_fixture *f, const char *name, int64_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    ck_assert_int_eq(utimensat(AT_FDCWD, audit_file_path(f, name), times, 0), 0);
}

unsigned audit_count_files(struct audit_fixture *f, const char *suffix)
{
    unsigned count = 0;
    DIR *dir = opendir(f->dir);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        count += str_ends_with(str_from(e->d_name), str_from(suffix));
    }
    (void)closedir(dir);
    return count;
}

size_t audit_list(struct audit_fixture *f, struct segment **ret)
{
    size_t count;
    AUTO_FD int dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(segment_list(dir_fd, &f->arena, ret, &count, &f->err), 0);
    return count;
}
