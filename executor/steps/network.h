#ifndef EXECUTOR_STEPS_NETWORK_H
#define EXECUTOR_STEPS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"

/* The network of a sandbox that may reach something: a veth pair whose inner end is born in
 * the sandbox's network namespace, one nftables table of our own on the host, masquerading.
 * A sandbox that may reach nothing needs none of this: an empty network namespace with its
 * loopback up (see network_policy_needs_link()).
 *
 * What of the host changes: a table `inet cordium-INSTANCE`, interfaces `cordHASH-N`, and
 * net.ipv4.ip_forward when it was off; then a rule of ours keeps everything that is not a
 * sandbox's from being forwarded, as before, and network_close() (or the network_open() after
 * a crash, when closed) puts the old value back.
 *
 * A sandbox has IPv4 only. Its inner end has no IPv6 address, not even a link-local one, so
 * that IPv6 fails at once with ENETUNREACH. IPv6 entries of a rule are checked, and match nothing.
 *
 * Addresses are in host byte order. Not for use by two threads at a time. */

enum {
    NETWORK_RULES_MAX = 128, /* a template's 64 and a workspace's 64 */
    NETWORK_CIDRS_MAX = 64,  /* in one rule */
    NETWORK_PORTS_MAX = 64,  /* in one rule */
    NETWORK_LOOPBACK_PORTS_MAX = 16,
    NETWORK_RESOLVERS_MAX = 3,
    NETWORK_SLOTS_MAX = 16384, /* sandboxes with a link at a time: a /16 in quarters */
    NETWORK_INSTANCE_MAX = 32, /* bytes of the instance's name */
    NETWORK_DENIALS_MAX = 64,  /* destinations that are noted, of one link at a time */
};

enum network_mode {
    NETWORK_MODE_NONE = 0,
    NETWORK_MODE_RULES = 1,
};

enum network_action {
    NETWORK_ACTION_DENY = 1,
    NETWORK_ACTION_ALLOW = 2,
    NETWORK_ACTION_ALLOW_PUBLIC = 3, /* only as a default: all but the non-public ranges */
};

struct network_cidr {
    uint8_t family;        /* 4 or 6 */
    uint8_t prefix_length; /* 0-32 or 0-128; bits past it are ignored */
    uint8_t address[16];   /* network order; the first 4 bytes for IPv4 */
};

/* Matches a packet to one of cidrs and, when there are ports, to one of them by TCP or UDP. */
struct network_rule {
    uint8_t action; /* NETWORK_ACTION_DENY or NETWORK_ACTION_ALLOW */
    const struct network_cidr *cidrs;
    size_t cidr_count; /* 1-NETWORK_CIDRS_MAX */
    const uint16_t *ports;
    size_t port_count; /* 0 means every port and protocol */
};

/* Decided in this order, whatever the rules' order: protected ranges (the host, other
 * sandboxes, link-local, loopback) are refused; a DENY that matches refuses; an ALLOW that
 * matches accepts; else the default. Refusals are told at once: TCP reset, or ICMP
 * "administratively prohibited". */
struct network_policy {
    uint8_t mode;           /* enum network_mode */
    uint8_t default_action; /* NETWORK_ACTION_DENY, _ALLOW_PUBLIC, or _ALLOW (all but protected) */
    const struct network_rule *rules;
    size_t rule_count;

    /* TCP ports of the host's 127.0.0.1 that the sandbox reaches under the same numbers at
     * network_service_address(). For builds (a registry on the host's loopback), by the
     * host's configuration only; never from a request. */
    const uint16_t *loopback_ports;
    size_t loopback_port_count;
};

struct network_config {
    const char *instance; /* [a-z0-9-]{1,NETWORK_INSTANCE_MAX}; one per executor on this machine */
    uint32_t range; /* private IPv4 range cut into one /30 per sandbox; 0 = by instance's name */
    uint8_t range_prefix_length; /* 8-28 */

    /* Resolvers that sandboxes are given. Under ALLOW_PUBLIC their port 53 is reachable even
     * when they are in a non-public range; under DENY they need a rule as any other address. */
    uint32_t resolvers[NETWORK_RESOLVERS_MAX];
    size_t resolver_count;
};

struct network;
struct network_link;

