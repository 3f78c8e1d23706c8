#include "gateway/edge/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/edge/connection.h"
#include "gateway/edge/http2_session.h"
#include "gateway/edge/server_internal.h"

enum { LISTEN_BACKLOG = 1024 };

struct edge_limits edge_limits_default(void)
{
    return (struct edge_limits){
        .connections_max = 8192,
        .connections_per_source_max = 1024,
        /* Each exec of a client holds a stream, and the SDK has one connection. */
        .streams_per_connection_max = 1024,
        .idle_timeout_ms = 30 * 60 * 1000, /* as the original */
        .handshake_timeout_ms = 10 * 1000,
        .head_timeout_ms = 10 * 1000,
    };
}

uint64_t edge_server_now_ms(const struct edge_server *s)
{
    return uv_now(s->loop);
}

/* ---- the turn of the loop ---- */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* its being there keeps the loop from sleeping */
}

static void on_alarm(uv_timer_t *alarm)
{
    struct edge_server *s = alarm->data;
    s->alarm_at_ms = 0;
}

static void arm_alarm(struct edge_server *s)
{
    uint64_t at_ms;
    if (!timer_set_next(&s->timers, &at_ms)) {
        return; /* one that is armed for nothing does no harm */
    }
    uint64_t now_ms = edge_server_now_ms(s);
    if (s->alarm_at_ms == 0 || at_ms < s->alarm_at_ms) {
        s->alarm_at_ms = at_ms > now_ms ? at_ms : now_ms + 1;
        (void)uv_timer_start(&s->alarm, on_alarm, s->alarm_at_ms - now_ms, 0);
    }
}

static void tell_drained(struct edge_server *s)
{
    if (s->is_draining && !s->is_drain_told && s->connection_count == 0) {
        s->is_drain_told = true;
        timer_set_remove(&s->timers, &s->drain_timer);
        if (s->drained) {
            s->drained(s->owner);
        }
    }
}

/* Runs before the loop sleeps: due timers, then each dirty connection once. What becomes dirty
 * meanwhile has its turn in the next pass, so that one busy connection cannot hold the others up.
 */
static void on_prepare(uv_prepare_t *prepare)
{
    struct edge_server *s = prepare->data;
    timer_set_run(&s->timers, edge_server_now_ms(s));
    struct connection *list = s->dirty;
    s->dirty = NULL;
    while (list) {
        struct connection *c = list;
        list = c->dirty_next;
        c->is_dirty = false;
        connection_flush(c);
    }
    bool has_work = s->dirty != NULL;
    if (has_work != s->is_idle_on) {
        s->is_idle_on = has_work;
        (void)(has_work ? uv_idle_start(&s->idle, on_idle) : uv_idle_stop(&s->idle));
    }
    arm_alarm(s);
    tell_drained(s);
}

/* ---- life ---- */

void edge_server_handle_closed(struct edge_server *s)
{
    s->handle_count--;
    if (s->is_freed && s->handle_count == 0) {
        call_free_spares(s);
        source_table_free(s->sources);
        http2_shared_free(s->http2);
        buf_free(&s->spare_out);
        free(s->read_buffer);
        free(s);
    }
}

static void on_own_handle_closed(uv_handle_t *handle)
{
    edge_server_handle_closed(handle->data);
}

static void ignore_sigpipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL); /* cannot fail for a valid signal */
}

static void drain_step(struct edge_timer *timer);

int edge_server_new(struct uv_loop_s *loop, struct edge_limits limits,
                    const struct call_events *events, void *owner, struct edge_server **ret,
                    struct error *err)
{
    struct edge_server *s = calloc(1, sizeof *s);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the server: out of memory");
    }
    s->loop = loop;
    s->limits = limits;
    s->events = events;
    s->owner = owner;
    s->drain_timer.fire = drain_step;
    buf_init(&s->spare_out, SIZE_MAX / 2);
    s->sources = source_table_new();
    s->http2 = http2_shared_new();
    s->read_buffer = malloc(EDGE_READ_BYTES);
    if (!s->sources || !s->http2 || !s->read_buffer) {
        source_table_free(s->sources);
        http2_shared_free(s->http2);
        free(s->read_buffer);
        free(s);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the server: out of memory");
    }
    /* These three cannot fail (libuv: "always succeed"). */
    (void)uv_prepare_init(loop, &s->prepare);
    (void)uv_idle_init(loop, &s->idle);
    (void)uv_timer_init(loop, &s->alarm);
    s->prepare.data = s;
    s->idle.data = s;
    s->alarm.data = s;
    s->handle_count = 3;
    (void)uv_prepare_start(&s->prepare, on_prepare);
    ignore_sigpipe();
    *ret = s;
    return 0;
}

void edge_server_free(struct edge_server *s)
{
    if (!s) {
        return;
    }
    s->is_freed = true;
    while (s->listeners) {
        edge_listener_close(s->listeners);
    }
    for (struct connection *c = s->connections; c; c = c->next) {
        connection_kill(c);
    }
    while (s->dirty) {
        struct connection *c = s->dirty;
        s->dirty = c->dirty_next;
        c->is_dirty = false;
        connection_flush(c);
    }
    uv_close((uv_handle_t *)&s->prepare, on_own_handle_closed);
    uv_close((uv_handle_t *)&s->idle, on_own_handle_closed);
    uv_close((uv_handle_t *)&s->alarm, on_own_handle_closed);
}

