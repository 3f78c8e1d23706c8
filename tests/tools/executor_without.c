/* The executor with one layer missing: linked to the objects of the real one, whose calls of some
 * functions come by here. The real program has no switch for that. Which layer, by its name in
 * self_test.def, tells the variable WITHOUT_LAYER. */
#include <fcntl.h>
#include <linux/mount.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"
#include "executor/steps/storage.h"

int __real_open(const char *path, int flags, ...);
int __real_mounts_clone_idmapped(int fd, int userns_fd, uint64_t attributes);
int __real_storage_open(struct storage_host *host, const struct storage_request *request,
                        struct storage **ret, struct error *err);
int __real_fd_write_file_u64(int dir_fd, const char *path, uint64_t value);

int __wrap_open(const char *path, int flags, ...);
int __wrap_mounts_clone_idmapped(int fd, int userns_fd, uint64_t attributes);
int __wrap_storage_open(struct storage_host *host, const struct storage_request *request,
                        struct storage **ret, struct error *err);
int __wrap_fd_write_file_u64(int dir_fd, const char *path, uint64_t value);

static bool is_missing(const char *layer)
{
    const char *missing = getenv("WITHOUT_LAYER");
    return missing && strcmp(missing, layer) == 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (is_missing("nested_user_namespaces") &&
        strcmp(path, "/proc/sys/user/max_user_namespaces") == 0) {
        path = "/dev/null";
    }
    return __real_open(path, flags, mode);
}

int __wrap_mounts_clone_idmapped(int fd, int userns_fd, uint64_t attributes)
{
    static const struct {
        const char *layer;
        uint64_t attribute;
    } layers[] = {{"read_only_root", MOUNT_ATTR_RDONLY},
                  {"nosuid", MOUNT_ATTR_NOSUID},
                  {"nodev", MOUNT_ATTR_NODEV}};
    struct mount_attr clear = {0};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        clear.attr_clr |= is_missing(layers[i].layer) ? layers[i].attribute : 0;
    }
    int clone = __real_mounts_clone_idmapped(fd, is_missing("idmapped_mounts") ? -1 : userns_fd,
                                             attributes & ~clear.attr_clr);
    /* The pool's own mount has some of them, too. */
    if (clone >= 0 && clear.attr_clr != 0) {
        (void)syscall(SYS_mount_setattr, clone, "", AT_EMPTY_PATH, &clear, sizeof clear);
    }
    return clone;
}

int __wrap_storage_open(struct storage_host *host, const struct storage_request *request,
                        struct storage **ret, struct error *err)
{
    struct storage_request q = *request;
    q.disk_bytes <<= is_missing("disk_limit") ? 4 : 0;
    return __real_storage_open(host, &q, ret, err);
}

int __wrap_fd_write_file_u64(int dir_fd, const char *path, uint64_t value)
{
    if (is_missing("pids_limit") && strcmp(path, "pids.max") == 0) {
        return fd_write_file(dir_fd, path, "max");
    }
    if (is_missing("memory_limit") && strncmp(path, "memory.", strlen("memory.")) == 0) {
        return 0;
    }
    return __real_fd_write_file_u64(dir_fd, path, value);
}
