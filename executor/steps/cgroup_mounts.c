#include "executor/steps/cgroup_mounts.h"

#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>

#include "executor/proc/fd.h"

static const char *const controllers[CGROUP_HIERARCHIES] = {"memory", "pids", "cpu", "cpuacct",
                                                            "blkio"};

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word)) {
        bool starts = at == list || at[-1] == ' ' || at[-1] == ',';
        bool ends = at[n] == '\0' || at[n] == ' ' || at[n] == ',' || at[n] == '\n';
        if (starts && ends) {
            return true;
        }
    }
    return false;
}

static bool v2_is_complete(const char *mount)
{
    char path[CGROUP_MOUNT_MAX + 32];
    char text[512];
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", mount);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && has_word(text, "memory") &&
           has_word(text, "pids") && has_word(text, "cpu");
}

int cgroup_mounts_find(const char *mounts_path, char ret[CGROUP_HIERARCHIES][CGROUP_MOUNT_MAX],
                       bool *ret_is_v2, struct error *err)
{
    FILE *f = setmntent(mounts_path, "re");
    if (!f) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "cannot read '%s': mount /proc",
                         mounts_path);
    }
    for (int i = 0; i < CGROUP_HIERARCHIES; i++) {
        ret[i][0] = '\0';
    }
    *ret_is_v2 = false;
    struct mntent entry;
    char text[4096];
    while (getmntent_r(f, &entry, text, sizeof text)) {
        if (strlen(entry.mnt_dir) >= CGROUP_MOUNT_MAX) {
            continue;
        }
        if (strcmp(entry.mnt_type, "cgroup2") == 0 && v2_is_complete(entry.mnt_dir)) {
            (void)snprintf(ret[0], CGROUP_MOUNT_MAX, "%s", entry.mnt_dir);
            *ret_is_v2 = true;
            break;
        }
        for (int i = 0; strcmp(entry.mnt_type, "cgroup") == 0 && i < CGROUP_HIERARCHIES; i++) {
            if (ret[i][0] == '\0' && has_word(entry.mnt_opts, controllers[i])) {
                (void)snprintf(ret[i], CGROUP_MOUNT_MAX, "%s", entry.mnt_dir);
            }
        }
    }
    (void)endmntent(f);
    for (int i = 0; !*ret_is_v2 && i < CGROUP_BLKIO; i++) {
        if (ret[i][0] == '\0') {
            return error_set(err, STATUS_FAILED_PRECONDITION,
                             "cgroup controller '%s' is neither in cgroup v2 nor mounted as v1: "
                             "boot with it enabled, or mount -t cgroup -o %s none "
                             "/sys/fs/cgroup/%s",
                             controllers[i], controllers[i], controllers[i]);
        }
    }
    return 0;
}
