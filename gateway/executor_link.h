#ifndef GATEWAY_EXECUTOR_LINK_H
#define GATEWAY_EXECUTOR_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "executor/client/executor_client.h"
#include "policy/base/status.h"

/* The gateway's one connection to the executor, on the libuv loop. It is opened again by itself,
 * with a growing pause, when it breaks; calls that wait for an answer then fail with UNAVAILABLE.
 * What becomes of the workspaces is the listener's business (struct executor_link_events). */
struct executor_link;
struct uv_loop_s;

/* One started run whose end somebody waits for. Embedded in the owner's struct, which must outlive
 * the watch: until `exited` was called or executor_link_unwatch() took it out. */
struct executor_run_watch {
    uint64_t run;
    /* event is NULL when the connection was lost, so that the run's fate is unknown. The watch is
     * out of the table already. */
    void (*exited)(struct executor_run_watch *watch, const struct executor_run_exit *event);
    struct executor_run_watch *next;
};

struct executor_link_events {
    /* A connection is there; first time or again. */
    void (*up)(void *context);
    /* Calls and watches have failed already. */
    void (*down)(void *context);
    void (*sandbox_gone)(void *context, const struct executor_sandbox_gone *event);
    void (*network_denied)(void *context, const struct executor_network_denied *event);
    void *context;
};

/* Tries to connect at once. Failing to connect is no error: it is tried again, and *ret works
 * without an executor until then. Errors: INTERNAL (memory, event loop). */
int executor_link_new(struct uv_loop_s *loop, const char *socket_path,
                      const struct executor_link_events *events, struct executor_link **ret,
                      struct error *err);

/* Fails what is pending and closes; the last libuv handle goes with a later loop iteration. */
void executor_link_free(struct executor_link *link);

/* The client to send requests with, or NULL while there is no connection (then *err says so,
 * UNAVAILABLE). Never keep it: it is another one after a reconnect. */
struct executor_client *executor_link_client(struct executor_link *link, struct error *err);

/* What the host offers; NULL while there is no connection. */
const struct executor_host_report *executor_link_host(const struct executor_link *link);

void executor_link_watch(struct executor_link *link, struct executor_run_watch *watch);
void executor_link_unwatch(struct executor_link *link, struct executor_run_watch *watch);

#endif
