#ifndef GATEWAY_IDLE_MEMORY_H
#define GATEWAY_IDLE_MEMORY_H

#include "gateway/gateway.h"

/* Gives memory back to the system after a burst. Many requests at once make the heap large, and a
 * few small things that outlive them, spread over it, would keep it so: the allocator by itself
 * returns only what lies at the end. Looks every IDLE_MEMORY_PAUSE_MS; while there is much to do
 * nothing is done. */
struct idle_memory;

enum {
    IDLE_MEMORY_PAUSE_MS = 2000,
    IDLE_MEMORY_QUIET_LINES = 50, /* of the audit log in one pause: less is quiet */
};

/* g->audit must be open. INTERNAL without memory. */
int idle_memory_new(struct gateway *g, struct idle_memory **ret, struct error *err);

/* The last libuv handle goes with a later loop iteration. NULL is fine. */
void idle_memory_free(struct idle_memory *m);

#endif
