/* build: makes a Template's image and pre-build, and shows how it goes. */
#include "gateway/cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/cordium.pb-c.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/field.h"
#include "gateway/cli/output.h"
#include "gateway/cli/workspace_wait.h"

typedef Cordium__Template__Status__BuildInfo__Build template_build;

static int get_template(struct cli *cli, const char *name, Cordium__Template **ret,
                        struct error *err)
{
    ProtobufCMessage *request = cli_new(cli, &meta__get_options__descriptor);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "name", name, &cli->arena);
    int status = cli_call(cli, CORDIUM_MAIN "GetTemplate", request, &reply, err);
    *ret = (Cordium__Template *)reply;
    return status;
}

static const template_build *find_build(const Cordium__Template *t, const char *id)
{
    size_t n = t->status && t->status->build_info ? t->status->build_info->n_builds : 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(t->status->build_info->builds[i]->id, id) == 0) {
            return t->status->build_info->builds[i];
        }
    }
    return NULL;
}

/* The build's log ends with the build; what it came to is in the Template. */
static int follow(struct cli *cli, const Cordium__Template *t, const char *id, struct error *err)
{
    const char *workspace = cli_printf(cli, "build-%s-%s", t->metadata->uid, id);
    struct error log_error;
    (void)workspace_follow_log(cli, workspace, false, &log_error);
    for (;;) {
        Cordium__Template *now = NULL;
        if (get_template(cli, t->metadata->name, &now, err) < 0) {
            return -err->status;
        }
        const template_build *b = find_build(now, id);
        if (!b) {
            return error_set(err, STATUS_NOT_FOUND, "build '%s' of Template '%s' is gone", id,
                             t->metadata->name);
        }
        if (b->state == CORDIUM__TEMPLATE__STATUS__BUILD_INFO__BUILD__STATE__STATE_READY) {
            return 0;
        }
        if (b->state == CORDIUM__TEMPLATE__STATUS__BUILD_INFO__BUILD__STATE__STATE_FAILED) {
            return error_set(err, STATUS_FAILED_PRECONDITION, "build '%s' of Template '%s' %s: %s",
                             id, t->metadata->name, b->is_canceled ? "was cancelled" : "failed",
                             workspace_failure_text(cli, b->failure));
        }
        output_progress("build %s: running", id);
        struct timespec pause = {0, 200000000};
        (void)nanosleep(&pause, NULL);
    }
}

static int start_build(struct cli *cli, const struct arguments *args, Cordium__Template **ret,
                       struct error *err)
{
    const char *name = args->words.items[0];
    const char *method =
        args->cancel ? CORDIUM_MAIN "CancelBuildTemplate" : CORDIUM_MAIN "BuildTemplate";
    ProtobufCMessage *request =
        cli_new(cli, args->cancel ? &cordium__cancel_build_template_request__descriptor
                                  : &cordium__build_template_request__descriptor);
    ProtobufCMessage *reply = NULL;
    (void)field_set_text(request, "template_ref.name", name, &cli->arena);
    for (size_t i = 0; !args->cancel && i < args->tags.count; i++) {
        (void)field_add_text(request, "tags", args->tags.items[i], &cli->arena);
    }
    int status = cli_call(cli, method, request, &reply, err);
    *ret = (Cordium__Template *)reply;
    return status;
}

static int build_body(struct cli *cli, const struct arguments *args, int *exit_code,
                      struct error *err)
{
    (void)exit_code;
    Cordium__Template *t = NULL;
    if (start_build(cli, args, &t, err) < 0) {
        return -err->status;
    }
    if (args->cancel) {
        fprintf(stderr, "Canceled a build for Template: %s\n", t->metadata->name);
        return 0;
    }
    fprintf(stderr, "Started a build for Template: %s\n", t->metadata->name);
    const char *id =
        t->status && t->status->build_info ? t->status->build_info->current_running_build_id : "";
    if (args->detach || !id[0]) {
        return 0;
    }
    if (follow(cli, t, id, err) < 0) {
        output_progress_clear();
        return -err->status;
    }
    output_progress_clear();
    fprintf(stderr, "Build %s of Template %s is ready\n", id, t->metadata->name);
    return 0;
}

static int run_build(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, build_body);
}

static const struct argp_option build_options[] = {
    {"cancel", OPT_CANCEL, NULL, 0, "cancel the build that runs", 0},
    {"detach", OPT_DETACH, NULL, 0, "return at once; do not follow the log", 0},
    {"tag", OPT_TAG, "TAG", 0, "tag of the build (may be repeated)", 0},
    ARG_END,
};

const struct command build_commands[] = {
    {"build", "Build a Template's image and pre-build.", "TEMPLATE", build_options, 0, 1, 1,
     run_build},
    {0},
};
