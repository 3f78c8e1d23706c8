/* get, create, update and delete, for every kind of resource alike. */
#include "gateway/cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cli/field.h"
#include "gateway/cli/kinds.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/output.h"
#include "gateway/cli/resource_build.h"
#include "gateway/rpc/codec.h"

static int find_kind(const char *word, const struct kind **ret, struct error *err)
{
    *ret = kind_find(word);
    return *ret ? 0
                : error_set(err, STATUS_INVALID_ARGUMENT,
                            "'%s' is no kind of resource; `cordium kinds` lists them", word);
}

static int find_method(const struct kind *kind, const char *verb, const struct schema_method **ret,
                       struct error *err)
{
    *ret = kind_method(kind, verb);
    return *ret ? 0
                : error_set(err, STATUS_UNIMPLEMENTED, "%s cannot be %s from outside", kind->plural,
                            strcmp(verb, "Create") == 0   ? "created"
                            : strcmp(verb, "Update") == 0 ? "updated"
                            : strcmp(verb, "Delete") == 0 ? "deleted"
                                                          : "read");
}

static int get_one(struct cli *cli, const struct kind *kind, const char *name,
                   ProtobufCMessage **ret, struct error *err)
{
    const struct schema_method *m;
    if (find_method(kind, "Get", &m, err) < 0) {
        return -err->status;
    }
    ProtobufCMessage *request = cli_new(cli, m->request->descriptor);
    if (name && field_has(request, "name")) {
        (void)field_set_text(request, "name", name, &cli->arena);
    }
    return cli_call(cli, m->path, request, ret, err);
}

static int list(struct cli *cli, const struct kind *kind, const struct arguments *args,
                struct error *err)
{
    const struct schema_method *m;
    ProtobufCMessage *reply = NULL;
    if (find_method(kind, "List", &m, err) < 0) {
        return -err->status;
    }
    ProtobufCMessage *request = cli_new(cli, m->request->descriptor);
    Meta__CommonListOptions *common =
        (Meta__CommonListOptions *)field_make(request, "common", &cli->arena);
    common->page = args->page;
    common->items_per_page = args->items_per_page;
    if (args->space && field_has(request, "space_ref")) {
        (void)field_set_text(request, "space_ref.name", args->space, &cli->arena);
    }
    if (args->template_ && field_has(request, "template_ref")) {
        (void)field_set_text(request, "template_ref.name", args->template_, &cli->arena);
    }
    int status = cli_call(cli, m->path, request, &reply, err);
    return status < 0 ? status : output_list(cli, kind, reply, args->output, err);
}

static const struct kind cordium_cluster_config = {"ClusterConfig",    "ClusterConfigs",
                                                   CORDIUM_MANAGEMENT, {NULL},
                                                   {{NULL, NULL}},     "GetClusterConfig"};

static int get_body(struct cli *cli, const struct arguments *args, int *exit_code,
                    struct error *err)
{
    (void)exit_code;
    const struct kind *kind;
    if (find_kind(args->words.items[0], &kind, err) < 0) {
        return -err->status;
    }
    const char *name = args->words.count > 1 ? args->words.items[1] : NULL;
    if (kind->singleton_get && args->cordium_config) {
        kind = &cordium_cluster_config;
    }
    if (!name && !kind->singleton_get) {
        return list(cli, kind, args, err);
    }
    ProtobufCMessage *resource = NULL;
    int status = get_one(cli, kind, name, &resource, err);
    return status < 0 ? status : output_message(resource, args->output, err);
}

/* What is wrong with the words themselves is said before anybody logs in. */
static int run_with_kind(const struct arguments *args,
                         int (*body)(struct cli *cli, const struct arguments *args, int *exit_code,
                                     struct error *err))
{
    const struct kind *kind;
    struct error err;
    return find_kind(args->words.items[0], &kind, &err) < 0 ? cli_report(&err)
                                                            : cli_run(args, body);
}

