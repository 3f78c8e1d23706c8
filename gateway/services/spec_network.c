/* The egress rules and the volume mounts of a spec. */
#include "gateway/services/spec_validation.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/services/spec_check.h"

enum {
    RULES_MAX = 64,
    CIDRS_PER_RULE_MAX = 64,
    PORTS_PER_RULE_MAX = 64,
    MOUNTS_MAX = 16,
    MOUNT_PATH_MAX = 256,
};

/* Digits only, no leading zero, at most max; else -1. */
static int parse_prefix_len(const char *text, int max)
{
    if (!text[0] || strlen(text) > 3 || (text[0] == '0' && text[1])) {
        return -1;
    }
    int value = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9') {
            return -1;
        }
        value = value * 10 + (*c - '0');
    }
    return value <= max ? value : -1;
}

static int check_cidr(const char *cidr, const char *field, struct error *err)
{
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(cidr, '/');
    if (!slash || (size_t)(slash - cidr) >= sizeof(address)) {
        return spec_refuse(err, field, cidr,
                           "is not a CIDR: write ADDRESS/LENGTH, for one address 192.0.2.1/32");
    }
    memcpy(address, cidr, (size_t)(slash - cidr));
    address[slash - cidr] = 0;
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1) {
        return parse_prefix_len(slash + 1, 32) >= 0
                   ? 0
                   : spec_refuse(err, field, cidr, "has a prefix length outside 0 to 32");
    }
    if (inet_pton(AF_INET6, address, &v6) != 1) {
        return spec_refuse(err, field, cidr, "does not begin with an IPv4 or IPv6 address");
    }
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        return spec_refuse(err, field, cidr, "is an IPv4-mapped IPv6 address: write it as IPv4");
    }
    return parse_prefix_len(slash + 1, 128) >= 0
               ? 0
               : spec_refuse(err, field, cidr, "has a prefix length outside 0 to 128");
}

static int check_rule(const Cordium__Workspace__Spec__Runtime__Network__Rule *rule,
                      const char *field, struct error *err)
{
    if (rule->action != CORDIUM__WORKSPACE__SPEC__RUNTIME__NETWORK__RULE__ACTION__ALLOW &&
        rule->action != CORDIUM__WORKSPACE__SPEC__RUNTIME__NETWORK__RULE__ACTION__DENY) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s.action is unset: write ALLOW or DENY",
                         field);
    }
    if (rule->n_cidrs == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.cidrs is empty: write at least one, 0.0.0.0/0 for every IPv4 address",
                         field);
    }
    int status =
        spec_check_count(rule->n_cidrs, CIDRS_PER_RULE_MAX, spec_path("%s.cidrs", field).text, err);
    for (size_t i = 0; !status && i < rule->n_cidrs; i++) {
        status = check_cidr(rule->cidrs[i], spec_path("%s.cidrs[%zu]", field, i).text, err);
    }
    if (!status) {
        status = spec_check_count(rule->n_ports, PORTS_PER_RULE_MAX,
                                  spec_path("%s.ports", field).text, err);
    }
    for (size_t i = 0; !status && i < rule->n_ports; i++) {
        if (rule->ports[i] < 1 || rule->ports[i] > 65535) {
            status =
                error_set(err, STATUS_INVALID_ARGUMENT, "%s.ports[%zu] is %u: 1 to 65535 is needed",
                          field, i, rule->ports[i]);
        }
    }
    return status;
}

int spec_validate_network(const Cordium__Workspace__Spec__Runtime__Network *network,
                          const char *field, struct error *err)
{
    if (!network || !network->egress) {
        return 0;
    }
    const Cordium__Workspace__Spec__Runtime__Network__Egress *egress = network->egress;
    if ((unsigned)egress->default_action >
        CORDIUM__WORKSPACE__SPEC__RUNTIME__NETWORK__EGRESS__DEFAULT_ACTION__DENY) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.egress.defaultAction is %d: write ALLOW_PUBLIC or DENY", field,
                         (int)egress->default_action);
    }
    int status =
        spec_check_count(egress->n_rules, RULES_MAX, spec_path("%s.egress.rules", field).text, err);
    for (size_t i = 0; !status && i < egress->n_rules; i++) {
        status =
            check_rule(egress->rules[i], spec_path("%s.egress.rules[%zu]", field, i).text, err);
    }
    return status;
}

/* Paths that a mount would break, or through which it would reach what is not its own. */
static const char *const reserved_paths[] = {
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/run",
    "/var/tmp",
    "/workspace",
    "/var/lib/containers",
    "/var/lib/docker",
    "/cordium-volumes",
};

/* Nothing may be mounted below these either. */
static const char *const closed_paths[] = {"/dev", "/proc", "/sys", "/cordium-volumes"};

static bool is_below_or_same(const char *path, const char *parent)
{
    size_t n = strlen(parent);
    return strncmp(path, parent, n) == 0 && (path[n] == 0 || path[n] == '/');
}

/* No empty, "." or ".." parts and no slash at the end. */
static bool is_canonical(const char *path)
{
    if (path[0] != '/') {
        return false;
    }
    for (const char *part = path; *part;) {
        part++;
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) {
            return path[1] == 0;
        }
        part += n;
    }
    return true;
}

static int check_mount_path(const char *path, const char *field, struct error *err)
{
    int status = spec_check_ascii(path, MOUNT_PATH_MAX, field, err);
    if (status) {
        return status;
    }
    if (!is_canonical(path)) {
        return spec_refuse(err, field, path,
                           "is not a canonical absolute path: no '.', '..', '//' or final '/'");
    }
    for (size_t i = 0; i < sizeof(reserved_paths) / sizeof(reserved_paths[0]); i++) {
        if (strcmp(path, reserved_paths[i]) == 0) {
            return spec_refuse(err, field, path, "is reserved: choose a folder of your own");
        }
    }
    for (size_t i = 0; i < sizeof(closed_paths) / sizeof(closed_paths[0]); i++) {
        if (is_below_or_same(path, closed_paths[i])) {
            return spec_refuse(err, field, path, "is below a reserved folder");
        }
    }
    return 0;
}

static bool is_same_volume(const Meta__ObjectReference *a, const Meta__ObjectReference *b)
{
    if (a->uid[0] && b->uid[0]) {
        return strcmp(a->uid, b->uid) == 0;
    }
    return a->name[0] && strcmp(a->name, b->name) == 0;
}

int spec_validate_mounts(size_t count, Cordium__Workspace__Spec__Runtime__VolumeMount **mounts,
                         const char *field, struct error *err)
{
    int status = spec_check_count(count, MOUNTS_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        const Meta__ObjectReference *ref = mounts[i]->volume_ref;
        const char *path = mounts[i]->mount_path;
        struct spec_path at = spec_path("%s[%zu].mountPath", field, i);
        if (!ref || (!ref->uid[0] && !ref->name[0])) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s[%zu].volumeRef is unset: give the name or uid of a Volume", field,
                             i);
        }
        status = check_mount_path(path, at.text, err);
        for (size_t j = 0; !status && j < i; j++) {
            if (is_below_or_same(path, mounts[j]->mount_path) ||
                is_below_or_same(mounts[j]->mount_path, path)) {
                status = spec_refuse(err, at.text, path, "overlaps another mount");
            } else if (is_same_volume(ref, mounts[j]->volume_ref)) {
                status = spec_refuse(err, at.text, path, "mounts a Volume that is mounted already");
            }
        }
    }
    return status;
}
