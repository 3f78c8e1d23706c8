#ifndef EXECUTOR_INIT_SELF_TEST_H
#define EXECUTOR_INIT_SELF_TEST_H

#include <stdbool.h>
#include <stdint.h>

/* What the executor and the attacker of its self-test say to each other. The attacker is this very
 * program, run in a sandbox under the name below. It reads one order from its standard input and
 * writes one finding for each layer, in the order of self_test.def. The executor takes nothing of
 * that for granted but its size. Its standard error is a file of the host, opened for reading. */

#define SELF_TEST_PROGRAM "/cordium-self-test"
#define SELF_TEST_DEVICE "/cordium-self-test-device" /* a character device that nodev must stop */

enum self_test_attacker { SELF_TEST_USER = 1, SELF_TEST_ROOT = 2 };

enum self_test_layer {
#define LAYER(name, title, attackers, remedy) SELF_TEST_LAYER_##name,
#include "executor/init/self_test.def"
    SELF_TEST_LAYERS,
};

/* 0 stands for what nobody said. ABSENT is good enough for a second belt alone: Landlock. */
enum self_test_outcome {
    SELF_TEST_UNKNOWN,
    SELF_TEST_HELD,
    SELF_TEST_BROKEN,
    SELF_TEST_ABSENT, /* this kernel does not have it */
};

enum self_test_namespace {
    SELF_TEST_NS_MNT,
    SELF_TEST_NS_PID,
    SELF_TEST_NS_NET,
    SELF_TEST_NS_IPC,
    SELF_TEST_NS_UTS,
    SELF_TEST_NS_CGROUP,
    SELF_TEST_NAMESPACES,
};

/* Names in /proc/PID/ns, by enum self_test_namespace. */
#define SELF_TEST_NAMESPACE_NAMES                                                                  \
    {                                                                                              \
        "mnt", "pid", "net", "ipc", "uts", "cgroup"                                                \
    }

/* What the host has that the attacker is to reach, and what the sandbox was made with. */
struct self_test_order {
    uint32_t attacker; /* enum self_test_attacker */
    uint32_t uid_base; /* host id of the sandbox's uid 0 */
    uint32_t pids;     /* limits */
    int32_t shm_id;    /* System V shared memory of the host that everybody may attach */
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint64_t capabilities;                     /* what root inside may have at most */
    uint64_t namespaces[SELF_TEST_NAMESPACES]; /* inodes of the executor's */
    uint64_t launcher_mnt;                     /* inode of the launcher's mount namespace */
    int64_t keyring;                           /* serial of the executor's session keyring */
    char socket_name[32]; /* abstract, of a listener in the host's network namespace */
    char hostname[64];
};

enum { SELF_TEST_TEXT_MAX = 88 };

struct self_test_finding {
    uint32_t layer;
    uint32_t outcome;              /* enum self_test_outcome */
    char text[SELF_TEST_TEXT_MAX]; /* of what broke; NUL-ended when honest */
};

/* The attacker: reads the order, attacks, writes the findings. Exit code. */
int self_test_attack(void);

#endif
