#ifndef BENCH_BWRAP_SIDE_H
#define BENCH_BWRAP_SIDE_H

#include "policy/base/status.h"

/* Bubblewrap on the same image: namespaces of every kind, read-only root, /proc, a small /dev,
 * tmpfs /tmp, no capabilities, no_new_privs. It has no limits (cgroups, disk) and no seccomp filter
 * of its own. */
int bwrap_side_run(const char *rootfs, const char *const *argv, size_t argc, struct error *err);

#endif
