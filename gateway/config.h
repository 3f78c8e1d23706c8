#ifndef GATEWAY_CONFIG_H
#define GATEWAY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Settings of the gateway: a YAML file, read once and then constant. Each has a default; an unknown
 * name is refused with its line. Paths are absolute, or relative to the file's folder. */
struct gateway_config {
    const char *domain;          /* "localhost": the API answers for octelium-api.<domain> too */
    const char *listen_host;     /* "127.0.0.1" */
    uint16_t listen_port;        /* 8443; 0 picks a free one and writes it to state_dir/port */
    const char *state_dir;       /* store, certificates, audit log; mode 0700, ours */
    const char *certificate;     /* PEM; made at `init` when not given */
    const char *certificate_key; /* PEM */
    const char *executor_socket;
    const char *audit_dir;              /* state_dir/audit */
    unsigned audit_rotate_mebibytes;    /* 64: a file of the log is finished when it is so large */
    unsigned audit_checkpoint_lines;    /* 1000 */
    unsigned audit_checkpoint_seconds;  /* 60 */
    unsigned audit_retention_days;      /* 0: files are kept */
    unsigned audit_retention_mebibytes; /* 0: files are kept */
    const char *audit_readers_group;    /* its members may read the log: "auditors" */
    bool audit_command_text;            /* records hold the text of commands, not its hash alone */
    const char *region;                 /* "default" */
    bool policy_strict;        /* input that a rule lacks denies, see policy_query.is_strict */
    const char *default_image; /* registry reference for specs without an image; NULL: refused */

    unsigned workspaces_per_user_max;        /* 1000 */
    unsigned active_workspaces_per_user_max; /* 128 */
    unsigned output_bytes_max;               /* per Run stream kept in memory */
    unsigned start_wait_ms; /* StartWorkspace answers when RUNNING within this: 500 */
    bool debug_trace;       /* a line of the daemon's log per request: where its time went */

    /* How long, and how much of, the results of Runs are kept; the oldest go first. */
    struct {
        unsigned retention_seconds; /* 86400 */
        unsigned results_max;       /* 10000 */
        unsigned megabytes_max;     /* 512 */
        bool keep_inputs;           /* with each result, so that it can be run again */
    } runs;

    /* What image builds may use. */
    struct {
        const char *ca_bundle;     /* PEM bundle made visible to builds; NULL: the host's */
        const char *pip_index_url; /* NULL: pip's own default */
        const char *proxy;         /* http(s)_proxy for builds */
        const char *no_proxy;
        const char *const *mirrors; /* "docker.io=mirror.example:5000,insecure": PREFIX=LOCATION */
        size_t mirror_count;
        const char *const *hosts; /* "ADDRESS NAME" lines for /etc/hosts of builds */
        size_t host_count;
        unsigned timeout_seconds; /* 3600 */
    } build;

    /* What leaves for those who watch: telemetry/telemetry.h. NULL: off. */
    struct {
        const char *metrics_listen;     /* "127.0.0.1:9464" */
        const char *metrics_token_file; /* opens /metrics on the API's port */
        const char *otlp_endpoint;      /* "https://collector.example:4318" */
        const char *otlp_ca_bundle;     /* PEM; NULL: the host's */
        const char *otlp_headers_file;  /* "Name: value" lines, mode 0600 */
        unsigned otlp_metrics_seconds;  /* 60; 0: no metrics */
        const char *syslog_target;      /* "unix:///dev/log" */
        unsigned syslog_facility;       /* 13: log audit */
        bool allow_plaintext;           /* lines may cross the network unencrypted */
        unsigned queue_mebibytes;       /* of each sink: 16 */
    } telemetry;
};

/* Lives in the arena. */
int gateway_config_load(const char *path, struct arena *arena, struct gateway_config *ret,
                        struct error *err);

#endif
