/* Other processes: the first one, those of a neighbour, those that are just being set up. */
#include "tests/attack/attempts/attempt.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TIOCSTI_NUMBER = 0x5412,
    TIOCLINUX_NUMBER = 0x541c,
    PATH_BYTES = 512,
    PIECE = 4,
};

static pid_t pid_of(const char *argument)
{
    return argument[0] ? (pid_t)strtol(argument, NULL, 10) : 1;
}

static int try_ptrace(const char *argument)
{
    return attempt_result(ptrace(PTRACE_SEIZE, pid_of(argument), NULL, NULL));
}

static int try_process_vm_readv(const char *argument)
{
    char byte;
    struct iovec mine = {&byte, 1};
    struct iovec theirs = {(void *)0x400000, 1};
    long n = process_vm_readv(pid_of(argument), &mine, 1, &theirs, 1, 0);
    return n == -1 && errno == EFAULT ? 0 : attempt_result(n); /* let in, but nothing is there */
}

static int try_pidfd_getfd(const char *argument)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid_of(argument), 0);
    return pidfd == -1 ? -errno : attempt_result(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

static int open_of(pid_t pid, const char *name, int flags)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return attempt_result(open(path, flags | O_CLOEXEC));
}

static int try_open_memory(const char *argument)
{
    return open_of(pid_of(argument), "mem", O_RDWR);
}

static int try_open_environment(const char *argument)
{
    return open_of(pid_of(argument), "environ", O_RDONLY);
}

static int try_open_root(const char *argument)
{
    return open_of(pid_of(argument), "root/etc/hostname", O_RDONLY);
}

static int try_signal(const char *argument)
{
    return attempt_result(kill(pid_of(argument), 0));
}

/* Every process that is to be seen and is not of this pid namespace's few. */
static int try_see_processes(const char *argument)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int found = 0;
    while (d && (e = readdir(d))) {
        char path[PATH_BYTES];
        char line[256] = "";
        if (!isdigit((unsigned char)e->d_name[0])) {
            continue;
        }
        (void)snprintf(path, sizeof path, "/proc/%.16s/cmdline", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd == -1 ? 0 : read(fd, line, sizeof line - 1);
        for (ssize_t i = 0; i + 1 < n; i++) {
            line[i] = line[i] ? line[i] : ' ';
        }
        found += strstr(line, argument) != NULL && strstr(line, "see-processes") == NULL;
        (void)close(fd);
    }
    if (d) {
        (void)closedir(d);
    }
    attempt_note("%d", found);
    return found > 0 ? 0 : -ESRCH;
}

/* Our own terminal, as the one that controls us. */
static int open_terminal(void)
{
    int unlock = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master == -1 || ioctl(master, TIOCSPTLCK, &unlock) == -1) {
        return -errno;
    }
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave == -1) {
        return -errno;
    }
    (void)setsid();
    (void)ioctl(slave, TIOCSCTTY, 0);
    return slave;
}

static int try_tiocsti(const char *argument)
{
    (void)argument;
    int fd = open_terminal();
    return fd < 0 ? fd : attempt_result(ioctl(fd, TIOCSTI_NUMBER, "x"));
}

/* The kernel takes the low half of the number alone; so must who compares it. */
static int try_tiocsti_high_bits(const char *argument)
{
    (void)argument;
    int fd = open_terminal();
    return fd < 0 ? fd
                  : attempt_result(syscall(SYS_ioctl, (long)fd, TIOCSTI_NUMBER | 1UL << 32, "x"));
}

static int try_tioclinux(const char *argument)
{
    char get_shift_state = 6;
    int fd = open(argument[0] ? argument : "/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd == -1) {
        attempt_note("open %s; ", strerrorname_np(errno));
        fd = open_terminal();
    }
    return fd < 0 ? fd : attempt_result(ioctl(fd, TIOCLINUX_NUMBER, &get_shift_state));
}

static bool has_ended(long long end_ms)
{
    return attempt_now_ms() > end_ms;
}

/* The name of a process, as the kernel has it. */
static void read_name(int proc, const char *pid, char *ret, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%.16s/comm", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd == -1 ? 0 : read(fd, ret, size - 1);
    ret[n > 0 ? n : 0] = '\0';
    (void)close(fd);
}

