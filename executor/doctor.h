#ifndef EXECUTOR_DOCTOR_H
#define EXECUTOR_DOCTOR_H

#include <stdio.h>

#include "executor/executor.h"
#include "policy/base/json_out.h"

/* What `cordium-executor --check` tells about a host: a finding for each thing that serving depends
 * on, with the remedy where something is in the way. A finding is a line of its state (ok, note,
 * PROBLEM), subject and text, or an object of these three in {"findings": []}. */
struct doctor {
    FILE *to;
    bool is_json;
    struct buf text; /* all of the JSON; nothing is printed before doctor_end() */
    struct json_out json;
};

void doctor_begin(struct doctor *d, FILE *to, bool is_json);
void doctor_end(struct doctor *d);

/* The facts that anybody can read. Without a config (NULL) those that it is about are left out. */
void doctor_print_host(struct doctor *d, const struct config *config);
void doctor_print_config_error(struct doctor *d, const struct error *err);

/* Instead of a trial start, for whoever is not root. */
void doctor_print_no_trial(struct doctor *d);

/* What a trial start chose and why; ex is open. */
void doctor_print_choices(struct doctor *d, const struct executor *ex);

/* What the self-test found of each layer, if it came to it. */
void doctor_print_layers(struct doctor *d, const struct executor *ex);

/* The error that kept a trial start from serving. */
void doctor_print_refusal(struct doctor *d, const struct error *err);

#endif
