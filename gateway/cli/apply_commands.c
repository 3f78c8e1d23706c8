/* apply: policies, users and the cluster's configuration from YAML files, all or nothing. */
#include "gateway/cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/ext.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/field.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/output.h"
#include "gateway/cli/yaml_folder.h"

static const char *action_name(int action)
{
    return action == EXT__APPLY_RESPONSE__ACTION__CREATED     ? "created"
           : action == EXT__APPLY_RESPONSE__ACTION__UPDATED   ? "updated"
           : action == EXT__APPLY_RESPONSE__ACTION__DELETED   ? "deleted"
           : action == EXT__APPLY_RESPONSE__ACTION__UNCHANGED ? "unchanged"
                                                              : "?";
}

/* What would have become of requests of the past. */
static void print_replay(const Ext__Replay *r)
{
    if (!r) {
        return;
    }
    for (size_t i = 0; i < r->n_changes; i++) {
        const Ext__Replay__Change *c = r->changes[i];
        printf("%s %s %s: %s by %s, would be %s by %s (audit line %s)\n", c->time, c->user,
               c->method, c->was_allowed ? "allowed" : "denied", c->before,
               c->is_allowed ? "allowed" : "denied", c->after, c->audit_id);
    }
    printf("%u requests of the audit log decided again: %zu change, %u do not, %u cannot be told "
           "(their body or headers would decide), %u are by sessions or about objects that are "
           "gone\n",
           r->examined, r->n_changes, r->unchanged, r->undecidable, r->gone);
}

static void print_result(const Ext__ApplyResponse *r, bool is_dry_run)
{
    for (size_t i = 0; i < r->n_items; i++) {
        const Ext__ApplyResponse__Item *item = r->items[i];
        printf("%s %s %s\n", item->kind, item->name, action_name(item->action));
        for (size_t w = 0; w < item->n_warnings; w++) {
            fprintf(stderr, "warning: %s\n", item->warnings[w]);
        }
    }
    if (is_dry_run && r->diff[0]) {
        fputs(r->diff, stdout);
    }
    print_replay(r->replay);
    printf("%s%u created, %u updated, %u unchanged, %u deleted\n", is_dry_run ? "dry run: " : "",
           r->created, r->updated, r->unchanged, r->deleted);
}

static int apply_body(struct cli *cli, const struct arguments *args, int *exit_code,
                      struct error *err)
{
    (void)exit_code;
    struct str text;
    ProtobufCMessage *reply = NULL;
    const char *path = args->words.items[0];
    if (yaml_folder_read(path, &cli->arena, &text, err) < 0) {
        return -err->status;
    }
    Ext__ApplyRequest *request = CLI_NEW(cli, Ext__ApplyRequest, ext__apply_request);
    request->documents = (char *)(uintptr_t)text.ptr;
    request->dry_run = args->is_dry_run;
    request->prune = args->prune;
    request->audit_lines = args->audit_lines;
    if (args->audit_lines && !args->is_dry_run) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--audit-lines goes with --dry-run");
    }
    if (cli_call(cli, "/cordium.ext.v1.PolicyService/Apply", &request->base, &reply, err) < 0) {
        return error_wrap(err, "%s", path);
    }
    if (args->output) {
        return output_message(reply, args->output, err);
    }
    print_result((const Ext__ApplyResponse *)reply, args->is_dry_run);
    return 0;
}

static int run_apply(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, apply_body);
}

static const struct argp_option apply_options[] = {
    ARG_OUTPUT,
    {"dry-run", OPT_DRY_RUN, NULL, 0, "check, and show what would change", 0},
    {"audit-lines", OPT_AUDIT_LINES, "N", 0,
     "with --dry-run: decide the last N requests of the audit log again", 0},
    {"prune", OPT_PRUNE, NULL, 0, "delete policies that the files do not name", 0},
    ARG_END,
};

const struct command apply_commands[] = {
    {"apply", "Apply policies, users and the ClusterConfig from YAML: all or nothing.",
     "FILE|FOLDER|-", apply_options, 0, 1, 1, run_apply},
    {0},
};
