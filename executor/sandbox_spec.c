#include "executor/sandbox_spec.h"

#include <string.h>

#include "policy/base/bytes.h"

enum {
    FLAG_EPHEMERAL = 1,
    FLAG_ROOT_READ_ONLY = 2,
    FLAG_PROXY_SOCKET = 4,
    FLAGS_KNOWN = 7,
    ID_MAX = 65533, /* 65534 is nobody, and the last of a range stays free */
    MEMORY_BYTES_MIN = 4 << 20,
    DISK_BYTES_MIN = 1 << 20,
    INODES_MIN = 32, /* a storage has some directories of its own */
    SHM_BYTES_MIN = 65536,
    CPU_MILLICORES_MIN = 10,
    PIDS_MIN = 4,
    RUN_MEMORY_BYTES_MIN = 1 << 20,
    TERMINAL_SIDE_MAX = 4096,
};

static int bad(struct error *err, const char *field, const char *why)
{
    return error_set(err, STATUS_INVALID_ARGUMENT, "executor request: %s %s", field, why);
}

static bool read_bytes(struct bytes *in, void *ret, size_t n)
{
    struct str view;
    if (!bytes_read_view(in, n, &view)) {
        return false;
    }
    memcpy(ret, view.ptr, n);
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Absolute, and nothing in it that path resolution would have to interpret. */
static bool path_is_plain(struct str path)
{
    if (path.len < 2 || path.len >= EXECUTOR_PATH_MAX || path.ptr[0] != '/' || str_has_nul(path)) {
        return false;
    }
    size_t start = 1;
    for (size_t i = 1; i <= path.len; i++) {
        if (i < path.len && path.ptr[i] != '/') {
            continue;
        }
        struct str part = str_make(path.ptr + start, i - start);
        if (part.len == 0 || part.len > 255 || str_is(part, ".") || str_is(part, "..")) {
            return false;
        }
        start = i + 1;
    }
    return true;
}

/* A home must not lie where the sandbox has mounts of its own. */
static bool home_is_possible(struct str home)
{
    static const char *const taken[] = {"/proc",      "/dev", "/sys", "/run",
                                        "/tmp",       "/var", "/etc", "/opt/cordium",
                                        "/workspace", "/usr", "/bin", "/lib"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct str t = str_from(taken[i]);
        if (str_starts_with(home, t) && (home.len == t.len || home.ptr[t.len] == '/')) {
            return false;
        }
    }
    return true;
}

static bool hostname_is_label(struct str s)
{
    if (s.len == 0 || s.len > EXECUTOR_HOSTNAME_MAX || s.ptr[0] == '-' || s.ptr[s.len - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-')) {
            return false;
        }
    }
    return true;
}

static int check_range(struct error *err, const char *name, uint64_t value, uint64_t min,
                       uint64_t max)
{
    if (value < min || value > max) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "executor request: %s is %llu, but this executor allows %llu to %llu",
                         name, (unsigned long long)value, (unsigned long long)min,
                         (unsigned long long)max);
    }
    return 0;
}

static int check_limits(const struct executor_limits *l, const struct config *c, struct error *err)
{
    int r =
        check_range(err, "memory_bytes", l->memory_bytes, MEMORY_BYTES_MIN, c->memory_bytes_max);
    r = r < 0 ? r
              : check_range(err, "disk_bytes", l->disk_bytes, DISK_BYTES_MIN, c->disk_bytes_max);
    r = r < 0 || l->inodes == 0 ? r
                                : check_range(err, "inodes", l->inodes, INODES_MIN, c->inodes_max);
    r = r < 0 || l->shm_bytes == 0
            ? r
            : check_range(err, "shm_bytes", l->shm_bytes, SHM_BYTES_MIN, l->memory_bytes);
    r = r < 0 ? r
              : check_range(err, "cpu_millicores", l->cpu_millicores, CPU_MILLICORES_MIN,
                            c->cpu_millicores_max);
    return r < 0 ? r : check_range(err, "pids", l->pids, PIDS_MIN, c->pids_max);
}

static int read_rule(struct bytes *in, struct arena *arena, struct network_rule *ret,
                     struct error *err)
{
    uint8_t allow, zero;
    uint16_t cidr_count, port_count, zero2;
    if (!bytes_read_u8(in, &allow) || !bytes_read_u8(in, &zero) ||
        !bytes_read_u16(in, &cidr_count) || !bytes_read_u16(in, &port_count) ||
        !bytes_read_u16(in, &zero2) || allow > 1 || zero != 0 || zero2 != 0 || cidr_count == 0 ||
        cidr_count > NETWORK_CIDRS_MAX || port_count > NETWORK_PORTS_MAX) {
        return bad(err, "network rule", "is ill-formed");
    }
    struct network_cidr *cidrs = arena_calloc(arena, cidr_count, sizeof *cidrs);
    uint16_t *ports = arena_calloc(arena, port_count, sizeof *ports);
    if (!cidrs || !ports) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for network rules");
    }
    for (uint16_t i = 0; i < cidr_count; i++) {
        if (!bytes_read_u8(in, &cidrs[i].family) || !bytes_read_u8(in, &cidrs[i].prefix_length) ||
            !read_bytes(in, cidrs[i].address, sizeof cidrs[i].address)) {
            return bad(err, "network rule", "is cut");
        }
    }
    for (uint16_t i = 0; i < port_count; i++) {
        if (!bytes_read_u16(in, &ports[i])) {
            return bad(err, "network rule", "is cut");
        }
    }
    *ret = (struct network_rule){
        .action = allow ? NETWORK_ACTION_ALLOW : NETWORK_ACTION_DENY,
        .cidrs = cidrs,
        .cidr_count = cidr_count,
        .ports = ports,
        .port_count = port_count,
    };
    return 0;
}

