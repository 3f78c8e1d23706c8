#ifndef EXECUTOR_INIT_SETUP_H
#define EXECUTOR_INIT_SETUP_H

#include <linux/filter.h>

#include "executor/init/protocol.h"

/* What a new sandbox's first process has in hand. Fields of absent things are -1. */
struct setup {
    const struct launch_request *request;
    const struct sock_fprog *filter;
    int control;
    int userns;
    int netns;
    int storage;
    int root;
    int attach[LAUNCH_ATTACH_MAX];
    int listener;       /* made here: the proxy socket */
    int oom_score;      /* made here: /proc/1/oom_score_adj, out of reach later on */
    const char *target; /* the place in the image that was mounted on last; for errors */
    uint32_t step_us[INIT_STEPS_MAX]; /* how long each step took */
    int home_source;                  /* the image's home, before our own is mounted over it */
};

/* Turns the calling process, a fresh child of the launcher in new pid, mount, ipc and uts
 * namespaces, into the locked-down first process of a sandbox. The steps are in one table. Returns
 * 0, or -errno with the name of the step; then the process must exit. */
int setup_run(struct setup *s, const char **ret_step);

#endif
