#include "gateway/auditfile/index_known.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/frame_table.h"

enum { LIST_MAX_BYTES = 1 << 30 };

static int content_bytes(int dir_fd, const struct segment *s, uint64_t *ret, struct error *err)
{
    struct buf table;
    AUTO_FD int fd = openat(dir_fd, s->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd == -1) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "open %s", s->name);
    }
    buf_init(&table, LIST_MAX_BYTES);
    int rc = frame_table_read(fd, &table, err);
    *ret = frame_table_content_bytes(&table);
    buf_free(&table);
    return rc;
}

/* Is the file the one that was indexed? Compressed since, it has the same lines. */
static bool is_indexed(struct index_db *db, int dir_fd, const struct segment *s,
                       struct index_file *known)
{
    struct error ignored;
    uint64_t bytes = 0;
    if (known->is_compressed == s->is_compressed) {
        return known->disk_bytes == s->bytes;
    }
    if (!s->is_compressed || content_bytes(dir_fd, s, &bytes, &ignored) < 0 ||
        bytes != known->bytes) {
        return false;
    }
    known->is_compressed = true;
    known->disk_bytes = s->bytes;
    return index_db_put_file(db, known, &ignored) == 0;
}

static struct index_file *find_file(const struct buf *files, uint64_t file)
{
    struct index_file *list_of = (struct index_file *)(void *)files->ptr;
    size_t low = 0;
    size_t high = files->len / sizeof *list_of;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list_of[middle].file == file) {
            return &list_of[middle];
        }
        *(list_of[middle].file < file ? &low : &high) =
            list_of[middle].file < file ? middle + 1 : middle;
    }
    return NULL;
}

int index_known_list(struct index_db *db, int dir_fd, const struct segment *segments, size_t count,
                     struct buf *ret, struct error *err)
{
    struct buf files;
    buf_init(&files, LIST_MAX_BYTES);
    int rc = index_db_list_files(db, &files, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct segment *s = &segments[i];
        struct index_file *known = s->is_active ? NULL : find_file(&files, s->first_sequence);
        if (known && is_indexed(db, dir_fd, s, known)) {
            buf_add_u64(ret, s->first_sequence);
        }
    }
    buf_free(&files);
    return rc || !ret->failed ? rc
                              : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                          "out of memory for the audit log's index");
}

bool index_known_has(const struct buf *known, uint64_t file)
{
    const uint64_t *files = (const uint64_t *)(const void *)known->ptr;
    for (size_t low = 0, high = known->len / sizeof *files; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (files[middle] == file) {
            return true;
        }
        if (files[middle] < file) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}
