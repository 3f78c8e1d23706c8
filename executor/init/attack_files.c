#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "executor/init/attack.h"
#include "executor/init/landlock.h"
#include "executor/proc/fd.h"

/* EROFS comes before any question of permission, so that it tells of the mount alone. */
bool attack_read_only_root(struct attack *a)
{
    static const char *const places[] = {"/self-test", "/etc/self-test", "/dev/self-test",
                                         "/opt/self-test"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (mkdir(places[i], 0700) == 0 || errno != EROFS) {
            return attack_broke(a, "mkdir %s is not refused as read-only", places[i]);
        }
    }
    return true;
}

static bool has_flag(struct attack *a, const char *path, unsigned long flag, const char *name)
{
    struct statvfs fs;
    return (statvfs(path, &fs) == 0 && (fs.f_flag & flag)) ||
           attack_broke(a, "%s is mounted without %s", path, name);
}

bool attack_nosuid(struct attack *a)
{
    static const char *const places[] = {"/",    "/dev", "/dev/shm", "/dev/pts",   "/proc",
                                         "/run", "/tmp", "/var/tmp", "/workspace", "/home/test"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!has_flag(a, places[i], ST_NOSUID, "nosuid")) {
            return false;
        }
    }
    return true;
}

bool attack_nodev(struct attack *a)
{
    static const char *const places[] = {"/",    "/dev/shm", "/proc",      "/run",
                                         "/tmp", "/var/tmp", "/workspace", "/home/test"};
    AUTO_FD int device = open(SELF_TEST_DEVICE, O_RDONLY | O_CLOEXEC);
    if (device != -1 || errno != EACCES) {
        return attack_broke(a, "a device of the image is not refused");
    }
    if (mknod("/tmp/device", S_IFCHR | 0600, 0x103) == 0) {
        return attack_broke(a, "a device was made");
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!has_flag(a, places[i], ST_NODEV, "nodev")) {
            return false;
        }
    }
    return true;
}

static bool is_empty_directory(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return true; /* this kernel has none, or hides it better than we do */
    }
    const struct dirent *entry;
    bool is_empty = true;
    while (is_empty && (entry = readdir(dir)) != NULL) {
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    (void)closedir(dir);
    return is_empty;
}

bool attack_proc_masks(struct attack *a)
{
    static const char *const files[] = {"/proc/kallsyms",  "/proc/keys",    "/proc/config.gz",
                                        "/proc/cmdline",   "/proc/modules", "/proc/interrupts",
                                        "/proc/diskstats", "/proc/locks"};
    static const char *const directories[] = {"/proc/acpi", "/proc/scsi", "/proc/bus", "/proc/fs",
                                              "/proc/irq"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char byte;
        AUTO_FD int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        if (fd != -1 && read(fd, &byte, 1) != 0) {
            return attack_broke(a, "%s can be read", files[i]);
        }
    }
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        if (!is_empty_directory(directories[i])) {
            return attack_broke(a, "%s can be read", directories[i]);
        }
    }
    return true;
}

/* A descriptor that leaked from the host, of a file that everybody may write: nothing but Landlock
 * asks where it leads. */
bool attack_landlock(struct attack *a)
{
    a->is_absent = landlock_read_abi() < LANDLOCK_ABI_MIN;
    AUTO_FD int fd = open("/proc/self/fd/2", O_WRONLY | O_CLOEXEC);
    return a->is_absent || (fd == -1 && errno == EACCES) ||
           attack_broke(a, "a file of the host was opened for writing");
}

/* On disk every owner is 0 to 65535; where that is not mapped, all belongs to nobody in here. */
bool attack_idmapped_mounts(struct attack *a)
{
    struct stat root, workspace, file;
    AUTO_FD int fd = open("/workspace/self-test", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (stat("/", &root) == -1 || root.st_uid != 0 || stat("/workspace", &workspace) == -1 ||
        workspace.st_uid != getuid()) {
        return attack_broke(a, "/ or /workspace belongs to somebody else");
    }
    return (fd != -1 && fstat(fd, &file) == 0 && file.st_uid == getuid() &&
            unlink("/workspace/self-test") == 0) ||
           attack_broke(a, "a new file belongs to somebody else");
}
