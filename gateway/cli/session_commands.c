/* login, logout, status, version. */
#include "gateway/cli/commands.h"

#include <stdio.h>

#include "gateway/cli/cli.h"
#include "gateway/cli/output.h"
#include "gateway/cli/session.h"

static int login_body(struct cli *cli, const struct arguments *args, int *exit_code,
                      struct error *err)
{
    (void)args;
    (void)exit_code;
    (void)err;
    fprintf(stderr, "Logged in at %s\n",
            cli->settings.server ? cli->settings.server : cli->settings.domain);
    return 0;
}

static int run_login(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, login_body);
}

static int logout_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    (void)args;
    (void)exit_code;
    return session_logout(cli->transport, &cli->settings, &cli->arena, err);
}

static int run_logout(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, logout_body);
}

static int status_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    (void)exit_code;
    const char *path = "/octelium.api.main.user.v1.MainService/GetStatus";
    const struct schema_method *m = schema_method_find(str_from(path));
    ProtobufCMessage *reply = NULL;
    if (!m) {
        return error_set(err, STATUS_UNIMPLEMENTED, "no method '%s'", path);
    }
    int status = cli_call(cli, path, cli_new(cli, m->request->descriptor), &reply, err);
    return status < 0 ? status : output_message(reply, args->output, err);
}

static int run_status(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, status_body);
}

static const struct argp_option no_options[] = {ARG_END};
static const struct argp_option status_options[] = {ARG_OUTPUT, ARG_END};

const struct command session_commands[] = {
    {"login", "Log in with OCTELIUM_AUTH_TOKEN and keep the session.", "", no_options, 0, 0, 0,
     run_login},
    {"logout", "End the kept session.", "", no_options, 0, 0, 0, run_logout},
    {"status", "Who and where we are.", "", status_options, 0, 0, 0, run_status},
    {0},
};
