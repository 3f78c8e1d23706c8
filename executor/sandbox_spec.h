#ifndef EXECUTOR_SANDBOX_SPEC_H
#define EXECUTOR_SANDBOX_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/client/executor_client.h"
#include "executor/config.h"
#include "executor/steps/network.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The only parser of requests. From untrusted bytes to a struct in which every value is inside the
 * config's ceiling; whoever gets it need not look again. Views point into the message, copies into
 * the arena. Every function fails with INVALID_ARGUMENT, naming the field, and then *ret is not to
 * be used. */

struct sandbox_spec {
    struct executor_uuid id;
    bool is_build;
    bool is_ephemeral;
    bool root_read_only;
    bool want_proxy_socket;
    struct executor_digest image;
    struct executor_uuid storage;
    struct executor_uuid storage_from;
    struct executor_limits limits;
    uint32_t uid;
    uint32_t gid;
    uint64_t capabilities;
    const char *home;     /* absolute, no empty, "." or ".." part */
    const char *hostname; /* RFC 1123 label */
    bool has_network;     /* false: loopback only */
    bool is_build_network;
    struct network_policy network;
};

int sandbox_spec_parse(const uint8_t *body, size_t size, const struct config *config,
                       struct arena *arena, struct sandbox_spec *ret, struct error *err);

struct run_spec {
    struct executor_uuid sandbox;
    uint32_t flags;
    uint32_t uid;
    uint32_t gid;
    uint16_t columns;
    uint16_t rows;
    uint64_t memory_bytes;
    uint32_t pids;
    uint32_t argc;
    uint32_t env_count;
    const char *cwd; /* absolute, or "" */
    struct str args; /* argc + env_count strings, each with its NUL */
};

int run_spec_parse(const uint8_t *body, size_t size, const struct config *config,
                   struct arena *arena, struct run_spec *ret, struct error *err);

#endif
