#include "executor/steps/network_rules.h"

#include <stdlib.h>

/* cordium-behaviour: "Protected always" and the IANA special-purpose registry (RFC 6890). The
 * host's own addresses need no entry: packets to them meet the input hook, which refuses all. */
static const char PROTECTED[] = "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16";
static const char NON_PUBLIC[] =
    "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.0.0.0/24, 192.0.2.0/24, 192.168.0.0/16, "
    "198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24, 224.0.0.0/4, 240.0.0.0/4";

struct span {
    uint32_t first;
    uint32_t last;
};

static void write_address(struct buf *out, uint32_t a)
{
    buf_printf(out, "%u.%u.%u.%u", a >> 24, (a >> 16) & 255, (a >> 8) & 255, a & 255);
}

static int span_order(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts and joins spans that meet, since nftables refuses a set whose members overlap. */
static size_t spans_join(struct span *spans, size_t count)
{
    size_t kept = 0;

    qsort(spans, count, sizeof(*spans), span_order);
    for (size_t i = 0; i < count; i++) {
        struct span *last = kept > 0 ? &spans[kept - 1] : NULL;
        if (last && (last->last == UINT32_MAX || spans[i].first <= last->last + 1)) {
            last->last = spans[i].last > last->last ? spans[i].last : last->last;
        } else {
            spans[kept++] = spans[i];
        }
    }
    return kept;
}

static struct span cidr_span(const struct network_cidr *c)
{
    uint32_t address = (uint32_t)c->address[0] << 24 | (uint32_t)c->address[1] << 16 |
                       (uint32_t)c->address[2] << 8 | c->address[3];
    uint32_t host_bits = c->prefix_length >= 32 ? 0 : UINT32_MAX >> c->prefix_length;
    return (struct span){address & ~host_bits, address | host_bits};
}

static void write_addresses(struct buf *out, const struct span *spans, size_t count)
{
    buf_add_cstr(out, "{ ");
    for (size_t i = 0; i < count; i++) {
        buf_add_cstr(out, i > 0 ? ", " : "");
        write_address(out, spans[i].first);
        if (spans[i].last != spans[i].first) {
            buf_add_cstr(out, "-");
            write_address(out, spans[i].last);
        }
    }
    buf_add_cstr(out, " }");
}

static void write_ports(struct buf *out, const uint16_t *ports, size_t count)
{
    struct span spans[NETWORK_PORTS_MAX];

    for (size_t i = 0; i < count; i++) {
        spans[i] = (struct span){ports[i], ports[i]};
    }
    count = spans_join(spans, count);
    buf_add_cstr(out, " meta l4proto { tcp, udp } th dport { ");
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s%u-%u", i > 0 ? ", " : "", spans[i].first, spans[i].last);
    }
    buf_add_cstr(out, " }");
}

/* The end of a rule that refuses. The mark lives no longer than the packet: it is how the one chain
 * of all refusals learns why it was entered. */
static void write_refuse(struct buf *out, enum network_denial_reason reason)
{
    buf_printf(out, " meta mark set %u goto note\n", (unsigned)reason);
}

/* `add rule inet TABLE sN`, up to where the matches begin. */
static void write_rule_start(struct buf *out, const struct network_rules_link *l)
{
    buf_printf(out, "add rule inet %s s%u ", l->table, l->slot);
}

static void write_rule(struct buf *out, const struct network_rules_link *l,
                       const struct network_rule *rule)
{
    struct span spans[NETWORK_CIDRS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < rule->cidr_count; i++) {
        if (rule->cidrs[i].family == 4) {
            spans[count++] = cidr_span(&rule->cidrs[i]);
        }
    }
    count = spans_join(spans, count);
    if (count == 0) {
        return; /* IPv6 alone: a sandbox has none */
    }
    write_rule_start(out, l);
    if (count > 1 || spans[0].first != 0 || spans[0].last != UINT32_MAX) {
        buf_add_cstr(out, "ip daddr ");
        write_addresses(out, spans, count);
    }
    if (rule->port_count > 0) {
        write_ports(out, rule->ports, rule->port_count);
    }
    if (rule->action == NETWORK_ACTION_ALLOW) {
        buf_add_cstr(out, " accept\n");
    } else {
        write_refuse(out, NETWORK_DENIAL_RULE);
    }
}

static void write_default(struct buf *out, const struct network_rules_link *l, uint8_t action)
{
    if (action == NETWORK_ACTION_ALLOW_PUBLIC) {
        write_rule_start(out, l);
        buf_add_cstr(out, "meta l4proto { tcp, udp } th dport 53 ip daddr @resolvers accept\n");
        write_rule_start(out, l);
        buf_add_cstr(out, "ip daddr @non_public");
        write_refuse(out, NETWORK_DENIAL_NON_PUBLIC);
    }
    write_rule_start(out, l);
    if (action == NETWORK_ACTION_DENY) {
        write_refuse(out, NETWORK_DENIAL_DEFAULT);
    } else {
        buf_add_cstr(out, "accept\n");
    }
}

