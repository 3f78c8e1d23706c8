#include "gateway/services/isolation.h"

#include <assert.h>
#include <string.h>

#include "gateway/executor_link.h"
#include "gateway/gateway.h"

#define SOURCE(name) EXT__RUN_RESULT__SOURCE__##name

static const char *network_text(const struct executor_network *network, struct arena *arena)
{
    if (network->mode == EXECUTOR_NETWORK_NONE) {
        return "loopback only";
    }
    return arena_printf(
        arena, "%zu rules, then %s; the host and protected ranges are never reached",
        network->rule_count, network->default_allow_public ? "public addresses" : "nothing");
}

static const char *quota_text(const struct executor_host_report *host)
{
    switch (host ? host->quota_backend : (enum executor_quota_backend)0) {
    case EXECUTOR_QUOTA_PROJECT:
        return "project quota";
    case EXECUTOR_QUOTA_BTRFS_SIMPLE:
        return "btrfs quota";
    case EXECUTOR_QUOTA_IMAGE:
        return "a file system of its own";
    }
    return "";
}

size_t isolation_list(const struct workspace_run *run, const struct executor_sandbox_spec *sandbox,
                      struct isolation_layer out[ISOLATION_LAYERS_MAX], struct arena *arena)
{
    const struct executor_host_report *host = executor_link_host(run->gateway->executor);
    const Cordium__Workspace__Spec__Runtime *runtime = run->spec->runtime;
    const char *groups = host && host->cgroup_mode == EXECUTOR_CGROUP_V2
                             ? "version 2: memory without swap, pids, cpu"
                             : "version 1: memory without swap, pids, cpu";
    const struct isolation_layer layers[] = {
        {"user namespace", "a range of host ids of its own, entered last; none nested",
         SOURCE(DEFAULT)},
        {"namespaces", "pid, mount, net, ipc, uts, cgroup", SOURCE(DEFAULT)},
        {"no_new_privs", "set-uid programs give nothing", SOURCE(DEFAULT)},
        {"capabilities",
         arena_printf(arena, "0x%llx for uid 0 inside, as far as the host's ceiling allows",
                      (unsigned long long)sandbox->capabilities),
         sandbox->capabilities ? SOURCE(TEMPLATE) : SOURCE(DEFAULT)},
        {"seccomp", "allow list of system calls, one architecture", SOURCE(DEFAULT)},
        {"root file system", sandbox->root_read_only ? "read-only" : "writes stay in the sandbox",
         runtime && runtime->filesystem ? SOURCE(TEMPLATE) : SOURCE(DEFAULT)},
        {"network", network_text(&sandbox->network, arena),
         runtime && runtime->network ? SOURCE(TEMPLATE) : SOURCE(DEFAULT)},
        {"cgroups", groups, SOURCE(HOST)},
        {"disk quota", quota_text(host), SOURCE(HOST)},
    };
    /* And one more, which is a Run's own. */
    static_assert(sizeof layers / sizeof layers[0] < ISOLATION_LAYERS_MAX, "the caller's array");
    memcpy(out, layers, sizeof layers);
    return sizeof layers / sizeof layers[0];
}
