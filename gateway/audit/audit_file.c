#include "gateway/audit/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/clock.h"
#include "executor/proc/fd.h"
#include "gateway/auditfile/segment.h"

static int open_folder(const char *dir, struct audit_file *f, struct error *err)
{
    if (mkdir(dir, 0700) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "make the folder %s", dir);
    }
    f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir_fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open the folder");
    }
    /* On the folder: the active file is another one after a rotation. */
    if (flock(f->dir_fd, LOCK_EX | LOCK_NB) == -1) {
        return errno == EWOULDBLOCK
                   ? error_set(err, STATUS_FAILED_PRECONDITION,
                               "another process writes to it; stop that one first")
                   : error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                                     "lock the folder; it must be on a local file system");
    }
    return 0;
}

static int open_active(int dir_fd, int flags)
{
    return openat(dir_fd, SEGMENT_ACTIVE_NAME,
                  O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

int audit_file_open(const char *dir, struct audit_file *ret, struct error *err)
{
    struct stat st;
    struct audit_file f = {.dir_fd = -1, .fd = -1};
    int rc = open_folder(dir, &f, err);
    if (rc == 0) {
        f.fd = open_active(f.dir_fd, 0);
        if (f.fd == -1 || fstat(f.fd, &st) == -1) {
            rc = error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open audit.jsonl");
        } else if (fsync(f.dir_fd) == -1) {
            /* The name must survive a power cut as the lines do. */
            rc = error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "sync the folder");
        }
    }
    if (rc) {
        audit_file_close(&f);
        return rc;
    }
    f.bytes = st.st_size;
    f.modified_seconds = st.st_mtim.tv_sec;
    *ret = f;
    return 0;
}

void audit_file_close(struct audit_file *f)
{
    fd_close(&f->fd);
    fd_close(&f->dir_fd);
}

int audit_file_append(struct audit_file *f, const void *bytes, size_t n)
{
    int rc = fd_write_all(f->fd, bytes, n);
    if (rc) {
        f->is_broken = f->is_broken || ftruncate(f->fd, f->bytes) == -1;
        return -rc;
    }
    f->bytes += (int64_t)n;
    return 0;
}

/* Lines that go to a file which has no name any more, or behind what others wrote, are lost to
 * whoever verifies: they would be acknowledged all the same. */
static bool is_as_left(struct audit_file *f, struct audit_write *w)
{
    struct stat own;
    struct stat named = {0};
    w->failed_step = "look at audit.jsonl";
    if (fstat(f->fd, &own) == -1 ||
        (fstatat(f->dir_fd, SEGMENT_ACTIVE_NAME, &named, AT_SYMLINK_NOFOLLOW) == -1 &&
         errno != ENOENT)) {
        w->write_errno = errno; /* such as a folder that is closed to us: until it is open again */
        return false;
    }
    if (own.st_nlink == 0 || own.st_size != f->bytes || named.st_ino != own.st_ino ||
        named.st_dev != own.st_dev) {
        w->failed_step = "audit.jsonl was removed, replaced, cut or written to by somebody else";
        w->write_errno = ESTALE;
        f->is_broken = true;
        return false;
    }
    return true;
}

/* A failed fdatasync may have lost pages, and nothing is known then. */
static bool write_part(struct audit_file *f, struct str part, bool is_sync_wanted,
                       struct audit_write *w)
{
    w->failed_step = "write";
    w->write_errno = audit_file_append(f, part.ptr, part.len);
    if (w->write_errno || !is_sync_wanted) {
        return !w->write_errno;
    }
    uint64_t began_ns = clock_now_ns();
    w->failed_step = "fdatasync";
    if (fdatasync(f->fd) == -1) {
        w->write_errno = errno;
        f->is_broken = true;
    }
    w->sync_ns = clock_now_ns() - began_ns + 1;
    return !w->write_errno;
}

/* Gives the active file its name as a finished one, and makes a new one. 0 or an errno; then the
 * active file is the same as before, or the log is broken. */
static int rotate(struct audit_file *f, uint64_t first_sequence)
{
    char name[SEGMENT_NAME_SIZE];
    struct stat st;
    segment_format_name(first_sequence, false, name);
    /* Nobody else writes here: what is not there now does not come up in between. */
    if (fstatat(f->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return EEXIST;
    }
    if (renameat(f->dir_fd, SEGMENT_ACTIVE_NAME, f->dir_fd, name) == -1) {
        return errno;
    }
    int fd = open_active(f->dir_fd, O_EXCL);
    int rc = fd == -1 ? errno : 0;
    if (rc == 0 && fsync(f->dir_fd) == -1) {
        rc = errno;
        (void)unlinkat(f->dir_fd, SEGMENT_ACTIVE_NAME, 0);
        fd_close(&fd);
    }
    if (rc) {
        /* Back to where it was; when even that fails, there is no active file to go on with. */
        f->is_broken = renameat(f->dir_fd, name, f->dir_fd, SEGMENT_ACTIVE_NAME) == -1;
        return rc;
    }
    fd_close(&f->fd);
    f->fd = fd;
    f->bytes = 0;
    return 0;
}

void audit_file_write_group(struct audit_file *f, const struct audit_group *group,
                            uint64_t first_sequence, bool is_sync_wanted, struct audit_write *ret)
{
    struct str rest = buf_str(&group->lines);
    *ret = (struct audit_write){0};
    if (!is_as_left(f, ret)) {
        return;
    }
    if (group->has_cut) {
        if (!write_part(f, str_make(rest.ptr, group->cut_bytes), true, ret)) {
            return;
        }
        ret->cut_is_written = true;
        ret->rotate_errno = rotate(f, first_sequence);
        rest = str_make(rest.ptr + group->cut_bytes, rest.len - group->cut_bytes);
        if (f->is_broken) {
            ret->failed_step = "rotate";
            ret->write_errno = ret->rotate_errno;
            return;
        }
    }
    (void)write_part(f, rest, is_sync_wanted, ret);
}