static void write_sets(struct buf *out, const struct network_rules_table *t)
{
    buf_printf(out,
               "add set inet %s protected { type ipv4_addr; flags interval; auto-merge; "
               "elements = { %s } }\n",
               t->table, PROTECTED);
    buf_printf(out,
               "add set inet %s non_public { type ipv4_addr; flags interval; auto-merge; "
               "elements = { %s } }\n",
               t->table, NON_PUBLIC);
    buf_printf(out, "add element inet %s protected { ", t->table);
    write_address(out, t->range);
    buf_printf(out, "/%u }\n", t->range_prefix_length);
    buf_printf(out, "add set inet %s resolvers { type ipv4_addr; }\n", t->table);
    for (size_t i = 0; i < t->resolver_count; i++) {
        buf_printf(out, "add element inet %s resolvers { ", t->table);
        write_address(out, t->resolvers[i]);
        buf_add_cstr(out, " }\n");
    }
    buf_printf(out, "add map inet %s sandboxes { type ifname : verdict; }\n", t->table);
    buf_printf(out, "add set inet %s loopback { type ifname . inet_service; }\n", t->table);
}

static void write_rejects(struct buf *out, const char *table, const char *chain)
{
    buf_printf(out, "add rule inet %s %s meta l4proto tcp reject with tcp reset\n", table, chain);
    buf_printf(out, "add rule inet %s %s reject with icmpx admin-prohibited\n", table, chain);
}

/* Of what is refused, the destinations are noted by the sandbox's interface: one that is noted
 * already is counted; for another there must be room, for that sandbox and at all; the other
 * packets are counted. Who is done clears the mark. A set's counter and limit go by each element of
 * its own, and an update that finds no room, or a limit that is reached, ends the rule. One
 * sandbox's destinations crowd out another's only when hundreds have theirs full at once.
 *
 * One chain without branches: the kernel walks it anew for each rule that leads here, at each
 * change. See network_denials.h for the way out. */
static void write_notes(struct buf *out, const char *table)
{
    static const char destination[] = "meta iif . ip daddr . meta l4proto . th dport . meta mark";

    buf_printf(out, "add set inet %s ported { type inet_proto; elements = { tcp, udp } }\n", table);
    buf_printf(out,
               "add set inet %s " NETWORK_SET_NOTED
               " { type iface_index . ipv4_addr . inet_proto . "
               "inet_service . mark; size %d; flags dynamic; counter; }\n",
               table, NETWORK_NOTED_MAX);
    buf_printf(out,
               "add set inet %s " NETWORK_SET_OTHERS
               " { type iface_index; size %d; flags dynamic; counter; }\n",
               table, NETWORK_SLOTS_MAX);
    /* A limit that only emptying the set gives back. */
    buf_printf(out,
               "add set inet %s " NETWORK_SET_ROOM " { type iface_index; size %d; flags dynamic; "
               "limit rate 1/week burst %d packets; }\n",
               table, NETWORK_SLOTS_MAX, NETWORK_DENIALS_MAX);
    buf_printf(out, "add counter inet %s " NETWORK_COUNTER_REFUSED "\n", table);
    buf_printf(out, "add chain inet %s note\n", table);
    buf_printf(out, "add rule inet %s note counter name \"" NETWORK_COUNTER_REFUSED "\"\n", table);
    buf_printf(out,
               "add rule inet %s note meta l4proto @ported %s @" NETWORK_SET_NOTED
               " meta mark set 0\n",
               table, destination);
    buf_printf(out,
               "add rule inet %s note meta mark != 0 meta l4proto @ported update @" NETWORK_SET_ROOM
               " { meta iif } update @" NETWORK_SET_NOTED " { %s } meta mark set 0\n",
               table, destination);
    buf_printf(out,
               "add rule inet %s note meta mark != 0 update @" NETWORK_SET_OTHERS
               " { meta iif } meta mark set 0\n",
               table);
    write_rejects(out, table, "note");
}

static void write_refusals(struct buf *out, const char *table)
{
    buf_printf(out, "add chain inet %s refuse\n", table);
    write_rejects(out, table, "refuse");
}

/* Where packets of a sandbox pass, from early to late. Loopback addresses are dropped before
 * the address translation, since route_localnet (on the interface of a build) would let
 * them in; an address that was translated to the loopback is let in by its state. */
