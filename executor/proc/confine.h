#ifndef PROC_CONFINE_H
#define PROC_CONFINE_H

#include "policy/base/status.h"

/* What a daemon without privileges gives up for good, once it has opened what it needs. */

/* FAILED_PRECONDITION when the process is root, in group 0, or holds a capability in any set; names
 * which and the remedy. */
int confine_require_unprivileged(const char *program, struct error *err);

/* no_new_privs, an empty capability bounding set as far as it can be emptied, not dumpable, no core
 * files; then an allow list of system calls: memory, files, sockets, threads, time. Calls that make
 * processes, programs, namespaces, mounts, keys or trace others end the process; what is merely
 * unknown fails with ENOSYS, so that a library can fall back. */
int confine_server(struct error *err);

#endif