/* While others are started: opens the memory of each that still is the set-up program. */
static int try_catch_setup(const char *argument)
{
    long long end = attempt_now_ms() + strtol(argument, NULL, 10) * 1000;
    unsigned seen = 0, opened = 0;
    DIR *d = opendir("/proc");
    while (d && !has_ended(end)) {
        rewinddir(d);
        for (struct dirent *e = readdir(d); e; e = readdir(d)) {
            char name[32], path[64];
            if (!isdigit((unsigned char)e->d_name[0]) || strcmp(e->d_name, "1") == 0) {
                continue;
            }
            (void)snprintf(path, sizeof path, "%.16s/mem", e->d_name);
            int fd = openat(dirfd(d), path, O_RDWR | O_CLOEXEC);
            read_name(dirfd(d), e->d_name, name, sizeof name);
            bool is_setup = strncmp(name, "cordium-init", 12) == 0;
            seen += is_setup;
            opened += is_setup && fd != -1;
            (void)close(fd);
        }
    }
    attempt_note("%u sightings, %u opened", seen, opened);
    return opened > 0 ? 0 : -EACCES;
}

struct caught {
    unsigned closed; /* processes whose program is not told */
    unsigned seen;
    unsigned read_only;
    unsigned written;
};

/* Holds the program's file by a descriptor, and writes to it as soon as nobody runs it. */
static void overwrite(int exe, struct caught *c)
{
    char path[64];
    char piece[PIECE];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", exe);
    for (int i = 0; i < 50; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        bool is_busy = fd == -1 && errno == ETXTBSY;
        if (fd != -1 && pread(fd, piece, PIECE, 0) == PIECE && pwrite(fd, "HURT", PIECE, 0) > 0) {
            c->written++;
            (void)close(fd);
            return;
        }
        (void)close(fd);
        if (!is_busy) {
            return;
        }
        (void)usleep(2000);
    }
}

static void catch_one(int proc, const char *pid, const char *want, struct caught *c)
{
    char path[64], target[PATH_BYTES] = "";
    (void)snprintf(path, sizeof path, "%.16s/exe", pid);
    if (readlinkat(proc, path, target, sizeof target - 1) <= 0) {
        c->closed += errno == EACCES;
        return;
    }
    if (!strstr(target, want)) {
        return;
    }
    c->seen++;
    int exe = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (exe != -1) {
        c->read_only++;
        overwrite(exe, c);
        (void)close(exe);
    }
}

/* "NAME,SECONDS": catches the file of each process whose program is called so, by its link in
 * /proc, and writes to it. */
static int try_catch_program(const char *argument)
{
    char want[PATH_BYTES], seconds[PATH_BYTES];
    attempt_split(argument, want, seconds, PATH_BYTES);
    long long end = attempt_now_ms() + strtol(seconds, NULL, 10) * 1000;
    struct caught c = {0, 0, 0, 0};
    DIR *d = opendir("/proc");
    while (d && !has_ended(end)) {
        rewinddir(d);
        for (struct dirent *e = readdir(d); e; e = readdir(d)) {
            if (isdigit((unsigned char)e->d_name[0]) && strcmp(e->d_name, "1") != 0) {
                catch_one(dirfd(d), e->d_name, want, &c);
            }
        }
    }
    if (d) {
        (void)closedir(d);
    }
    attempt_note("closed %u, seen %u, opened %u, written %u", c.closed, c.seen, c.read_only,
                 c.written);
    return c.written > 0 ? 0 : -EACCES;
}

const struct attempt process_attempts[] = {
    {"ptrace", try_ptrace},
    {"process-vm-readv", try_process_vm_readv},
    {"pidfd-getfd", try_pidfd_getfd},
    {"open-memory", try_open_memory},
    {"open-environment", try_open_environment},
    {"open-root", try_open_root},
    {"signal", try_signal},
    {"see-processes", try_see_processes},
    {"tiocsti", try_tiocsti},
    {"tiocsti-high-bits", try_tiocsti_high_bits},
    {"tioclinux", try_tioclinux},
    {"catch-setup", try_catch_setup},
    {"catch-program", try_catch_program},
    {NULL, NULL},
};