static int run_get(const struct command *self, const struct arguments *args)
{
    (void)self;
    return run_with_kind(args, get_body);
}

static int announce(const struct kind *kind, const char *done, const ProtobufCMessage *resource,
                    struct cli *cli, const struct arguments *args, struct error *err)
{
    if (args->output) {
        return output_message(resource, args->output, err);
    }
    fprintf(stderr, "Successfully %s %s: %s\n", done, kind->name,
            field_text(resource, "metadata.name", &cli->arena));
    return 0;
}

static int create_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    (void)exit_code;
    const struct kind *kind;
    const struct schema_method *m;
    ProtobufCMessage *request = NULL;
    ProtobufCMessage *made = NULL;
    if (find_kind(args->words.items[0], &kind, err) < 0 ||
        find_method(kind, "Create", &m, err) < 0 ||
        resource_build(cli, kind, m, args, &request, err) < 0 ||
        cli_call(cli, m->path, request, &made, err) < 0 ||
        announce(kind, "created", made, cli, args, err) < 0) {
        return -err->status;
    }
    if (strcmp(kind->name, "Credential") == 0) {
        return resource_print_token(cli, made, args, err);
    }
    if (strcmp(kind->name, "Workspace") == 0 && args->start) {
        return resource_start_workspace(cli, made, err);
    }
    return 0;
}

static int run_create(const struct command *self, const struct arguments *args)
{
    (void)self;
    return run_with_kind(args, create_body);
}

static int update_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    (void)exit_code;
    const struct kind *kind;
    const struct schema_method *m;
    ProtobufCMessage *resource = NULL;
    ProtobufCMessage *changed = NULL;
    if (find_kind(args->words.items[0], &kind, err) < 0) {
        return -err->status;
    }
    if (kind->singleton_get && args->cordium_config) {
        kind = &cordium_cluster_config;
    }
    const char *name = args->words.count > 1 ? args->words.items[1] : NULL;
    if (find_method(kind, "Update", &m, err) < 0 || get_one(cli, kind, name, &resource, err) < 0 ||
        resource_change(cli, resource, args, err) < 0 ||
        cli_call(cli, m->path, resource, &changed, err) < 0) {
        return -err->status;
    }
    return announce(kind, "updated", changed, cli, args, err);
}

static int run_update(const struct command *self, const struct arguments *args)
{
    (void)self;
    return run_with_kind(args, update_body);
}

static int delete_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    const struct kind *kind;
    const struct schema_method *m;
    if (find_kind(args->words.items[0], &kind, err) < 0 ||
        find_method(kind, "Delete", &m, err) < 0) {
        return -err->status;
    }
    for (size_t i = 1; i < args->words.count; i++) {
        ProtobufCMessage *request = cli_new(cli, m->request->descriptor);
        ProtobufCMessage *resource = NULL;
        ProtobufCMessage *reply = NULL;
        /* Deletion goes by uid, so that the thing that was looked at is the thing that goes. */
        int status = get_one(cli, kind, args->words.items[i], &resource, err);
        if (status == 0) {
            (void)field_set_text(request, "uid", field_text(resource, "metadata.uid", &cli->arena),
                                 &cli->arena);
            status = cli_call(cli, m->path, request, &reply, err);
        }
        if (status < 0) {
            *exit_code = cli_report(err);
            continue;
        }
        fprintf(stderr, "Successfully deleted %s: %s\n", kind->name, args->words.items[i]);
    }
    return 0;
}

static int run_delete(const struct command *self, const struct arguments *args)
{
    (void)self;
    return run_with_kind(args, delete_body);
}

static int run_kinds(const struct command *self, const struct arguments *args)
{
    (void)self;
    (void)args;
    kind_print_all();
    return 0;
}