/* ---- listeners ---- */

static int listen_tcp(const char *host, uint16_t port, int *ret_fd, uint16_t *ret_port,
                      struct error *err)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const char *address = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    int rc = getaddrinfo(address, service, &hints, &found);
    if (rc != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "listen on '%s': %s; give a numeric address",
                         host, gai_strerror(rc));
    }
    int on = 1;
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_ok = fd != -1 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != -1 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) != -1 &&
                 listen(fd, LISTEN_BACKLOG) != -1 &&
                 getsockname(fd, (struct sockaddr *)&bound, &len) != -1;
    int error_number = errno;
    freeaddrinfo(found);
    if (!is_ok) {
        if (fd != -1) {
            (void)close(fd);
        }
        return error_set_errno(err, STATUS_UNAVAILABLE, error_number, "listen on '%s' port %u",
                               host, port);
    }
    *ret_fd = fd;
    /* The port lies at the same place in both families. */
    *ret_port = ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port);
    return 0;
}

int edge_server_listen_tls(struct edge_server *s, const char *host, uint16_t port,
                           const char *certificate_path, const char *key_path, uint16_t *ret_port,
                           struct error *err)
{
    struct tls_context *tls = NULL;
    int fd = -1;
    uint16_t bound_port = 0;
    struct edge_listener *l = NULL;
    int rc = tls_context_load(certificate_path, key_path, &tls, err);
    if (!rc) {
        rc = listen_tcp(host, port, &fd, &bound_port, err);
    }
    if (!rc) {
        rc = edge_listener_open(s, fd, false, NULL, &l, err);
    }
    if (rc) {
        tls_context_free(tls);
        return rc;
    }
    l->tls = tls;
    l->certificate_path = strdup(certificate_path);
    l->key_path = strdup(key_path);
    if (!l->certificate_path || !l->key_path) {
        edge_listener_close(l);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "listen on '%s': out of memory", host);
    }
    *ret_port = bound_port;
    return 0;
}

int edge_server_listen_plain(struct edge_server *s, const char *host, uint16_t port,
                             struct error *err)
{
    int fd = -1;
    uint16_t bound_port;
    struct edge_listener *l;
    int rc = listen_tcp(host, port, &fd, &bound_port, err);
    return rc ? rc : edge_listener_open(s, fd, false, NULL, &l, err);
}

int edge_server_adopt_unix(struct edge_server *s, int listen_fd, void *listener_owner,
                           struct edge_listener **ret, struct error *err)
{
    return edge_listener_open(s, listen_fd, true, listener_owner, ret, err);
}

void edge_server_close_listener(struct edge_listener *listener)
{
    struct edge_server *s = listener->server;
    for (struct connection *c = s->connections; c; c = c->next) {
        if (c->listener == listener) {
            connection_kill(c);
        }
    }
    edge_listener_close(listener);
}

int edge_server_reload_tls(struct edge_server *s, struct error *err)
{
    for (struct edge_listener *l = s->listeners; l; l = l->next) {
        if (!l->tls) {
            continue;
        }
        struct tls_context *fresh = NULL;
        int rc = tls_context_load(l->certificate_path, l->key_path, &fresh, err);
        if (rc) {
            return rc; /* the old certificate goes on */
        }
        tls_context_free(l->tls);
        l->tls = fresh;
    }
    return 0;
}

/* ---- drain ---- */

static void drain_step(struct edge_timer *timer)
{
    struct edge_server *s =
        (struct edge_server *)(void *)((char *)timer - offsetof(struct edge_server, drain_timer));
    uint64_t now_ms = edge_server_now_ms(s);
    bool is_over = now_ms >= s->drain_ends_ms;
    bool is_final = now_ms + EDGE_DRAIN_FINAL_MS >= s->drain_ends_ms;
    for (struct connection *c = s->connections; c; c = c->next) {
        if (is_over) {
            connection_kill(c);
        } else if (!c->is_dead) {
            connection_drain(c, true, is_final);
        }
    }
    s->is_last_goaway_sent = true;
    if (!is_over) {
        timer_set_add(&s->timers, timer,
                      is_final ? s->drain_ends_ms : s->drain_ends_ms - EDGE_DRAIN_FINAL_MS);
    }
}

void edge_server_drain(struct edge_server *s, unsigned grace_ms, void (*done)(void *owner))
{
    if (s->is_draining) {
        return;
    }
    s->is_draining = true;
    s->drained = done;
    uint64_t now_ms = edge_server_now_ms(s);
    s->drain_ends_ms = now_ms + grace_ms;
    for (struct edge_listener *l = s->listeners; l; l = l->next) {
        edge_listener_stop(l);
    }
    for (struct connection *c = s->connections; c; c = c->next) {
        if (!c->is_dead) {
            connection_drain(c, false, false);
        }
    }
    unsigned notice_ms = grace_ms < EDGE_DRAIN_NOTICE_MS ? grace_ms : EDGE_DRAIN_NOTICE_MS;
    timer_set_add(&s->timers, &s->drain_timer, now_ms + notice_ms);
    /* Wakes the loop, also when there is no connection to wait for. */
    (void)uv_timer_start(&s->alarm, on_alarm, 0, 0);
    s->alarm_at_ms = now_ms;
}

bool edge_server_is_draining(const struct edge_server *s)
{
    return s->is_draining;
}
