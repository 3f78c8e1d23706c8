/* cordium-gateway: the daemon without privileges that decides about every request. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "executor/proc/confine.h"
#include "executor/proc/fd.h"
#include "gateway/audit/audit_state.h"
#include "gateway/audit_command.h"
#include "gateway/daemon.h"
#include "gateway/edge/certificate.h"
#include "gateway/gateway.h"
#include "gateway/identity/bootstrap.h"
#include "gateway/state/store.h"
#include "gateway/version.h"

enum {
    EXIT_USAGE = 64,
    CONFIG_ARENA_BYTES = 4 * 1024 * 1024,
    PATH_MAX_BYTES = 4096,
};

static const char usage[] =
    "Usage: cordium-gateway [COMMAND] --config FILE\n"
    "\n"
    "Commands:\n"
    "  serve        serve until SIGTERM (the default)\n"
    "  init         make the store, the certificates and the first administrator; prints his\n"
    "               authentication token, once\n"
    "  admin-token  print a new authentication token for him, the old one being lost\n"
    "  check        read the configuration and say what is wrong with it\n"
    "  audit …      verify the audit log, erase one person's records: see `audit --help`\n"
    "\n"
    "  --config FILE  settings (YAML); gateway/README.md lists them\n"
    "  --version\n"
    "  --help\n";

static int path_in(const struct gateway_config *c, const char *name, char *ret, size_t room,
                   struct error *err)
{
    int n = snprintf(ret, room, "%s/%s", c->state_dir, name);
    return n > 0 && (size_t)n < room
               ? 0
               : error_set(err, STATUS_INVALID_ARGUMENT, "stateDir is too long");
}

static int make_folder(const char *path, struct error *err)
{
    if (mkdir(path, 0700) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                               "cannot make '%s' (its folder must belong to this user)", path);
    }
    return 0;
}

/* A certificate of our own, unless one is configured or there already and good for a month. */
static int make_certificates(const struct gateway_config *c, struct error *err)
{
    char tls[PATH_MAX_BYTES], ca[PATH_MAX_BYTES], ca_key[PATH_MAX_BYTES], server[PATH_MAX_BYTES],
        key[PATH_MAX_BYTES];
    int64_t now_s = (int64_t)time(NULL);
    if (c->certificate) {
        return 0;
    }
    if (path_in(c, "tls", tls, sizeof tls, err) < 0 ||
        path_in(c, "tls/ca.pem", ca, sizeof ca, err) < 0 ||
        path_in(c, "tls/ca.key", ca_key, sizeof ca_key, err) < 0 ||
        path_in(c, "tls/server.pem", server, sizeof server, err) < 0 ||
        path_in(c, "tls/server.key", key, sizeof key, err) < 0 || make_folder(tls, err) < 0) {
        return -err->status;
    }
    if (access(ca, F_OK) == -1 && certificate_make_authority(ca, ca_key, now_s, err) < 0) {
        return -err->status;
    }
    if (!certificate_ends_within(server, now_s, (int64_t)30 * 24 * 3600)) {
        return 0;
    }
    return certificate_issue(ca, ca_key, c->domain, server, key, now_s, err);
}

static int print_token(struct secret *token, struct error *err)
{
    bool ok = printf("%s\n", token->text) > 0 && fflush(stdout) == 0;
    secret_wipe(token);
    return ok ? 0 : error_set(err, STATUS_UNAVAILABLE, "cannot write the token to standard output");
}

static int with_store(const struct gateway_config *c,
                      int (*act)(struct gateway *g, struct secret *ret, struct error *err),
                      struct error *err)
{
    char path[PATH_MAX_BYTES];
    struct gateway g = {.config = c};
    struct secret token = {0};
    if (path_in(c, "store.db", path, sizeof path, err) < 0 || make_folder(c->state_dir, err) < 0 ||
        store_open(path, &g.store, err) < 0) {
        return -err->status;
    }
    int status = act(&g, &token, err);
    store_close(g.store);
    return status < 0 ? status : print_token(&token, err);
}

