/* Families and protocols of sockets, and what can be set on them. */
#include "tests/attack/attempts/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    NO_SUCH_TYPE = 15, /* past SOCK_MAX: the kernel says EINVAL before it looks at the family */
    IPT_SET_REPLACE = 64,
    FAMILY_INET = 1,  /* NFPROTO_INET; linux/netfilter.h clashes with netinet/in.h */
    PASSED_MAX = 200, /* below SCM_MAX_FD */
};

/* "4,2,0": the numbers that socket(2) takes. Also tells who refused: a filter, or the kernel. */
static int try_socket(const char *argument)
{
    int family = 0, type = 0, protocol = 0;
    if (sscanf(argument, "%d,%d,%d", &family, &type, &protocol) != 3) {
        return -EINVAL;
    }
    int r = attempt_result(socket(family, type | SOCK_CLOEXEC, protocol));
    if (r < 0) {
        int bad = attempt_result(socket(family, NO_SUCH_TYPE, protocol));
        attempt_note("by the %s", bad == -EINVAL ? "kernel" : "filter");
    }
    return r;
}

static int try_tcp_ulp(const char *argument)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -errno;
    }
    int r =
        attempt_result(setsockopt(fd, IPPROTO_TCP, TCP_ULP, argument, (socklen_t)strlen(argument)));
    if (r < 0) {
        /* No name at all is EINVAL to the kernel. */
        int bad = attempt_result(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "", 0));
        attempt_note("by the %s", bad == -EINVAL ? "kernel" : "filter");
    }
    return r;
}

/* Empty tables are an error of xtables' own: it has been reached then. */
static int try_ipt_replace(const char *argument)
{
    (void)argument;
    (void)unshare(CLONE_NEWUSER | CLONE_NEWNET);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -errno;
    }
    char nothing[8] = "";
    int r = attempt_result(setsockopt(fd, SOL_IP, IPT_SET_REPLACE, nothing, sizeof nothing));
    attempt_note("%s", r < 0 ? strerrorname_np(-r) : "done");
    return r == -EINVAL || r == -EFAULT ? 0 : r;
}

/* One message of a batch that makes a table: header, nfgenmsg, and a name. */
static size_t add_message(char *at, uint16_t type, uint16_t flags, uint16_t resource,
                          const char *name)
{
    struct nlmsghdr *head = (struct nlmsghdr *)(void *)at;
    struct nfgenmsg *family = NLMSG_DATA(head);
    const size_t header = sizeof(struct nlattr);
    size_t length = NLMSG_LENGTH(sizeof *family);
    *family = (struct nfgenmsg){.nfgen_family = FAMILY_INET, .res_id = htons(resource)};
    if (name) {
        struct nlattr *attr = (struct nlattr *)(void *)(at + length);
        *attr = (struct nlattr){.nla_len = (uint16_t)(header + strlen(name) + 1),
                                .nla_type = NFTA_TABLE_NAME};
        memcpy((char *)attr + header, name, strlen(name) + 1);
        length += NLMSG_ALIGN(attr->nla_len);
    }
    *head = (struct nlmsghdr){.nlmsg_len = (uint32_t)length,
                              .nlmsg_type = type,
                              .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};
    return NLMSG_ALIGN(length);
}

/* In a network namespace that was made for it, when one can be had. */
static int try_nft_table(const char *argument)
{
    (void)argument;
    char out[1024] __attribute__((aligned(8))) = "";
    char in[4096] __attribute__((aligned(8))) = "";
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == -1) {
        attempt_note("unshare %s; ", strerrorname_np(errno));
    }
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (fd == -1) {
        attempt_note("socket");
        return -errno;
    }
    const uint16_t make = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE;
    size_t n = add_message(out, NFNL_MSG_BATCH_BEGIN, 0, NFNL_SUBSYS_NFTABLES, NULL);
    n += add_message(out + n, make, NLM_F_CREATE | NLM_F_ACK, 0, "attempt");
    n += add_message(out + n, NFNL_MSG_BATCH_END, 0, NFNL_SUBSYS_NFTABLES, NULL);
    if (send(fd, out, n, 0) == -1) {
        attempt_note("send");
        return -errno;
    }
    ssize_t got = recv(fd, in, sizeof in, MSG_DONTWAIT);
    const struct nlmsghdr *head = (const struct nlmsghdr *)(const void *)in;
    if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) || head->nlmsg_type != NLMSG_ERROR) {
        return -EPROTO;
    }
    return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
}

static int connect_unix(const char *name, bool is_abstract, int *ret)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = strlen(name);
    if (fd == -1 || n + 2 > sizeof to.sun_path) {
        return fd == -1 ? -errno : -ENAMETOOLONG;
    }
    memcpy(to.sun_path + (is_abstract ? 1 : 0), name, n);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    *ret = fd;
    return attempt_result(connect(fd, (const struct sockaddr *)&to, size));
}

static int try_abstract_socket(const char *argument)
{
    int fd = -1;
    return connect_unix(argument, true, &fd);
}

static int try_socket_path(const char *argument)
{
    int fd = -1;
    int r = connect_unix(argument, false, &fd);
    return r == -EPROTOTYPE ? 0 : r; /* it is there, but not of that type */
}

static int send_descriptors(int to, int fd, int count)
{
    char byte = 'x';
    union {
        char bytes[CMSG_SPACE(sizeof(int) * PASSED_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec part = {&byte, 1};
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++) {
        memcpy(CMSG_DATA(head) + sizeof(int) * (size_t)i, &fd, sizeof fd);
    }
    return attempt_result(sendmsg(to, &message, MSG_NOSIGNAL));
}

/* Whether whoever reads from the other end sends a descriptor back, within a second. */
static int receives_descriptor(int from)
{
    char text[256];
    union {
        char bytes[CMSG_SPACE(sizeof(int) * PASSED_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control};
    const struct timeval limit = {1, 0};
    (void)setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    return n >= 0 && CMSG_FIRSTHDR(&message) ? 0 : -ENOENT;
}

/* Fills the other end with directories, and succeeds when a descriptor comes back. */
static int try_pass_directories(const char *argument)
{
    int to = -1, sent = 0, r = 0;
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = connect_unix(argument, false, &to);
    if (r < 0) {
        attempt_note("connect");
        return r;
    }
    (void)fcntl(to, F_SETFL, O_NONBLOCK);
    while (sent < 50 && (r = send_descriptors(to, folder, PASSED_MAX)) == 0) {
        sent++;
    }
    attempt_note("%d descriptors sent, then %s", sent * PASSED_MAX,
                 r < 0 ? strerrorname_np(-r) : "stopped");
    (void)fcntl(to, F_SETFL, 0);
    return receives_descriptor(to);
}

const struct attempt socket_attempts[] = {
    {"socket", try_socket},
    {"tcp-ulp", try_tcp_ulp},
    {"ipt-replace", try_ipt_replace},
    {"nft-table", try_nft_table},
    {"abstract-socket", try_abstract_socket},
    {"socket-path", try_socket_path},
    {"pass-directories", try_pass_directories},
    {NULL, NULL},
};