static void write_hooks(struct buf *out, const struct network_rules_table *t)
{
    const char *table = t->table;
    const char *prefix = t->prefix;

    buf_printf(out, "add chain inet %s early { type filter hook prerouting priority raw; }\n",
               table);
    buf_printf(out, "add rule inet %s early iifname \"%s*\" ip daddr 127.0.0.0/8 drop\n", table,
               prefix);
    buf_printf(out, "add chain inet %s translate { type nat hook prerouting priority dstnat; }\n",
               table);
    buf_printf(out, "add rule inet %s translate iifname . tcp dport @loopback ip daddr ", table);
    write_address(out, t->service);
    buf_add_cstr(out, " dnat ip to 127.0.0.1\n");

    buf_printf(out, "add chain inet %s input { type filter hook input priority filter; }\n", table);
    buf_printf(out,
               "add rule inet %s input ip daddr 127.0.0.1 iifname . tcp dport @loopback "
               "ct status dnat accept\n",
               table);
    buf_printf(out, "add rule inet %s input iifname \"%s*\"", table, prefix);
    write_refuse(out, NETWORK_DENIAL_PROTECTED);

    buf_printf(out, "add chain inet %s output { type filter hook output priority filter; }\n",
               table);
    buf_printf(out, "add rule inet %s output oifname \"%s*\" ct state new goto refuse\n", table,
               prefix);

    buf_printf(out, "add chain inet %s forward { type filter hook forward priority filter; }\n",
               table);
    buf_printf(out,
               "add rule inet %s forward oifname \"%s*\" ct state established,related accept\n",
               table, prefix);
    buf_printf(out, "add rule inet %s forward oifname \"%s*\" iifname \"%s*\"", table, prefix,
               prefix);
    write_refuse(out, NETWORK_DENIAL_PROTECTED);
    buf_printf(out, "add rule inet %s forward oifname \"%s*\" goto refuse\n", table, prefix);
    buf_printf(out, "add rule inet %s forward iifname vmap @sandboxes\n", table);
    buf_printf(out, "add rule inet %s forward iifname \"%s*\" goto refuse\n", table, prefix);

    buf_printf(out, "add chain inet %s leave { type nat hook postrouting priority srcnat; }\n",
               table);
    buf_printf(out, "add rule inet %s leave ip saddr ", table);
    write_address(out, t->range);
    buf_printf(out, "/%u oifname != \"cord*\" oifname != \"lo\" masquerade\n",
               t->range_prefix_length);
}

void network_rules_write_table(struct buf *out, const struct network_rules_table *t)
{
    /* `add` makes `delete` succeed when there is none. */
    buf_printf(out, "add table inet %s\ndelete table inet %s\nadd table inet %s\n", t->table,
               t->table, t->table);
    write_sets(out, t);
    write_refusals(out, t->table);
    write_notes(out, t->table);
    write_hooks(out, t);
}

void network_rules_write_no_forwarding(struct buf *out, const char *table)
{
    /* Interfaces of another instance are its own matter. */
    buf_printf(out, "add chain inet %s %s\n", table, NETWORK_FORWARDING_MARK);
    buf_printf(out, "add rule inet %s forward iifname != \"cord*\" oifname != \"cord*\" drop\n",
               table);
}

void network_rules_write_count_probe(struct buf *out, const char *table)
{
    buf_printf(out,
               "add chain inet %s probe\nadd rule inet %s probe ct count over %d drop\n"
               "delete chain inet %s probe\n",
               table, table, NETWORK_CONNECTIONS_MAX, table);
}

void network_rules_write_link(struct buf *out, const struct network_rules_link *l,
                              const struct network_policy *policy)
{
    static const uint8_t ORDER[] = {NETWORK_ACTION_DENY, NETWORK_ACTION_ALLOW};

    buf_printf(out, "add chain inet %s s%u\n", l->table, l->slot);
    write_rule_start(out, l);
    buf_add_cstr(out, "ip saddr != ");
    write_address(out, l->sandbox);
    buf_add_cstr(out, " drop\n");
    write_rule_start(out, l);
    buf_add_cstr(out, "meta nfproto ipv6");
    write_refuse(out, NETWORK_DENIAL_PROTECTED);
    write_rule_start(out, l);
    buf_add_cstr(out, "ct state established,related accept\n");
    write_rule_start(out, l);
    buf_add_cstr(out, "ip daddr @protected");
    write_refuse(out, NETWORK_DENIAL_PROTECTED);
    if (l->counts_connections) {
        /* The kernel's table of connections is the host's and everybody's. */
        write_rule_start(out, l);
        buf_printf(out, "ct count over %d", NETWORK_CONNECTIONS_MAX);
        write_refuse(out, NETWORK_DENIAL_CONNECTIONS);
    }
    for (size_t k = 0; k < sizeof(ORDER); k++) {
        for (size_t i = 0; i < policy->rule_count; i++) {
            if (policy->rules[i].action == ORDER[k]) {
                write_rule(out, l, &policy->rules[i]);
            }
        }
    }
    write_default(out, l, policy->default_action);
    buf_printf(out, "add element inet %s sandboxes { \"%s\" : goto s%u }\n", l->table, l->interface,
               l->slot);
    for (size_t i = 0; i < policy->loopback_port_count; i++) {
        buf_printf(out, "add element inet %s loopback { \"%s\" . %u }\n", l->table, l->interface,
                   policy->loopback_ports[i]);
    }
}

void network_rules_write_unlink(struct buf *out, const struct network_rules_link *l,
                                const uint16_t *loopback_ports, size_t loopback_port_count)
{
    for (size_t i = 0; i < loopback_port_count; i++) {
        buf_printf(out, "delete element inet %s loopback { \"%s\" . %u }\n", l->table, l->interface,
                   loopback_ports[i]);
    }
    buf_printf(out, "delete element inet %s sandboxes { \"%s\" }\n", l->table, l->interface);
    buf_printf(out, "flush chain inet %s s%u\ndelete chain inet %s s%u\n", l->table, l->slot,
               l->table, l->slot);
}
