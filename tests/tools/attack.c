/* What a hostile program tries from inside a sandbox, one attempt a call. Prints one line with the
 * outcome: ALLOWED, an errno's name, or a count. Static, for images without a libc.
 *
 *   attack subvolume FOLDER     a btrfs subvolume, which would have no disk limit
 *   attack lease FILE           a write lease on a file of the image
 *   attack slice NANOSECONDS    another slice of CPU time than it has, by another policy too
 *   attack inotify COUNT        as many instances; holds them until its input ends
 *   attack forks COUNT          as many children, which stay when it exits
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void print_outcome(long result)
{
    printf("%s\n", result >= 0 ? "ALLOWED" : strerrorname_np(errno));
    fflush(stdout);
}

static void try_subvolume(const char *folder)
{
    struct btrfs_ioctl_vol_args args = {.name = "nested"};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    print_outcome(fd < 0 ? -1 : ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args));
}

static void try_lease(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    print_outcome(fd < 0 ? -1 : fcntl(fd, F_SETLEASE, F_WRLCK));
}

static void try_slice(unsigned long long slice_ns)
{
    struct { /* sched_attr */
        uint32_t size;
        uint32_t policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime;
        uint64_t deadline;
        uint64_t period;
    } attr = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    (void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    long r = syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0);
    printf("%llu ", r == 0 ? (unsigned long long)attr.runtime : 0);
    attr.runtime = slice_ns;
    print_outcome(syscall(SYS_sched_setattr, 0, &attr, 0));
}

static void try_inotify(long count)
{
    long have = 0;
    char byte;
    while (have < count && inotify_init1(IN_CLOEXEC) >= 0) {
        have++;
    }
    printf("%ld\n", have);
    fflush(stdout);
    (void)!read(0, &byte, 1);
}

static void try_forks(long count)
{
    long have = 0;
    pid_t child = 1;
    while (have < count && (child = fork()) > 0) {
        have++;
    }
    if (child == 0) {
        for (int fd = 0; fd < 3; fd++) {
            (void)close(fd);
        }
        (void)signal(SIGTERM, SIG_IGN);
        for (;;) {
            (void)pause();
        }
    }
    printf("%ld\n", have);
}

int main(int argc, char **argv)
{
    const char *what = argc == 3 ? argv[1] : "";
    if (strcmp(what, "subvolume") == 0) {
        try_subvolume(argv[2]);
    } else if (strcmp(what, "lease") == 0) {
        try_lease(argv[2]);
    } else if (strcmp(what, "slice") == 0) {
        try_slice(strtoull(argv[2], NULL, 10));
    } else if (strcmp(what, "inotify") == 0) {
        try_inotify(strtol(argv[2], NULL, 10));
    } else if (strcmp(what, "forks") == 0) {
        try_forks(strtol(argv[2], NULL, 10));
    } else {
        return 2;
    }
    return 0;
}
