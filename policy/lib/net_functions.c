#include "policy/cel/eval.h"

#include "policy/lib/net.h"

/* The network extension, and Octelium's net.* functions. */

static struct policy_value make_address(struct eval *e, const struct node *n, uint8_t kind,
                                        const struct policy_address *a)
{
    struct policy_value v = {.kind = kind};
    v.as.address = arena_memdup(e->arena, a, sizeof *a);
    return v.as.address ? v : eval_out_of_memory(e, n);
}

int policy_ip_parse(struct str text, struct arena *arena, struct policy_value *ret)
{
    struct policy_address a;
    if (!net_parse_ip(text, &a)) {
        return -STATUS_INVALID_ARGUMENT;
    }
    struct policy_value v = {.kind = POLICY_IP};
    v.as.address = arena_memdup(arena, &a, sizeof a);
    if (!v.as.address) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    *ret = v;
    return 0;
}

static struct policy_value no_address(struct eval *e, const struct node *n, struct policy_value v)
{
    return eval_fail_on(e, n, POLICY_E_CONVERSION, "not an IP address:", v);
}

static struct policy_value no_network(struct eval *e, const struct node *n, struct policy_value v)
{
    return eval_fail_on(e, n, POLICY_E_CONVERSION, "not a network like 10.0.0.0/8:", v);
}

static struct policy_value ip(struct eval *e, const struct node *n, const struct policy_value *args)
{
    struct policy_address a;
    return net_parse_ip(policy_value_str(args[0]), &a) ? make_address(e, n, POLICY_IP, &a)
                                                       : no_address(e, n, args[0]);
}

static struct policy_value cidr(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    struct policy_address a;
    return net_parse_cidr(policy_value_str(args[0]), &a) ? make_address(e, n, POLICY_CIDR, &a)
                                                         : no_network(e, n, args[0]);
}

static struct policy_value is_ip(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    (void)e;
    (void)n;
    struct policy_address a;
    return policy_bool(net_parse_ip(policy_value_str(args[0]), &a));
}

static struct policy_value is_ipv4(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    (void)e;
    (void)n;
    struct policy_address a;
    return policy_bool(net_parse_ip(policy_value_str(args[0]), &a) && a.family == 4);
}

static struct policy_value is_ipv6(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    (void)e;
    (void)n;
    struct policy_address a;
    return policy_bool(net_parse_ip(policy_value_str(args[0]), &a) && a.family == 6);
}

static struct policy_value is_cidr(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    (void)e;
    (void)n;
    struct policy_address a;
    return policy_bool(net_parse_cidr(policy_value_str(args[0]), &a));
}

static struct policy_value is_canonical(struct eval *e, const struct node *n,
                                        const struct policy_value *args)
{
    struct policy_address a;
    char text[NET_TEXT_MAX];
    if (!net_parse_ip(policy_value_str(args[0]), &a)) {
        return no_address(e, n, args[0]);
    }
    struct policy_value v = {.kind = POLICY_IP, .as.address = &a};
    size_t len = net_format(v, text);
    return policy_bool(str_eq(str_make(text, len), policy_value_str(args[0])));
}

static struct policy_value to_string(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    char *text = eval_alloc(e, NET_TEXT_MAX);
    if (!text) {
        return eval_alloc_failed(e, n);
    }
    return eval_take_text(POLICY_STRING, text, net_format(args[0], text));
}

static struct policy_value family(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_int(args[0].as.address->family);
}

static bool all_zero(const struct policy_address *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a->bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool address_is_unspecified(const struct policy_address *a)
{
    return all_zero(a, 16);
}

static bool address_is_loopback(const struct policy_address *a)
{
    return a->family == 4 ? a->bytes[0] == 127 : all_zero(a, 15) && a->bytes[15] == 1;
}

static bool address_is_multicast(const struct policy_address *a)
{
    return a->family == 4 ? (a->bytes[0] & 0xF0) == 0xE0 : a->bytes[0] == 0xFF;
}

static bool address_is_link_local(const struct policy_address *a)
{
    return a->family == 4 ? a->bytes[0] == 169 && a->bytes[1] == 254
                          : a->bytes[0] == 0xFE && (a->bytes[1] & 0xC0) == 0x80;
}

static bool address_is_link_local_multicast(const struct policy_address *a)
{
    return a->family == 4 ? a->bytes[0] == 224 && a->bytes[1] == 0 && a->bytes[2] == 0
                          : a->bytes[0] == 0xFF && (a->bytes[1] & 0x0F) == 2;
}

static bool address_is_global_unicast(const struct policy_address *a)
{
    static const uint8_t broadcast[4] = {255, 255, 255, 255};
    return !(a->family == 4 && memcmp(a->bytes, broadcast, 4) == 0) && !address_is_unspecified(a) &&
           !address_is_loopback(a) && !address_is_multicast(a) && !address_is_link_local(a);
}

#define PREDICATE(name, test)                                                                      \
    static struct policy_value name(struct eval *e, const struct node *n,                          \
                                    const struct policy_value *args)                               \
    {                                                                                              \
        (void)e;                                                                                   \
        (void)n;                                                                                   \
        return policy_bool(test(args[0].as.address));                                              \
    }

PREDICATE(is_unspecified, address_is_unspecified)
PREDICATE(is_loopback, address_is_loopback)
PREDICATE(is_global_unicast, address_is_global_unicast)
PREDICATE(is_link_local_multicast, address_is_link_local_multicast)
PREDICATE(is_link_local_unicast, address_is_link_local)

/* An IP value, or a string that is one; false with *failed. */
static bool as_address(struct eval *e, const struct node *n, struct policy_value v,
                       struct policy_address *ret, struct policy_value *failed)
{
    if (v.kind == POLICY_IP) {
        *ret = *v.as.address;
        return true;
    }
    if (net_parse_ip(policy_value_str(v), ret)) {
        return true;
    }
    *failed = no_address(e, n, v);
    return false;
}

static struct policy_value contains_ip(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    struct policy_address a;
    struct policy_value failed;
    return as_address(e, n, args[1], &a, &failed)
               ? policy_bool(net_contains(args[0].as.address, &a))
               : failed;
}

static struct policy_value contains_cidr(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    struct policy_address other;
    const struct policy_address *network = args[0].as.address;
    if (args[1].kind == POLICY_CIDR) {
        other = *args[1].as.address;
    } else if (!net_parse_cidr(policy_value_str(args[1]), &other)) {
        return no_network(e, n, args[1]);
    }
    return policy_bool(other.prefix >= network->prefix && net_contains(network, &other));
}

static struct policy_value cidr_ip(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct policy_address a = *args[0].as.address;
    a.prefix = a.family == 4 ? 32 : 128;
    return make_address(e, n, POLICY_IP, &a);
}

static struct policy_value masked(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    struct policy_address a = *args[0].as.address;
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = a.prefix > i * 8 ? a.prefix - i * 8 : 0;
        a.bytes[i] = (uint8_t)(a.bytes[i] & (keep >= 8 ? 0xFFU : 0xFF00U >> keep & 0xFF));
    }
    return make_address(e, n, POLICY_CIDR, &a);
}

