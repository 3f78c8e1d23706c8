#include "executor/init/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/proc/fd.h"

/* linux/landlock.h of the kernels that have them. */
enum {
    CREATE_RULESET_VERSION = 1,
    RULE_PATH_BENEATH = 1,
    ABI_SCOPES = 6,
    SCOPE_ABSTRACT_UNIX_SOCKET = 1,
    SCOPE_SIGNAL = 2,
    ACCESS_EXECUTE = 1 << 0,
    ACCESS_WRITE_FILE = 1 << 1,
    ACCESS_REMOVE_AND_MAKE = 0x1ff << 4, /* both kinds of removing, and seven of making */
    ACCESS_REFER = 1 << 13,
};

struct ruleset {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct path_beneath {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

int landlock_read_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

int landlock_restrict_paths(void)
{
    int abi = landlock_read_abi();
    if (abi < LANDLOCK_ABI_MIN) {
        return 0;
    }
    const struct ruleset all = {
        .handled_access_fs =
            ACCESS_EXECUTE | ACCESS_WRITE_FILE | ACCESS_REMOVE_AND_MAKE | ACCESS_REFER,
        .scoped = abi < ABI_SCOPES ? 0 : SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL,
    };
    AUTO_FD int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct path_beneath inside = {.allowed_access = all.handled_access_fs, .parent_fd = root};
    if (rules == -1 || root == -1 ||
        syscall(SYS_landlock_add_rule, rules, RULE_PATH_BENEATH, &inside, 0) == -1 ||
        syscall(SYS_landlock_restrict_self, rules, 0) == -1) {
        return -errno;
    }
    return 0;
}
