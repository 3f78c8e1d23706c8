#include "gateway/cli/resource_build.h"

#include <stdio.h>
#include <string.h>

#include "api/core.pb-c.h"
#include "gateway/cli/field.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/output.h"
#include "gateway/rpc/codec.h"

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* The resource in the file, or an empty one. */
static int load(struct cli *cli, const ProtobufCMessageDescriptor *type, const char *file,
                ProtobufCMessage **ret, struct error *err)
{
    struct str text;
    if (!file) {
        *ret = cli_new(cli, type);
        return 0;
    }
    if (local_file_read(file, &cli->arena, &text, err) < 0) {
        return -err->status;
    }
    if (codec_decode_yaml(type, text, CODEC_STRICT, &cli->arena, ret, err) < 0) {
        return err->line ? error_wrap(err, "%s:%u:%u", file, err->line, err->column)
                         : error_wrap(err, "%s", file);
    }
    return 0;
}

/* NAME=VALUE of an option. */
static int split_pair(struct cli *cli, const char *text, const char *option, const char **ret_name,
                      const char **ret_value, struct error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--%s '%s': expected NAME=VALUE", option,
                         text);
    }
    *ret_name = cli_printf(cli, "%.*s", (int)(equals - text), text);
    *ret_value = equals + 1;
    return 0;
}

static int add_pairs(struct cli *cli, ProtobufCMessage *resource, const char *path,
                     const struct argument_list *list, const char *option, const char *name_field,
                     struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *name = NULL;
        const char *value = NULL;
        if (split_pair(cli, list->items[i], option, &name, &value, err) < 0) {
            return -err->status;
        }
        ProtobufCMessage *m = field_add_message(resource, path, &cli->arena);
        if (!m || !field_set_text(m, name_field, name, &cli->arena) ||
            !field_set_text(m, "value", value, &cli->arena)) {
            return no_memory(err);
        }
    }
    return 0;
}

/* Options that Templates and Workspaces share: their specs have these fields under one name. */
static int apply_sandbox_options(struct cli *cli, ProtobufCMessage *r, const struct arguments *a,
                                 struct error *err)
{
    struct arena *arena = &cli->arena;
    if (a->image && a->dockerfile) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "--image and --dockerfile exclude each other");
    }
    bool ok = true;
    if (a->image) {
        ok = ok && field_set_text(r, "spec.image.registry.url", a->image, arena);
    }
    if (a->dockerfile) {
        struct str text;
        if (local_file_read(a->dockerfile, arena, &text, err) < 0) {
            return -err->status;
        }
        ok = ok && field_set_text(r, "spec.image.dockerfile.inline", text.ptr, arena);
    }
    if (a->cpu) {
        ok = ok && field_set_u32(r, "spec.limit.cpu.millicores", a->cpu, arena);
    }
    if (a->memory) {
        ok = ok && field_set_u32(r, "spec.limit.memory.megabytes", a->memory, arena);
    }
    if (a->storage) {
        ok = ok && field_set_u32(r, "spec.limit.storage.megabytes", a->storage, arena);
    }
    if (a->read_only) {
        ok = ok && field_set_bool(r, "spec.runtime.filesystem.read_only", true, arena);
    }
    if (a->no_network) {
        ok = ok &&
             field_set_enum(r, "spec.runtime.network.egress.default_action", "DENY", arena) == 0;
    }
    if (!ok) {
        return no_memory(err);
    }
    if (a->env.count &&
        add_pairs(cli, r, "spec.runtime.env_vars", &a->env, "env", "key", err) < 0) {
        return -err->status;
    }
    return a->vars.count ? add_pairs(cli, r, "spec.vars", &a->vars, "var", "name", err) : 0;
}

int resource_build_workspace(struct cli *cli, Cordium__Workspace *workspace,
                             const struct arguments *args, struct error *err)
{
    ProtobufCMessage *r = &workspace->base;
    if (!field_make(r, "spec", &cli->arena) || !field_make(r, "metadata", &cli->arena)) {
        return no_memory(err);
    }
    if (apply_sandbox_options(cli, r, args, err) < 0) {
        return -err->status;
    }
    workspace->spec->is_ephemeral = workspace->spec->is_ephemeral || args->is_ephemeral;
    if (args->template_ &&
        !field_set_text(r, "status.template_ref.name", args->template_, &cli->arena)) {
        return no_memory(err);
    }
    return 0;
}

