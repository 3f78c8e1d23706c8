#include "executor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/self_test.h"
#include "executor/steps/cgroup_mounts.h"

enum { JSON_BYTES_MAX = 1 << 20 };

/* A PROBLEM is worth a look, but the trial start decides whether it matters here. */
enum finding { FINE, NOTE, PROBLEM };

static void line(struct doctor *d, enum finding finding, const char *what, const char *text)
{
    static const char *const words[] = {"ok", "note", "PROBLEM"};
    static const char *const states[] = {"ok", "note", "problem"};
    if (!d->is_json) {
        (void)fprintf(d->to, "%-8s %-16s %s\n", words[finding], what, text);
        return;
    }
    json_begin_object(&d->json);
    json_member_string(&d->json, "state", states[finding]);
    json_member_string(&d->json, "subject", what);
    json_member_string(&d->json, "text", text);
    json_end_object(&d->json);
}

void doctor_begin(struct doctor *d, FILE *to, bool is_json)
{
    d->to = to;
    d->is_json = is_json;
    buf_init(&d->text, JSON_BYTES_MAX);
    d->json = json_out_to(&d->text);
    if (is_json) {
        json_begin_object(&d->json);
        json_key(&d->json, "findings");
        json_begin_array(&d->json);
    }
}

void doctor_end(struct doctor *d)
{
    if (d->is_json) {
        json_end_array(&d->json);
        json_end_object(&d->json);
        (void)fprintf(d->to, "%.*s\n", STR_ARG(buf_str(&d->text)));
    }
    buf_free(&d->text);
}

static bool read_line(const char *path, char *ret, size_t size)
{
    if (fd_read_file(AT_FDCWD, path, ret, size) < 0) {
        return false;
    }
    ret[strcspn(ret, "\n")] = '\0';
    return true;
}

static void print_kernel(struct doctor *d)
{
    enum { MAJOR_MIN = 5, MINOR_MIN = 19 }; /* overlay on idmapped layers */
    struct utsname name;
    char text[256];
    unsigned major = 0, minor = 0;
    if (uname(&name) == -1 || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
        line(d, PROBLEM, "kernel", "its version cannot be read");
        return;
    }
    bool is_new = major > MAJOR_MIN || (major == MAJOR_MIN && minor >= MINOR_MIN);
    (void)snprintf(text, sizeof text, "%.80s %.80s %.40s%s", name.sysname, name.release,
                   name.machine, is_new ? "" : ": needs 5.19 or newer");
    line(d, is_new && strcmp(name.machine, "x86_64") == 0 ? FINE : PROBLEM, "kernel", text);
}

static void print_user_namespaces(struct doctor *d)
{
    char max[32] = "", text[256];
    if (!read_line("/proc/sys/user/max_user_namespaces", max, sizeof max)) {
        line(d, PROBLEM, "user namespaces", "this kernel has none (CONFIG_USER_NS)");
        return;
    }
    bool is_off = strcmp(max, "0") == 0;
    (void)snprintf(text, sizeof text, "user.max_user_namespaces is %s%s", max,
                   is_off ? ": sysctl -w user.max_user_namespaces=65536" : "");
    line(d, is_off ? PROBLEM : FINE, "user namespaces", text);
    char value[8];
    if (read_line("/proc/sys/kernel/unprivileged_userns_clone", value, sizeof value) &&
        value[0] == '0') {
        line(d, NOTE, "user namespaces", "unprivileged ones are off: no matter, root makes ours");
    }
}

static void print_security_modules(struct doctor *d)
{
    char text[256];
    if (read_line("/sys/kernel/security/lsm", text, sizeof text)) {
        line(d, FINE, "security modules", text);
    } else {
        line(d, NOTE, "security modules", "unknown: securityfs is not mounted");
    }
    char value[8];
    if (read_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", value, sizeof value)) {
        line(d, NOTE, "AppArmor",
             value[0] == '0'
                 ? "does not restrict user namespaces"
                 : "restricts unprivileged user namespaces: no matter, root makes ours");
    }
}

