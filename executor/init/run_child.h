#ifndef EXECUTOR_INIT_RUN_CHILD_H
#define EXECUTOR_INIT_RUN_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "executor/init/protocol.h"

/* Starts one program as a child of init. */
struct run_child {
    const struct init_start *start;
    char **argv; /* NULL-terminated; point into the caller's arguments */
    char **env;
    const int *attach; /* cgroup files to join */
    const int *fds;    /* stdin, stdout, stderr */
    /* Filled in by the child, which shares our memory until it runs its program. */
    uint32_t stage; /* enum executor_run_stage; 0 = the program runs */
    int error_number;
};

/* Returns the pid once the program runs, or the child has ended: then child->stage says where. 0
 * when there is no child at all. */
pid_t run_child_start(struct run_child *child);

/* Runs fn(argument) as a child with these ids and no capabilities, and waits for it. 0 or -errno.
 */
int run_child_call(uint32_t uid, uint32_t gid, void (*fn)(void *argument), void *argument);

/* A pty owned by uid. 0 or -errno. */
int run_child_open_terminal(const struct init_start *start, int *ret_master, int *ret_slave);

#endif
