#include "executor/client/encode.h"

#include <netinet/in.h>
#include <string.h>

#include "executor/ipc/message.h"

static int add_network(struct buf *out, const struct executor_network *network, struct error *err)
{
    if (network->rule_count > EXECUTOR_NETWORK_RULES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%zu network rules, over the limit of %d",
                         network->rule_count, EXECUTOR_NETWORK_RULES_MAX);
    }
    for (size_t i = 0; i < network->rule_count; i++) {
        const struct executor_network_rule *rule = &network->rules[i];
        if (rule->cidr_count > EXECUTOR_NETWORK_ITEMS_MAX ||
            rule->port_count > EXECUTOR_NETWORK_ITEMS_MAX) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "network rule %zu has over %d CIDRs or ports", i,
                             EXECUTOR_NETWORK_ITEMS_MAX);
        }
        buf_add_u8(out, rule->allow);
        buf_add_u8(out, 0);
        buf_add_u16(out, (uint16_t)rule->cidr_count);
        buf_add_u16(out, (uint16_t)rule->port_count);
        buf_add_u16(out, 0);
        for (size_t k = 0; k < rule->cidr_count; k++) {
            buf_add_u8(out, rule->cidrs[k].family);
            buf_add_u8(out, rule->cidrs[k].prefix_length);
            buf_add(out, rule->cidrs[k].address, sizeof rule->cidrs[k].address);
        }
        for (size_t k = 0; k < rule->port_count; k++) {
            buf_add_u16(out, rule->ports[k]);
        }
    }
    return 0;
}

int encode_sandbox_spec(struct buf *out, const struct executor_sandbox_spec *spec,
                        struct error *err)
{
    buf_add(out, spec->id.bytes, sizeof spec->id.bytes);
    buf_add_u32(out, (uint32_t)spec->profile);
    buf_add(out, spec->image.bytes, sizeof spec->image.bytes);
    buf_add(out, spec->storage.bytes, sizeof spec->storage.bytes);
    buf_add(out, spec->storage_from.bytes, sizeof spec->storage_from.bytes);
    buf_add_u32(out, (spec->storage_is_ephemeral ? CREATE_FLAG_EPHEMERAL : 0u) |
                         (spec->root_read_only ? CREATE_FLAG_ROOT_READ_ONLY : 0u) |
                         (spec->want_proxy_socket ? CREATE_FLAG_PROXY_SOCKET : 0u));
    buf_add_u64(out, spec->limits.memory_bytes);
    buf_add_u64(out, spec->limits.disk_bytes);
    buf_add_u64(out, spec->limits.inodes);
    buf_add_u64(out, spec->limits.shm_bytes);
    buf_add_u32(out, spec->limits.cpu_millicores);
    buf_add_u32(out, spec->limits.pids);
    buf_add_u32(out, spec->uid);
    buf_add_u32(out, spec->gid);
    buf_add_u64(out, spec->capabilities);
    buf_add_u32(out, (uint32_t)spec->network.mode);
    buf_add_u32(out, spec->network.default_allow_public);
    buf_add_u32(out, (uint32_t)spec->network.rule_count);
    buf_add_counted(out, str_from(spec->home));
    buf_add_counted(out, str_from(spec->hostname));
    int r = add_network(out, &spec->network, err);
    if (r == 0 && out->failed) {
        r = error_set(err, STATUS_INVALID_ARGUMENT, "sandbox spec is too long to send");
    }
    return r;
}

static void add_strings(struct buf *out, const char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_add(out, strings[i], strlen(strings[i]) + 1);
    }
}

int encode_run_spec(struct buf *out, const struct executor_run_spec *spec, struct error *err)
{
    if (spec->argc == 0 || spec->argc > EXECUTOR_ARGS_COUNT_MAX ||
        spec->env_count > EXECUTOR_ARGS_COUNT_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%zu arguments and %zu environment entries; 1 to %d and 0 to %d are "
                         "possible",
                         spec->argc, spec->env_count, EXECUTOR_ARGS_COUNT_MAX,
                         EXECUTOR_ARGS_COUNT_MAX);
    }
    struct buf args;
    buf_init(&args, EXECUTOR_ARGS_BYTES_MAX);
    add_strings(&args, spec->argv, spec->argc);
    add_strings(&args, spec->env, spec->env_count);
    buf_add(out, spec->sandbox.bytes, sizeof spec->sandbox.bytes);
    buf_add_u32(out, spec->flags);
    buf_add_u32(out, spec->uid);
    buf_add_u32(out, spec->gid);
    buf_add_u16(out, spec->columns);
    buf_add_u16(out, spec->rows);
    buf_add_u64(out, spec->memory_bytes);
    buf_add_u32(out, spec->pids);
    buf_add_u32(out, (uint32_t)spec->argc);
    buf_add_u32(out, (uint32_t)spec->env_count);
    buf_add_counted(out, str_from(spec->cwd));
    buf_add_counted(out, buf_str(&args));
    bool failed = args.failed || out->failed;
    buf_free(&args);
    return failed ? error_set(err, STATUS_INVALID_ARGUMENT,
                              "command and environment are over %d bytes", EXECUTOR_ARGS_BYTES_MAX)
                  : 0;
}

bool decode_limits(struct bytes *in, struct executor_limits *ret)
{
    return bytes_read_u64(in, &ret->memory_bytes) && bytes_read_u64(in, &ret->disk_bytes) &&
           bytes_read_u64(in, &ret->inodes) && bytes_read_u32(in, &ret->cpu_millicores) &&
           bytes_read_u32(in, &ret->pids);
}

