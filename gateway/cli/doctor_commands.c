/* doctor: whether the gateway can be used from here, and what the executor's program says of this
 * machine. Nothing here needs a right; what needs root is the executor's own program. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/health.pb-c.h"
#include "api/user.pb-c.h"
#include "executor/proc/fd.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/findings.h"
#include "gateway/cli/session.h"
#include "gateway/version.h"
#include "policy/base/bytes.h"

enum { CHECK_OUTPUT_MAX_BYTES = 1 << 20, CHECK_TIMEOUT_MS = 60000, DOCTOR_ARENA_BYTES = 64 << 20 };

#define HEALTH_CHECK "/grpc.health.v1.Health/Check"
#define EXECUTORS_SERVICE "octelium.api.main.cordium.v1.WorkspaceService"
#define EXECUTOR_CONFIG "/etc/cordium/executor.conf"

extern char **environ;

static const char *address(const struct settings *s)
{
    return s->unix_socket ? s->unix_socket : s->server ? s->server : s->domain;
}

/* Whether one of the gateway's services serves, or all ("") do; needs no session. */
static int ask_health(struct cli *cli, const char *service, bool *ret, struct error *err)
{
    Health__HealthCheckRequest request = HEALTH__HEALTH_CHECK_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    request.service = (char *)service;
    int status = cli_call(cli, HEALTH_CHECK, &request.base, &reply, err);
    if (status == 0) {
        *ret = ((const Health__HealthCheckResponse *)reply)->status ==
               HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    }
    return status;
}

static const char *certificate_text(const struct settings *s)
{
    return s->unix_socket   ? "by the workspace's own socket"
           : s->is_insecure ? "its certificate is not verified (OCTELIUM_INSECURE_TLS)"
           : s->ca_file     ? "its certificate is signed by the CA file"
                            : "its certificate is trusted by the system";
}

static void check_executor_link(struct cli *cli, struct findings *f)
{
    bool serves = false;
    struct error err = {0};
    if (ask_health(cli, EXECUTORS_SERVICE, &serves, &err) < 0) {
        findings_add(f, FINDING_PROBLEM, "executor link", "%s", err.text);
    } else if (serves) {
        findings_add(f, FINDING_OK, "executor link", "the gateway is connected to its executor");
    } else {
        findings_add(f, FINDING_PROBLEM, "executor link",
                     "the gateway is not connected to its executor (remedy: start "
                     "cordium-executor; its gateway_uid is the gateway's user, executorSocket of "
                     "the gateway is executor.sock in its runtime_dir)");
    }
}

/* False when there is nobody to ask more of. */
static bool check_gateway(struct cli *cli, struct findings *f)
{
    bool serves = false;
    struct error err = {0};
    if (ask_health(cli, "", &serves, &err) < 0) {
        findings_add(f, FINDING_PROBLEM, "server",
                     "%s (remedy: start cordium-gateway, or set --server, --domain and --ca-file)",
                     err.text);
    } else if (!serves) {
        findings_add(f, FINDING_PROBLEM, "server", "%s is about to stop", address(&cli->settings));
    } else {
        findings_add(f, FINDING_OK, "server", "%s serves; %s", address(&cli->settings),
                     certificate_text(&cli->settings));
    }
    return serves;
}

static void check_session(struct cli *cli, struct findings *f)
{
    User__GetStatusRequest request = USER__GET_STATUS_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    struct error err = {0};
    int status = session_ensure(cli->transport, &cli->settings, &cli->arena, &err);
    status = status < 0 ? status
                        : cli_call(cli, "/octelium.api.main.user.v1.MainService/GetStatus",
                                   &request.base, &reply, &err);
    if (status < 0) {
        findings_add(f, FINDING_PROBLEM, "session", "%s (%s)", err.text, status_name(err.status));
        return;
    }
    const User__GetStatusResponse *who = (const User__GetStatusResponse *)reply;
    findings_add(f, FINDING_OK, "session", "user %s, domain %s",
                 who->user && who->user->metadata ? who->user->metadata->name : "?", who->domain);
}

