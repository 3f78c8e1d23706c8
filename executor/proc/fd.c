#include "executor/proc/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void fd_close(int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        (void)close(*fd);
        errno = saved;
        *fd = -1;
    }
}

void fd_cleanup(int *fd)
{
    fd_close(fd);
}

int fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

int fd_write_file(int dir_fd, const char *path, const char *text)
{
    AUTO_FD int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd == -1) {
        return -errno;
    }
    size_t n = strlen(text);
    ssize_t done = write(fd, text, n);
    if (done == -1) {
        return -errno;
    }
    return (size_t)done == n ? 0 : -EIO;
}

int fd_write_file_u64(int dir_fd, const char *path, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return fd_write_file(dir_fd, path, text);
}

int fd_write_all(int fd, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n == -1) {
            return -errno;
        }
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_file(int dir_fd, const char *path, char *text, size_t size)
{
    AUTO_FD int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd == -1) {
        return -errno;
    }
    size_t used = 0;
    while (used < size - 1) {
        ssize_t n = read(fd, text + used, size - 1 - used);
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n == -1) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    return (ssize_t)used;
}

static bool read_number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || end == text) {
        return false;
    }
    *ret = v;
    return true;
}

int fd_read_file_u64(int dir_fd, const char *path, uint64_t *ret)
{
    char text[64];
    ssize_t n = fd_read_file(dir_fd, path, text, sizeof text);
    if (n < 0) {
        return (int)n;
    }
    return read_number(text, ret) ? 0 : -ENODATA;
}

int fd_read_key_u64(int dir_fd, const char *path, const char *key, uint64_t *ret)
{
    char text[4096];
    ssize_t n = fd_read_file(dir_fd, path, text, sizeof text);
    if (n < 0) {
        return (int)n;
    }
    size_t key_len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ') {
            return read_number(line + key_len + 1, ret) ? 0 : -ENODATA;
        }
    }
    return -ENODATA;
}

int fd_open_beneath(int dir_fd, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    return fd == -1 ? -errno : (int)fd;
}

int fd_sealed_memfd(const char *name, const void *data, size_t size)
{
    AUTO_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd == -1) {
        return -errno;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        if (n <= 0) {
            return n == 0 ? -EIO : -errno;
        }
        done += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == -1) {
        return -errno;
    }
    return fd_take(&fd);
}

int fd_read_sealed(int fd, size_t size_max, uint8_t **ret, size_t *ret_size)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals == -1 || (seals & wanted) != wanted) {
        return -EPERM;
    }
    struct stat st;
    if (fstat(fd, &st) == -1) {
        return -errno;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size > size_max) {
        return -EMSGSIZE;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data) {
        return -ENOMEM;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)done);
        if (n <= 0) {
            free(data);
            return n == 0 ? -EIO : -errno;
        }
        done += (size_t)n;
    }
    *ret = data;
    *ret_size = size;
    return 0;
}

/* One directory of fd_remove_tree(): unlinks what it can and returns the name of a directory that
 * must be emptied first in *ret_child, or "" when the directory is empty. */
static int remove_entries(DIR *dir, int fd, char *ret_child, size_t size)
{
    struct dirent *entry;
    ret_child[0] = '\0';
    while ((errno = 0, entry = readdir(dir)) != NULL) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        if (unlinkat(fd, name, 0) == 0 || unlinkat(fd, name, AT_REMOVEDIR) == 0) {
            continue;
        }
        if (errno != ENOTEMPTY && errno != EEXIST) {
            return -errno;
        }
        (void)snprintf(ret_child, size, "%s", name);
        return 0;
    }
    return -errno;
}

/* Finds what must go before the directory `fd` can: "" in ret_child when it is empty. */
static int scan_directory(int fd, char *ret_child, size_t size)
{
    AUTO_FD int scan = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = scan == -1 ? NULL : fdopendir(scan);
    if (!dir) {
        return -errno;
    }
    (void)fd_take(&scan);
    int r = remove_entries(dir, fd, ret_child, size);
    (void)closedir(dir);
    return r;
}

/* Moves each full subdirectory of `child` up to `top`, so that `child` can be removed next. */
static int lift_children(int top, const char *child, unsigned *moved)
{
    AUTO_FD int sub = fd_open_beneath(top, child, O_RDONLY | O_DIRECTORY);
    if (sub < 0) {
        return sub;
    }
    for (;;) {
        char grandchild[256];
        int r = scan_directory(sub, grandchild, sizeof grandchild);
        if (r < 0 || grandchild[0] == '\0') {
            return r;
        }
        char lifted[32];
        do {
            (void)snprintf(lifted, sizeof lifted, ".lifted-%u", (*moved)++);
            r = renameat2(sub, grandchild, top, lifted, RENAME_NOREPLACE) == 0 ? 0 : -errno;
        } while (r == -EEXIST);
        if (r < 0) {
            return r;
        }
    }
}

/* Each full directory is moved up to the top of the tree before it is emptied, so that neither
 * depth nor path length costs recursion or descriptors. */
int fd_remove_tree(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0 || unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 ||
        errno == ENOENT) {
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return -errno;
    }
    AUTO_FD int top = fd_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY);
    if (top < 0) {
        return top;
    }
    unsigned moved = 0;
    for (;;) {
        char child[256];
        int r = scan_directory(top, child, sizeof child);
        if (r < 0) {
            return r;
        }
        if (child[0] == '\0') {
            return unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
        }
        r = lift_children(top, child, &moved);
        if (r < 0) {
            return r;
        }
    }
}