static int set_enum(struct cli *cli, ProtobufCMessage *r, const char *path, const char *name,
                    const char *option, struct error *err)
{
    if (!name || field_set_enum(r, path, name, &cli->arena) == 0) {
        return 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "--%s '%s' is unknown; see --help", option,
                     name);
}

static int add_policies(struct cli *cli, ProtobufCMessage *r, const struct arguments *a,
                        struct error *err)
{
    for (size_t i = 0; i < a->policies.count; i++) {
        if (!field_add_text(r, "spec.authorization.policies", a->policies.items[i], &cli->arena)) {
            return no_memory(err);
        }
    }
    return 0;
}

static int apply_user_options(struct cli *cli, ProtobufCMessage *r, const struct arguments *a,
                              struct error *err)
{
    if (set_enum(cli, r, "spec.type", a->type, "type", err) < 0 ||
        add_policies(cli, r, a, err) < 0) {
        return -err->status;
    }
    if (a->email && !field_set_text(r, "spec.email", a->email, &cli->arena)) {
        return no_memory(err);
    }
    for (size_t i = 0; i < a->groups.count; i++) {
        if (!field_add_text(r, "spec.groups", a->groups.items[i], &cli->arena)) {
            return no_memory(err);
        }
    }
    return 0;
}

static int apply_credential_options(struct cli *cli, ProtobufCMessage *r, const struct arguments *a,
                                    struct error *err)
{
    Core__Credential *c = (Core__Credential *)r;
    if (a->type) {
        if (set_enum(cli, r, "spec.type", a->type, "type", err) < 0) {
            return -err->status;
        }
    } else if (c->spec->type == CORE__CREDENTIAL__SPEC__TYPE__TYPE_UNKNOWN) {
        c->spec->type = CORE__CREDENTIAL__SPEC__TYPE__AUTH_TOKEN;
    }
    if (a->user && !field_set_text(r, "spec.user", a->user, &cli->arena)) {
        return no_memory(err);
    }
    return add_policies(cli, r, a, err);
}

static int apply_secret_options(struct cli *cli, ProtobufCMessage *r, const struct arguments *a,
                                struct error *err)
{
    const char *value = a->value;
    if (value && strcmp(value, "-") == 0) {
        struct str text;
        if (local_file_read("-", &cli->arena, &text, err) < 0) {
            return -err->status;
        }
        value = text.ptr;
    }
    return !value || field_set_text(r, "data.value", value, &cli->arena) ? 0 : no_memory(err);
}

static int apply_kind_options(struct cli *cli, const struct kind *kind, ProtobufCMessage *r,
                              const struct arguments *a, struct error *err)
{
    if (strcmp(kind->name, "Workspace") == 0) {
        return resource_build_workspace(cli, (Cordium__Workspace *)r, a, err);
    }
    if (strcmp(kind->name, "Template") == 0) {
        return apply_sandbox_options(cli, r, a, err);
    }
    if (strcmp(kind->name, "User") == 0) {
        return apply_user_options(cli, r, a, err);
    }
    if (strcmp(kind->name, "Credential") == 0) {
        return apply_credential_options(cli, r, a, err);
    }
    if (strcmp(kind->name, "Secret") == 0 || strcmp(kind->name, "UserSecret") == 0) {
        return apply_secret_options(cli, r, a, err);
    }
    return 0;
}

static int apply_metadata(struct cli *cli, ProtobufCMessage *r, const char *name,
                          const struct arguments *a, struct error *err)
{
    struct arena *arena = &cli->arena;
    if (!field_make(r, "metadata", arena) || !field_make(r, "spec", arena) ||
        (name && !field_set_text(r, "metadata.name", name, arena)) ||
        (a->display_name && !field_set_text(r, "metadata.display_name", a->display_name, arena)) ||
        (a->description && !field_set_text(r, "metadata.description", a->description, arena))) {
        return no_memory(err);
    }
    return 0;
}