bool decode_host_report(struct bytes *in, struct executor_host_report *ret)
{
    uint32_t cgroup_mode, quota_backend, has_network;
    struct str release;
    bool ok = bytes_read_u32(in, &ret->version) && bytes_read_u32(in, &cgroup_mode) &&
              bytes_read_u32(in, &quota_backend) && bytes_read_u32(in, &ret->sandboxes_max) &&
              decode_limits(in, &ret->ceiling) && bytes_read_u64(in, &ret->capability_ceiling) &&
              bytes_read_u32(in, &has_network) &&
              bytes_read_str(in, sizeof ret->release - 1, &release) &&
              bytes_read_str(in, bytes_left(in), &ret->config_text);
    if (ok) {
        memcpy(ret->release, release.ptr, release.len);
        ret->release[release.len] = '\0';
        ret->cgroup_mode = (enum executor_cgroup_mode)cgroup_mode;
        ret->quota_backend = (enum executor_quota_backend)quota_backend;
        ret->has_network = has_network != 0;
    }
    return ok;
}

bool decode_run_exit(struct bytes *in, struct executor_run_exit *ret)
{
    struct str sandbox;
    uint32_t stage, error_number, wait_status, flags, reason, zero;
    bool ok = bytes_read_u64(in, &ret->run) && bytes_read_view(in, 16, &sandbox) &&
              bytes_read_u32(in, &stage) && bytes_read_u32(in, &error_number) &&
              bytes_read_u32(in, &wait_status) && bytes_read_u32(in, &flags) &&
              bytes_read_u32(in, &reason) && bytes_read_u32(in, &ret->oom_kills) &&
              bytes_read_u32(in, &ret->sandbox_oom_kills) &&
              bytes_read_u32(in, &ret->pids_denied) && bytes_read_u64(in, &ret->cpu_user_us) &&
              bytes_read_u64(in, &ret->cpu_system_us) &&
              bytes_read_u64(in, &ret->memory_peak_bytes) && bytes_read_u64(in, &ret->wall_ns) &&
              bytes_read_u32(in, &ret->pids_peak) && bytes_read_u32(in, &zero) &&
              bytes_read_u64(in, &ret->io_read_bytes) && bytes_read_u64(in, &ret->io_write_bytes) &&
              bytes_read_u64(in, &ret->io_reads) && bytes_read_u64(in, &ret->io_writes);
    if (ok) {
        memcpy(ret->sandbox.bytes, sandbox.ptr, sizeof ret->sandbox.bytes);
        ret->stage = (enum executor_run_stage)stage;
        ret->error_number = (int)error_number;
        ret->wait_status = (int)wait_status;
        ret->killed_by_us = flags & MESSAGE_RUN_KILLED_BY_US;
        ret->main_was_oom_killed = flags & MESSAGE_RUN_MAIN_OOM_KILLED;
        ret->has_memory_peak = flags & MESSAGE_RUN_HAS_MEMORY_PEAK;
        ret->has_pids_peak = flags & MESSAGE_RUN_HAS_PIDS_PEAK;
        ret->has_io = flags & MESSAGE_RUN_HAS_IO;
        ret->kill_reason = (enum executor_kill_reason)reason;
    }
    return ok;
}

bool decode_stats(struct bytes *in, struct executor_stats *ret)
{
    return bytes_read_u64(in, &ret->memory_bytes) && bytes_read_u64(in, &ret->memory_peak_bytes) &&
           bytes_read_u64(in, &ret->cpu_user_us) && bytes_read_u64(in, &ret->cpu_system_us) &&
           bytes_read_u64(in, &ret->disk_bytes) && bytes_read_u64(in, &ret->disk_limit_bytes) &&
           bytes_read_u64(in, &ret->disk_inodes) && bytes_read_u64(in, &ret->disk_limit_inodes) &&
           bytes_read_u64(in, &ret->oom_kills) && bytes_read_u64(in, &ret->pids_denied) &&
           bytes_read_u32(in, &ret->pids) && bytes_read_u32(in, &ret->runs);
}

static bool decode_denial(struct bytes *in, struct executor_denial *ret)
{
    uint8_t protocol, reason;
    if (!bytes_read_u32(in, &ret->address) || !bytes_read_u16(in, &ret->port) ||
        !bytes_read_u8(in, &protocol) || !bytes_read_u8(in, &reason) ||
        !bytes_read_u64(in, &ret->packets)) {
        return false;
    }
    ret->is_udp = protocol == IPPROTO_UDP;
    ret->reason = (enum executor_denial_reason)reason;
    return (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) &&
           reason >= EXECUTOR_DENIAL_PROTECTED && reason <= EXECUTOR_DENIAL_DEFAULT;
}

bool decode_network_denied(struct bytes *in, struct executor_network_denied *ret)
{
    struct str sandbox;
    uint32_t count, zero;
    if (!bytes_read_view(in, 16, &sandbox) || !bytes_read_u64(in, &ret->others) ||
        !bytes_read_u32(in, &count) || !bytes_read_u32(in, &zero) || count > EXECUTOR_DENIALS_MAX) {
        return false;
    }
    memcpy(ret->sandbox.bytes, sandbox.ptr, sizeof ret->sandbox.bytes);
    ret->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!decode_denial(in, &ret->entries[i])) {
            return false;
        }
    }
    return bytes_left(in) == 0;
}
