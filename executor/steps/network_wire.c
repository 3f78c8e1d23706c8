#include "executor/steps/network_wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel fills dumps in pieces of up to 32 KiB. */
enum { MESSAGE_MAX = 32768, FOUND_MAX = 256 };

struct network_wire {
    struct mnl_socket *socket;
    unsigned sequence;
    int netns_fd;
};

struct message {
    union {
        char bytes[MESSAGE_MAX];
        struct nlmsghdr align;
    } room;
    struct nlmsghdr *header;
};

static void message_start(struct message *m, uint16_t type, uint16_t flags)
{
    memset(&m->room, 0, sizeof(m->room));
    m->header = mnl_nlmsg_put_header(m->room.bytes);
    m->header->nlmsg_type = type;
    m->header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
}

/* Sends one message and runs each on what comes back until the end or the acknowledgement.
 * Returns 0 or a negative errno; it is reused as the buffer of the answers. */
static int message_exchange(struct mnl_socket *socket, unsigned sequence, struct message *m,
                            mnl_cb_t each, void *data)
{
    m->header->nlmsg_seq = sequence;
    if (mnl_socket_sendto(socket, m->header, m->header->nlmsg_len) == -1) {
        return -errno;
    }
    unsigned port = mnl_socket_get_portid(socket);
    for (;;) {
        ssize_t n = mnl_socket_recvfrom(socket, m->room.bytes, sizeof(m->room.bytes));
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n == -1) {
            return -errno;
        }
        int r = mnl_cb_run(m->room.bytes, (size_t)n, sequence, port, each, data);
        if (r == -1) {
            return -errno;
        }
        if (r == MNL_CB_STOP) {
            return 0;
        }
    }
}

static int socket_open(struct mnl_socket **ret)
{
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!socket) {
        return -errno;
    }
    if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) == -1) {
        int error_number = errno;
        mnl_socket_close(socket);
        return -error_number;
    }
    *ret = socket;
    return 0;
}

int network_wire_open(struct network_wire **ret, struct error *err)
{
    struct network_wire *w = calloc(1, sizeof(*w));
    if (!w) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the network's state");
    }
    w->netns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int r = w->netns_fd == -1 ? -errno : socket_open(&w->socket);
    if (r < 0) {
        network_wire_close(w);
        return error_set_errno(err, STATUS_INTERNAL, -r, "open a rtnetlink socket");
    }
    *ret = w;
    return 0;
}

void network_wire_close(struct network_wire *w)
{
    if (!w) {
        return;
    }
    if (w->socket) {
        mnl_socket_close(w->socket);
    }
    if (w->netns_fd != -1) {
        close(w->netns_fd);
    }
    free(w);
}

static int exchange(struct network_wire *w, struct message *m)
{
    return message_exchange(w->socket, ++w->sequence, m, NULL, NULL);
}

static struct ifinfomsg *put_interface(struct message *m, int index)
{
    struct ifinfomsg *info = mnl_nlmsg_put_extra_header(m->header, sizeof(*info));
    info->ifi_family = AF_UNSPEC;
    info->ifi_index = index;
    return info;
}