static struct policy_value prefix_length(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    (void)e;
    (void)n;
    return policy_int(args[0].as.address->prefix);
}

static const struct function_row rows[] = {
    {"ip", 0, "string -> net.IP", ip},
    {"ip", FUNCTION_MEMBER, "net.CIDR -> net.IP", cidr_ip},
    {"isIP", 0, "string -> bool", is_ip},
    {"ip.isCanonical", 0, "string -> bool", is_canonical},
    {"cidr", 0, "string -> net.CIDR", cidr},
    {"isCIDR", 0, "string -> bool", is_cidr},
    {"string", 0, "net.IP -> string", to_string},
    {"string", 0, "net.CIDR -> string", to_string},
    {"family", FUNCTION_MEMBER, "net.IP -> int", family},
    {"isUnspecified", FUNCTION_MEMBER, "net.IP -> bool", is_unspecified},
    {"isLoopback", FUNCTION_MEMBER, "net.IP -> bool", is_loopback},
    {"isGlobalUnicast", FUNCTION_MEMBER, "net.IP -> bool", is_global_unicast},
    {"isLinkLocalMulticast", FUNCTION_MEMBER, "net.IP -> bool", is_link_local_multicast},
    {"isLinkLocalUnicast", FUNCTION_MEMBER, "net.IP -> bool", is_link_local_unicast},
    {"containsIP", FUNCTION_MEMBER, "net.CIDR, net.IP -> bool", contains_ip},
    {"containsIP", FUNCTION_MEMBER, "net.CIDR, string -> bool", contains_ip},
    {"containsCIDR", FUNCTION_MEMBER, "net.CIDR, net.CIDR -> bool", contains_cidr},
    {"containsCIDR", FUNCTION_MEMBER, "net.CIDR, string -> bool", contains_cidr},
    {"masked", FUNCTION_MEMBER, "net.CIDR -> net.CIDR", masked},
    {"prefixLength", FUNCTION_MEMBER, "net.CIDR -> int", prefix_length},
};

const struct function_table functions_network = {POLICY_LIB_NETWORK, rows,
                                                 sizeof rows / sizeof rows[0]};

/* RFC 1918 and fc00::/7 */
static struct policy_value is_private_ip(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    struct policy_address a;
    struct policy_value failed;
    if (!as_address(e, n, args[0], &a, &failed)) {
        return failed;
    }
    if (a.family == 6) {
        return policy_bool((a.bytes[0] & 0xFE) == 0xFC);
    }
    return policy_bool(a.bytes[0] == 10 || (a.bytes[0] == 172 && (a.bytes[1] & 0xF0) == 16) ||
                       (a.bytes[0] == 192 && a.bytes[1] == 168));
}

static struct policy_value is_ip_in_range(struct eval *e, const struct node *n,
                                          const struct policy_value *args)
{
    struct policy_address a;
    struct policy_address network;
    struct policy_value failed;
    if (!as_address(e, n, args[0], &a, &failed)) {
        return failed;
    }
    if (!net_parse_cidr(policy_value_str(args[1]), &network)) {
        return no_network(e, n, args[1]);
    }
    return policy_bool(net_contains(&network, &a));
}

static const struct function_row octelium_rows[] = {
    {"net.isIP", 0, "string -> bool", is_ip},
    {"net.isIPv4", 0, "string -> bool", is_ipv4},
    {"net.isIPv6", 0, "string -> bool", is_ipv6},
    {"net.isPrivateIP", 0, "string -> bool", is_private_ip},
    {"net.isIPInRange", 0, "string, string -> bool", is_ip_in_range},
};

const struct function_table functions_octelium_net = {
    POLICY_LIB_OCTELIUM, octelium_rows, sizeof octelium_rows / sizeof octelium_rows[0]};
