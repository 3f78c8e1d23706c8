#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "gateway/cli/arguments.h"

/* Every command, ended by an entry without a name; main.c prints and searches these lists. */
extern const struct command resource_commands[];
extern const struct command workspace_commands[];
extern const struct command build_commands[];
extern const struct command copy_commands[];
extern const struct command apply_commands[];
extern const struct command policy_commands[];
extern const struct command policy_test_commands[];
extern const struct command policy_server_commands[];
extern const struct command session_commands[];
extern const struct command run_commands[];
extern const struct command doctor_commands[];
extern const struct command audit_commands[];
extern const struct command audit_proof_commands[];

#endif
