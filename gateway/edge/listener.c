#include "gateway/edge/server_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/edge/connection.h"

enum { ACCEPTS_PER_TURN_MAX = 64 };

static void describe_peer(const struct sockaddr_storage *address, char *to, size_t room)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(to, room, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(to, room, "%s:%u", host, ntohs(in->sin_port));
    }
}

static void describe_unix_peer(int fd, char *to, size_t room)
{
    struct ucred cred = {.pid = 0, .uid = (uid_t)-1};
    socklen_t len = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == -1) {
        (void)snprintf(to, room, "unix:");
        return;
    }
    (void)snprintf(to, room, "unix:pid=%d,uid=%u", (int)cred.pid, cred.uid);
}

/* Takes one connection; false when there is no room for it: it is closed. */
static void admit(struct edge_listener *l, int fd, const struct sockaddr_storage *address)
{
    struct edge_server *s = l->server;
    struct source *source = NULL;
    if (s->connection_count >= s->limits.connections_max) {
        (void)close(fd);
        return;
    }
    struct call_origin origin = {.listener_owner = l->owner, .is_tls = l->tls != NULL};
    if (l->is_unix) {
        describe_unix_peer(fd, origin.peer, sizeof origin.peer);
    } else {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only faster */
        describe_peer(address, origin.peer, sizeof origin.peer);
        source = source_table_take(s->sources, (const struct sockaddr *)address,
                                   s->limits.connections_per_source_max);
        if (!source) {
            (void)close(fd);
            return;
        }
    }
    connection_open(s, l, fd, l->tls, &origin, source);
}

static void on_connection(uv_poll_t *poll, int status, int events);

static void resume(struct edge_timer *timer)
{
    struct edge_listener *l =
        (struct edge_listener *)(void *)((char *)timer - offsetof(struct edge_listener, resume));
    (void)uv_poll_start(&l->poll, UV_READABLE, on_connection);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct edge_listener *l = poll->data;
    if (status < 0) {
        return;
    }
    for (int i = 0; i < ACCEPTS_PER_TURN_MAX; i++) {
        struct sockaddr_storage address = {0};
        socklen_t len = sizeof address;
        int fd = accept4(l->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd != -1) {
            admit(l, fd, &address);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The backlog stays readable: do not spin until something was closed. */
            (void)uv_poll_stop(&l->poll);
            timer_set_add(&l->server->timers, &l->resume,
                          edge_server_now_ms(l->server) + EDGE_ACCEPT_PAUSE_MS);
        }
        if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

int edge_listener_open(struct edge_server *s, int fd, bool is_unix, void *owner,
                       struct edge_listener **ret, struct error *err)
{
    struct edge_listener *l = calloc(1, sizeof *l);
    int rc = l ? uv_poll_init(s->loop, &l->poll, fd) : UV_ENOMEM; /* makes it non-blocking */
    if (rc != 0) {
        (void)close(fd);
        free(l);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "watch a listening socket: %s",
                         uv_strerror(rc));
    }
    s->handle_count++;
    l->poll.data = l;
    l->server = s;
    l->fd = fd;
    l->is_unix = is_unix;
    l->owner = owner;
    l->resume.fire = resume;
    l->next = s->listeners;
    if (l->next) {
        l->next->prev = l;
    }
    s->listeners = l;
    rc = uv_poll_start(&l->poll, UV_READABLE, on_connection);
    if (rc != 0) {
        edge_listener_close(l);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "watch a listening socket: %s",
                         uv_strerror(rc));
    }
    *ret = l;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct edge_listener *l = handle->data;
    struct edge_server *server = l->server;
    tls_context_free(l->tls);
    free(l->certificate_path);
    free(l->key_path);
    free(l);
    edge_server_handle_closed(server);
}

void edge_listener_stop(struct edge_listener *l)
{
    timer_set_remove(&l->server->timers, &l->resume);
    (void)uv_poll_stop(&l->poll);
    if (l->fd != -1) {
        (void)close(l->fd);
        l->fd = -1;
    }
}

void edge_listener_close(struct edge_listener *l)
{
    struct edge_server *s = l->server;
    if (l->prev) {
        l->prev->next = l->next;
    } else {
        s->listeners = l->next;
    }
    if (l->next) {
        l->next->prev = l->prev;
    }
    edge_listener_stop(l);
    for (struct connection *c = s->connections; c; c = c->next) {
        c->listener = c->listener == l ? NULL : c->listener;
    }
    uv_close((uv_handle_t *)&l->poll, on_closed);
}
