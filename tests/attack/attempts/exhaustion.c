/* Using up what a host has: each goes on until it is refused or the time is up, prints how far it
 * came, and stays. With a number, which is how it is shown that the same works elsewhere, it does
 * as much, and then ends. */
#include "tests/attack/attempts/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* However long it would go on. */
enum { COUNT_MAX = 200000, TIME_MS = 2500, PAGE = 4096, PIECE = 1 << 20 };

struct tally {
    long count;
    int error_number; /* of what ended it; 0 = time or number */
};

/* Prints at once, since whoever reads it may not wait for the end, and stays until killed. */
static _Noreturn void stay(struct tally t)
{
    printf("reached %ld %s\n", t.count, t.error_number ? strerrorname_np(t.error_number) : "time");
    fflush(stdout);
    (void)alarm(0);
    for (;;) {
        (void)poll(NULL, 0, -1);
    }
}

typedef int step_function(void *state, long i);

static struct tally repeat(step_function *step, void *state, long count, volatile long *ret_count)
{
    long long end = attempt_now_ms() + TIME_MS;
    for (long i = 0; i < (count ? count : COUNT_MAX); i++) {
        int r = step(state, i);
        if (r < 0) {
            return (struct tally){i, -r};
        }
        *ret_count = i + 1;
        if (count == 0 && (i & 63) == 0 && attempt_now_ms() > end) {
            return (struct tally){i, 0};
        }
    }
    return (struct tally){*ret_count, 0};
}

static int finish(struct tally t, long count)
{
    if (count == 0) {
        stay(t);
    }
    attempt_note("%ld", t.count);
    return t.count >= count ? 0 : t.error_number ? -t.error_number : -ETIME;
}

static int exhaust(const char *argument, step_function *step, void *state)
{
    long count = strtol(argument, NULL, 10);
    long done = 0;
    return finish(repeat(step, state, count, &done), count);
}

/* In a child, which is what the kernel takes when it is short of memory. */
static int exhaust_in_child(const char *argument, step_function *step)
{
    long count = strtol(argument, NULL, 10);
    int status = 0;
    volatile long *done =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = done == MAP_FAILED ? -1 : fork();
    if (child == -1) {
        return -errno;
    }
    if (child == 0) {
        _exit(repeat(step, NULL, count, done).error_number);
    }
    (void)waitpid(child, &status, 0);
    int error_number = WIFSIGNALED(status) ? ENOMEM : WEXITSTATUS(status);
    return finish((struct tally){*done, error_number}, count);
}

static int enter_folder(void)
{
    const char *folder = attempt_make_folder();
    return !folder || chdir(folder) == -1 ? -errno : 0;
}

/* All that a process may have: its limit is not what is tried here. */
static void raise_descriptors(void)
{
    struct rlimit r;
    (void)getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
}

static int fork_one(void *state, long i)
{
    (void)state;
    (void)i;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        (void)setsid();
        (void)alarm(0);
        for (;;) {
            (void)pause();
        }
    }
    return child == -1 ? -errno : 0;
}

static int try_forks(const char *argument)
{
    return exhaust(argument, fork_one, NULL);
}

/* Stopped, with the parent gone: nobody but the kernel's list knows them. */
static int stop_one(void *state, long i)
{
    (void)state;
    if (i >= 40) {
        return -EDQUOT;
    }
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            (void)setsid();
            (void)alarm(0);
            for (;;) {
                (void)raise(SIGSTOP);
            }
        }
        _exit(0);
    }
    return middle == -1 || waitpid(middle, NULL, 0) == -1 ? -errno : 0;
}

static int try_stopped_orphans(const char *argument)
{
    return exhaust(argument, stop_one, NULL);
}

static int make_file(void *state, long i)
{
    char name[32];
    (void)state;
    (void)snprintf(name, sizeof name, "%ld", i);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd == -1) {
        return -errno;
    }
    (void)close(fd);
    return 0;
}

static int try_inodes(const char *argument)
{
    int r = enter_folder();
    return r < 0 ? r : exhaust(argument, make_file, NULL);
}

/* Names that are not there stay in the kernel's memory. */
static int look_for(void *state, long i)
{
    char name[255];
    struct stat st;
    (void)state;
    (void)snprintf(name, sizeof name, "%0240ld", i);
    (void)stat(name, &st);
    return 0;
}

static int try_dentries(const char *argument)
{
    int r = enter_folder();
    return r < 0 ? r : exhaust(argument, look_for, NULL);
}

static int write_piece(void *state, long i)
{
    static char piece[PIECE];
    const int *fd = state;
    memset(piece, (int)i, sizeof piece);
    return write(*fd, piece, sizeof piece) == -1 ? -errno : 0;
}

/* Fills the disk, which fills the page cache as well. */
static int try_page_cache(const char *argument)
{
    int r = enter_folder();
    int fd = r < 0 ? -1 : open("full", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd == -1) {
        return r < 0 ? r : -errno;
    }
    return exhaust(argument, write_piece, &fd);
}

