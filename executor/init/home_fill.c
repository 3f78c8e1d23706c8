#include "executor/init/home_fill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { ENTRIES_MAX = 4096, DEPTH_MAX = 16 };

#define BYTES_MAX (UINT64_C(64) << 20)

struct budget {
    uint64_t bytes;
    unsigned entries;
};

static void copy_file(int from_dir, int to_dir, const char *name, mode_t mode, struct budget *left)
{
    AUTO_FD int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    AUTO_FD int to =
        from == -1 ? -1
                   : openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                            mode & 0777);
    if (to == -1) {
        return;
    }
    char piece[16384];
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) > 0 && (uint64_t)n <= left->bytes) {
        if (write(to, piece, (size_t)n) != n) {
            return;
        }
        left->bytes -= (uint64_t)n;
    }
}

static void copy_link(int from_dir, int to_dir, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target - 1);
    if (n > 0) {
        target[n] = '\0';
        (void)!symlinkat(target, to_dir, name);
    }
}

static void copy_directory(int from_fd, int to_fd, unsigned depth, struct budget *left);

static void copy_entry(int from_dir, int to_dir, const char *name, unsigned depth,
                       struct budget *left)
{
    struct stat st;
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        return;
    }
    if (S_ISREG(st.st_mode)) {
        copy_file(from_dir, to_dir, name, st.st_mode, left);
    } else if (S_ISLNK(st.st_mode)) {
        copy_link(from_dir, to_dir, name);
    } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX &&
               mkdirat(to_dir, name, st.st_mode & 0777) == 0) {
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        AUTO_FD int from = openat(from_dir, name, flags);
        AUTO_FD int to = openat(to_dir, name, flags);
        if (from != -1 && to != -1) {
            copy_directory(from, to, depth + 1, left);
        }
    }
}

static void copy_directory(int from_fd, int to_fd, unsigned depth, struct budget *left)
{
    AUTO_FD int scan = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = scan == -1 ? NULL : fdopendir(scan);
    if (!dir) {
        return;
    }
    (void)fd_take(&scan);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && left->entries > 0) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            left->entries--;
            copy_entry(from_fd, to_fd, entry->d_name, depth, left);
        }
    }
    (void)closedir(dir);
}

void home_fill(int source_fd, const char *target)
{
    struct budget left = {BYTES_MAX, ENTRIES_MAX};
    AUTO_FD int to = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to != -1) {
        copy_directory(source_fd, to, 0, &left);
    }
}
