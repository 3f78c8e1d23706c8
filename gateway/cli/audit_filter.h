#ifndef CLI_AUDIT_FILTER_H
#define CLI_AUDIT_FILTER_H

#include "api/audit.pb-c.h"
#include "gateway/cli/arguments.h"
#include "gateway/cli/cli.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The conditions of the command line (arguments.where, and a text that lines must hold as the one
 * word there may be) as the API has them, in the arena. Words that are known are taken in any case:
 * "denied" is DENIED.
 *
 * now_seconds  what "2h" is counted from
 *
 * INVALID_ARGUMENT names the option, its value and what it may be. */
int audit_filter_make(const struct arguments *args, int64_t now_seconds, struct arena *arena,
                      Ext__AuditFilter **ret, struct error *err);

/* cli_run() of a command with such conditions, which are judged before anything else: a wrong one
 * is a wrong command line (CLI_EXIT_USAGE) and needs no server. */
int audit_filter_run(const struct arguments *args,
                     int (*body)(struct cli *cli, const struct arguments *args, int *exit_code,
                                 struct error *err));

#endif
