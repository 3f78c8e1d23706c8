#include "gateway/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/confine.h"
#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_state.h"
#include "gateway/audit/audit_unended.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/edge/server.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/identity/bootstrap.h"
#include "gateway/identity/token.h"
#include "gateway/idle_memory.h"
#include "gateway/open_calls.h"
#include "gateway/request.h"
#include "gateway/services/audit_desk.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/image_builder.h"
#include "gateway/services/network_denials.h"
#include "gateway/services/watch.h"
#include "gateway/services/work_queue.h"
#include "gateway/services/workspace_run.h"
#include "gateway/state/store.h"
#include "gateway/telemetry/telemetry.h"
#include "gateway/version.h"

enum {
    DRAIN_GRACE_MS = 5000,
    RECORD_MAX_BYTES = 65536,
    PATH_MAX_BYTES = 4096,
    SIGNAL_COUNT = 3,
};

static const int handled_signals[SIGNAL_COUNT] = {SIGTERM, SIGINT, SIGHUP};

struct daemon {
    struct gateway gateway;
    uv_loop_t loop;
    uv_signal_t signals[SIGNAL_COUNT];
    unsigned signals_open;
    bool loop_is_open;
    bool is_stopping;
    const char *config_sha256;
    struct idle_memory *idle_memory;
};

static void record_event(const struct gateway *g, const struct audit_daemon *facts)
{
    struct buf line;
    buf_init(&line, RECORD_MAX_BYTES);
    audit_record_daemon(facts, gateway_wall_ns(g), &line);
    if (audit_log_append(g->audit, &line, NULL, NULL) < 0) {
        log_error("the audit log does not take the %s record", facts->event);
    }
    buf_free(&line);
}

static void record_own_event(const struct daemon *d, const char *event)
{
    const struct audit_daemon facts = {"gateway", event, GATEWAY_VERSION, d->config_sha256, NULL};
    record_event(&d->gateway, &facts);
}

static void on_drained(void *owner)
{
    struct gateway *g = owner;
    uv_stop(g->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    if (number == SIGHUP) {
        struct error err;
        if (edge_server_reload_tls(d->gateway.edge, &err) < 0) {
            log_error("the certificate was not read anew: %s", err.text);
        } else {
            log_info("certificate read anew");
        }
        return;
    }
    if (d->is_stopping) {
        uv_stop(&d->loop); /* a second signal does not wait for running calls */
        return;
    }
    d->is_stopping = true;
    log_info("stopping");
    edge_server_drain(d->gateway.edge, DRAIN_GRACE_MS, on_drained);
}

/* A connection, a command (3 pipes) and a workspace each take some; many systems begin at 1024. */
static void raise_descriptors(void)
{
    struct rlimit nofile;
    if (getrlimit(RLIMIT_NOFILE, &nofile) == 0 && nofile.rlim_cur < nofile.rlim_max) {
        nofile.rlim_cur = nofile.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &nofile);
    }
}

static int open_signals(struct daemon *d, struct error *err)
{
    for (unsigned i = 0; i < SIGNAL_COUNT; i++) {
        int status = uv_signal_init(&d->loop, &d->signals[i]);
        if (status == 0) {
            d->signals[i].data = d;
            d->signals_open++;
            status = uv_signal_start(&d->signals[i], on_signal, handled_signals[i]);
        }
        if (status < 0) {
            return error_set(err, STATUS_INTERNAL, "signal handler: %s", uv_strerror(status));
        }
    }
    return 0;
}

/* What must be there before anybody can ask. */
static int open_state(struct daemon *d, struct error *err)
{
    const struct gateway_config *c = d->gateway.config;
    char path[PATH_MAX_BYTES];
    int n = snprintf(path, sizeof path, "%s/store.db", c->state_dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "stateDir is too long");
    }
    if (access(path, F_OK) == -1) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "there is no store in '%s': run `cordium-gateway init` first",
                         c->state_dir);
    }
    if (store_open(path, &d->gateway.store, err) < 0 ||
        policy_store_new(d->gateway.store, &d->gateway.policies, err) < 0) {
        return -err->status;
    }
    policy_store_sign(d->gateway.policies, "", "start", gateway_wall_ns(&d->gateway));
    if (policy_store_reload(d->gateway.policies, err) < 0 ||
        bootstrap_check(&d->gateway, err) < 0) {
        return -err->status;
    }
    policy_store_set_strict(d->gateway.policies, c->policy_strict);
    if (telemetry_new(&d->gateway, &d->gateway.telemetry, err) < 0 ||
        audit_state_open_log(&d->gateway, &d->loop, err) < 0) {
        return -err->status;
    }
    telemetry_begin(d->gateway.telemetry);
    return 0;
}

/* The executor is seen from here alone: what it is, and by which settings it limits us. */
static void record_executor_up(const struct gateway *g)
{
    const struct executor_host_report *host = executor_link_host(g->executor);
    char sha256[TOKEN_DIGEST_HEX_SIZE];
    char detail[128];
    token_sha256_hex(host->config_text, sha256);
    (void)snprintf(detail, sizeof detail, "cgroup %s, %u sandboxes at most, network %s",
                   host->cgroup_mode == EXECUTOR_CGROUP_V2 ? "v2" : "v1", host->sandboxes_max,
                   host->has_network ? "on" : "off");
    const struct audit_daemon facts = {"executor", "CONNECTED", host->release, sha256, detail};
    record_event(g, &facts);
}

static void on_executor_up(void *context)
{
    record_executor_up(context);
    log_info("executor: connected");
    workspace_table_executor_up(context);
}

