#ifndef EXECUTOR_DOCTOR_H
#define EXECUTOR_DOCTOR_H

#include <stdio.h>

#include "executor/executor.h"

/* What `cordium-executor --check` tells about a host: one line for each thing that serving depends
 * on, with the remedy where something is in the way. */

/* The facts that can be read without making anything. */
void doctor_print_host(FILE *to, const struct config *config);

/* What a trial start chose and why; ex is open. */
void doctor_print_choices(FILE *to, const struct executor *ex);

/* What the self-test found of each layer, if it came to it. */
void doctor_print_layers(FILE *to, const struct executor *ex);

/* The error that kept a trial start from serving. */
void doctor_print_refusal(FILE *to, const struct error *err);

#endif
