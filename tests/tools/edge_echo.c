/* An echo server on the edge alone, for its system tests: TLS on a port of its own choice and a
 * unix socket, methods that stream, sleep and flood. Messages are text whatever the codec.
 *
 *     edge_echo DIR [idle MS] [handshake MS] [head MS] [streams N] [sources N]
 *
 * Prints "ready PORT" when DIR/ca.pem and DIR/edge.sock are there. SIGTERM drains, SIGHUP reads the
 * certificate again, SIGUSR1 closes the unix listener. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "gateway/edge/certificate.h"
#include "gateway/edge/server.h"

enum { DRAIN_GRACE_MS = 3000, FLOOD_CHUNK_BYTES_MAX = 1024 * 1024 };

struct counters {
    long live;
    long finished;
    long cancelled;
    long deadline;
};

struct app {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct edge_server *server;
    struct edge_listener *unix_listener;
    struct counters counters;
    char refusal[128]; /* the last: "REASON STATUS ID" */
};

struct echo;

struct method {
    const char *path;
    enum call_kind kind;
    void (*message)(struct echo *e, struct str bytes);
    void (*half_close)(struct echo *e);
    void (*writable)(struct echo *e);
};

struct echo {
    uv_timer_t timer; /* first: its close callback frees the whole */
    struct app *app;
    struct call *call;
    const struct method *method;
    bool is_gone;
    long messages;
    long long bytes;
    long long flood_left;
    size_t flood_chunk;
    bool is_flooding;
    char *chunk;
};

static void reply_text(struct echo *e, const char *text)
{
    (void)call_send(e->call, str_from(text));
    call_finish(e->call, 0, NULL);
}

/* ---- methods ---- */

static void echo_message(struct echo *e, struct str bytes)
{
    if (call_send(e->call, bytes)) {
        call_pause_reading(e->call); /* a client that does not read does not get to write */
    }
}

static void unary_message(struct echo *e, struct str bytes)
{
    (void)call_send(e->call, bytes);
}

static void echo_writable(struct echo *e)
{
    call_resume_reading(e->call);
}

static void finish_ok(struct echo *e)
{
    call_finish(e->call, 0, NULL);
}

/* Two numbers of a message "A B". */
static void parse_pair(struct str bytes, long long *a, long long *b)
{
    char text[64] = "";
    size_t n = bytes.len < sizeof text - 1 ? bytes.len : sizeof text - 1;
    if (n > 0) {
        memcpy(text, bytes.ptr, n);
    }
    char *end;
    *a = strtoll(text, &end, 10);
    *b = strtoll(end, NULL, 10);
}

static void fail_message(struct echo *e, struct str bytes)
{
    long long status;
    long long unused;
    parse_pair(bytes, &status, &unused);
    const char *space = bytes.len > 0 ? memchr(bytes.ptr, ' ', bytes.len) : NULL;
    char text[256] = "";
    if (space) {
        (void)snprintf(text, sizeof text, "%.*s",
                       (int)(bytes.len - (size_t)(space + 1 - bytes.ptr)), space + 1);
    }
    call_finish(e->call, (int)status, text);
}

static void collect_message(struct echo *e, struct str bytes)
{
    e->bytes += (long long)bytes.len;
}

static void collect_end(struct echo *e)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%ld messages, %lld bytes", e->messages, e->bytes);
    reply_text(e, text);
}

static void send_flood(struct echo *e)
{
    while (e->flood_left > 0) {
        size_t n = e->flood_chunk;
        n = (long long)n < e->flood_left ? n : (size_t)e->flood_left;
        e->flood_left -= (long long)n;
        if (call_send(e->call, str_make(e->chunk, n)) && e->flood_left > 0) {
            return;
        }
    }
    e->is_flooding = false;
    call_finish(e->call, 0, NULL);
}

