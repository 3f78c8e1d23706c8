/* What a hostile workspace does to its neighbours; static, run inside by neighbours.py.
 *   neighbours fork|memory|disk|inodes|output|spin|pty|inotify|keys
 * Each goes on until it is killed, and takes no refusal for an answer. */
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, FILES_PER_ROUND = 100000, SPINNERS = 8 };

/* When so many do not fit into the memory, one of them dies for it and not the first: with that the
 * command would end, and the others go on behind its back. */
static void fork_for_ever(void)
{
    (void)signal(SIGCHLD, SIG_IGN);
    for (;;) {
        if (fork() == 0) {
            int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
            (void)!write(fd, "1000", 4);
            (void)close(fd);
            for (;;) {
                (void)!fork();
            }
        }
        (void)waitpid(-1, NULL, 0); /* for all of them: nobody is to be told of */
    }
}

/* A child that touches memory until it is killed, and another. */
static void fill_memory(void)
{
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            for (;;) {
                char *piece = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (piece != MAP_FAILED) {
                    memset(piece, 1, PIECE_BYTES);
                }
            }
        }
        (void)waitpid(child, NULL, 0);
    }
}

static void fill_disk(void)
{
    static char piece[PIECE_BYTES];
    memset(piece, 7, sizeof piece);
    for (;;) {
        int fd = open("/workspace/full", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        while (fd != -1 && write(fd, piece, sizeof piece) > 0) {
            (void)fdatasync(fd);
        }
        (void)close(fd);
    }
}

static void make_files(void)
{
    char path[64];
    for (;;) {
        for (int i = 0; i < FILES_PER_ROUND; i++) {
            (void)snprintf(path, sizeof path, "/workspace/f%d", i);
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            if (fd == -1) {
                break;
            }
            (void)close(fd);
        }
        for (int i = 0; i < FILES_PER_ROUND; i++) {
            (void)snprintf(path, sizeof path, "/workspace/f%d", i);
            if (unlink(path) == -1) {
                break;
            }
        }
    }
}

static void flood_output(void)
{
    static char piece[65536];
    memset(piece, 'y', sizeof piece);
    for (;;) {
        (void)!write(1, piece, sizeof piece);
        (void)!write(2, piece, sizeof piece);
    }
}

static void spin(void)
{
    for (int i = 0; i < SPINNERS; i++) {
        if (fork() == 0) {
            for (volatile unsigned long n = 0;; n++) {
            }
        }
    }
    for (;;) {
        (void)pause();
    }
}

/* Takes descriptors of one kind until there are no more, gives them back, and again. */
static void take(int (*make)(void))
{
    struct rlimit nofile;
    (void)getrlimit(RLIMIT_NOFILE, &nofile);
    nofile.rlim_cur = nofile.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &nofile);
    for (;;) {
        int first = -1;
        int last = -1;
        for (;;) {
            int fd = make();
            if (fd == -1) {
                break;
            }
            first = first == -1 ? fd : first;
            last = fd;
        }
        for (int fd = first; first != -1 && fd <= last; fd++) {
            (void)close(fd);
        }
    }
}

static int make_terminal(void)
{
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

static int make_inotify(void)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd != -1) {
        (void)inotify_add_watch(fd, "/", IN_ALL_EVENTS);
    }
    return fd;
}

/* The filter refuses it; a refusal costs the kernel something, too. */
static void add_keys(void)
{
    char name[32];
    for (unsigned long i = 0;; i++) {
        (void)snprintf(name, sizeof name, "k%lu", i);
        (void)syscall(SYS_add_key, "user", name, "x", 1, KEY_SPEC_SESSION_KEYRING);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    (void)signal(SIGPIPE, SIG_IGN);
    if (strcmp(what, "fork") == 0) {
        fork_for_ever();
    } else if (strcmp(what, "memory") == 0) {
        fill_memory();
    } else if (strcmp(what, "disk") == 0) {
        fill_disk();
    } else if (strcmp(what, "inodes") == 0) {
        make_files();
    } else if (strcmp(what, "output") == 0) {
        flood_output();
    } else if (strcmp(what, "spin") == 0) {
        spin();
    } else if (strcmp(what, "pty") == 0) {
        take(make_terminal);
    } else if (strcmp(what, "inotify") == 0) {
        take(make_inotify);
    } else if (strcmp(what, "keys") == 0) {
        add_keys();
    }
    fprintf(stderr, "neighbours: '%s' is nothing that it does\n", what);
    return 2;
}
