#include "executor/init/privileges.h"

#include <errno.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int privileges_get(struct __user_cap_header_struct *header, struct __user_cap_data_struct ret[2])
{
    return syscall(SYS_capget, header, ret) == -1 ? -errno : 0;
}

int privileges_limit_bounding(uint64_t have, uint64_t keep)
{
    for (unsigned long cap = 0; cap < 64; cap++) {
        if (!(have >> cap & 1) || keep >> cap & 1) {
            continue;
        }
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == -1) {
            return errno == EINVAL ? 0 : -errno; /* EINVAL: past the kernel's last capability */
        }
    }
    return 0;
}

int privileges_set(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)keep, .permitted = (uint32_t)keep},
        {.effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32)},
    };
    return syscall(SYS_capset, &header, data) == -1 ? -errno : 0;
}

int privileges_bound_run(uint32_t uid, uint64_t keep)
{
    /* Init's own bounding set is no larger, so that this is four calls and not forty. */
    return privileges_limit_bounding(keep | PRIVILEGES_OF_INIT, uid == 0 ? keep : 0);
}

int privileges_drop_for_run(uint32_t uid, uint64_t keep)
{
    if (uid == 0 && keep != 0) {
        /* Root inside keeps these over exec; no_new_privs stops it from getting more. */
        return privileges_set(keep);
    }
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED;
    if (uid == 0 && prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) == -1) {
        return -errno;
    }
    return privileges_set(0);
}
