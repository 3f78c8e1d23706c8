#ifndef EXECUTOR_INIT_PRIVILEGES_H
#define EXECUTOR_INIT_PRIVILEGES_H

#include <linux/capability.h>
#include <stdint.h>

/* Capabilities inside the sandbox's own user namespace, by plain system calls: init is static and
 * single-threaded. Each returns 0 or -errno. */

/* What pid 1 needs to start a run as any user inside, and to signal it. */
#define PRIVILEGES_OF_INIT                                                                         \
    (UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID | UINT64_C(1) << CAP_KILL |             \
     UINT64_C(1) << CAP_SETPCAP)

/* capget(2). */
int privileges_get(struct __user_cap_header_struct *header, struct __user_cap_data_struct ret[2]);

/* Removes everything but `keep` from the bounding set, of which `have` is known to be left; needs
 * CAP_SETPCAP. */
int privileges_limit_bounding(uint64_t have, uint64_t keep);

/* Permitted and effective = keep, inheritable and ambient = nothing. */
int privileges_set(uint64_t keep);

/* For a run: `keep` for uid 0, nothing for anybody else, for ever. The bounding set goes first,
 * while the capabilities to change it are there; the rest after the ids are set. */
int privileges_bound_run(uint32_t uid, uint64_t keep);
int privileges_drop_for_run(uint32_t uid, uint64_t keep);

#endif
