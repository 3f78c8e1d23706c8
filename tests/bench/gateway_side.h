#ifndef BENCH_GATEWAY_SIDE_H
#define BENCH_GATEWAY_SIDE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* A client of the gateway as a backend would be: one kept connection, TLS, gRPC. */
struct gateway_side;

/* The server, its CA and the token come from the environment that platform.sh writes. */
int gateway_side_new(struct gateway_side **ret, struct error *err);
void gateway_side_free(struct gateway_side *g); /* NULL is fine */

/* An ephemeral workspace of the template; the name lives until the next call of this. */
int gateway_side_create(struct gateway_side *g, const char *template_name, const char **ret_name,
                        struct error *err);

/* Returns when it is RUNNING. */
int gateway_side_start(struct gateway_side *g, const char *name, struct error *err);

/* Runs a shell command to its end. FAILED_PRECONDITION when it does not exit with 0. */
int gateway_side_exec(struct gateway_side *g, const char *name, const char *command,
                      uint64_t *ret_output_bytes, struct error *err);
int gateway_side_delete(struct gateway_side *g, const char *name, struct error *err);

/* The cheapest request that is authenticated and decided: what every request costs. */
int gateway_side_get(struct gateway_side *g, const char *name, struct error *err);

#endif
