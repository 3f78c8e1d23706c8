#include "gateway/executor_link.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    CONNECT_TIMEOUT_MS = 200, /* the loop stands still meanwhile: an executor that hangs, and is
                                 tried again and again, must not take the gateway along */
    RETRY_FIRST_MS = 50,
    RETRY_LAST_MS = 2000,
    WATCH_BUCKETS = 1024, /* power of two; runs alive at once are hundreds */
};

struct executor_link {
    uv_loop_t *loop;
    uv_timer_t retry_timer;
    uv_prepare_t prepare; /* before each wait: does the client have something left to write? */
    unsigned open_handles;
    uv_poll_t *poll; /* its own allocation: closing it ends in a later iteration */
    struct executor_client *client;
    struct executor_link_events events;
    char *socket_path;
    char last_error[256];
    unsigned retry_ms;
    short armed_events;
    bool is_lost; /* `disconnected` was called; the client is closed outside of its callback */
    bool is_freed;
    struct executor_run_watch *watches[WATCH_BUCKETS];
};

static struct executor_run_watch **bucket_of(struct executor_link *link, uint64_t run)
{
    return &link->watches[(run ^ (run >> 32)) & (WATCH_BUCKETS - 1)];
}

void executor_link_watch(struct executor_link *link, struct executor_run_watch *watch)
{
    struct executor_run_watch **head = bucket_of(link, watch->run);
    watch->next = *head;
    *head = watch;
}

void executor_link_unwatch(struct executor_link *link, struct executor_run_watch *watch)
{
    for (struct executor_run_watch **at = bucket_of(link, watch->run); *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            watch->next = NULL;
            return;
        }
    }
}

static void on_run_exited(void *context, const struct executor_run_exit *event)
{
    struct executor_link *link = context;
    for (struct executor_run_watch *w = *bucket_of(link, event->run); w; w = w->next) {
        if (w->run == event->run) {
            executor_link_unwatch(link, w);
            w->exited(w, event);
            return;
        }
    }
}

static void on_sandbox_gone(void *context, const struct executor_sandbox_gone *event)
{
    struct executor_link *link = context;
    link->events.sandbox_gone(link->events.context, event);
}

static void on_network_denied(void *context, const struct executor_network_denied *event)
{
    struct executor_link *link = context;
    link->events.network_denied(link->events.context, event);
}

static void remember_error(struct executor_link *link, const struct error *err)
{
    (void)snprintf(link->last_error, sizeof link->last_error, "%.255s", err->text);
}

static void on_disconnected(void *context, const struct error *why)
{
    struct executor_link *link = context;
    remember_error(link, why);
    link->is_lost = true;
}

static void poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_poll(struct executor_link *link)
{
    if (link->poll) {
        (void)uv_poll_stop(link->poll);
        uv_close((uv_handle_t *)link->poll, poll_closed);
        link->poll = NULL;
    }
}

/* The runs' fate is unknown: each owner hears it once. An owner may watch no new run meanwhile,
 * because there is no client to start one with. */
static void fail_watches(struct executor_link *link)
{
    for (size_t i = 0; i < WATCH_BUCKETS; i++) {
        while (link->watches[i]) {
            struct executor_run_watch *w = link->watches[i];
            link->watches[i] = w->next;
            w->next = NULL;
            w->exited(w, NULL);
        }
    }
}

static void retry_later(struct executor_link *link);