static void check_server(const struct arguments *args, struct findings *f)
{
    struct cli cli;
    struct error err = {0};
    if (cli_open_transport(&cli, args, &err) < 0) {
        findings_add(f, FINDING_PROBLEM, "settings", "%s", err.text);
    } else if (check_gateway(&cli, f)) {
        check_executor_link(&cli, f);
        check_session(&cli, f);
    }
    cli_close(&cli);
}

/* Beside us, or where such programs are installed; never in PATH, which somebody else may have
 * set for root. False when it is nowhere. */
static bool find_executor(char *ret, size_t size)
{
    static const char *const folders[] = {"/usr/local/sbin", "/usr/sbin", "/usr/local/bin",
                                          "/usr/bin"};
    char own[4096];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash = NULL;
    if (n > 0) {
        own[n] = '\0';
        slash = strrchr(own, '/');
    }
    if (slash) {
        *slash = '\0';
        int used = snprintf(ret, size, "%s/cordium-executor", own);
        if (used > 0 && (size_t)used < size && access(ret, X_OK) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        (void)snprintf(ret, size, "%s/cordium-executor", folders[i]);
        if (access(ret, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Runs `program --check --json --config FILE`; what it prints is in the arena. */
static int run_check(const char *program, const char *config, struct arena *arena, struct str *ret,
                     struct error *err)
{
    const char *const argv[] = {program, "--check", "--json", "--config", config, NULL};
    posix_spawn_file_actions_t actions;
    int output[2];
    pid_t pid;
    if (pipe2(output, O_CLOEXEC) == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "pipe");
    }
    AUTO_FD int ours = output[0];
    AUTO_FD int theirs = output[1];
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO);
    int r = posix_spawn(&pid, program, &actions, NULL, (char *const *)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    fd_close(&theirs);
    if (r != 0) {
        return error_set_errno(err, STATUS_UNAVAILABLE, r, "run '%s'", program);
    }
    char *text = arena_alloc(arena, CHECK_OUTPUT_MAX_BYTES);
    size_t used = 0;
    struct pollfd p = {.fd = ours, .events = POLLIN};
    while (text && used < CHECK_OUTPUT_MAX_BYTES && poll(&p, 1, CHECK_TIMEOUT_MS) > 0) {
        ssize_t n = read(ours, text + used, CHECK_OUTPUT_MAX_BYTES - used);
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    fd_close(&ours);
    /* It ends by itself, and takes away what it made: not to be killed in the midst of that. */
    while (waitpid(pid, NULL, 0) == -1 && errno == EINTR) {
    }
    *ret = str_make(text, used);
    return text ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static void check_host(const struct arguments *args, struct findings *f)
{
    char program[4200];
    const char *config = args->file ? args->file : EXECUTOR_CONFIG;
    struct str json;
    struct error err = {0};
    if (!find_executor(program, sizeof program)) {
        findings_add(f, FINDING_NOTE, "host",
                     "no cordium-executor is installed here: only the gateway was looked at");
        return;
    }
    if (run_check(program, config, f->arena, &json, &err) < 0 ||
        findings_add_json(f, json, &err) < 0) {
        findings_add(f, FINDING_PROBLEM, "host",
                     "'%s --check --json' cannot be used: %s (remedy: install client and executor "
                     "of one build)",
                     program, err.text);
    }
}

static int run_doctor(const struct command *self, const struct arguments *args)
{
    struct arena arena;
    struct error err = {0};
    (void)self;
    arena_init(&arena, DOCTOR_ARENA_BYTES);
    struct findings f = findings_in(&arena);
    findings_add(&f, FINDING_OK, "client", "cordium %s", GATEWAY_VERSION);
    check_server(args, &f);
    check_host(args, &f);
    int exit_code = findings_print(&f, args->output, &err) < 0 ? cli_report(&err)
                    : f.problems > 0                           ? CLI_EXIT_FAILED
                                                               : 0;
    arena_free(&arena);
    return exit_code;
}

static const struct argp_option doctor_options[] = {
    {"output", 'o', "FORMAT", 0, "text, json or yaml", 0},
    {"file", 'f', "FILE", 0, "the executor's configuration (" EXECUTOR_CONFIG ")", 0},
    ARG_END};

const struct command doctor_commands[] = {
    {"doctor", "Tell what keeps the platform from working, and the remedy.", "", doctor_options, 0,
     0, 0, run_doctor},
    {0},
};