/* Memberships are made from a Space and a user, not from a resource. */
static int build_membership(struct cli *cli, const struct schema_method *method,
                            const struct arguments *a, ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *r = cli_new(cli, method->request->descriptor);
    if (!a->space || (!a->user && !a->email)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "a membership needs --space and one of --user and --email");
    }
    if (set_enum(cli, r, "role", a->role ? a->role : "USER", "role", err) < 0) {
        return -err->status;
    }
    bool ok = field_set_text(r, "space_ref.name", a->space, &cli->arena) &&
              (a->user ? field_set_text(r, "user_ref.name", a->user, &cli->arena)
                       : field_set_text(r, "email", a->email, &cli->arena));
    *ret = r;
    return ok ? 0 : no_memory(err);
}

int resource_build(struct cli *cli, const struct kind *kind, const struct schema_method *method,
                   const struct arguments *args, ProtobufCMessage **ret, struct error *err)
{
    if (strcmp(kind->name, "Membership") == 0) {
        return build_membership(cli, method, args, ret, err);
    }
    const char *name = args->words.count > 1 ? args->words.items[1] : NULL;
    ProtobufCMessage *r = NULL;
    if (load(cli, method->request->descriptor, args->file, &r, err) < 0 ||
        apply_metadata(cli, r, name, args, err) < 0 ||
        apply_kind_options(cli, kind, r, args, err) < 0) {
        return -err->status;
    }
    bool needs_name = strcmp(kind->name, "Workspace") != 0;
    if (needs_name && field_text(r, "metadata.name", &cli->arena)[0] == '\0') {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: a name is missing: create %s NAME",
                         kind->name, kind->name);
    }
    *ret = r;
    return 0;
}

int resource_change(struct cli *cli, ProtobufCMessage *resource, const struct arguments *args,
                    struct error *err)
{
    ProtobufCMessage *given = NULL;
    if (!args->file && !args->display_name && !args->description) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "nothing to change: give --file, --display-name or --description");
    }
    if (load(cli, resource->descriptor, args->file, &given, err) < 0 ||
        apply_metadata(cli, resource, NULL, args, err) < 0) {
        return -err->status;
    }
    const ProtobufCMessage *spec = field_message(given, "spec");
    if (args->file && !spec) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: no `spec:` in it", args->file);
    }
    if (spec) {
        ProtobufCMessage *to = field_make(resource, "spec", &cli->arena);
        protobuf_c_message_init(to->descriptor, to);
        return codec_merge(to, spec, &cli->arena, err);
    }
    return 0;
}

int resource_print_token(struct cli *cli, const ProtobufCMessage *credential,
                         const struct arguments *args, struct error *err)
{
    Core__GenerateCredentialTokenRequest *request =
        CLI_NEW(cli, Core__GenerateCredentialTokenRequest, core__generate_credential_token_request);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(&request->base, "credential_ref.uid",
                         field_text(credential, "metadata.uid", &cli->arena), &cli->arena);
    if (cli_call(cli, CORE_MAIN "GenerateCredentialToken", &request->base, &reply, err) < 0) {
        return -err->status;
    }
    const Core__CredentialToken *token = (const Core__CredentialToken *)reply;
    if (args->output) {
        return output_message(reply, args->output, err);
    }
    if (token->type_case == CORE__CREDENTIAL_TOKEN__TYPE_OAUTH2_CREDENTIALS) {
        printf("%s %s\n", token->oauth2_credentials->client_id,
               token->oauth2_credentials->client_secret);
    } else if (token->type_case == CORE__CREDENTIAL_TOKEN__TYPE_ACCESS_TOKEN) {
        printf("%s\n", token->access_token->access_token);
    } else if (token->type_case == CORE__CREDENTIAL_TOKEN__TYPE_AUTHENTICATION_TOKEN) {
        printf("%s\n", token->authentication_token->authentication_token);
    }
    return 0;
}

int resource_start_workspace(struct cli *cli, const ProtobufCMessage *workspace, struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, &cordium__start_workspace_request__descriptor);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "workspace_ref.uid",
                         field_text(workspace, "metadata.uid", &cli->arena), &cli->arena);
    (void)field_make(request, "config", &cli->arena);
    return cli_call(cli, CORDIUM_MAIN "StartWorkspace", request, &reply, err);
}
