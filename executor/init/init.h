#ifndef EXECUTOR_INIT_INIT_H
#define EXECUTOR_INIT_INIT_H

#include "executor/init/setup.h"

/* The life of pid 1 after setup_run(): reports READY, reaps, starts runs and signals them as the
 * executor asks, reports how each ended. Returns when the control socket closes, and with it ends
 * every process of the sandbox. */
void init_main(const struct setup *setup);

/* Tells the executor that a step failed. */
void init_report_failure(const struct setup *setup, const char *step, int error_number);

#endif
