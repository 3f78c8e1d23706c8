#include "executor/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { FILE_BYTES_MAX = 32768 }; /* it fits the answer to HELLO */

enum kind {
    KIND_TEXT,
    KIND_U32,
    KIND_U64,
    KIND_MIB,
    KIND_BOOL,
    KIND_BACKEND,
    KIND_CIDRS,
    KIND_PORTS
};

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
};

#define KEY(name, kind)                                                                            \
    {                                                                                              \
#name, (kind), offsetof(struct config, name)                                               \
    }

static const struct key keys[] = {
    KEY(state_dir, KIND_TEXT),
    KEY(runtime_dir, KIND_TEXT),
    KEY(launcher_path, KIND_TEXT),
    KEY(tools_dir, KIND_TEXT),
    KEY(build_root, KIND_TEXT),
    KEY(instance, KIND_TEXT),
    KEY(resolv_conf, KIND_TEXT),
    KEY(build_hosts, KIND_TEXT),
    KEY(network_range, KIND_TEXT),
    KEY(quota_backend, KIND_BACKEND),
    {"pool_mebibytes", KIND_MIB, offsetof(struct config, pool_bytes)},
    KEY(gateway_uid, KIND_U32),
    KEY(uid_base, KIND_U32),
    KEY(uid_ranges, KIND_U32),
    KEY(sandboxes_max, KIND_U32),
    KEY(pool_size, KIND_U32),
    KEY(network, KIND_BOOL),
    KEY(trace, KIND_BOOL),
    {"memory_mebibytes_max", KIND_MIB, offsetof(struct config, memory_bytes_max)},
    {"disk_mebibytes_max", KIND_MIB, offsetof(struct config, disk_bytes_max)},
    KEY(inodes_max, KIND_U64),
    KEY(cpu_millicores_max, KIND_U32),
    KEY(pids_max, KIND_U32),
    KEY(capabilities_max, KIND_U64),
    {"build_allow", KIND_CIDRS, 0},
    {"build_loopback_ports", KIND_PORTS, 0},
};

/* What root of a user namespace may have at most unless the config says otherwise: nothing that
 * reaches beyond files and processes of its own. */
#define CAPABILITIES_DEFAULT                                                                       \
    (UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_FOWNER |      \
     UINT64_C(1) << CAP_FSETID | UINT64_C(1) << CAP_KILL | UINT64_C(1) << CAP_SETGID |             \
     UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETPCAP | UINT64_C(1) << CAP_SETFCAP |         \
     UINT64_C(1) << CAP_NET_BIND_SERVICE | UINT64_C(1) << CAP_SYS_CHROOT |                         \
     UINT64_C(1) << CAP_MKNOD | UINT64_C(1) << CAP_AUDIT_WRITE)

static void set_defaults(struct config *c)
{
    *c = (struct config){
        .state_dir = "/var/lib/cordium/executor",
        .runtime_dir = "/run/cordium",
        .launcher_path = "",
        .tools_dir = "",
        .build_root = "/",
        .instance = "cordium",
        .resolv_conf = "/etc/resolv.conf",
        .build_hosts = "",
        .network_range = "",
        .pool_bytes = UINT64_C(64) << 30,
        .gateway_uid = UINT32_MAX,
        .uid_base = 1000000000,
        .uid_ranges = 4096,
        .sandboxes_max = 4000,
        .pool_size = 8,
        .network = true,
        .memory_bytes_max = UINT64_C(16) << 30,
        .disk_bytes_max = UINT64_C(64) << 30,
        .inodes_max = 10000000,
        .cpu_millicores_max = 64000,
        .pids_max = 8192,
        .capabilities_max = CAPABILITIES_DEFAULT,
    };
}

static bool parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || v > max) {
        return false;
    }
    *ret = v;
    return true;
}

static bool parse_backend(const char *text, enum storage_backend_kind *ret)
{
    static const struct {
        const char *name;
        int kind;
    } names[] = {{"auto", 0},
                 {"project", STORAGE_PROJECT_QUOTA},
                 {"btrfs", STORAGE_BTRFS_SIMPLE_QUOTA},
                 {"image", STORAGE_FILE_IMAGE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].name) == 0) {
            *ret = (enum storage_backend_kind)names[i].kind;
            return true;
        }
    }
    return false;
}

/* "10.0.0.0/8 1.2.3.4": items apart by spaces or commas. */
static bool parse_cidrs(char *text, struct config *c)
{
    for (char *item = strsep(&text, " ,"); item; item = strsep(&text, " ,")) {
        if (item[0] == '\0') {
            continue;
        }
        struct in_addr address;
        uint64_t prefix = 32;
        char *slash = strchr(item, '/');
        if (slash) {
            *slash = '\0';
        }
        if (c->build_allow_count >= CONFIG_ALLOW_MAX || inet_pton(AF_INET, item, &address) != 1 ||
            (slash && !parse_u64(slash + 1, 32, &prefix))) {
            return false;
        }
        c->build_allow[c->build_allow_count++] =
            (struct config_cidr){ntohl(address.s_addr), (uint8_t)prefix};
    }
    return true;
}

