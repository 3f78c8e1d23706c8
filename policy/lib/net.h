#ifndef LIB_NET_H
#define LIB_NET_H

#include "policy/cel/value.h"

enum { NET_TEXT_MAX = 64 };

/* Strict text forms: no zones, no leading zeros, no dotted IPv4 inside IPv6. An IPv4-mapped
 * IPv6 address counts as its IPv4 address. */
bool net_parse_ip(struct str s, struct policy_address *ret);

/* "address/prefix"; bits beyond the prefix may be set. */
bool net_parse_cidr(struct str s, struct policy_address *ret);

/* Canonical text (RFC 5952) of an IP or CIDR value; returns the length. */
size_t net_format(struct policy_value v, char out[NET_TEXT_MAX]);

/* Is the address inside the network? Never across families. */
bool net_contains(const struct policy_address *network, const struct policy_address *address);

#endif
