#ifndef EXECUTOR_STEPS_BLOCK_DEVICE_H
#define EXECUTOR_STEPS_BLOCK_DEVICE_H

#include <stdbool.h>

/* Where files lie, as the kernel numbers block devices. */
struct block_device {
    unsigned major;
    unsigned minor;
    bool any_minor; /* all devices of that major number together */
};

#endif
