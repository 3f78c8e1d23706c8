#ifndef TESTS_EXECUTOR_TESTBED_H
#define TESTS_EXECUTOR_TESTBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/steps/network.h"
#include "executor/steps/network_wire.h"

/* Real packets between namespaces of the test's own: a "host", on which the network step works,
 * two sandboxes, and two outside hosts, one with a public and one with a private address. The
 * thread stays in the host's namespace; a netns below is a descriptor of one. */

#define IP(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { TESTBED_SANDBOXES = 2 };

static const uint32_t PUBLIC_HOST = IP(8, 8, 4, 2), PUBLIC_GATEWAY = IP(8, 8, 4, 1);
static const uint32_t PRIVATE_HOST = IP(192, 168, 77, 2);

struct testbed {
    int home; /* the namespace that the test program came with */
    int host;
    int sandbox[TESTBED_SANDBOXES];
    int outside[2];
    struct network_wire *wire;
    struct network *net;
    struct error err;
    int listeners[16];
    size_t listener_count;
};

bool testbed_can_run(void);
struct network_config testbed_config(void);
void testbed_open(struct testbed *t, struct network_config config);
void testbed_close(struct testbed *t);

void testbed_enter(int netns);
/* A new one; the thread is in it afterwards if back is -1, otherwise in back. */
int testbed_netns_make(int back);
struct network_cidr cidr(uint32_t address, uint8_t prefix_length);
/* policy's mode becomes NETWORK_MODE_RULES. */
struct network_link *testbed_attach(struct testbed *t, int i, struct network_policy policy);

int testbed_socket(struct testbed *t, int netns, int type);
void testbed_listen(struct testbed *t, int netns, uint32_t address, uint16_t port);
/* What becomes of a connection: 0, or its errno; ETIMEDOUT when nothing answers. */
int testbed_try_tcp(struct testbed *t, int netns, uint32_t address, uint16_t port);
/* A UDP datagram's fate: an ICMP answer shows as the socket's error. */
int testbed_try_udp(struct testbed *t, int netns, uint32_t address, uint16_t port);
/* And soon, so that no program waits for it. */
void assert_refused(struct testbed *t, int netns, uint32_t address, uint16_t port);
void assert_connects(struct testbed *t, int netns, uint32_t address, uint16_t port);
long testbed_now_ms(void);

#endif
