#include "gateway/auditfile/segment_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/frame.h"

#define TEMPORARY_SUFFIX ".tmp"

struct segment_writer {
    int dir_fd;
    int fd;
    char name[SEGMENT_NAME_SIZE];
    char temporary[SEGMENT_NAME_SIZE + sizeof TEMPORARY_SUFFIX];
    struct frame_encoder *encoder; /* NULL: plain */
    struct buf frame;
    bool is_committed;
};

int segment_writer_open(int dir_fd, const struct segment *segment, struct segment_writer **ret,
                        struct error *err)
{
    struct segment_writer *w = calloc(1, sizeof *w);
    if (!w) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    buf_init(&w->frame, 2UL * SEGMENT_LINE_MAX_BYTES);
    w->fd = -1;
    w->encoder = segment->is_compressed ? frame_encoder_new() : NULL;
    (void)snprintf(w->name, sizeof w->name, "%s", segment->name);
    (void)snprintf(w->temporary, sizeof w->temporary, "%s" TEMPORARY_SUFFIX, segment->name);
    w->dir_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (segment->is_compressed && !w->encoder) {
        segment_writer_free(w);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    (void)unlinkat(w->dir_fd, w->temporary, 0);
    w->fd =
        openat(w->dir_fd, w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd == -1) {
        (void)error_set_errno(err, STATUS_UNAVAILABLE, errno, "create %s", w->temporary);
        segment_writer_free(w);
        return -STATUS_UNAVAILABLE;
    }
    *ret = w;
    return 0;
}

static int write_out(struct segment_writer *w, struct str bytes, struct error *err)
{
    int rc = fd_write_all(w->fd, bytes.ptr, bytes.len);
    return rc ? error_set_errno(err, STATUS_UNAVAILABLE, -rc, "write %s", w->temporary) : 0;
}

/* Where the next frame ends: behind the last line that fits in it, or the first one. */
static size_t frame_end(struct str lines)
{
    if (lines.len <= SEGMENT_FRAME_BYTES + SEGMENT_FRAME_BYTES / 2) {
        return lines.len;
    }
    const char *newline = memrchr(lines.ptr, '\n', SEGMENT_FRAME_BYTES);
    newline = newline
                  ? newline
                  : memchr(lines.ptr + SEGMENT_FRAME_BYTES, '\n', lines.len - SEGMENT_FRAME_BYTES);
    return newline ? (size_t)(newline - lines.ptr) + 1 : lines.len;
}

int segment_writer_add(struct segment_writer *w, struct str lines, struct error *err)
{
    if (!w->encoder) {
        return write_out(w, lines, err);
    }
    int rc = 0;
    while (rc == 0 && lines.len > 0) {
        size_t end = frame_end(lines);
        buf_clear(&w->frame);
        rc = frame_encode(w->encoder, str_make(lines.ptr, end), &w->frame, err);
        rc = rc ? rc : write_out(w, buf_str(&w->frame), err);
        lines = str_make(lines.ptr + end, lines.len - end);
    }
    return rc;
}

int segment_writer_finish(struct segment_writer *w, int64_t modified_seconds, struct error *err)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = modified_seconds}};
    if (futimens(w->fd, times) == -1 || fsync(w->fd) == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "sync %s", w->temporary);
    }
    return 0;
}

const char *segment_writer_temporary_name(const struct segment_writer *w)
{
    return w->temporary;
}

int segment_writer_commit(struct segment_writer *w, struct error *err)
{
    if (renameat(w->dir_fd, w->temporary, w->dir_fd, w->name) == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "rename %s", w->temporary);
    }
    w->is_committed = true;
    if (fsync(w->dir_fd) == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "sync the audit log's folder");
    }
    return 0;
}

void segment_writer_free(struct segment_writer *w)
{
    if (!w) {
        return;
    }
    if (w->fd != -1 && !w->is_committed) {
        (void)unlinkat(w->dir_fd, w->temporary, 0);
    }
    fd_close(&w->fd);
    fd_close(&w->dir_fd);
    frame_encoder_free(w->encoder);
    buf_free(&w->frame);
    free(w);
}

static bool is_temporary(const char *name)
{
    char base[SEGMENT_NAME_SIZE];
    uint64_t sequence;
    bool is_compressed;
    size_t len = strlen(name);
    size_t suffix = sizeof TEMPORARY_SUFFIX - 1;
    if (len < suffix || len - suffix >= sizeof base ||
        strcmp(name + len - suffix, TEMPORARY_SUFFIX) != 0) {
        return false;
    }
    memcpy(base, name, len - suffix);
    base[len - suffix] = '\0';
    return segment_parse_name(base, &sequence, &is_compressed);
}

void segment_writer_clean(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (!dir) {
        fd_close(&fd);
        return;
    }
    while ((entry = readdir(dir))) {
        if (is_temporary(entry->d_name)) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    (void)closedir(dir);
}
