#ifndef EXECUTOR_INIT_PROTOCOL_H
#define EXECUTOR_INIT_PROTOCOL_H

#include <stdint.h>

/* What executor, launcher and init say to each other. All are of one build, so that plain structs
 * travel; the executor still takes nothing that comes from init for granted.
 *
 * Executor to launcher: launch_request with descriptors in this order: control socket of the new
 * init, user namespace, network namespace, storage mount, root mount (not for a build), then the
 * cgroup files to join. The launcher answers launch_reply with a pidfd.
 *
 * With LAUNCH_HOLD the control socket is all that comes along. The real launch_request reaches the
 * new process by that socket, with the other descriptors in the same order. */

enum {
    LAUNCH_BUILD = 1,
    LAUNCH_FILL_HOME = 2,
    LAUNCH_PROXY_SOCKET = 4,
    LAUNCH_RESOLVERS = 8, /* /etc/resolv.conf with the host's resolvers, not an empty one */
    LAUNCH_HOLD = 16,     /* fork now, and let the new process wait for its own order */
    LAUNCH_ATTACH_MAX = 5,
    LAUNCH_PATH_MAX = 1024,
};

struct launch_request {
    uint32_t serial;
    uint32_t flags;
    uint32_t uid;
    uint32_t gid;
    uint32_t uid_base;
    uint32_t attach_count;
    uint64_t capabilities; /* kept for uid 0 of the sandbox */
    uint64_t tmpfs_bytes;  /* of /dev/shm and /run together */
    char hostname[64];
    char home[LAUNCH_PATH_MAX];
};

struct launch_reply {
    uint32_t serial;
    int32_t pid; /* in the executor's pid namespace; 0 = it could not be made */
    int32_t error_number;
};

/* The control socket. Executor to init: */
enum init_order { INIT_START = 1, INIT_SIGNAL = 2 };

/* Descriptors: a sealed memfd with the arguments when args_in_memfd, the cgroup files to join,
 * then stdin, stdout, stderr unless INIT_RUN_TTY. The arguments are argc + env_count strings, each
 * with its NUL; in the datagram after this struct, or in the memfd. */
enum { INIT_RUN_TTY = 1 };

struct init_start {
    uint32_t type;
    uint32_t flags;
    uint64_t run;
    uint64_t capabilities; /* for uid 0 */
    uint32_t uid;
    uint32_t gid;
    uint16_t columns;
    uint16_t rows;
    uint32_t argc;
    uint32_t env_count;
    uint32_t args_bytes;
    uint32_t args_in_memfd;
    uint32_t attach_count;
    char cwd[LAUNCH_PATH_MAX];
};

struct init_signal {
    uint32_t type;
    int32_t signal_number;
    uint64_t run;
    uint32_t whole_group;
    uint32_t zero;
};

/* Init to executor: one struct for all. */
enum { INIT_STEPS_MAX = 20 };

enum init_report {
    INIT_READY = 101,   /* + the listening proxy socket, when asked for */
    INIT_FAILED = 102,  /* text = the step */
    INIT_STARTED = 103, /* a run with a terminal: + the master */
    INIT_EXITED = 104,
};

struct init_message {
    uint32_t type;
    uint32_t stage; /* enum executor_run_stage */
    uint64_t run;
    int32_t error_number;
    int32_t wait_status;
    union {
        char text[INIT_STEPS_MAX * 4];    /* FAILED */
        uint32_t step_us[INIT_STEPS_MAX]; /* READY: of each step of setup_steps.def */
    };
};

enum {
    INIT_ARGS_INLINE_MAX = 32768,
    INIT_MESSAGE_MAX = 65536,
    INIT_RUNS_MAX = 4096,
    INIT_CONTROL_FD = 3,
};

#endif