static void print_cgroups(struct doctor *d)
{
    char mounts[CGROUP_HIERARCHIES][CGROUP_MOUNT_MAX];
    bool is_v2;
    struct error err;
    char text[1200];
    if (cgroup_mounts_find("/proc/self/mounts", mounts, &is_v2, &err) < 0) {
        line(d, PROBLEM, "cgroups", err.text);
        return;
    }
    if (is_v2) {
        (void)snprintf(text, sizeof text, "v2 at %s", mounts[0]);
    } else {
        (void)snprintf(text, sizeof text, "v1: memory at %s, pids at %s, cpu at %s",
                       mounts[CGROUP_MEMORY], mounts[CGROUP_PIDS], mounts[CGROUP_CPU]);
    }
    line(d, FINE, "cgroups", text);
}

static const char *file_system_name(long type)
{
    static const struct {
        long type;
        const char *name;
    } names[] = {{0xEF53, "ext4"},          {0x58465342, "xfs"},     {0x9123683E, "btrfs"},
                 {0x01021994, "tmpfs"},     {0x794C7630, "overlay"}, {0x2FC12FC1, "zfs"},
                 {0x6969, "a network disk"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].type == type) {
            return names[i].name;
        }
    }
    return "another file system";
}

static void print_state(struct doctor *d, const struct config *config)
{
    struct statfs fs;
    char text[2400], path[2048];
    (void)snprintf(path, sizeof path, "%s", config->state_dir);
    /* It need not exist yet: the nearest parent tells where it will be. */
    while (statfs(path, &fs) == -1 && strrchr(path, '/') != path) {
        *strrchr(path, '/') = '\0';
    }
    if (statfs(strrchr(path, '/') == path && access(path, F_OK) == -1 ? "/" : path, &fs) == -1) {
        line(d, PROBLEM, "state_dir", strerror(errno));
        return;
    }
    unsigned long long free_mib = (unsigned long long)fs.f_bavail * (unsigned long long)fs.f_bsize;
    (void)snprintf(text, sizeof text, "%s is on %s with %llu MiB free", config->state_dir,
                   file_system_name((long)fs.f_type), free_mib >> 20);
    line(d, FINE, "state_dir", text);
}

static void print_loop_devices(struct doctor *d)
{
    if (access("/dev/loop-control", F_OK) == 0) {
        line(d, FINE, "loop devices", "/dev/loop-control");
    } else {
        line(d, PROBLEM, "loop devices",
             "no /dev/loop-control (modprobe loop): disk limits then need project quota");
    }
}

