#ifndef GATEWAY_AUDIT_COMMAND_H
#define GATEWAY_AUDIT_COMMAND_H

/* `cordium-gateway audit …`: what is done to the audit log from outside of the daemon. argv[0] is
 * "audit". Returns an exit status: 0; 1 when it failed; 64 for a wrong command line; of `verify`
 * also 2: the log is not what was written. */
int audit_command_run(int argc, char **argv);

#endif
