#ifndef BENCH_EXECUTOR_SIDE_H
#define BENCH_EXECUTOR_SIDE_H

#include "executor/client/executor_client.h"
#include "tests/bench/samples.h"

/* The executor alone, asked as the gateway asks it. */
struct executor_side;

struct executor_side_times {
    struct samples create, run, destroy, total;
};

/* Takes the gateway's identity (its effective uid) for the moment of connecting. */
int executor_side_new(const char *socket_path, uint32_t gateway_uid, struct executor_side **ret,
                      struct error *err);
void executor_side_free(struct executor_side *e); /* NULL is fine */

/* Creates a sandbox of the first image that the executor has, runs the command, destroys it. */
int executor_side_cycle(struct executor_side *e, const char *const *argv, size_t argc,
                        struct executor_side_times *times, struct error *err);

#endif