static int create_pair(struct network_wire *w, const struct network_wire_pair *pair)
{
    struct message m;

    message_start(&m, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    put_interface(&m, 0);
    mnl_attr_put_strz(m.header, IFLA_IFNAME, pair->host_name);
    struct nlattr *link = mnl_attr_nest_start(m.header, IFLA_LINKINFO);
    mnl_attr_put_strz(m.header, IFLA_INFO_KIND, "veth");
    struct nlattr *data = mnl_attr_nest_start(m.header, IFLA_INFO_DATA);
    struct nlattr *peer = mnl_attr_nest_start(m.header, VETH_INFO_PEER);
    put_interface(&m, 0);
    mnl_attr_put_strz(m.header, IFLA_IFNAME, "eth0");
    mnl_attr_put_u32(m.header, IFLA_NET_NS_FD, (uint32_t)pair->netns_fd);
    mnl_attr_nest_end(m.header, peer);
    mnl_attr_nest_end(m.header, data);
    mnl_attr_nest_end(m.header, link);
    return exchange(w, &m);
}

static int interface_up(struct network_wire *w, int index)
{
    struct message m;

    message_start(&m, RTM_NEWLINK, NLM_F_ACK);
    struct ifinfomsg *info = put_interface(&m, index);
    info->ifi_flags = IFF_UP;
    info->ifi_change = IFF_UP;
    return exchange(w, &m);
}

/* Before the interface comes up; a kernel without IPv6 has nothing to turn off. */
static int interface_without_ipv6_address(struct network_wire *w, int index)
{
    struct message m;

    message_start(&m, RTM_NEWLINK, NLM_F_ACK);
    put_interface(&m, index);
    struct nlattr *families = mnl_attr_nest_start(m.header, IFLA_AF_SPEC);
    struct nlattr *inet6 = mnl_attr_nest_start(m.header, AF_INET6);
    mnl_attr_put_u8(m.header, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    mnl_attr_nest_end(m.header, inet6);
    mnl_attr_nest_end(m.header, families);
    int r = exchange(w, &m);
    return r == -EAFNOSUPPORT || r == -EOPNOTSUPP ? 0 : r;
}

static int interface_address(struct network_wire *w, int index, uint32_t address,
                             uint8_t prefix_length)
{
    struct message m;

    message_start(&m, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    struct ifaddrmsg *info = mnl_nlmsg_put_extra_header(m.header, sizeof(*info));
    info->ifa_family = AF_INET;
    info->ifa_prefixlen = prefix_length;
    info->ifa_index = (uint32_t)index;
    mnl_attr_put_u32(m.header, IFA_LOCAL, htonl(address));
    mnl_attr_put_u32(m.header, IFA_ADDRESS, htonl(address));
    return exchange(w, &m);
}

static int default_route(struct network_wire *w, uint32_t gateway)
{
    struct message m;

    message_start(&m, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    struct rtmsg *info = mnl_nlmsg_put_extra_header(m.header, sizeof(*info));
    info->rtm_family = AF_INET;
    info->rtm_table = RT_TABLE_MAIN;
    info->rtm_protocol = RTPROT_BOOT;
    info->rtm_scope = RT_SCOPE_UNIVERSE;
    info->rtm_type = RTN_UNICAST;
    mnl_attr_put_u32(m.header, RTA_GATEWAY, htonl(gateway));
    return exchange(w, &m);
}

static int interface_configure(struct network_wire *w, const char *name, uint32_t address,
                               uint8_t prefix_length, int *ret_index)
{
    int index = (int)if_nametoindex(name);
    if (index == 0) {
        return -errno;
    }
    int r = interface_without_ipv6_address(w, index);
    if (r == 0) {
        r = interface_address(w, index, address, prefix_length);
    }
    if (r == 0) {
        r = interface_up(w, index);
    }
    *ret_index = index;
    return r;
}

/* The inner end. Runs inside the sandbox's namespace, where this single-threaded process
 * stands for the length of the call. */
static int configure_inside(const struct network_wire_pair *pair)
{
    struct network_wire inner = {.netns_fd = -1};
    int index;

    int r = socket_open(&inner.socket);
    if (r < 0) {
        return r;
    }
    r = interface_up(&inner, 1); /* lo is the first interface of every namespace */
    if (r == 0) {
        r = interface_configure(&inner, "eth0", pair->sandbox, pair->prefix_length, &index);
    }
    if (r == 0) {
        r = default_route(&inner, pair->gateway);
    }
    mnl_socket_close(inner.socket);
    return r;
}

static int enter_and_configure(struct network_wire *w, const struct network_wire_pair *pair)
{
    if (setns(pair->netns_fd, CLONE_NEWNET) == -1) {
        return -errno;
    }
    int r = configure_inside(pair);
    if (setns(w->netns_fd, CLONE_NEWNET) == -1) {
        abort(); /* every later step would work on the sandbox's namespace */
    }
    return r;
}

static int delete_interface(struct network_wire *w, int index)
{
    struct message m;

    message_start(&m, RTM_DELLINK, NLM_F_ACK);
    put_interface(&m, index);
    return exchange(w, &m);
}

/* Has the kernel take note now that the link is up. Otherwise it does so some time later, in the
 * background, and until then drops what this end sends: the answer to the sandbox's first ARP
 * request, which the sandbox repeats only after a second. */
static int interface_settle(const char *name)
{
    struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_data = (char *)&link};

    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -errno;
    }
    int r = ioctl(fd, SIOCETHTOOL, &request) == -1 ? -errno : 0;
    close(fd);
    return r;
}

int network_wire_connect(struct network_wire *w, const struct network_wire_pair *pair,
                         int *ret_index, struct error *err)
{
    const char *step = "create the veth pair";
    int index = 0;

    int r = create_pair(w, pair);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "network '%s': %s", pair->host_name, step);
    }
    step = "set up the host's end";
    r = interface_configure(w, pair->host_name, pair->gateway, pair->prefix_length, &index);
    if (r == 0) {
        step = "set up the sandbox's end";
        r = enter_and_configure(w, pair);
    }
    if (r == 0) {
        step = "read the link's state";
        r = interface_settle(pair->host_name);
    }
    if (r < 0) {
        if (index != 0) {
            (void)delete_interface(w, index); /* it may be gone with its other end */
        }
        return error_set_errno(err, STATUS_INTERNAL, -r, "network '%s': %s", pair->host_name, step);
    }
    *ret_index = index;
    return 0;
}

