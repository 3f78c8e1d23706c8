#include "executor/self_check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "executor/init/privileges.h"
#include "executor/proc/fd.h"
#include "executor/steps/overlay.h"

static int check_cgroups(struct executor *ex, struct error *err)
{
    struct cgroup *group = NULL;
    struct cgroup_run *run = NULL;
    const struct cgroup_limits limits = {
        .memory_bytes = 64u << 20, .pids = 16, .cpu_millicores = 1000};
    int r = cgroup_acquire(ex->cgroups, &limits, &group, err);
    r = r < 0 ? r : cgroup_run_acquire(group, &limits, &run, err);
    cgroup_run_release(run);
    cgroup_release(group);
    return r < 0 ? error_wrap(err, "layer 'cgroup limits'") : 0;
}

static int check_mounts(struct executor *ex, uint32_t range, struct error *err)
{
    struct storage *storage = NULL;
    AUTO_FD int mount = -1;
    AUTO_FD int upper = -1;
    AUTO_FD int overlay_userns = -1;
    AUTO_FD int overlay = -1;
    int userns = -1;
    const struct storage_request request = {
        .id.bytes = {'s', 'e', 'l', 'f', '-', 'c', 'h', 'e', 'c', 'k'},
        .disk_bytes = 16u << 20,
        .uid = 1000,
        .gid = 1000,
        .is_ephemeral = true,
    };
    int r = ns_pool_userns(ex->namespaces, range, false, &userns, err);
    r = r < 0 ? error_wrap(err, "layer 'user namespace'") : 0;
    if (r == 0) {
        r = storage_open(ex->storages, &request, &storage, err);
        r = r < 0 ? error_wrap(err, "layer 'disk limit'") : 0;
    }
    if (r == 0) {
        r = storage_mount(storage, userns, &mount, err);
        r = r < 0 ? error_wrap(err, "layer 'idmapped mount'") : 0;
    }
    if (r == 0) {
        r = ns_pool_overlay_userns(ex->namespaces, range, &overlay_userns, err);
        r = r < 0 ? r : storage_mount(storage, overlay_userns, &upper, err);
        r = r < 0 ? r : overlay_mount(mount, upper, &overlay, err);
        r = r < 0 ? error_wrap(err, "layer 'writable root'") : 0;
    }
    fd_close(&overlay);
    fd_close(&upper);
    fd_close(&mount);
    storage_close(storage, true);
    return r;
}

int self_check(struct executor *ex, struct error *err)
{
    uint32_t range = 0;
    AUTO_FD int netns = -1;
    int r = check_cgroups(ex, err);
    r = r < 0 ? r : ns_pool_take_range(ex->namespaces, &range, err);
    if (r < 0) {
        return r;
    }
    r = check_mounts(ex, range, err);
    if (r == 0) {
        r = ns_pool_netns(ex->namespaces, &netns, err);
        r = r < 0 ? error_wrap(err, "layer 'network namespace'") : 0;
    }
    ns_pool_give_range(ex->namespaces, range, false);
    return r;
}

int self_check_rights(struct error *err)
{
    static const struct {
        const char *name;
        unsigned number;
    } needed[] = {{"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
                  {"CAP_CHOWN", CAP_CHOWN},
                  {"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},
                  {"CAP_FOWNER", CAP_FOWNER},
                  {"CAP_KILL", CAP_KILL},
                  {"CAP_SETUID", CAP_SETUID},
                  {"CAP_SETGID", CAP_SETGID},
                  {"CAP_SETPCAP", CAP_SETPCAP},
                  {"CAP_SETFCAP", CAP_SETFCAP},
                  {"CAP_MKNOD", CAP_MKNOD},
                  {"CAP_NET_ADMIN", CAP_NET_ADMIN},
                  {"CAP_SYS_PTRACE", CAP_SYS_PTRACE}};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    char map[64] = "";
    char missing[256] = "";
    if (fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) < 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "cannot read /proc/self/uid_map: mount /proc");
    }
    unsigned inside = 1, outside = 1, count = 0;
    if (sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || inside != 0 || outside != 0 ||
        count != UINT32_MAX) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "this root is that of a user namespace, and cannot give ids to sandboxes: "
                         "start the executor as root of the host");
    }
    int r = privileges_get(&header, have);
    if (r < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r, "read our capabilities");
    }
    uint64_t permitted = have[0].permitted | (uint64_t)have[1].permitted << 32;
    size_t used = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (!(permitted >> needed[i].number & 1)) {
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s",
                                     used ? ", " : "", needed[i].name);
        }
    }
    return used == 0
               ? 0
               : error_set(err, STATUS_FAILED_PRECONDITION,
                           "root lacks %s here: allow it (CapabilityBoundingSet= of a systemd "
                           "unit; a container needs to be privileged)",
                           missing);
}

int self_drop_capabilities(struct error *err)
{
    static const unsigned needed[] = {
        CAP_CHOWN,      CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,    CAP_FSETID,
        CAP_KILL,       CAP_SETGID,       CAP_SETUID,          CAP_SETPCAP,   CAP_SETFCAP,
        CAP_NET_ADMIN,  CAP_NET_RAW,      CAP_SYS_CHROOT,      CAP_SYS_ADMIN, CAP_MKNOD,
        CAP_SYS_PTRACE, CAP_SYS_RESOURCE, CAP_NET_BIND_SERVICE};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2];
    uint64_t keep = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        keep |= UINT64_C(1) << needed[i];
    }
    int r = privileges_get(&header, have);
    if (r == 0) {
        /* Some hosts give root fewer; what is missing shows in the step that needs it. */
        keep &= have[0].permitted | (uint64_t)have[1].permitted << 32;
        r = privileges_limit_bounding(UINT64_MAX, keep);
        r = r < 0 ? r : privileges_set(keep);
    }
    return r < 0 ? error_set_errno(err, STATUS_FAILED_PRECONDITION, -r, "drop capabilities") : 0;
}
