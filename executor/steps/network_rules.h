#ifndef EXECUTOR_STEPS_NETWORK_RULES_H
#define EXECUTOR_STEPS_NETWORK_RULES_H

#include "executor/steps/network.h"
#include "policy/base/bytes.h"

/* The text of nftables commands. Everything that varies is a number or a name made here or by
 * network.c, never text from a request. */

enum { NETWORK_NAME_MAX = 16 /* IFNAMSIZ */ };

struct network_rules_table {
    const char *table;  /* "cordium-demo" */
    const char *prefix; /* of our interfaces' names: "cord1a2b-" */
    uint32_t range;
    uint8_t range_prefix_length;
    uint32_t service;
    const uint32_t *resolvers;
    size_t resolver_count;
};

struct network_rules_link {
    const char *table;
    const char *interface; /* of the host */
    unsigned slot;
    uint32_t sandbox;
    bool counts_connections;
};

enum {
    NETWORK_CONNECTIONS_MAX = 4096,
    NETWORK_NOTED_MAX = 16384, /* refused destinations that the kernel holds, of all sandboxes */
};

/* Sets of our table: refused destinations with their counters, counters of other packets by
 * interface, and how many destinations an interface may still have noted; and the counter of all
 * refused packets. */
#define NETWORK_SET_NOTED "noted"
#define NETWORK_SET_OTHERS "others"
#define NETWORK_SET_ROOM "room"
#define NETWORK_COUNTER_REFUSED "refused"

/* A chain of this name in our table says that ip_forward was off before we came. */
#define NETWORK_FORWARDING_MARK "forwarding-was-off"

/* The table from nothing; replaces one of the same name in one transaction. */
void network_rules_write_table(struct buf *out, const struct network_rules_table *t);

/* For a host whose ip_forward was off: leaves the mark, and lets nothing but sandboxes' packets
 * be forwarded. */
void network_rules_write_no_forwarding(struct buf *out, const char *table);

/* Adds and deletes a rule that counts connections: fails where the kernel cannot. */
void network_rules_write_count_probe(struct buf *out, const char *table);

/* One sandbox's chain, and its way in. The policy was checked. */
void network_rules_write_link(struct buf *out, const struct network_rules_link *l,
                              const struct network_policy *policy);

/* Takes back what network_rules_write_link() added for the same policy. */
void network_rules_write_unlink(struct buf *out, const struct network_rules_link *l,
                                const uint16_t *loopback_ports, size_t loopback_port_count);

#endif
