#include "tests/bench/bwrap_side.h"

#include <errno.h>
#include <spawn.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 64 };

int bwrap_side_run(const char *rootfs, const char *const *argv, size_t argc, struct error *err)
{
    const char *args[ARGS_MAX] = {
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--ro-bind",
        rootfs,
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--cap-drop",
        "ALL",
        "--new-session",
        "--die-with-parent",
        "--",
    };
    size_t count = 0;
    while (args[count]) {
        count++;
    }
    for (size_t i = 0; i < argc && count + 1 < ARGS_MAX; i++) {
        args[count++] = argv[i];
    }
    pid_t pid;
    int status = 0;
    int rc = posix_spawnp(&pid, "bwrap", NULL, NULL, (char *const *)(const void *)args, environ);
    if (rc) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, rc, "start bwrap");
    }
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : error_set(err, STATUS_FAILED_PRECONDITION, "bwrap ended with %#x",
                           (unsigned)status);
}
