#ifndef EXECUTOR_STEPS_NETWORK_WIRE_H
#define EXECUTOR_STEPS_NETWORK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

/* Interfaces, addresses and routes, by rtnetlink (man 7 rtnetlink). */
struct network_wire;

/* Works on the network namespace that the process is in now. */
int network_wire_open(struct network_wire **ret, struct error *err);
void network_wire_close(struct network_wire *w);

struct network_wire_pair {
    const char *host_name; /* at most IFNAMSIZ - 1 bytes */
    int netns_fd;
    uint32_t gateway; /* host byte order */
    uint32_t sandbox;
    uint8_t prefix_length;
};

/* Makes a veth pair, one end here and the other, eth0, born in the namespace; both up and with
 * their IPv4 address, no IPv6 address; lo up and a default route there. On failure nothing
 * stays behind. *ret_index is the host end's. */
int network_wire_connect(struct network_wire *w, const struct network_wire_pair *pair,
                         int *ret_index, struct error *err);

/* Lets packets to and from 127/8 cross this interface (and no other). */
int network_wire_allow_loopback(struct network_wire *w, int index, struct error *err);

bool network_wire_exists(const char *name);

/* Deletes every interface whose name starts so. Slow (20 ms each): only for leftovers. */
int network_wire_remove_all(struct network_wire *w, const char *name_prefix, struct error *err);

/* Looks for a route of this host, other than the default and those of interfaces whose name
 * starts with skip_prefix, that meets the range. Returns 1 and its text ("10.0.0.0/8 dev tun0")
 * in ret, 0 when there is none, or -status. */
int network_wire_find_route(struct network_wire *w, uint32_t range, uint8_t prefix_length,
                            const char *skip_prefix, char ret[64], struct error *err);

#endif