/* The audit log's key comes first: a store that is set up has one. */
static int set_up(struct gateway *g, struct secret *ret_token, struct error *err)
{
    int status = audit_state_make_key(g->config, g->store, err);
    return status < 0 ? status : bootstrap_store(g, ret_token, err);
}

static int run_init(const struct gateway_config *c, const char *config_sha256, struct error *err)
{
    (void)config_sha256;
    if (confine_require_unprivileged("cordium-gateway", err) < 0 ||
        make_folder(c->state_dir, err) < 0 || make_certificates(c, err) < 0) {
        return -err->status;
    }
    return with_store(c, set_up, err);
}

static int run_admin_token(const struct gateway_config *c, const char *config_sha256,
                           struct error *err)
{
    (void)config_sha256;
    if (confine_require_unprivileged("cordium-gateway", err) < 0) {
        return -err->status;
    }
    return with_store(c, bootstrap_admin_token, err);
}

static int run_check(const struct gateway_config *c, const char *config_sha256, struct error *err)
{
    (void)err;
    printf("configuration %.12s is good: %s on %s:%u, state in %s\n", config_sha256, c->domain,
           c->listen_host, c->listen_port, c->state_dir);
    return 0;
}

static int run_serve(const struct gateway_config *c, const char *config_sha256, struct error *err)
{
    if (confine_require_unprivileged("cordium-gateway", err) < 0 || make_certificates(c, err) < 0) {
        return -err->status;
    }
    return daemon_serve(c, config_sha256, err);
}

/* The hash that audit records of starts carry, so that a reviewer knows which settings were in
 * force. */
static int hash_file(const char *path, char ret[65], struct arena *arena, struct error *err)
{
    enum { FILE_BYTES = 1024 * 1024 };
    char *text = arena_alloc(arena, FILE_BYTES);
    ssize_t n = text ? fd_read_file(AT_FDCWD, path, text, FILE_BYTES) : -ENOMEM;
    if (n < 0) {
        return error_set_errno(err, STATUS_NOT_FOUND, (int)-n, "cannot read '%s'", path);
    }
    token_sha256_hex(str_make(text, (size_t)n), ret);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(const struct gateway_config *c, const char *config_sha256, struct error *err);
} commands[] = {{"serve", run_serve},
                {"init", run_init},
                {"admin-token", run_admin_token},
                {"check", run_check}};

static int run_command(const char *name, const char *config_path)
{
    struct arena arena;
    struct gateway_config config;
    struct error err = {0};
    char hash[2 * TOKEN_DIGEST_BYTES + 1];
    arena_init(&arena, CONFIG_ARENA_BYTES);
    int status = gateway_config_load(config_path, &arena, &config, &err);
    status = status < 0 ? status : hash_file(config_path, hash, &arena, &err);
    bool is_known = false;
    for (size_t i = 0; status == 0 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            is_known = true;
            status = commands[i].run(&config, hash, &err);
        }
    }
    if (status < 0) {
        fprintf(stderr, "cordium-gateway: %s\n", err.text);
    } else if (!is_known) {
        fprintf(stderr, "cordium-gateway: '%s' is no command\n%s", name, usage);
    }
    arena_free(&arena);
    return status < 0 ? EXIT_FAILURE : is_known ? EXIT_SUCCESS : EXIT_USAGE;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"version", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *config = NULL;
    int key;
    if (argc > 1 && strcmp(argv[1], "audit") == 0) {
        return audit_command_run(argc - 1, argv + 1);
    }
    while ((key = getopt_long(argc, argv, "c:vh", options, NULL)) != -1) {
        if (key == 'c') {
            config = optarg;
        } else if (key == 'v') {
            printf("cordium-gateway %s\n", GATEWAY_VERSION);
            return EXIT_SUCCESS;
        } else {
            fputs(usage, key == 'h' ? stdout : stderr);
            return key == 'h' ? EXIT_SUCCESS : EXIT_USAGE;
        }
    }
    if (!config || argc - optind > 1) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return run_command(optind < argc ? argv[optind] : "serve", config);
}
