#include "tests/unit/executor/testbed.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executor/proc/clock.h"

enum { FAST_MS = 200, PATIENCE_MS = 1500 };

bool testbed_can_run(void)
{
    if (geteuid() == 0) {
        return true;
    }
    ck_assert_msg(!getenv("MUST_WORK"), "needs root");
    printf("SKIP network: needs root\n");
    return false;
}

void testbed_enter(int netns)
{
    ck_assert_int_eq(setns(netns, CLONE_NEWNET), 0);
}

int testbed_netns_make(int back)
{
    ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ne(fd, -1);
    if (back != -1) {
        testbed_enter(back);
    }
    return fd;
}

static void loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
}

/* A new namespace begins with the setting of the machine's own. */
static void forwarding_off(void)
{
    int fd = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(write(fd, "0", 1), 1);
    close(fd);
}

static void default_route(uint32_t gateway)
{
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct sockaddr_in by = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(gateway)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(&route.rt_dst, &any, sizeof(any));
    memcpy(&route.rt_genmask, &any, sizeof(any));
    memcpy(&route.rt_gateway, &by, sizeof(by));
    ck_assert_int_eq(ioctl(fd, SIOCADDRT, &route), 0);
    close(fd);
}

struct network_config testbed_config(void)
{
    return (struct network_config){.instance = "unit-test"};
}

void testbed_open(struct testbed *t, struct network_config config)
{
    memset(t, 0, sizeof(*t));
    t->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    t->host = testbed_netns_make(-1);
    loopback_up();
    forwarding_off();
    ck_assert_int_eq(network_wire_open(&t->wire, &t->err), 0);
    for (int i = 0; i < 2; i++) {
        struct network_wire_pair pair = {.host_name = i ? "out1" : "out0",
                                         .netns_fd = t->outside[i] = testbed_netns_make(t->host),
                                         .gateway = i ? PRIVATE_HOST - 1 : PUBLIC_GATEWAY,
                                         .sandbox = i ? PRIVATE_HOST : PUBLIC_HOST,
                                         .prefix_length = 24};
        int index;
        ck_assert_msg(network_wire_connect(t->wire, &pair, &index, &t->err) == 0, "%s",
                      t->err.text);
    }
    default_route(PUBLIC_HOST);
    for (int i = 0; i < TESTBED_SANDBOXES; i++) {
        t->sandbox[i] = testbed_netns_make(t->host);
    }
    ck_assert_msg(network_open(&config, &t->net, &t->err) == 0, "%s", t->err.text);
}

void testbed_close(struct testbed *t)
{
    network_close(t->net);
    network_wire_close(t->wire);
    for (size_t i = 0; i < t->listener_count; i++) {
        close(t->listeners[i]);
    }
    testbed_enter(t->home);
    for (int i = 0; i < 2; i++) {
        close(t->outside[i]);
        close(t->sandbox[i]);
    }
    close(t->host);
    close(t->home);
}

int testbed_socket(struct testbed *t, int netns, int type)
{
    testbed_enter(netns);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ne(fd, -1);
    testbed_enter(t->host);
    return fd;
}

void testbed_listen(struct testbed *t, int netns, uint32_t address, uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
    int fd = testbed_socket(t, netns, SOCK_STREAM);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    t->listeners[t->listener_count++] = fd;
}

int testbed_try_tcp(struct testbed *t, int netns, uint32_t address, uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
    int fd = testbed_socket(t, netns, SOCK_STREAM);
    int result = 0;
    socklen_t size = sizeof(result);

    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == -1 && errno != EINPROGRESS) {
        result = errno;
    } else {
        struct pollfd p = {fd, POLLOUT, 0};
        if (poll(&p, 1, PATIENCE_MS) != 1) {
            result = ETIMEDOUT;
        } else {
            ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size), 0);
        }
    }
    close(fd);
    return result;
}

long testbed_now_ms(void)
{
    return (long)(clock_now_ns() / 1000000);
}

void assert_refused(struct testbed *t, int netns, uint32_t address, uint16_t port)
{
    long start = testbed_now_ms();
    int result = testbed_try_tcp(t, netns, address, port);
    ck_assert_msg(result == ECONNREFUSED, "%08x:%u: %s", address, port, strerror(result));
    ck_assert_int_lt(testbed_now_ms() - start, FAST_MS);
}

void assert_connects(struct testbed *t, int netns, uint32_t address, uint16_t port)
{
    int result = testbed_try_tcp(t, netns, address, port);
    ck_assert_msg(result == 0, "%08x:%u: %s", address, port, strerror(result));
}

int testbed_try_udp(struct testbed *t, int netns, uint32_t address, uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
    int fd = testbed_socket(t, netns, SOCK_DGRAM);
    int result = 0;
    socklen_t size = sizeof(result);
    struct pollfd p = {fd, POLLERR, 0};

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    (void)poll(&p, 1, FAST_MS);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size), 0);
    close(fd);
    return result;
}

struct network_cidr cidr(uint32_t address, uint8_t prefix_length)
{
    struct network_cidr c = {.family = 4, .prefix_length = prefix_length};
    uint32_t wire = htonl(address);
    memcpy(c.address, &wire, 4);
    return c;
}

struct network_link *testbed_attach(struct testbed *t, int i, struct network_policy policy)
{
    struct network_link *link = NULL;
    policy.mode = NETWORK_MODE_RULES;
    int r = network_attach(t->net, t->sandbox[i], &policy, &link, &t->err);
    ck_assert_msg(r == 0, "%s", t->err.text);
    return link;
}