static void on_executor_down(void *context)
{
    const struct audit_daemon facts = {"executor", "DISCONNECTED", NULL, NULL, NULL};
    log_warning("executor: connection lost");
    record_event(context, &facts);
    workspace_table_executor_down(context);
}

static void on_sandbox_gone(void *context, const struct executor_sandbox_gone *event)
{
    workspace_table_sandbox_gone(context, event);
}

static void on_network_denied(void *context, const struct executor_network_denied *event)
{
    network_denials_record(context, event);
}

/* What an earlier gateway left open has its end in the log before the store forgets that it was
 * open: so a start that is killed here leaves it to the next, which sees in the log what is told.
 */
static int end_leftovers(struct gateway *g, struct error *err)
{
    uint64_t since = audit_log_open_since(g->audit);
    int rc = audit_log_flush(g->audit, err);
    rc = rc ? rc : audit_unended_read(g->config->audit_dir, since, &g->unended, err);
    rc = rc ? rc : workspace_table_new(g, &g->workspaces, err);
    rc = rc ? rc : oneshot_table_new(g, &g->oneshots, err);
    rc = rc ? rc : audit_unended_tell_requests(g->unended, g->audit, gateway_wall_ns(g), err);
    audit_unended_free(g->unended);
    g->unended = NULL;
    if (rc == 0) {
        audit_log_settle(g->audit);
    }
    return rc;
}

static int open_services(struct daemon *d, struct error *err)
{
    struct gateway *g = &d->gateway;
    const struct executor_link_events events = {
        .up = on_executor_up,
        .down = on_executor_down,
        .sandbox_gone = on_sandbox_gone,
        .network_denied = on_network_denied,
        .context = g,
    };
    if (watch_hub_new(g, &g->watches, err) < 0 || image_table_new(g, &g->images, err) < 0 ||
        end_leftovers(g, err) < 0 || idle_memory_new(g, &d->idle_memory, err) < 0 ||
        work_queue_new(g, &g->work, err) < 0 || audit_desk_new(g, &g->audit_desk, err) < 0 ||
        open_calls_new(g, &g->open_calls, err) < 0 ||
        edge_server_new(&d->loop, edge_limits_default(), &request_events, g, &g->edge, err) < 0) {
        return -err->status;
    }
    return executor_link_new(&d->loop, g->config->executor_socket, &events, &g->executor, err);
}

static int write_port(const struct gateway_config *c, uint16_t port, struct error *err)
{
    char text[8];
    (void)snprintf(text, sizeof text, "%u\n", port);
    AUTO_FD int dir = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int fd =
        dir == -1 ? -1 : openat(dir, "port", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd == -1 || write(fd, text, strlen(text)) == -1) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "cannot write '%s/port'", c->state_dir);
    }
    return 0;
}

static int open_port(struct daemon *d, struct error *err)
{
    const struct gateway_config *c = d->gateway.config;
    char certificate[PATH_MAX_BYTES];
    char key[PATH_MAX_BYTES];
    uint16_t port = 0;
    (void)snprintf(certificate, sizeof certificate, "%s/tls/server.pem", c->state_dir);
    (void)snprintf(key, sizeof key, "%s/tls/server.key", c->state_dir);
    if (edge_server_listen_tls(d->gateway.edge, c->listen_host, c->listen_port,
                               c->certificate ? c->certificate : certificate,
                               c->certificate_key ? c->certificate_key : key, &port, err) < 0 ||
        write_port(c, port, err) < 0) {
        return -err->status;
    }
    log_info("serving octelium-api.%s on %s:%u", c->domain, c->listen_host, port);
    return 0;
}

static void close_all(struct daemon *d)
{
    struct gateway *g = &d->gateway;
    telemetry_stop_serving(g->telemetry);
    edge_server_free(g->edge);
    open_calls_free(g->open_calls);
    idle_memory_free(d->idle_memory);
    g->edge = NULL; /* workspaces that end by what follows leave their listeners alone */
    audit_desk_close(g->audit_desk);
    executor_link_free(g->executor);
    oneshot_table_free(g->oneshots);
    workspace_table_free(g->workspaces);
    image_table_free(g->images);
    watch_hub_free(g->watches);
    for (unsigned i = 0; i < d->signals_open; i++) {
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    }
    if (g->audit) {
        record_own_event(d, "STOP");
        audit_log_close(g->audit);
    }
    if (d->loop_is_open) {
        uv_run(&d->loop, UV_RUN_DEFAULT);
        telemetry_close(g->telemetry); /* the audit log's last lines go, too */
        (void)uv_loop_close(&d->loop);
    }
    audit_desk_free(g->audit_desk);
    work_queue_free(g->work);
    policy_store_free(g->policies);
    store_close(g->store);
}

int daemon_serve(const struct gateway_config *config, const char *config_sha256, struct error *err)
{
    struct daemon d = {.gateway.config = config, .config_sha256 = config_sha256};
    if (uv_loop_init(&d.loop) < 0) {
        return error_set(err, STATUS_INTERNAL, "cannot make an event loop");
    }
    d.loop_is_open = true;
    d.gateway.loop = &d.loop;
    raise_descriptors();
    int status = confine_require_unprivileged("cordium-gateway", err);
    status = status < 0 ? status : open_state(&d, err);
    if (status == 0) {
        record_own_event(&d, "START");
        status = open_services(&d, err);
    }
    status = status < 0 ? status : open_signals(&d, err);
    /* From here on the outside is heard, so from here on we are confined. */
    status = status < 0 ? status : confine_server(err);
    status = status < 0 ? status : open_port(&d, err);
    if (status == 0) {
        uv_run(&d.loop, UV_RUN_DEFAULT);
    }
    close_all(&d);
    return status;
}
