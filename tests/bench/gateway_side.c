#include "tests/bench/gateway_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/cordium.pb-c.h"
#include "gateway/cli/field.h"
#include "gateway/cli/session.h"
#include "gateway/cli/settings.h"
#include "gateway/cli/transport.h"
#include "gateway/rpc/codec.h"

#define MAIN "/octelium.api.main.cordium.v1.MainService/"
#define WORKSPACE "/octelium.api.main.cordium.v1.WorkspaceService/"

enum { ARENA_MAX_BYTES = 64 << 20, TIMEOUT_MS = 30000 };

struct gateway_side {
    struct arena settings_arena; /* lives as long as we do */
    struct arena arena;          /* of one call */
    struct settings settings;
    struct transport_options options;
    struct transport *transport;
    char name[64];
};

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

int gateway_side_new(struct gateway_side **ret, struct error *err)
{
    struct gateway_side *g = calloc(1, sizeof *g);
    if (!g) {
        return no_memory(err);
    }
    arena_init(&g->settings_arena, ARENA_MAX_BYTES);
    arena_init(&g->arena, ARENA_MAX_BYTES);
    const struct settings_options none = {NULL, NULL, NULL, NULL};
    int rc = settings_load(&none, &g->settings_arena, &g->settings, err);
    g->options = (struct transport_options){
        .domain = g->settings.domain,
        .server = g->settings.server,
        .ca_file = g->settings.ca_file,
        .timeout_ms = TIMEOUT_MS,
    };
    rc = rc ? rc : transport_new(&g->options, &g->transport, err);
    rc = rc ? rc : session_ensure(g->transport, &g->settings, &g->settings_arena, err);
    if (rc) {
        gateway_side_free(g);
        return rc;
    }
    *ret = g;
    return 0;
}

void gateway_side_free(struct gateway_side *g)
{
    if (g) {
        transport_free(g->transport);
        arena_free(&g->arena);
        arena_free(&g->settings_arena);
        free(g);
    }
}

/* A request with one text member; the reply is not looked at. */
static int call_with(struct gateway_side *g, const char *path,
                     const ProtobufCMessageDescriptor *type, const char *member, const char *value,
                     struct error *err)
{
    arena_reset(&g->arena);
    ProtobufCMessage *request = codec_new(type, &g->arena);
    ProtobufCMessage *reply;
    if (!request || !field_set_text(request, member, value, &g->arena)) {
        return no_memory(err);
    }
    return transport_unary(g->transport, path, request, &g->arena, &reply, err);
}

int gateway_side_create(struct gateway_side *g, const char *template_name, const char **ret_name,
                        struct error *err)
{
    arena_reset(&g->arena);
    ProtobufCMessage *request = codec_new(&cordium__workspace__descriptor, &g->arena);
    ProtobufCMessage *reply;
    if (!request || !field_make(request, "metadata", &g->arena) ||
        !field_set_bool(request, "spec.is_ephemeral", true, &g->arena) ||
        !field_set_text(request, "status.template_ref.name", template_name, &g->arena)) {
        return no_memory(err);
    }
    int rc = transport_unary(g->transport, MAIN "CreateWorkspace", request, &g->arena, &reply, err);
    if (rc) {
        return rc;
    }
    (void)snprintf(g->name, sizeof g->name, "%s", field_text(reply, "metadata.name", &g->arena));
    *ret_name = g->name;
    return 0;
}

int gateway_side_start(struct gateway_side *g, const char *name, struct error *err)
{
    return call_with(g, MAIN "StartWorkspace", &cordium__start_workspace_request__descriptor,
                     "workspace_ref.name", name, err);
}

int gateway_side_delete(struct gateway_side *g, const char *name, struct error *err)
{
    return call_with(g, MAIN "DeleteWorkspace", &meta__delete_options__descriptor, "name", name,
                     err);
}

int gateway_side_get(struct gateway_side *g, const char *name, struct error *err)
{
    return call_with(g, MAIN "GetWorkspace", &meta__get_options__descriptor, "name", name, err);
}

struct exec_result {
    bool has_exited;
    int code;
    uint64_t output_bytes;
};

static bool on_message(void *state, const ProtobufCMessage *base)
{
    struct exec_result *result = state;
    const Cordium__ExecResponse *message = (const Cordium__ExecResponse *)base;
    if (message->type_case == CORDIUM__EXEC_RESPONSE__TYPE_STDOUT) {
        result->output_bytes += message->stdout->data.len;
    } else if (message->type_case == CORDIUM__EXEC_RESPONSE__TYPE_EXIT) {
        result->has_exited = true;
        result->code = message->exit->code;
    }
    return true;
}

int gateway_side_exec(struct gateway_side *g, const char *name, const char *command,
                      uint64_t *ret_output_bytes, struct error *err)
{
    arena_reset(&g->arena);
    ProtobufCMessage *request = codec_new(&cordium__exec_request__descriptor, &g->arena);
    if (!request || !field_set_text(request, "request.workspace_ref.name", name, &g->arena) ||
        !field_set_text(request, "request.command", command, &g->arena)) {
        return no_memory(err);
    }
    struct exec_result result = {.has_exited = false};
    const struct transport_stream_handler handler = {
        .on_message = on_message, .state = &result, .input_fd = -1};
    int rc = transport_stream(g->transport, WORKSPACE "Exec", request, &handler, err);
    if (rc) {
        return rc;
    }
    if (ret_output_bytes) {
        *ret_output_bytes = result.output_bytes;
    }
    return result.has_exited && result.code == 0
               ? 0
               : error_set(err, STATUS_FAILED_PRECONDITION, "'%s' exited with %d", command,
                           result.code);
}