/* Takes no blocks, and must take nobody's time. */
static int try_sparse(const char *argument)
{
    int r = enter_folder();
    (void)argument;
    if (r < 0) {
        return r;
    }
    struct tally t = {1, 0};
    int fd = open("huge", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd == -1 || ftruncate(fd, (off_t)1 << 42) == -1) {
        t = (struct tally){0, errno};
    }
    stay(t);
}

static int map_one(void *state, long i)
{
    (void)state;
    (void)i;
    char *p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return -errno;
    }
    for (size_t at = 0; at < PIECE; at += PAGE) {
        p[at] = 1;
    }
    return 0;
}

static int try_memory(const char *argument)
{
    return exhaust_in_child(argument, map_one);
}

/* The kernel's memory: pages in pipes, and messages that nobody reads. */
static int fill_pipe(void *state, long i)
{
    static char piece[PIECE];
    int ends[2];
    (void)state;
    (void)i;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == -1) {
        return -errno;
    }
    return write(ends[1], piece, sizeof piece) == -1 ? -errno : 0;
}

static int try_pipes(const char *argument)
{
    raise_descriptors();
    return exhaust_in_child(argument, fill_pipe);
}

static int open_terminal(void *state, long i)
{
    (void)state;
    (void)i;
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) == -1 ? -errno : 0;
}

static int try_terminals(const char *argument)
{
    raise_descriptors();
    return exhaust(argument, open_terminal, NULL);
}

static int watch_one(void *state, long i)
{
    (void)state;
    (void)i;
    return inotify_init1(IN_CLOEXEC) == -1 ? -errno : 0;
}

static int try_inotify(const char *argument)
{
    raise_descriptors();
    return exhaust(argument, watch_one, NULL);
}

static int connect_pair(void *state, long i)
{
    static char piece[PAGE * 16];
    int ends[2];
    (void)state;
    (void)i;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == -1) {
        return -errno;
    }
    while (send(ends[0], piece, sizeof piece, 0) > 0) {
    }
    return 0;
}

static int try_sockets(const char *argument)
{
    raise_descriptors();
    return exhaust_in_child(argument, connect_pair);
}

static int add_key(void *state, long i)
{
    char name[32];
    (void)state;
    (void)snprintf(name, sizeof name, "attempt-%ld", i);
    return syscall(SYS_add_key, "user", name, "x", 1, -2) == -1 ? -errno : 0;
}

static int try_keys(const char *argument)
{
    return exhaust(argument, add_key, NULL);
}

static int make_segment(void *state, long i)
{
    (void)state;
    (void)i;
    int id = shmget(IPC_PRIVATE, PIECE, IPC_CREAT | 0600);
    char *at = id == -1 ? NULL : shmat(id, NULL, 0);
    if (id == -1 || at == (char *)-1) {
        return -errno;
    }
    memset(at, 1, PIECE);
    return 0;
}

/* System V memory outlives its processes, but not its namespace. */
static int try_shared_memory(const char *argument)
{
    return exhaust_in_child(argument, make_segment);
}

static int mount_one(void *state, long i)
{
    (void)state;
    (void)i;
    return syscall(SYS_mount, "none", ".", "tmpfs", 0L, "size=4k") == -1 ? -errno : 0;
}

/* Without an end in a build, but for the kernel's own limit of a namespace. */
static int try_mounts(const char *argument)
{
    long done = 0;
    int r = enter_folder();
    (void)argument;
    if (r < 0) {
        return r;
    }
    struct tally t = repeat(mount_one, NULL, 0, &done);
    attempt_note("%ld mounts, then %s", t.count,
                 t.error_number ? strerrorname_np(t.error_number) : "time");
    return t.error_number ? -t.error_number : 0;
}

/* One waits in open(2) of a pipe without a writer, one in vfork(2) for a child that is stopped. */
static int try_waiters(const char *argument)
{
    int r = enter_folder();
    (void)argument;
    if (r < 0 || mkfifo("pipe", 0600) == -1) {
        return r < 0 ? r : -errno;
    }
    if (fork() == 0) {
        (void)alarm(0);
        (void)open("pipe", O_RDONLY | O_CLOEXEC);
        _exit(0);
    }
    if (fork() == 0) {
        (void)alarm(0);
        if (syscall(SYS_vfork) == 0) {
            (void)syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
            _exit(0);
        }
        _exit(0);
    }
    stay((struct tally){2, 0});
}

const struct attempt exhaustion_attempts[] = {
    {"forks", try_forks},
    {"stopped-orphans", try_stopped_orphans},
    {"inodes", try_inodes},
    {"dentries", try_dentries},
    {"page-cache", try_page_cache},
    {"sparse", try_sparse},
    {"memory", try_memory},
    {"pipes", try_pipes},
    {"terminals", try_terminals},
    {"inotify", try_inotify},
    {"sockets", try_sockets},
    {"keys", try_keys},
    {"shared-memory", try_shared_memory},
    {"mounts", try_mounts},
    {"waiters", try_waiters},
    {NULL, NULL},
};