static bool has_program(const char *name)
{
    static const char *const places[] = {"/usr/sbin", "/usr/bin", "/sbin", "/bin"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s/%s", places[i], name);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void print_programs(struct doctor *d)
{
    static const char *const programs[][2] = {
        {"mkfs.btrfs", "mkfs.btrfs is missing (apt install btrfs-progs): no btrfs pool"},
        {"mkfs.ext4", "mkfs.ext4 is missing (apt install e2fsprogs): no ext4 images"}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        bool is_there = has_program(programs[i][0]);
        line(d, is_there ? FINE : NOTE, "programs", programs[i][is_there ? 0 : 1]);
    }
}

/* Host ids that somebody else gives out too would make a stranger the owner of a sandbox's process.
 */
static bool find_overlap(const char *path, uint64_t first, uint64_t end, char *ret, size_t size)
{
    char row[512];
    FILE *f = fopen(path, "re");
    bool found = false;
    while (f && !found && fgets(row, sizeof row, f)) {
        char owner[64];
        unsigned long long begin, count;
        found = sscanf(row, "%63[^:]:%llu:%llu", owner, &begin, &count) == 3 && begin < end &&
                begin + count > first;
        if (found) {
            (void)snprintf(ret, size, "%s gives %s ids from %llu to %llu: choose another uid_base",
                           path, owner, begin, begin + count - 1);
        }
    }
    if (f) {
        (void)fclose(f);
    }
    return found;
}

static void print_ids(struct doctor *d, const struct config *config)
{
    char text[256];
    uint64_t first = config->uid_base;
    uint64_t end = first + (uint64_t)config->uid_ranges * NS_IDS_PER_RANGE;
    if (find_overlap("/etc/subuid", first, end, text, sizeof text) ||
        find_overlap("/etc/subgid", first, end, text, sizeof text)) {
        line(d, PROBLEM, "ids", text);
    } else {
        (void)snprintf(text, sizeof text, "%u ranges, host ids %llu to %llu", config->uid_ranges,
                       (unsigned long long)first, (unsigned long long)end - 1);
        line(d, FINE, "ids", text);
    }
    const struct passwd *user = getpwuid(config->gateway_uid);
    (void)snprintf(text, sizeof text, "uid %u (%s)", config->gateway_uid,
                   user ? user->pw_name : "no name in passwd");
    line(d, config->gateway_uid == 0 ? NOTE : FINE, "gateway", text);
}

static void print_network(struct doctor *d, const struct config *config)
{
    char forward[8] = "?";
    if (!config->network) {
        line(d, NOTE, "network", "off by the config (network = false)");
        return;
    }
    (void)read_line("/proc/sys/net/ipv4/ip_forward", forward, sizeof forward);
    line(d, FINE, "network",
         forward[0] == '1' ? "the host forwards IPv4 already"
                           : "the host does not forward IPv4: turned on while serving, for "
                             "sandboxes alone");
}

void doctor_print_host(struct doctor *d, const struct config *config)
{
    print_kernel(d);
    print_user_namespaces(d);
    print_security_modules(d);
    print_cgroups(d);
    print_loop_devices(d);
    print_programs(d);
    if (config) {
        print_state(d, config);
        print_ids(d, config);
        print_network(d, config);
    }
}

void doctor_print_choices(struct doctor *d, const struct executor *ex)
{
    char text[ERROR_TEXT_MAX + 128];
    const char *rejected = storage_host_rejected(ex->storages);
    line(d, FINE, "cgroup limits", cgroup_host_is_v2(ex->cgroups) ? "v2" : "v1");
    (void)snprintf(text, sizeof text, "%s (%s%s)", storage_host_backend_name(ex->storages),
                   rejected[0]                      ? "not "
                   : ex->config->quota_backend != 0 ? "as the config asks"
                                                    : "the best there is",
                   rejected);
    line(d, FINE, "disk limits", text);
    line(d, FINE, "nftables", ex->network ? "table and rules are taken" : "not used");
    line(d, FINE, "trial start", "a sandbox was attacked and each layer held: it can serve");
}

void doctor_print_layers(struct doctor *d, const struct executor *ex)
{
    for (enum self_test_layer i = 0; i < SELF_TEST_LAYERS; i++) {
        static const struct {
            enum finding finding;
            const char *text;
        } outcomes[] = {
            [SELF_TEST_UNKNOWN] = {NOTE, " was not reached"},
            [SELF_TEST_HELD] = {FINE, ""},
            [SELF_TEST_BROKEN] = {PROBLEM, " does not hold: "},
            [SELF_TEST_ABSENT] =
                {NOTE,
                 " is not here (CONFIG_SECURITY_LANDLOCK, landlock in lsm=, Linux 5.19): a second "
                 "belt, the others hold without it"},
        };
        const struct self_test_finding *layer = &ex->layers[i];
        bool is_broken = layer->outcome == SELF_TEST_BROKEN;
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s%s%s%s", self_test_layer_title(i),
                       outcomes[layer->outcome].text, layer->text, is_broken ? ": " : "",
                       is_broken ? self_test_layer_remedy(i) : "");
        line(d, outcomes[layer->outcome].finding, "layer", text);
    }
}

void doctor_print_config_error(struct doctor *d, const struct error *err)
{
    line(d, geteuid() == 0 ? PROBLEM : NOTE, "config", err->text);
}

void doctor_print_no_trial(struct doctor *d)
{
    line(d, NOTE, "trial start", "not tried: only root can; whether it could serve is not known");
}

void doctor_print_refusal(struct doctor *d, const struct error *err)
{
    line(d, PROBLEM, "trial start", err->text);
}