struct network_head {
    uint32_t mode;
    uint32_t default_allow_public;
    uint32_t rule_count;
};

static int read_network(struct bytes *in, const struct network_head *head,
                        const struct config *config, struct arena *arena, struct sandbox_spec *s,
                        struct error *err)
{
    if (head->mode > EXECUTOR_NETWORK_BUILD || head->default_allow_public > 1 ||
        head->rule_count > NETWORK_RULES_MAX ||
        (head->mode != EXECUTOR_NETWORK_RULES && head->rule_count > 0)) {
        return bad(err, "network", "has an unknown mode, default or too many rules");
    }
    if (head->mode == EXECUTOR_NETWORK_BUILD && !s->is_build) {
        return bad(err, "network mode BUILD", "is for builds only");
    }
    if (head->mode != EXECUTOR_NETWORK_NONE && !config->network) {
        return bad(err, "network", "was switched off in the executor's config");
    }
    s->has_network = head->mode != EXECUTOR_NETWORK_NONE;
    s->is_build_network = head->mode == EXECUTOR_NETWORK_BUILD;
    struct network_rule *rules = arena_calloc(arena, head->rule_count, sizeof *rules);
    if (!rules) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for network rules");
    }
    for (uint32_t i = 0; i < head->rule_count; i++) {
        int r = read_rule(in, arena, &rules[i], err);
        if (r < 0) {
            return r;
        }
    }
    s->network = (struct network_policy){
        .mode = s->has_network ? NETWORK_MODE_RULES : NETWORK_MODE_NONE,
        .default_action =
            head->default_allow_public ? NETWORK_ACTION_ALLOW_PUBLIC : NETWORK_ACTION_DENY,
        .rules = rules,
        .rule_count = head->rule_count,
    };
    return network_policy_check(&s->network, err);
}

static int check_identity(struct sandbox_spec *s, const struct config *config, struct str home,
                          struct str hostname, struct arena *arena, struct error *err)
{
    if (is_zero(s->id.bytes, sizeof s->id.bytes) ||
        is_zero(s->storage.bytes, sizeof s->storage.bytes)) {
        return bad(err, "sandbox or storage id", "is all zero");
    }
    if (!s->is_build && is_zero(s->image.bytes, sizeof s->image.bytes)) {
        return bad(err, "image", "is all zero");
    }
    int r = check_range(err, "uid", s->uid, s->is_build ? 0 : 1, ID_MAX);
    r = r < 0 ? r : check_range(err, "gid", s->gid, 0, ID_MAX);
    if (r < 0) {
        return r;
    }
    if (!s->is_build && (!path_is_plain(home) || !home_is_possible(home))) {
        return bad(err, "home",
                   "must be an absolute path, without '.' or '..', outside of system "
                   "directories");
    }
    if (hostname.len == 0) {
        hostname = STR("cordium");
    }
    if (!hostname_is_label(hostname)) {
        return bad(err, "hostname", "must be a label of letters, digits and '-'");
    }
    s->capabilities &= config->capabilities_max;
    s->home = s->is_build ? "/build/home" : arena_strndup(arena, home.ptr, home.len);
    s->hostname = arena_strndup(arena, hostname.ptr, hostname.len);
    return s->home && s->hostname
               ? 0
               : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a sandbox spec");
}