static const struct argp_option get_options[] = {
    ARG_OUTPUT,
    {"space", OPT_SPACE, "SPACE", 0, "only what is in this Space", 0},
    {"template", OPT_TEMPLATE, "TEMPLATE", 0, "only Workspaces of this Template", 0},
    {"page", OPT_PAGE, "N", 0, "page of a list, from 0", 0},
    {"items-per-page", OPT_ITEMS_PER_PAGE, "N", 0, "at most 1000", 0},
    {"cordium", OPT_CORDIUM, NULL, 0, "with clusterconfig: Cordium's own", 0},
    ARG_END,
};

static const struct argp_option create_options[] = {
    ARG_OUTPUT,
    ARG_FILE("YAML with the spec ('-': standard input)"),
    {"display-name", OPT_DISPLAY_NAME, "TEXT", 0, "name for people", 0},
    {"description", OPT_DESCRIPTION, "TEXT", 0, "what it is for", 0},
    {"space", OPT_SPACE, "SPACE", 0, "membership: the Space", 1},
    {"template", OPT_TEMPLATE, "TEMPLATE", 0, "workspace: the Template", 1},
    {"image", OPT_IMAGE, "URL", 0, "template, workspace: image of a registry", 1},
    {"dockerfile", OPT_DOCKERFILE, "FILE", 0, "template, workspace: build this file", 1},
    ARG_ENV,
    {"cpu", OPT_CPU, "MILLICORES", 0, "limit", 1},
    {"memory", OPT_MEMORY, "MEGABYTES", 0, "limit", 1},
    {"storage", OPT_STORAGE, "MEGABYTES", 0, "limit", 1},
    {"read-only", OPT_READ_ONLY, NULL, 0, "read-only root file system", 1},
    {"no-network", OPT_NO_NETWORK, NULL, 0, "no network beyond loopback", 1},
    {"var", OPT_VAR, "NAME=VALUE", 0, "variable of the spec (may be repeated)", 1},
    {"ephemeral", OPT_EPHEMERAL, NULL, 0, "workspace: storage goes when it stops", 1},
    {"start", OPT_START, NULL, 0, "workspace: start it", 1},
    {"type", OPT_TYPE, "TYPE", 0,
     "user: HUMAN or WORKLOAD; credential: AUTH_TOKEN, OAUTH2 or ACCESS_TOKEN", 2},
    {"email", OPT_EMAIL, "ADDRESS", 0, "user, membership: e-mail address", 2},
    {"group", OPT_GROUP, "GROUP", 0, "user: member of (may be repeated)", 2},
    {"policy", OPT_POLICY, "POLICY", 0, "user, credential: attach (may be repeated)", 2},
    {"user", OPT_USER, "USER", 0, "credential, membership: whose", 2},
    {"role", OPT_ROLE, "ROLE", 0, "membership: USER, ADMIN or OWNER", 2},
    {"value", OPT_VALUE, "TEXT", 0, "secret: its value ('-': standard input)", 2},
    ARG_END,
};

static const struct argp_option update_options[] = {
    ARG_OUTPUT,
    ARG_FILE("YAML with the new spec ('-': standard input)"),
    {"display-name", OPT_DISPLAY_NAME, "TEXT", 0, "name for people", 0},
    {"description", OPT_DESCRIPTION, "TEXT", 0, "what it is for", 0},
    {"cordium", OPT_CORDIUM, NULL, 0, "with clusterconfig: Cordium's own", 0},
    ARG_END,
};

static const struct argp_option no_options[] = {ARG_END};

const struct command resource_commands[] = {
    {"get", "Show one resource, or list them.", "KIND [NAME]", get_options, 0, 1, 2, run_get},
    {"create", "Make a resource.", "KIND [NAME]", create_options, 0, 1, 2, run_create},
    {"update", "Replace the spec of a resource.", "KIND [NAME]", update_options, 0, 1, 2,
     run_update},
    {"delete", "Delete resources.", "KIND NAME...", no_options, 0, 2, ARGUMENTS_LIST_MAX,
     run_delete},
    {"kinds", "List the kinds of resources.", "", no_options, 0, 0, 0, run_kinds},
    {0},
};
