#ifndef EDGE_SOURCE_TABLE_H
#define EDGE_SOURCE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* How many connections each peer address has. An IPv6 peer counts by its /64, which one
 * customer owns whole. */
struct source_table;
struct source;

struct source_table *source_table_new(void);
void source_table_free(struct source_table *t);

/* Counts one more connection from the address; NULL when it would be over the limit, or there is
 * no memory. */
struct source *source_table_take(struct source_table *t, const struct sockaddr *address,
                                 unsigned connections_max);

/* NULL is fine. */
void source_table_release(struct source_table *t, struct source *source);

#endif
