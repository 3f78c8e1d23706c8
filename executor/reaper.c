#include "executor/reaper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "executor/init/privileges.h"
#include "executor/proc/fd.h"

enum { WAKE_FD = 3, TRASH_FD = 500, IMAGES_FD = 501 }; /* the daemon has fewer at that time */

static void each_name(int dir_fd, void (*visit)(int dir_fd, const char *name))
{
    AUTO_FD int scan = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = scan == -1 ? NULL : fdopendir(scan);
    if (!dir) {
        return;
    }
    (void)fd_take(&scan);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            visit(dir_fd, entry->d_name);
        }
    }
    (void)closedir(dir);
}

static void remove_trash(int dir_fd, const char *name)
{
    (void)fd_remove_tree(dir_fd, name);
}

static void trim_image(int dir_fd, const char *name)
{
    static const char *const extra[] = {"home", "tmp", "var-tmp"};
    AUTO_FD int image = fd_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; image >= 0 && i < sizeof extra / sizeof *extra; i++) {
        (void)fd_remove_tree(image, extra[i]);
    }
}

/* It walks trees that sandboxes made: all that takes is to pass over owners and modes. */
static int drop_capabilities(void)
{
    const uint64_t keep = UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_DAC_READ_SEARCH |
                          UINT64_C(1) << CAP_FOWNER;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    int r = privileges_get(&header, have);
    r = r < 0 ? r : privileges_limit_bounding(UINT64_MAX, 0);
    return r < 0 ? r : privileges_set(keep & have[0].permitted);
}

static _Noreturn void reaper_main(int wake, int trash_fd, int images_fd)
{
    char bytes[256];
    ssize_t n;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)setpriority(PRIO_PROCESS, 0, 10);
    if (drop_capabilities() < 0) {
        _exit(1);
    }
    do {
        each_name(trash_fd, remove_trash);
        each_name(images_fd, trim_image);
        n = read(wake, bytes, sizeof bytes);
    } while (n > 0 || (n == -1 && errno == EINTR));
    _exit(0);
}

int reaper_start(int trash_fd, int images_fd)
{
    int wake[2];
    if (pipe2(wake, O_CLOEXEC) == -1) {
        return -errno;
    }
    AUTO_FD int ours = wake[1];
    AUTO_FD int theirs = wake[0];
    pid_t pid = fork();
    if (pid == -1) {
        return -errno;
    }
    if (pid == 0) {
        /* Nothing of the daemon's stays open here: not its lock, not its sockets. */
        if (dup2(theirs, WAKE_FD) == -1 || fcntl(trash_fd, F_DUPFD, TRASH_FD) != TRASH_FD ||
            fcntl(images_fd, F_DUPFD, IMAGES_FD) != IMAGES_FD ||
            close_range(IMAGES_FD + 1, ~0U, 0) == -1 ||
            close_range(WAKE_FD + 1, TRASH_FD - 1, 0) == -1) {
            _exit(1);
        }
        reaper_main(WAKE_FD, TRASH_FD, IMAGES_FD);
    }
    if (fcntl(ours, F_SETFL, O_NONBLOCK) == -1) {
        return -errno;
    }
    return fd_take(&ours);
}
