#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <stdbool.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Where the server is and who we are: from options, else environment, else the config file
 * ($CORDIUM_CONFIG, or ~/.config/cordium/config.yaml with `name: value` lines), else defaults. */
struct settings {
    const char *domain;       /* --domain, CORDIUM_DOMAIN, OCTELIUM_DOMAIN, domain: ("localhost") */
    const char *server;       /* --server, CORDIUM_SERVER, server: (127.0.0.1:8443 for localhost) */
    const char *ca_file;      /* --ca-file, CORDIUM_CA_FILE, caFile: */
    bool is_insecure;         /* OCTELIUM_INSECURE_TLS=true, insecureTLS: true */
    const char *unix_socket;  /* OCTELIUM_AUTH_PROXY_SOCKET: inside a workspace */
    const char *access_token; /* OCTELIUM_ACCESS_TOKEN */
    const char *auth_token;   /* OCTELIUM_AUTH_TOKEN or OCTELIUM_AUTHENTICATION_TOKEN, authToken: */
    const char *home;         /* --homedir, OCTELIUM_HOME (~/.octelium); NULL for "mem" */
};

struct settings_options {
    const char *domain, *server, *ca_file, *home;
};

/* INVALID_ARGUMENT names the file and line of an unknown or malformed setting. */
int settings_load(const struct settings_options *options, struct arena *arena, struct settings *ret,
                  struct error *err);

#endif
