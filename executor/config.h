#ifndef EXECUTOR_CONFIG_H
#define EXECUTOR_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/steps/storage.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The executor's settings: a file of `key = value` lines that only root may write, read once. It
 * is the ceiling for whatever a message asks. cordium-executor(8) lists the keys. */

enum { CONFIG_ALLOW_MAX = 32, CONFIG_PORTS_MAX = 16, CONFIG_RESOLVERS_MAX = 3 };

struct config_cidr {
    uint32_t address; /* host order, IPv4 */
    uint8_t prefix_length;
};

struct config {
    const char *text;          /* the file as it was read; the gateway's audit log keeps its hash */
    const char *state_dir;     /* pool, lock */
    const char *runtime_dir;   /* socket */
    const char *launcher_path; /* cordium-launcher; empty = beside the executor */
    const char *tools_dir;     /* becomes /opt/cordium in every sandbox; empty = none */
    const char *build_root;    /* whose /usr a build sandbox has; "/" = the host's */
    const char *instance;      /* names cgroups, the nftables table and the network range */
    const char *resolv_conf;   /* where sandboxes' resolvers are read from */
    const char *build_hosts;   /* "ADDRESS NAME, ADDRESS NAME": lines of /etc/hosts in builds */
    const char *network_range; /* CIDR; empty = by instance */
    enum storage_backend_kind quota_backend; /* 0 = auto */
    uint64_t pool_bytes;
    uint32_t gateway_uid;
    uint32_t uid_base;
    uint32_t uid_ranges;
    uint32_t sandboxes_max;
    uint32_t pool_size; /* namespaces, cgroups and storages held ready */
    bool network;       /* false: no sandbox has one */
    bool trace;         /* a line per sandbox: where the time of its start went */

    uint64_t memory_bytes_max;
    uint64_t disk_bytes_max;
    uint64_t inodes_max;
    uint32_t cpu_millicores_max;
    uint32_t pids_max;
    uint64_t capabilities_max;

    struct config_cidr build_allow[CONFIG_ALLOW_MAX]; /* what builds may reach; none = public */
    uint32_t build_allow_count;
    uint16_t build_loopback_ports[CONFIG_PORTS_MAX];
    uint32_t build_loopback_port_count;
};

/* Reads and checks the file. Texts live in the arena. INVALID_ARGUMENT names file, line and key;
 * PERMISSION_DENIED when somebody but root can write it. */
int config_read(const char *path, struct arena *arena, struct config *ret, struct error *err);

/* The same for text that is there already. */
int config_parse(const char *text, const char *name, struct arena *arena, struct config *ret,
                 struct error *err);

#endif