/* Removes what an earlier run of this instance left (table, interfaces, ip_forward), then makes
 * the table. network_close() frees *ret; it must outlive every link.
 *
 *   -STATUS_INVALID_ARGUMENT     the configuration is wrong
 *   -STATUS_FAILED_PRECONDITION  the range is in use on this host, or the kernel or our rights
 *                                lack something: the text names it and the remedy */
int network_open(const struct network_config *config, struct network **ret, struct error *err);

/* Removes the table and puts ip_forward back. Interfaces go with their namespaces. NULL is fine. */
void network_close(struct network *net);

/* The address at which loopback_ports are reached; the same for every sandbox. */
uint32_t network_service_address(const struct network *net);

/* False when nothing at all could pass: then an empty namespace does, and costs less. */
bool network_policy_needs_link(const struct network_policy *policy);

/* -STATUS_INVALID_ARGUMENT, naming the rule, when a count, action, prefix or port is out of
 * range, or an address is an IPv4-mapped IPv6 one. network_apply() does this itself. */
int network_policy_check(const struct network_policy *policy, struct error *err);

/* First half of network_attach(), for a pool of namespaces wired in advance: makes the pair,
 * with eth0 in the namespace up, addressed, and the default route; lo is brought up too. Until
 * network_apply() every packet is refused. The namespace must be owned by the initial user
 * namespace, and be empty. netns_fd stays the caller's and may be closed afterwards.
 *
 *   -STATUS_RESOURCE_EXHAUSTED  no free /30 in the range
 *   -STATUS_INTERNAL            the kernel refused a step, named in the text */
int network_prepare(struct network *net, int netns_fd, struct network_link **ret,
                    struct error *err);

/* Second half: puts the rules in force. Once per link. */
int network_apply(struct network_link *link, const struct network_policy *policy,
                  struct error *err);

/* Both at once. */
int network_attach(struct network *net, int netns_fd, const struct network_policy *policy,
                   struct network_link **ret, struct error *err);

/* Takes the rules away (whatever still runs behind the link is refused everything from then on) and
 * frees the handle. The interface itself dies with the namespace, in the background; its
 * addresses are given out again only after that. NULL is fine. */
void network_release(struct network_link *link);

/* Why a packet was refused. The numbers travel to the gateway. */
enum network_denial_reason {
    NETWORK_DENIAL_PROTECTED = 1,   /* the host, another sandbox, link-local, loopback */
    NETWORK_DENIAL_CONNECTIONS = 2, /* too many connections at once */
    NETWORK_DENIAL_RULE = 3,        /* a DENY rule */
    NETWORK_DENIAL_NON_PUBLIC = 4,  /* by the default ALLOW_PUBLIC */
    NETWORK_DENIAL_DEFAULT = 5,     /* by the default DENY */
};

struct network_denial {
    uint32_t address;
    uint16_t port;
    uint8_t protocol; /* IPPROTO_TCP or IPPROTO_UDP */
    uint8_t reason;   /* enum network_denial_reason */
    uint64_t packets;
};

/* What was refused to a link since it was last taken. */
struct network_denials {
    uint64_t others; /* packets beyond the destinations below: no room, or another protocol */
    size_t count;
    struct network_denial entries[NETWORK_DENIALS_MAX];
};

/* Moves what the kernel noted, of all links, to the links. The kernel holds NETWORK_DENIALS_MAX
 * destinations of each since the last call. No destination gets lost; a packet to one that is just
 * being read may go uncounted.
 *
 *   -STATUS_INTERNAL            the kernel's answer cannot be read, or it refused
 *   -STATUS_RESOURCE_EXHAUSTED  no memory */
int network_collect_denials(struct network *net, struct error *err);

/* Gives what was collected of a link and forgets it. False when there is nothing. */
bool network_take_denials(struct network_link *link, struct network_denials *ret);

struct network_link_addresses {
    uint32_t sandbox;
    uint32_t gateway;
    uint8_t prefix_length;
};

struct network_link_addresses network_link_addresses(const struct network_link *link);

/* Reads `nameserver` lines of a resolv.conf: IPv4 addresses outside 127/8 (a sandbox cannot
 * reach the host's loopback). Returns how many were found, at most NETWORK_RESOLVERS_MAX; 0 also
 * when the file cannot be read. */
size_t network_read_resolvers(const char *path, uint32_t ret[NETWORK_RESOLVERS_MAX]);

#endif
