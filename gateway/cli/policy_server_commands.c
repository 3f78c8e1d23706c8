/* policy versions, policy rollback, and explanations by the server. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/ext.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/output.h"
#include "gateway/cli/policy_explain.h"
#include "gateway/policyfile/explanation.h"

#define POLICY_SERVICE "/cordium.ext.v1.PolicyService/"

enum { TEXT_MAX_BYTES = 64 * 1024 * 1024, COLUMNS = 5 };

/* Under the policies of then and of now, when they are not the same. */
static void explain_both(const Ext__Explanation *now, bool with_values, struct buf *out)
{
    if (now->then) {
        buf_printf(out, "Under the policies of then (set %" PRIu64 "):\n\n",
                   now->then->policy_set_version);
        explanation_print(now->then, with_values, out);
        buf_printf(out, "\nUnder the policies of now (set %" PRIu64 "):\n\n",
                   now->policy_set_version);
    }
    explanation_print(now, with_values, out);
    if (now->then) {
        buf_add_cstr(out, now->is_changed ? "\nNow it is decided otherwise than then.\n"
                                          : "\nThen and now, the decision is the same.\n");
    }
}

int policy_explain_print(const Ext__Explanation *message, const struct arguments *args,
                         struct error *err)
{
    if (args->output && strcmp(args->output, "table") != 0) {
        return output_message(&message->base, args->output, err);
    }
    struct buf out;
    buf_init(&out, TEXT_MAX_BYTES);
    explain_both(message, args->show_all, &out);
    int status = out.failed
                     ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "the explanation is too long")
                     : output_write(stdout, buf_str(&out), err);
    buf_free(&out);
    return status;
}

/* Protobuf-c's strings are not const; none of these is written to. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)(s ? s : "");
}

static int explain_body(struct cli *cli, const struct arguments *args, int *exit_code,
                        struct error *err)
{
    (void)exit_code;
    ProtobufCMessage *reply = NULL;
    Ext__ExplainRequest *q = CLI_NEW(cli, Ext__ExplainRequest, ext__explain_request);
    q->method = text(args->method);
    q->session = text(args->session);
    q->user = text(args->user);
    q->body = text(args->body);
    q->audit_id = text(args->audit_id);
    int rc = cli_call(cli, POLICY_SERVICE "Explain", &q->base, &reply, err);
    return rc ? rc : policy_explain_print((const Ext__Explanation *)reply, args, err);
}

int policy_explain_live(const struct arguments *args)
{
    return cli_run(args, explain_body);
}

static int versions_body(struct cli *cli, const struct arguments *args, int *exit_code,
                         struct error *err)
{
    static const char *const titles[COLUMNS] = {"VERSION", "CREATED", "USER", "POLICIES", "REASON"};
    (void)exit_code;
    ProtobufCMessage *reply = NULL;
    Ext__ListVersionsRequest *q =
        CLI_NEW(cli, Ext__ListVersionsRequest, ext__list_versions_request);
    q->count = args->items_per_page;
    int rc = cli_call(cli, POLICY_SERVICE "ListVersions", &q->base, &reply, err);
    if (rc || (args->output && strcmp(args->output, "table") != 0)) {
        return rc ? rc : output_message(reply, args->output, err);
    }
    const Ext__VersionList *list = (const Ext__VersionList *)reply;
    const char **cells = cli_alloc(cli, (list->n_items * COLUMNS + 1) * sizeof *cells);
    for (size_t i = 0; i < list->n_items; i++) {
        const Ext__PolicyVersion *v = list->items[i];
        const char **row = &cells[i * COLUMNS];
        row[0] = cli_printf(cli, "%" PRIu64 "%s", v->version, v->is_current ? " (in force)" : "");
        row[1] = v->created_at;
        row[2] = v->user;
        row[3] = cli_printf(cli, "%u", v->policies);
        row[4] = v->reason;
    }
    output_table(titles, COLUMNS, cells, list->n_items);
    return 0;
}

static int run_versions(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, versions_body);
}

static int rollback_body(struct cli *cli, const struct arguments *args, int *exit_code,
                         struct error *err)
{
    (void)exit_code;
    char *end;
    ProtobufCMessage *reply = NULL;
    Ext__RollbackRequest *q = CLI_NEW(cli, Ext__RollbackRequest, ext__rollback_request);
    q->version = strtoull(args->words.items[0], &end, 10);
    if (*end || q->version == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "'%s' is no version; `policy versions` lists them", args->words.items[0]);
    }
    q->dry_run = args->is_dry_run;
    int rc = cli_call(cli, POLICY_SERVICE "Rollback", &q->base, &reply, err);
    if (rc || (args->output && strcmp(args->output, "table") != 0)) {
        return rc ? rc : output_message(reply, args->output, err);
    }
    const Ext__ApplyResponse *r = (const Ext__ApplyResponse *)reply;
    fputs(r->diff, stdout);
    printf("%s%u created, %u updated, %u unchanged, %u deleted\n",
           args->is_dry_run ? "dry run: " : "", r->created, r->updated, r->unchanged, r->deleted);
    return 0;
}

static int run_rollback(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, rollback_body);
}

static const struct argp_option versions_options[] = {
    ARG_OUTPUT,
    {"items-per-page", OPT_ITEMS_PER_PAGE, "N", 0, "at most so many (20)", 0},
    ARG_END,
};

static const struct argp_option rollback_options[] = {
    ARG_OUTPUT,
    {"dry-run", OPT_DRY_RUN, NULL, 0, "show what would change", 0},
    ARG_END,
};

const struct command policy_server_commands[] = {
    {"policy versions", "List the sets of policies that were in force.", "", versions_options, 0, 0,
     0, run_versions},
    {"policy rollback", "Put the policies of a former version in force again.", "VERSION",
     rollback_options, 0, 1, 1, run_rollback},
    {0},
};