static bool parse_ports(char *text, struct config *c)
{
    for (char *item = strsep(&text, " ,"); item; item = strsep(&text, " ,")) {
        if (item[0] == '\0') {
            continue;
        }
        uint64_t port;
        if (c->build_loopback_port_count >= CONFIG_PORTS_MAX || !parse_u64(item, 65535, &port) ||
            port == 0) {
            return false;
        }
        c->build_loopback_ports[c->build_loopback_port_count++] = (uint16_t)port;
    }
    return true;
}

static bool set_key(struct config *c, const struct key *key, char *value)
{
    void *at = (char *)c + key->offset;
    uint64_t v;
    switch (key->kind) {
    case KIND_TEXT:
        *(const char **)at = value;
        return true;
    case KIND_U32:
        if (!parse_u64(value, UINT32_MAX, &v)) {
            return false;
        }
        *(uint32_t *)at = (uint32_t)v;
        return true;
    case KIND_U64:
        return parse_u64(value, UINT64_MAX, at);
    case KIND_MIB:
        if (!parse_u64(value, UINT64_MAX >> 20, &v)) {
            return false;
        }
        *(uint64_t *)at = v << 20;
        return true;
    case KIND_BOOL:
        *(bool *)at = strcmp(value, "true") == 0;
        return *(bool *)at || strcmp(value, "false") == 0;
    case KIND_BACKEND:
        return parse_backend(value, at);
    case KIND_CIDRS:
        return parse_cidrs(value, c);
    case KIND_PORTS:
        return parse_ports(value, c);
    default:
        return false;
    }
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) {
        text[--n] = '\0';
    }
    return text;
}

static int parse_line(char *line, unsigned number, const char *name, struct config *c,
                      struct error *err)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: not a line `key = value`", name,
                         number);
    }
    *equals = '\0';
    char *key = trim(line);
    char *value = trim(equals + 1);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i].name, key) == 0) {
            return set_key(c, &keys[i], value)
                       ? 0
                       : error_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: bad value '%s' for '%s'",
                                   name, number, value, key);
        }
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: unknown key '%s'", name, number, key);
}

static int check(const struct config *c, const char *name, struct error *err)
{
    const char *const absolute[] = {c->state_dir, c->runtime_dir, c->build_root};
    for (size_t i = 0; i < sizeof absolute / sizeof *absolute; i++) {
        if (absolute[i][0] != '/' || strlen(absolute[i]) > 2000) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s: '%s' must be an absolute path under 2000 bytes", name,
                             absolute[i]);
        }
    }
    size_t n = strspn(c->instance, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (n == 0 || n > 32 || c->instance[n] != '\0') {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: instance '%s' must be 1 to 32 of a-z, 0-9, '-'", name, c->instance);
    }
    if (c->gateway_uid == UINT32_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: gateway_uid is not set: give the uid that the gateway runs as", name);
    }
    return 0;
}

int config_parse(const char *text, const char *name, struct arena *arena, struct config *ret,
                 struct error *err)
{
    char *copy = arena_strdup(arena, text);
    if (!copy) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the config");
    }
    struct config c;
    set_defaults(&c);
    unsigned number = 0;
    for (char *line = copy; line;) {
        char *end = strchr(line, '\n');
        if (end) {
            *end = '\0';
        }
        int r = parse_line(line, ++number, name, &c, err);
        if (r < 0) {
            return r;
        }
        line = end ? end + 1 : NULL;
    }
    c.text = arena_strdup(arena, text);
    int r = c.text ? check(&c, name, err)
                   : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the config");
    if (r == 0) {
        *ret = c;
    }
    return r;
}

int config_read(const char *path, struct arena *arena, struct config *ret, struct error *err)
{
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd == -1 || fstat(fd, &st) == -1) {
        return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "open config '%s'", path);
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022) != 0) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "config '%s' must be a file that root owns and nobody else can write: "
                         "chown root, chmod go-w",
                         path);
    }
    char *text = arena_alloc(arena, FILE_BYTES_MAX);
    ssize_t n = text ? read(fd, text, FILE_BYTES_MAX - 1) : -1;
    if (n < 0 || n == FILE_BYTES_MAX - 1) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "config '%s' cannot be read or is over %d "
                         "bytes",
                         path, FILE_BYTES_MAX - 2);
    }
    text[n] = '\0';
    return config_parse(text, path, arena, ret, err);
}