static void flood_message(struct echo *e, struct str bytes)
{
    long long chunk;
    parse_pair(bytes, &e->flood_left, &chunk);
    e->flood_chunk = chunk > 0 && chunk <= FLOOD_CHUNK_BYTES_MAX ? (size_t)chunk : 32768;
    free(e->chunk);
    e->chunk = calloc(1, e->flood_chunk);
    e->is_flooding = e->chunk != NULL;
    if (e->chunk) {
        memset(e->chunk, 'x', e->flood_chunk);
        send_flood(e);
    }
}

static void flood_writable(struct echo *e)
{
    if (e->is_flooding) {
        send_flood(e);
    }
}

static void on_slept(uv_timer_t *timer)
{
    struct echo *e = (struct echo *)timer;
    reply_text(e, "slept");
}

static void sleep_message(struct echo *e, struct str bytes)
{
    long long ms;
    long long unused;
    parse_pair(bytes, &ms, &unused);
    (void)uv_timer_start(&e->timer, on_slept, (uint64_t)ms, 0);
}

static void print_stats(const struct app *app, char *text, size_t room)
{
    const struct counters *c = &app->counters;
    (void)snprintf(text, room, "live=%ld finished=%ld cancelled=%ld deadline=%ld", c->live,
                   c->finished, c->cancelled, c->deadline);
}

static void stats_message(struct echo *e, struct str bytes)
{
    (void)bytes;
    char text[128];
    print_stats(e->app, text, sizeof text);
    (void)call_send(e->call, str_from(text));
}

static void whoami_message(struct echo *e, struct str bytes)
{
    (void)bytes;
    char text[160];
    const struct call_origin *o = call_origin(e->call);
    (void)snprintf(text, sizeof text, "%s tls=%d owner=%d %s", o->peer, o->is_tls,
                   o->listener_owner != NULL, call_protocol(e->call));
    (void)call_send(e->call, str_from(text));
}

/* Takes nothing for a while: the client's window closes. */
static void lazy_message(struct echo *e, struct str bytes)
{
    collect_message(e, bytes);
    call_pause_reading(e->call);
}

static void ignore_message(struct echo *e, struct str bytes)
{
    (void)e;
    (void)bytes;
}

static void ignore_end(struct echo *e)
{
    (void)e;
}

static const struct method methods[] = {
    {"/echo.v1.Echo/Unary", CALL_KIND_UNARY, unary_message, finish_ok, NULL},
    {"/echo.v1.Echo/Fail", CALL_KIND_UNARY, fail_message, ignore_end, NULL},
    {"/echo.v1.Echo/FailLate", CALL_KIND_BIDI, fail_message, ignore_end, NULL},
    {"/echo.v1.Echo/Bidi", CALL_KIND_BIDI, echo_message, finish_ok, echo_writable},
    {"/echo.v1.Echo/Collect", CALL_KIND_CLIENT_STREAM, collect_message, collect_end, NULL},
    {"/echo.v1.Echo/Flood", CALL_KIND_SERVER_STREAM, flood_message, ignore_end, flood_writable},
    {"/echo.v1.Echo/Sleep", CALL_KIND_UNARY, sleep_message, ignore_end, NULL},
    {"/echo.v1.Echo/Stats", CALL_KIND_UNARY, stats_message, finish_ok, NULL},
    {"/echo.v1.Echo/WhoAmI", CALL_KIND_UNARY, whoami_message, finish_ok, NULL},
    {"/echo.v1.Echo/Hold", CALL_KIND_BIDI, ignore_message, ignore_end, NULL},
    {"/echo.v1.Echo/Lazy", CALL_KIND_BIDI, lazy_message, ignore_end, NULL},
};

static const struct method *find_method(struct str path)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (str_is(path, methods[i].path)) {
            return &methods[i];
        }
    }
    return NULL;
}

/* ---- events ---- */

static enum call_kind on_kind(void *owner, struct str path)
{
    (void)owner;
    const struct method *m = find_method(path);
    return m ? m->kind : CALL_KIND_ANY;
}

