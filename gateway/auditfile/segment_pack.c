#include "gateway/auditfile/segment_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/chain.h"
#include "gateway/auditfile/segment_reader.h"
#include "gateway/auditfile/segment_writer.h"

static bool is_stopped(const atomic_bool *stop)
{
    return stop && atomic_load(stop);
}

/* Calls take() with the lines of each block. */
static int read_lines(int dir_fd, const struct segment *segment, const atomic_bool *stop,
                      int (*take)(void *arg, struct str lines, struct error *err), void *arg,
                      struct error *err)
{
    struct segment_reader *r = NULL;
    struct segment_block block;
    struct buf plain;
    struct str lines;
    int rc = segment_reader_open(dir_fd, segment, &r, err);
    if (rc) {
        return rc;
    }
    segment_block_init(&block);
    buf_init(&plain, SEGMENT_LINE_MAX_BYTES);
    while ((rc = segment_reader_next(r, &block, err)) == 1) {
        rc = is_stopped(stop) ? error_set(err, STATUS_CANCELLED, "stopped")
                              : segment_block_text(&block, &plain, &lines, err);
        rc = rc ? rc : take(arg, lines, err);
        if (rc) {
            break;
        }
    }
    segment_reader_close(r);
    segment_block_free(&block);
    buf_free(&plain);
    return rc;
}

/* ---- packing ---- */

struct packing {
    struct segment_writer *writer;
    struct hasher *hasher;
};

static int pack_lines(void *arg, struct str lines, struct error *err)
{
    struct packing *p = arg;
    if (!hasher_add(p->hasher, lines)) {
        return error_set(err, STATUS_INTERNAL, "hash the lines");
    }
    return p->writer ? segment_writer_add(p->writer, lines, err) : 0;
}

/* Copies the segment into the writer, or only reads it, and gives the hash of its lines. */
static int copy(int dir_fd, const struct segment *from, struct segment_writer *to,
                const atomic_bool *stop, uint8_t ret[HASH_BYTES], struct error *err)
{
    struct packing p = {.writer = to, .hasher = hasher_new()};
    if (!p.hasher || !hasher_begin(p.hasher)) {
        hasher_free(p.hasher);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int rc = read_lines(dir_fd, from, stop, pack_lines, &p, err);
    if (rc == 0 && !hasher_end(p.hasher, ret)) {
        rc = error_set(err, STATUS_INTERNAL, "hash the lines");
    }
    hasher_free(p.hasher);
    return rc;
}

static int check_copy(int dir_fd, struct segment_writer *w, const atomic_bool *stop,
                      const uint8_t expected[HASH_BYTES], struct error *err)
{
    struct segment made = {.is_compressed = true};
    uint8_t hash[HASH_BYTES];
    memcpy(made.name, segment_writer_temporary_name(w), sizeof made.name);
    int rc = copy(dir_fd, &made, NULL, stop, hash, err);
    if (rc == 0 && memcmp(hash, expected, HASH_BYTES) != 0) {
        rc = error_set(err, STATUS_DATA_LOSS, "%s is not what was written", made.name);
    }
    return rc;
}

int segment_pack(int dir_fd, const struct segment *plain, const atomic_bool *stop,
                 struct error *err)
{
    struct segment packed = {.is_compressed = true};
    struct segment_writer *w = NULL;
    uint8_t hash[HASH_BYTES];
    segment_format_name(plain->first_sequence, true, packed.name);
    int rc = segment_writer_open(dir_fd, &packed, &w, err);
    rc = rc ? rc : copy(dir_fd, plain, w, stop, hash, err);
    rc = rc ? rc : segment_writer_finish(w, plain->modified_seconds, err);
    rc = rc ? rc : check_copy(dir_fd, w, stop, hash, err);
    rc = rc ? rc : segment_writer_commit(w, err);
    segment_writer_free(w);
    if (rc == 0 && unlinkat(dir_fd, plain->name, 0) == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "remove %s", plain->name);
    }
    return rc;
}

/* ---- summaries ---- */

struct summary {
    struct tombstone_file *file;
    struct hasher *hasher;
    struct line last;
    struct buf last_text;
};

static int summarize_lines(void *arg, struct str lines, struct error *err)
{
    struct summary *s = arg;
    struct str one = STR_NONE;
    struct line line;
    while (line_take(&lines, &one)) {
        if (s->file->lines++ == 0) {
            if (!line_read_head(one, &line)) {
                return error_set(err, STATUS_DATA_LOSS, "%s: its first line is none of the log's",
                                 s->file->name);
            }
            s->file->first_sequence = line.sequence;
            memcpy(s->file->first_prev, line.prev, HASH_BYTES);
        }
    }
    buf_clear(&s->last_text);
    buf_add_str(&s->last_text, one);
    return s->last_text.failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory") : 0;
}

static int conclude(struct summary *s, struct error *err)
{
    struct line line;
    if (!line_look(buf_str(&s->last_text), s->hasher, &line) || !line.is_ours) {
        return error_set(err, STATUS_DATA_LOSS, "%s: its last line is none of the log's",
                         s->file->name);
    }
    s->file->last_sequence = line.sequence;
    memcpy(s->file->last_hash, line.hash, HASH_BYTES);
    return 0;
}

static int hash_file(int dir_fd, const char *name, struct hasher *hasher, const atomic_bool *stop,
                     uint8_t ret[HASH_BYTES], struct error *err)
{
    enum { CHUNK = 256 << 10 };
    struct buf chunk;
    AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    buf_init(&chunk, CHUNK);
    uint8_t *to = buf_reserve(&chunk, CHUNK);
    bool ok = fd != -1 && to && hasher_begin(hasher);
    ssize_t n = 0;
    while (ok && !is_stopped(stop) && (n = read(fd, to, CHUNK)) > 0) {
        ok = hasher_add(hasher, str_make(to, (size_t)n));
    }
    int number = errno;
    ok = ok && n == 0 && hasher_end(hasher, ret);
    buf_free(&chunk);
    if (is_stopped(stop)) {
        return error_set(err, STATUS_CANCELLED, "stopped");
    }
    return ok ? 0 : error_set_errno(err, STATUS_UNAVAILABLE, number, "read %s", name);
}

int segment_summarize(int dir_fd, const struct segment *segment, const atomic_bool *stop,
                      struct tombstone_file *ret, struct error *err)
{
    struct tombstone_file file = {.name = segment->name};
    struct summary s = {.file = &file, .hasher = hasher_new()};
    buf_init(&s.last_text, SEGMENT_LINE_MAX_BYTES);
    int rc = s.hasher ? read_lines(dir_fd, segment, stop, summarize_lines, &s, err)
                      : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    rc = rc ? rc : conclude(&s, err);
    rc = rc ? rc : hash_file(dir_fd, segment->name, s.hasher, stop, file.file_sha256, err);
    hasher_free(s.hasher);
    buf_free(&s.last_text);
    if (rc == 0) {
        *ret = file;
    }
    return rc;
}

int segment_remove(int dir_fd, const struct segment *segment, struct error *err)
{
    char name[SEGMENT_NAME_SIZE];
    for (int is_compressed = 0; is_compressed <= 1; is_compressed++) {
        segment_format_name(segment->first_sequence, is_compressed, name);
        if (unlinkat(dir_fd, name, 0) == -1 && errno != ENOENT) {
            return error_set_errno(err, STATUS_UNAVAILABLE, errno, "remove %s", name);
        }
    }
    return 0;
}