int network_wire_allow_loopback(struct network_wire *w, int index, struct error *err)
{
    struct message m;

    message_start(&m, RTM_NEWLINK, NLM_F_ACK);
    put_interface(&m, index);
    struct nlattr *families = mnl_attr_nest_start(m.header, IFLA_AF_SPEC);
    struct nlattr *inet = mnl_attr_nest_start(m.header, AF_INET);
    struct nlattr *settings = mnl_attr_nest_start(m.header, IFLA_INET_CONF);
    mnl_attr_put_u32(m.header, IPV4_DEVCONF_ROUTE_LOCALNET, 1);
    mnl_attr_nest_end(m.header, settings);
    mnl_attr_nest_end(m.header, inet);
    mnl_attr_nest_end(m.header, families);
    int r = exchange(w, &m);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "set route_localnet on interface %d",
                               index);
    }
    return 0;
}

bool network_wire_exists(const char *name)
{
    return if_nametoindex(name) != 0;
}

/* Attributes of one message by their type; higher types are passed over. */
struct attributes {
    const struct nlattr *of[32]; /* IFLA_IFNAME, RTA_DST and RTA_OIF are below */
};

static int attribute_keep(const struct nlattr *a, void *data)
{
    struct attributes *kept = data;
    if (mnl_attr_get_type(a) < 32) {
        kept->of[mnl_attr_get_type(a)] = a;
    }
    return MNL_CB_OK;
}

struct found_interfaces {
    const char *prefix;
    int indexes[FOUND_MAX];
    size_t count;
};

static int collect_interface(const struct nlmsghdr *header, void *data)
{
    struct found_interfaces *found = data;
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(header);
    struct attributes kept = {0};

    (void)mnl_attr_parse(header, sizeof(*info), attribute_keep, &kept);
    const struct nlattr *name = kept.of[IFLA_IFNAME];
    if (name && found->count < FOUND_MAX &&
        strncmp(mnl_attr_get_str(name), found->prefix, strlen(found->prefix)) == 0) {
        found->indexes[found->count++] = info->ifi_index;
    }
    return MNL_CB_OK;
}

int network_wire_remove_all(struct network_wire *w, const char *name_prefix, struct error *err)
{
    struct found_interfaces found = {.prefix = name_prefix};

    do {
        struct message m;

        message_start(&m, RTM_GETLINK, NLM_F_DUMP);
        put_interface(&m, 0);
        found.count = 0;
        int r = message_exchange(w->socket, ++w->sequence, &m, collect_interface, &found);
        if (r < 0) {
            return error_set_errno(err, STATUS_INTERNAL, -r, "list interfaces");
        }
        for (size_t i = 0; i < found.count; i++) {
            r = delete_interface(w, found.indexes[i]);
            if (r < 0 && r != -ENODEV) {
                return error_set_errno(err, STATUS_INTERNAL, -r,
                                       "delete a leftover interface '%s...'", name_prefix);
            }
        }
    } while (found.count == FOUND_MAX); /* the list was full: there may be more */
    return 0;
}

struct found_route {
    uint32_t range;
    uint8_t prefix_length;
    const char *skip_prefix;
    char *text;
    bool found;
};

static bool ranges_meet(uint32_t a, uint8_t a_length, uint32_t b, uint8_t b_length)
{
    uint8_t shorter = a_length < b_length ? a_length : b_length;
    return shorter == 0 || (a ^ b) >> (32 - shorter) == 0;
}

static int check_route(const struct nlmsghdr *header, void *data)
{
    struct found_route *f = data;
    const struct rtmsg *info = mnl_nlmsg_get_payload(header);
    struct attributes kept = {0};
    char name[IF_NAMESIZE] = "?";

    (void)mnl_attr_parse(header, sizeof(*info), attribute_keep, &kept);
    if (info->rtm_dst_len == 0 || !kept.of[RTA_DST] || f->found) {
        return MNL_CB_OK;
    }
    uint32_t destination = ntohl(mnl_attr_get_u32(kept.of[RTA_DST]));
    if (kept.of[RTA_OIF]) {
        (void)if_indextoname(mnl_attr_get_u32(kept.of[RTA_OIF]), name); /* "?" when just gone */
    }
    if (strncmp(name, f->skip_prefix, strlen(f->skip_prefix)) != 0 &&
        ranges_meet(f->range, f->prefix_length, destination, info->rtm_dst_len)) {
        f->found = true;
        (void)snprintf(f->text, 64, "%u.%u.%u.%u/%u dev %s", destination >> 24,
                       (destination >> 16) & 255, (destination >> 8) & 255, destination & 255,
                       info->rtm_dst_len, name);
    }
    return MNL_CB_OK;
}

int network_wire_find_route(struct network_wire *w, uint32_t range, uint8_t prefix_length,
                            const char *skip_prefix, char ret[64], struct error *err)
{
    struct found_route found = {range, prefix_length, skip_prefix, ret, false};
    struct message m;

    message_start(&m, RTM_GETROUTE, NLM_F_DUMP);
    struct rtmsg *info = mnl_nlmsg_put_extra_header(m.header, sizeof(*info));
    info->rtm_family = AF_INET;
    int r = message_exchange(w->socket, ++w->sequence, &m, check_route, &found);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "list routes");
    }
    return found.found ? 1 : 0;
}