int sandbox_spec_parse(const uint8_t *body, size_t size, const struct config *config,
                       struct arena *arena, struct sandbox_spec *ret, struct error *err)
{
    struct bytes in = bytes_over(body, size);
    struct sandbox_spec s = {0};
    struct network_head network = {0};
    struct str home, hostname;
    uint32_t profile, flags;
    if (!read_bytes(&in, s.id.bytes, 16) || !bytes_read_u32(&in, &profile) ||
        !read_bytes(&in, s.image.bytes, 32) || !read_bytes(&in, s.storage.bytes, 16) ||
        !read_bytes(&in, s.storage_from.bytes, 16) || !bytes_read_u32(&in, &flags) ||
        !bytes_read_u64(&in, &s.limits.memory_bytes) ||
        !bytes_read_u64(&in, &s.limits.disk_bytes) || !bytes_read_u64(&in, &s.limits.inodes) ||
        !bytes_read_u64(&in, &s.limits.shm_bytes) ||
        !bytes_read_u32(&in, &s.limits.cpu_millicores) || !bytes_read_u32(&in, &s.limits.pids) ||
        !bytes_read_u32(&in, &s.uid) || !bytes_read_u32(&in, &s.gid) ||
        !bytes_read_u64(&in, &s.capabilities) || !bytes_read_u32(&in, &network.mode) ||
        !bytes_read_u32(&in, &network.default_allow_public) ||
        !bytes_read_u32(&in, &network.rule_count) ||
        !bytes_read_str(&in, EXECUTOR_PATH_MAX, &home) ||
        !bytes_read_str(&in, EXECUTOR_HOSTNAME_MAX, &hostname)) {
        return bad(err, "sandbox spec", "is cut");
    }
    if (profile != EXECUTOR_PROFILE_WORKSPACE && profile != EXECUTOR_PROFILE_BUILD) {
        return bad(err, "profile", "is unknown");
    }
    if ((flags & ~(uint32_t)FLAGS_KNOWN) != 0) {
        return bad(err, "flags", "are unknown");
    }
    s.is_build = profile == EXECUTOR_PROFILE_BUILD;
    s.is_ephemeral = flags & FLAG_EPHEMERAL;
    s.root_read_only = flags & FLAG_ROOT_READ_ONLY;
    s.want_proxy_socket = flags & FLAG_PROXY_SOCKET;
    int r = check_identity(&s, config, home, hostname, arena, err);
    r = r < 0 ? r : check_limits(&s.limits, config, err);
    r = r < 0 ? r : read_network(&in, &network, config, arena, &s, err);
    if (r == 0 && bytes_left(&in) != 0) {
        r = bad(err, "sandbox spec", "has bytes after its end");
    }
    if (r == 0) {
        *ret = s;
    }
    return r;
}

/* Exactly `count` strings, the last of which ends the text. */
static bool args_are_complete(struct str args, uint64_t count)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < args.len;) {
        const char *end = memchr(args.ptr + i, 0, args.len - i);
        if (!end) {
            return false;
        }
        seen++;
        i = (size_t)(end - args.ptr) + 1;
    }
    return seen == count;
}

static int check_run(const struct run_spec *s, struct str cwd, struct error *err)
{
    if ((s->flags & ~(uint32_t)(EXECUTOR_RUN_TTY | EXECUTOR_RUN_KILL_TREE_ON_EXIT)) != 0) {
        return bad(err, "run flags", "are unknown");
    }
    int r = check_range(err, "uid", s->uid, 0, ID_MAX);
    r = r < 0 ? r : check_range(err, "gid", s->gid, 0, ID_MAX);
    r = r < 0 ? r : check_range(err, "columns", s->columns, 0, TERMINAL_SIDE_MAX);
    r = r < 0 ? r : check_range(err, "rows", s->rows, 0, TERMINAL_SIDE_MAX);
    r = r < 0 ? r : check_range(err, "argc", s->argc, 1, EXECUTOR_ARGS_COUNT_MAX);
    r = r < 0 ? r : check_range(err, "env_count", s->env_count, 0, EXECUTOR_ARGS_COUNT_MAX);
    if (r == 0 && s->memory_bytes != 0) {
        r = check_range(err, "memory_bytes", s->memory_bytes, RUN_MEMORY_BYTES_MIN, UINT64_MAX);
    }
    if (r < 0) {
        return r;
    }
    if (cwd.len > 0 && (cwd.ptr[0] != '/' || cwd.len >= EXECUTOR_PATH_MAX || str_has_nul(cwd))) {
        return bad(err, "cwd", "must be an absolute path");
    }
    if (!args_are_complete(s->args, (uint64_t)s->argc + s->env_count)) {
        return bad(err, "arguments", "are not as many as announced");
    }
    return 0;
}

int run_spec_parse(const uint8_t *body, size_t size, const struct config *config,
                   struct arena *arena, struct run_spec *ret, struct error *err)
{
    struct bytes in = bytes_over(body, size);
    struct run_spec s = {0};
    struct str cwd;
    (void)config;
    if (!read_bytes(&in, s.sandbox.bytes, 16) || !bytes_read_u32(&in, &s.flags) ||
        !bytes_read_u32(&in, &s.uid) || !bytes_read_u32(&in, &s.gid) ||
        !bytes_read_u16(&in, &s.columns) || !bytes_read_u16(&in, &s.rows) ||
        !bytes_read_u64(&in, &s.memory_bytes) || !bytes_read_u32(&in, &s.pids) ||
        !bytes_read_u32(&in, &s.argc) || !bytes_read_u32(&in, &s.env_count) ||
        !bytes_read_str(&in, EXECUTOR_PATH_MAX, &cwd) ||
        !bytes_read_str(&in, EXECUTOR_ARGS_BYTES_MAX, &s.args) || bytes_left(&in) != 0) {
        return bad(err, "run spec", "is cut or too long");
    }
    int r = check_run(&s, cwd, err);
    if (r < 0) {
        return r;
    }
    s.cwd = arena_strndup(arena, cwd.ptr, cwd.len);
    if (!s.cwd) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a run spec");
    }
    *ret = s;
    return 0;
}
