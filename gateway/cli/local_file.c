#include "gateway/cli/local_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "policy/base/bytes.h"

int local_file_read(const char *path, struct arena *arena, struct str *ret, struct error *err)
{
    AUTO_FD int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_INVALID_ARGUMENT,
                               errno, "cannot open '%s'", path);
    }
    struct buf b;
    buf_init(&b, LOCAL_FILE_MAX_BYTES);
    ssize_t n = 1;
    while (n > 0 && !b.failed) {
        uint8_t chunk[65536];
        n = read(fd, chunk, sizeof chunk);
        buf_add(&b, chunk, n > 0 ? (size_t)n : 0);
    }
    int status = 0;
    if (n < 0) {
        status = error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "cannot read '%s'", path);
    } else if (b.failed) {
        status = error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is larger than %d bytes", path,
                           LOCAL_FILE_MAX_BYTES);
    } else {
        char *copy = arena_strndup(arena, (const char *)b.ptr, b.len);
        status = copy ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        *ret = str_make(copy, b.len);
    }
    buf_free(&b);
    return status;
}

bool local_file_write_all(int fd, struct str s)
{
    return fd_write_all(fd, s.ptr, s.len) == 0;
}

int local_file_begin(const char *path, struct arena *arena, struct local_file *ret,
                     struct error *err)
{
    struct stat st;
    char *fresh = arena_printf(arena, "%s.XXXXXX", path);
    *ret = (struct local_file){.fd = -1, .path = path};
    if (!fresh) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "'%s' is there and no regular file: it is not replaced", path);
    }
    ret->fd = mkostemp(fresh, O_CLOEXEC); /* 0600 */
    if (ret->fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'", path);
    }
    ret->fresh = fresh;
    return 0;
}

void local_file_abandon(struct local_file *file)
{
    if (file->fd != -1) {
        fd_close(&file->fd);
        (void)unlink(file->fresh);
    }
}

int local_file_commit(struct local_file *file, struct error *err)
{
    if (fsync(file->fd) == -1 || rename(file->fresh, file->path) == -1) {
        int saved = errno;
        local_file_abandon(file);
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, saved, "cannot write '%s'",
                               file->path);
    }
    fd_close(&file->fd);
    return 0;
}

int local_file_write_private(const char *folder, const char *name, struct str content,
                             struct arena *arena, struct error *err)
{
    struct local_file file;
    if (mkdir(folder, 0700) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot make '%s'", folder);
    }
    const char *path = arena_printf(arena, "%s/%s", folder, name);
    if (!path) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (local_file_begin(path, arena, &file, err) < 0) {
        return -err->status;
    }
    if (!local_file_write_all(file.fd, content)) {
        int saved = errno;
        local_file_abandon(&file);
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, saved, "cannot write '%s'", path);
    }
    return local_file_commit(&file, err);
}

/* Takes `dir`. -1 with errno. */
static int enter(int dir, const char *name)
{
    AUTO_FD int from = dir;
    if (mkdirat(from, name, 0755) == -1 && errno != EEXIST) {
        return -1;
    }
    return openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int write_whole(int fd, struct str content)
{
    while (content.len > 0) {
        ssize_t n = write(fd, content.ptr, content.len);
        if (n == -1 && errno != EINTR) {
            return -1;
        }
        content.ptr += n > 0 ? n : 0;
        content.len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int local_file_write_below(const char *folder, const char *path, unsigned mode, struct str content,
                           struct error *err)
{
    AUTO_FD int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char part[256];
    for (const char *at = path; dir >= 0;) {
        size_t n = strcspn(at, "/");
        if (n == 0 || n >= sizeof part || (n == 2 && memcmp(at, "..", 2) == 0)) {
            return error_set(err, STATUS_INVALID_ARGUMENT, "'%.200s' is no path below '%s'", path,
                             folder);
        }
        memcpy(part, at, n);
        part[n] = '\0';
        if (!at[n]) {
            break;
        }
        dir = enter(dir, part);
        at += n + 1;
    }
    AUTO_FD int fd =
        dir == -1
            ? -1
            : openat(dir, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
    if (fd == -1 || write_whole(fd, content) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "write '%.200s' below '%s'",
                               path, folder);
    }
    return 0;
}
