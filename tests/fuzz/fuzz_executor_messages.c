/* Bytes as the executor would get them from the gateway: header, table, and the two parsers. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "executor/client/encode.h"
#include "executor/config.h"
#include "executor/ipc/message.h"
#include "executor/sandbox_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_sandbox_spec(const struct sandbox_spec *s, const struct config *c)
{
    if (s->limits.memory_bytes > c->memory_bytes_max || s->limits.pids > c->pids_max ||
        s->limits.disk_bytes > c->disk_bytes_max || (s->capabilities & ~c->capabilities_max) ||
        s->uid > 65533 || s->home[0] != '/' || strstr(s->home, "/../") || !s->hostname[0] ||
        (s->is_build_network && !s->is_build)) {
        abort();
    }
}

static void check_run_spec(const struct run_spec *s)
{
    size_t strings = 0;
    for (size_t i = 0; i < s->args.len; i++) {
        strings += s->args.ptr[i] == '\0';
    }
    if (strings != (size_t)s->argc + s->env_count || s->uid > 65533 || s->argc == 0 ||
        (s->cwd[0] && s->cwd[0] != '/')) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct config config;
    struct error err;
    struct sandbox_spec sandbox;
    struct run_spec run;
    if (size < MESSAGE_HEADER_BYTES) {
        return 0;
    }
    arena_init(&arena, 8 << 20);
    if (config_parse("gateway_uid = 1\n", "fuzz", &arena, &config, &err) < 0) {
        abort();
    }
    struct message_header header = message_header_read(data);
    const uint8_t *body = data + MESSAGE_HEADER_BYTES;
    size_t body_size = size - MESSAGE_HEADER_BYTES;
    (void)message_is_allowed(&header, MESSAGE_STATE_READY, body_size, 0);
    if (header.type == MESSAGE_SANDBOX_CREATE &&
        sandbox_spec_parse(body, body_size, &config, &arena, &sandbox, &err) == 0) {
        check_sandbox_spec(&sandbox, &config);
    } else if (header.type == MESSAGE_RUN_START &&
               run_spec_parse(body, body_size, &config, &arena, &run, &err) == 0) {
        check_run_spec(&run);
    } else if (header.type == MESSAGE_RUN_EXITED) {
        struct bytes in = bytes_over(body, body_size);
        struct executor_run_exit e;
        (void)decode_run_exit(&in, &e);
    } else if (header.type == MESSAGE_NETWORK_DENIED) {
        struct bytes in = bytes_over(body, body_size);
        struct executor_network_denied denied;
        if (decode_network_denied(&in, &denied) && denied.count > EXECUTOR_DENIALS_MAX) {
            abort();
        }
    } else if (header.type == MESSAGE_REPLY) {
        struct bytes in = bytes_over(body, body_size);
        struct executor_host_report report;
        struct executor_stats stats;
        (void)decode_host_report(&in, &report);
        in = bytes_over(body, body_size);
        (void)decode_stats(&in, &stats);
    }
    arena_free(&arena);
    return 0;
}