static void drop_connection(struct executor_link *link)
{
    struct executor_client *client = link->client;
    close_poll(link);
    link->client = NULL;
    link->is_lost = false;
    executor_client_close(client);
    fail_watches(link);
    link->events.down(link->events.context);
    if (!link->is_freed) {
        link->retry_ms = RETRY_FIRST_MS;
        retry_later(link);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void arm_poll(struct executor_link *link)
{
    short wanted = executor_client_poll_events(link->client);
    if (wanted != link->armed_events) {
        int events = ((wanted & POLLIN) ? UV_READABLE : 0) | ((wanted & POLLOUT) ? UV_WRITABLE : 0);
        (void)uv_poll_start(link->poll, events, on_poll);
        link->armed_events = wanted;
    }
}

static void dispatch(struct executor_link *link)
{
    int rc = executor_client_dispatch(link->client);
    if (rc || link->is_lost) {
        drop_connection(link);
        return;
    }
    arm_poll(link);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct executor_link *link = poll->data;
    (void)status; /* an error on the socket shows in dispatch */
    (void)events;
    dispatch(link);
}

static int watch_fd(struct executor_link *link)
{
    link->poll = calloc(1, sizeof *link->poll);
    if (!link->poll) {
        return -STATUS_INTERNAL;
    }
    if (uv_poll_init(link->loop, link->poll, executor_client_fd(link->client))) {
        free(link->poll);
        link->poll = NULL;
        return -STATUS_INTERNAL;
    }
    link->poll->data = link;
    link->armed_events = 0;
    arm_poll(link);
    return 0;
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct executor_link *link = prepare->data;
    if (link->client && !link->is_lost) {
        arm_poll(link);
    }
}

static void try_connect(struct executor_link *link)
{
    const struct executor_client_events events = {.run_exited = on_run_exited,
                                                  .sandbox_gone = on_sandbox_gone,
                                                  .network_denied = on_network_denied,
                                                  .disconnected = on_disconnected,
                                                  .context = link};
    struct error err = {0};
    link->is_lost = false;
    if (executor_client_connect(link->socket_path, CONNECT_TIMEOUT_MS, &events, &link->client,
                                &err)) {
        remember_error(link, &err);
        link->client = NULL;
        retry_later(link);
        return;
    }
    if (watch_fd(link)) {
        executor_client_close(link->client);
        link->client = NULL;
        retry_later(link);
        return;
    }
    link->retry_ms = RETRY_FIRST_MS;
    link->last_error[0] = '\0';
    link->events.up(link->events.context);
}

static void on_retry(uv_timer_t *timer)
{
    try_connect(timer->data);
}

static void retry_later(struct executor_link *link)
{
    (void)uv_timer_start(&link->retry_timer, on_retry, link->retry_ms, 0);
    link->retry_ms = link->retry_ms * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : link->retry_ms * 2;
}

int executor_link_new(struct uv_loop_s *loop, const char *socket_path,
                      const struct executor_link_events *events, struct executor_link **ret,
                      struct error *err)
{
    struct executor_link *link = calloc(1, sizeof *link);
    if (!link || !(link->socket_path = strdup(socket_path))) {
        free(link);
        return error_set(err, STATUS_INTERNAL, "connect to the executor: out of memory");
    }
    link->loop = loop;
    link->events = *events;
    link->retry_ms = RETRY_FIRST_MS;
    (void)uv_timer_init(loop, &link->retry_timer);
    link->retry_timer.data = link;
    (void)uv_prepare_init(loop, &link->prepare);
    link->prepare.data = link;
    (void)uv_prepare_start(&link->prepare, on_prepare);
    uv_unref((uv_handle_t *)&link->prepare);
    link->open_handles = 2;
    *ret = link;
    try_connect(link);
    return 0;
}

static void handle_closed(uv_handle_t *handle)
{
    struct executor_link *link = handle->data;
    if (--link->open_handles > 0) {
        return;
    }
    free(link->socket_path);
    free(link);
}

void executor_link_free(struct executor_link *link)
{
    if (!link) {
        return;
    }
    link->is_freed = true;
    if (link->client) {
        drop_connection(link);
    }
    (void)uv_timer_stop(&link->retry_timer);
    uv_close((uv_handle_t *)&link->retry_timer, handle_closed);
    uv_close((uv_handle_t *)&link->prepare, handle_closed);
}

struct executor_client *executor_link_client(struct executor_link *link, struct error *err)
{
    if (!link || !link->client || link->is_lost) {
        (void)error_set(err, STATUS_UNAVAILABLE,
                        "The executor is not connected%s%s; start cordium-executor and try again",
                        link && link->last_error[0] ? ": " : "", link ? link->last_error : "");
        return NULL;
    }
    return link->client;
}

const struct executor_host_report *executor_link_host(const struct executor_link *link)
{
    return link && link->client ? executor_client_host(link->client) : NULL;
}
