#ifndef EXECUTOR_STEPS_NS_POOL_H
#define EXECUTOR_STEPS_NS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/status.h"

/* User namespaces, one for each range of 65,536 host ids, and empty network namespaces with their
 * loopback up; both made ahead of need. All are owned by the initial user namespace. No two live
 * sandboxes ever share a range. */

enum { NS_IDS_PER_RANGE = 65536 };

struct ns_pool;

struct ns_pool_config {
    uint32_t uid_base; /* first host id; > 65535 */
    uint32_t range_count;
};

int ns_pool_open(const struct ns_pool_config *config, struct ns_pool **ret, struct error *err);
void ns_pool_close(struct ns_pool *pool); /* NULL is fine */

/* A free range. RESOURCE_EXHAUSTED when all are in use. */
int ns_pool_take_range(struct ns_pool *pool, uint32_t *ret_range, struct error *err);

/* Gives a range back; its processes must be dead. discard: its user namespace may have been
 * changed from within (a build) and is not used again. */
void ns_pool_give_range(struct ns_pool *pool, uint32_t range, bool discard);
uint32_t ns_pool_uid_base(const struct ns_pool *pool, uint32_t range);

/* The range's user namespace, with further nesting refused unless may_nest. The fd stays the
 * pool's. */
int ns_pool_userns(struct ns_pool *pool, uint32_t range, bool may_nest, int *ret,
                   struct error *err);

/* A user namespace for the mount of a range's overlay upper: as above, but host uid 0, which makes
 * the overlay's work files, is id 65536 on disk. The caller closes it. */
int ns_pool_overlay_userns(struct ns_pool *pool, uint32_t range, int *ret, struct error *err);

/* A network namespace with loopback up, which nobody used before. The caller closes it. */
int ns_pool_netns(struct ns_pool *pool, int *ret, struct error *err);

/* Makes one namespace ahead of need when there are fewer than `want`. True when it made one. */
bool ns_pool_fill(struct ns_pool *pool, unsigned want);

#endif
