#include "gateway/cli/local_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"

/* Each level holds three descriptors. */
enum { DEPTH_MAX = 256, FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int merge_level(int from_fd, int to_fd, const char *path, unsigned depth, struct error *err);

/* A folder is made anew rather than moved, since each thing in it is to be looked at. One that its
 * owner may not write to could be neither filled nor emptied: it gets its mode when that is done.
 */
static int merge_folder(int from_fd, int to_fd, const char *name, mode_t mode, const char *path,
                        unsigned depth, struct error *err)
{
    const bool is_new = mkdirat(to_fd, name, S_IRWXU) == 0;
    if (!is_new && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "cannot write the folder '%s' below '%s'", name, path);
    }
    const bool is_open = fchmodat(from_fd, name, mode | S_IRWXU, 0) == 0;
    AUTO_FD int from = is_open ? openat(from_fd, name, FOLDER_FLAGS) : -1;
    AUTO_FD int to = openat(to_fd, name, FOLDER_FLAGS);
    if (from == -1 || to == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "cannot copy into the folder '%s' below '%s': remove what is there, "
                               "or copy to where its link leads",
                               name, path);
    }
    int status = merge_level(from, to, path, depth + 1, err);
    if (status == 0 && is_new && fchmod(to, mode) == -1) {
        status = error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                                 "cannot set the mode of the folder '%s' below '%s'", name, path);
    }
    return status;
}

static int merge_entry(int from_fd, int to_fd, const char *name, const char *path, unsigned depth,
                       struct error *err)
{
    struct stat st;
    if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot copy '%s'", name);
    }
    if (S_ISDIR(st.st_mode)) {
        return merge_folder(from_fd, to_fd, name, st.st_mode & 01777, path, depth, err);
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
        fprintf(stderr, "cordium: '%s' is left out: it is a pipe, a socket or a device\n", name);
        return 0;
    }
    return renameat(from_fd, name, to_fd, name) == 0
               ? 0
               : error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                                 "cannot write '%s' below '%s'", name, path);
}

static int merge_level(int from_fd, int to_fd, const char *path, unsigned depth, struct error *err)
{
    AUTO_FD int scan = depth < DEPTH_MAX ? openat(from_fd, ".", FOLDER_FLAGS) : -1;
    DIR *entries = scan == -1 ? NULL : fdopendir(scan);
    if (!entries) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "cannot copy into '%s': folders are nested deeper than %d, or descriptors "
                         "are short",
                         path, DEPTH_MAX);
    }
    (void)fd_take(&scan);
    int status = 0;
    struct dirent *e;
    while (status == 0 && (e = readdir(entries))) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            status = merge_entry(from_fd, to_fd, e->d_name, path, depth, err);
        }
    }
    (void)closedir(entries);
    return status;
}

int local_tree_merge(int from_fd, int to_fd, const char *path, struct error *err)
{
    return merge_level(from_fd, to_fd, path, 0, err);
}