static void *on_begin(void *owner, struct call *call)
{
    struct app *app = owner;
    const struct method *m = find_method(call_path(call));
    if (!m) {
        call_finish(call, STATUS_UNIMPLEMENTED, "unknown method");
        return NULL;
    }
    struct echo *e = calloc(1, sizeof *e);
    if (!e) {
        call_finish(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    e->app = app;
    e->call = call;
    e->method = m;
    (void)uv_timer_init(&app->loop, &e->timer);
    app->counters.live++;
    struct str echoed = call_header(call, "x-echo");
    if (echoed.len > 0) {
        call_add_header(call, "x-echo", echoed);
        call_add_trailer(call, "x-echo-trailer", echoed);
        call_add_trailer(call, "x-echo-bin", STR("\x00\x01\xff"));
    }
    return e;
}

static void on_message(void *state, struct str bytes)
{
    struct echo *e = state;
    e->messages++;
    e->method->message(e, bytes);
}

static void on_half_close(void *state)
{
    struct echo *e = state;
    e->method->half_close(e);
}

static void on_writable(void *state)
{
    struct echo *e = state;
    if (e->method->writable) {
        e->method->writable(e);
    }
}

static void free_echo(uv_handle_t *handle)
{
    struct echo *e = (struct echo *)handle;
    free(e->chunk);
    free(e);
}

static void on_gone(void *state, enum call_end end)
{
    struct echo *e = state;
    if (e->is_gone) {
        (void)fprintf(stderr, "gone twice\n");
        abort();
    }
    e->is_gone = true;
    struct counters *c = &e->app->counters;
    c->live--;
    c->finished += end == CALL_END_FINISHED;
    c->cancelled += end == CALL_END_CANCELLED;
    c->deadline += end == CALL_END_DEADLINE;
    uv_close((uv_handle_t *)&e->timer, free_echo);
}

static void on_later(uv_timer_t *timer)
{
    struct echo *e = (struct echo *)timer;
    call_http_reply(e->call, 200, "text/plain", STR("later"));
}

static void on_refused(void *owner, const struct call_refusal *refusal)
{
    struct app *app = owner;
    (void)snprintf(app->refusal, sizeof app->refusal, "%s %d %s", refusal->reason,
                   refusal->http_status, refusal->request_id);
}

static bool on_http(void *owner, struct call *call, struct str method, struct str path,
                    struct str body)
{
    struct app *app = owner;
    if (str_is(path, "/metrics")) {
        char text[128];
        print_stats(app, text, sizeof text);
        call_http_reply(call, 200, "text/plain", str_from(text));
        return true;
    }
    if (str_is(path, "/refusal")) {
        call_http_reply(call, 200, "text/plain", str_from(app->refusal));
        app->refusal[0] = 0;
        return true;
    }
    if (str_is(path, "/form") && str_is(method, "POST")) {
        call_http_reply(call, 200, "text/plain", body);
        return true;
    }
    if (str_is(path, "/later")) {
        struct echo *e = calloc(1, sizeof *e);
        if (!e) {
            return false;
        }
        e->app = app;
        e->call = call;
        app->counters.live++;
        (void)uv_timer_init(&app->loop, &e->timer);
        (void)uv_timer_start(&e->timer, on_later, 50, 0);
        call_set_state(call, e);
        return true;
    }
    return false;
}

static const struct call_events events = {
    .begin = on_begin,
    .message = on_message,
    .half_close = on_half_close,
    .writable = on_writable,
    .gone = on_gone,
    .http = on_http,
    .kind = on_kind,
    .refused = on_refused,
};

/* ---- the program ---- */

static void on_drained(void *owner)
{
    struct app *app = owner;
    edge_server_free(app->server);
    app->server = NULL;
    for (size_t i = 0; i < sizeof app->signals / sizeof app->signals[0]; i++) {
        uv_close((uv_handle_t *)&app->signals[i], NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct app *app = handle->data;
    struct error err = {0};
    if (number == SIGTERM) {
        edge_server_drain(app->server, DRAIN_GRACE_MS, on_drained);
    } else if (number == SIGHUP) {
        int rc = edge_server_reload_tls(app->server, &err);
        (void)printf("reload %d %s\n", rc, rc ? err.text : "");
        (void)fflush(stdout);
    } else if (app->unix_listener) {
        edge_server_close_listener(app->unix_listener);
        app->unix_listener = NULL;
    }
}

static int listen_unix(const char *dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/edge.sock", dir);
    if (n < 0 || (size_t)n >= sizeof address.sun_path) {
        return -1;
    }
    (void)unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1 || bind(fd, (struct sockaddr *)&address, sizeof address) == -1 ||
        listen(fd, 1024) == -1) {
        return -1;
    }
    return fd;
}

static int make_certificates(const char *dir, char certificate[PATH_MAX], char key[PATH_MAX],
                             struct error *err)
{
    char ca[PATH_MAX];
    char ca_key[PATH_MAX];
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    (void)snprintf(ca_key, sizeof ca_key, "%s/ca.key", dir);
    (void)snprintf(certificate, PATH_MAX, "%s/server.pem", dir);
    (void)snprintf(key, PATH_MAX, "%s/server.key", dir);
    if (access(certificate, R_OK) == 0) {
        return 0;
    }
    int64_t now_s = time(NULL);
    int rc = certificate_make_authority(ca, ca_key, now_s, err);
    return rc ? rc : certificate_issue(ca, ca_key, "test.local", certificate, key, now_s, err);
}

static int serve(struct app *app, const char *dir, struct edge_limits limits, struct error *err)
{
    char certificate[PATH_MAX];
    char key[PATH_MAX];
    uint16_t port = 0;
    int rc = make_certificates(dir, certificate, key, err);
    if (!rc) {
        rc = edge_server_new(&app->loop, limits, &events, app, &app->server, err);
    }
    if (!rc) {
        rc = edge_server_listen_tls(app->server, "127.0.0.1", 0, certificate, key, &port, err);
    }
    int fd = rc ? -1 : listen_unix(dir);
    if (!rc && fd == -1) {
        rc = error_set_errno(err, STATUS_UNAVAILABLE, errno, "listen in '%s'", dir);
    }
    if (!rc) {
        rc = edge_server_adopt_unix(app->server, fd, app, &app->unix_listener, err);
    }
    if (!rc) {
        (void)printf("ready %u\n", port);
        (void)fflush(stdout);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct edge_limits limits = edge_limits_default();
    struct app app = {0};
    struct error err = {0};
    if (argc < 2) {
        (void)fprintf(stderr, "usage: edge_echo DIR [idle|handshake|head|streams|sources N]...\n");
        return 2;
    }
    for (int i = 2; i + 1 < argc; i += 2) {
        unsigned v = (unsigned)strtoul(argv[i + 1], NULL, 10);
        limits.idle_timeout_ms = strcmp(argv[i], "idle") == 0 ? v : limits.idle_timeout_ms;
        limits.handshake_timeout_ms =
            strcmp(argv[i], "handshake") == 0 ? v : limits.handshake_timeout_ms;
        limits.head_timeout_ms = strcmp(argv[i], "head") == 0 ? v : limits.head_timeout_ms;
        limits.streams_per_connection_max =
            strcmp(argv[i], "streams") == 0 ? v : limits.streams_per_connection_max;
        limits.connections_per_source_max =
            strcmp(argv[i], "sources") == 0 ? v : limits.connections_per_source_max;
    }
    (void)uv_loop_init(&app.loop);
    static const int numbers[] = {SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)uv_signal_init(&app.loop, &app.signals[i]);
        app.signals[i].data = &app;
        (void)uv_signal_start(&app.signals[i], on_signal, numbers[i]);
    }
    if (serve(&app, argv[1], limits, &err)) {
        (void)fprintf(stderr, "edge_echo: %s\n", err.text);
        return 1;
    }
    (void)uv_run(&app.loop, UV_RUN_DEFAULT);
    char text[128];
    print_stats(&app, text, sizeof text);
    (void)fprintf(stderr, "end %s\n", text);
    return uv_loop_close(&app.loop) == 0 ? 0 : 3;
}
