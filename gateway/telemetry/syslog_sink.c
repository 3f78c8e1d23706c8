#include "gateway/telemetry/syslog_sink.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/fd.h"
#include "gateway/telemetry/backoff.h"
#include "gateway/telemetry/line_queue.h"
#include "gateway/telemetry/sink_report.h"
#include "policy/base/bytes.h"

enum {
    BATCH_MAX_BYTES =
        16 * 1024 * 1024, /* formatted: the longest line and its head fit many times */
    REASON_SIZE = 192,
    SOCKET_BYTES = 1 << 20, /* of a datagram socket: room for a few of the longest lines */
};

enum link {
    LINK_DOWN,      /* nothing to send yet */
    LINK_RESOLVING, /* getaddrinfo in a worker */
    LINK_CONNECTING,
    LINK_UP,
    LINK_PAUSED, /* until the timer fires */
};

struct syslog_sink {
    uv_loop_t *loop;
    struct syslog_settings settings;
    enum syslog_framing framing;
    struct line_queue *queue;
    struct sink_report report;
    struct backoff backoff;

    enum link link;
    uv_timer_t timer;
    uv_getaddrinfo_t resolver;
    uv_poll_t *poll; /* its own allocation: closing ends in a later round */
    int fd;

    uv_work_t work;
    bool is_formatting;
    struct str batch[SYSLOG_BATCH_LINES_MAX];
    size_t ends[SYSLOG_BATCH_LINES_MAX]; /* of the messages in `text` */
    size_t batch_count;
    size_t batch_next; /* the message being sent */
    size_t sent;       /* bytes of `text` */
    struct buf text;

    bool is_timer_open;
    bool is_freed;
};

static void go_on(struct syslog_sink *s);
static void open_link(struct syslog_sink *s);

/* ---- the link ---- */

static void free_when_closed(struct syslog_sink *s)
{
    if (s->is_freed && !s->is_timer_open && !s->is_formatting && s->link != LINK_RESOLVING) {
        line_queue_free(s->queue);
        buf_free(&s->text);
        free(s);
    }
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_socket(struct syslog_sink *s)
{
    if (s->poll) {
        uv_close((uv_handle_t *)s->poll, on_poll_closed);
        s->poll = NULL;
    }
    fd_close(&s->fd);
}

static void on_timer(uv_timer_t *timer)
{
    struct syslog_sink *s = timer->data;
    s->link = LINK_DOWN;
    go_on(s);
}

static void fail_link(struct syslog_sink *s, const char *step, const char *why)
{
    char reason[REASON_SIZE];
    (void)snprintf(reason, sizeof reason, "%s: %s", step, why);
    close_socket(s);
    sink_report_failure(&s->report, reason, uv_hrtime());
    s->link = LINK_PAUSED;
    /* A message that was sent in part begins anew on the next connection. */
    s->sent = s->batch_next > 0 ? s->ends[s->batch_next - 1] : 0;
    (void)uv_timer_start(&s->timer, on_timer,
                         backoff_next_ms(&s->backoff, 0, (uint32_t)uv_hrtime()), 0);
}

static void on_ready(uv_poll_t *poll, int status, int events);

static void watch(struct syslog_sink *s, int events)
{
    int rc = uv_poll_start(s->poll, events, on_ready);
    if (rc < 0) {
        fail_link(s, "watch the socket", uv_strerror(rc));
    }
}

static void come_up(struct syslog_sink *s)
{
    s->link = LINK_UP;
    go_on(s);
}

static void use_address(struct syslog_sink *s, const struct sockaddr *address, socklen_t len)
{
    int type = s->settings.target->scheme == ENDPOINT_TCP ? SOCK_STREAM : SOCK_DGRAM;
    int room = SOCKET_BYTES;
    s->fd = socket(address->sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd == -1) {
        fail_link(s, "make a socket", strerror(errno));
        return;
    }
    if (type == SOCK_DGRAM) {
        (void)setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room); /* or less */
    }
    s->poll = malloc(sizeof *s->poll);
    int rc = s->poll ? uv_poll_init(s->loop, s->poll, s->fd) : UV_ENOMEM;
    if (rc < 0) {
        free(s->poll);
        s->poll = NULL;
        fail_link(s, "watch the socket", uv_strerror(rc));
        return;
    }
    s->poll->data = s;
    uv_unref((uv_handle_t *)s->poll);
    if (connect(s->fd, address, len) == 0) {
        come_up(s);
    } else if (errno == EINPROGRESS) {
        s->link = LINK_CONNECTING;
        watch(s, UV_WRITABLE);
    } else {
        fail_link(s, "connect", strerror(errno));
    }
}

static void on_resolved(uv_getaddrinfo_t *resolver, int status, struct addrinfo *found)
{
    struct syslog_sink *s = resolver->data;
    s->link = LINK_DOWN;
    if (s->is_freed) {
        free_when_closed(s);
    } else if (status < 0) {
        fail_link(s, "look up the host", uv_strerror(status));
    } else {
        use_address(s, found->ai_addr, found->ai_addrlen);
    }
    uv_freeaddrinfo(found);
}

static void open_link(struct syslog_sink *s)
{
    const struct endpoint *target = s->settings.target;
    if (target->scheme == ENDPOINT_UNIX) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        static_assert(sizeof target->path <= sizeof address.sun_path, "a path that was taken fits");
        memcpy(address.sun_path, target->path, sizeof target->path);
        use_address(s, (const struct sockaddr *)&address, sizeof address);
        return;
    }
    char service[8];
    struct addrinfo hints = {
        .ai_socktype = target->scheme == ENDPOINT_TCP ? SOCK_STREAM : SOCK_DGRAM,
        .ai_flags = AI_NUMERICSERV,
    };
    (void)snprintf(service, sizeof service, "%u", target->port);
    s->resolver.data = s;
    s->link = LINK_RESOLVING;
    int rc = uv_getaddrinfo(s->loop, &s->resolver, on_resolved, target->host, service, &hints);
    if (rc < 0) {
        s->link = LINK_DOWN;
        fail_link(s, "look up the host", uv_strerror(rc));
    }
}

/* ---- messages ---- */

static void format(uv_work_t *work)
{
    struct syslog_sink *s = work->data;
    for (size_t i = 0; i < s->batch_count; i++) {
        syslog_message_write(&s->settings.source, s->framing, s->batch[i], &s->text);
        s->ends[i] = s->text.len;
    }
}

static void end_batch(struct syslog_sink *s)
{
    line_queue_drop(s->queue, s->batch_count);
    s->batch_count = s->batch_next = 0;
    s->sent = 0;
    buf_clear(&s->text);
}

static void on_formatted(uv_work_t *work, int status)
{
    struct syslog_sink *s = work->data;
    (void)status; /* nobody cancels it */
    s->is_formatting = false;
    if (s->is_freed) {
        free_when_closed(s);
        return;
    }
    if (s->text.failed) {
        sink_report_rejected(&s->report, s->batch_count, "no memory to format lines", uv_hrtime());
        s->text.failed = false;
        end_batch(s);
    }
    go_on(s);
}

static void begin_batch(struct syslog_sink *s)
{
    s->batch_count =
        line_queue_peek(s->queue, SYSLOG_BATCH_LINES_MAX, SYSLOG_BATCH_BYTES_MAX, s->batch);
    s->work.data = s;
    s->is_formatting = true;
    if (uv_queue_work(s->loop, &s->work, format, on_formatted) < 0) {
        format(&s->work); /* only for a NULL function, says libuv */
        on_formatted(&s->work, 0);
    }
}

static void refuse_message(struct syslog_sink *s)
{
    sink_report_rejected(&s->report, 1, "a line is longer than a datagram", uv_hrtime());
    s->sent = s->ends[s->batch_next++];
}

/* One datagram, or what a stream takes. False when the socket is full or broken. */
static bool send_some(struct syslog_sink *s)
{
    size_t end = s->ends[s->batch_next];
    bool is_datagram = s->framing == SYSLOG_DATAGRAM;
    if (is_datagram && end - s->sent > SYSLOG_DATAGRAM_MAX_BYTES) {
        refuse_message(s);
        return true;
    }
    if (!is_datagram) {
        end = s->ends[s->batch_count - 1];
    }
    ssize_t n = send(s->fd, s->text.ptr + s->sent, end - s->sent, MSG_NOSIGNAL);
    if (n == -1 && errno == EINTR) {
        return true;
    }
    if (n == -1 && errno == EMSGSIZE) {
        refuse_message(s);
        return true;
    }
    if (n == -1) {
        if (errno == EAGAIN || errno == ENOBUFS) {
            watch(s, UV_WRITABLE | UV_READABLE);
        } else {
            fail_link(s, "send", strerror(errno));
        }
        return false;
    }
    s->sent += (size_t)n;
    uint64_t lines = 0;
    while (s->batch_next < s->batch_count && s->ends[s->batch_next] <= s->sent) {
        s->batch_next++;
        lines++;
    }
    backoff_reset(&s->backoff);
    sink_report_sent(&s->report, lines);
    return true;
}

static void send_batch(struct syslog_sink *s)
{
    while (s->batch_next < s->batch_count) {
        if (!send_some(s)) {
            return;
        }
    }
    end_batch(s);
    if (s->link == LINK_UP) {
        watch(s, UV_READABLE); /* tells when the receiver closes */
    }
}

/* Brings the lines one step further, whatever is missing. */
static void go_on(struct syslog_sink *s)
{
    if (s->is_freed || s->is_formatting) {
        return;
    }
    if (s->batch_count > 0 && s->link == LINK_UP) {
        send_batch(s);
    }
    if (s->batch_count == 0 && line_queue_ready(s->queue) > 0) {
        begin_batch(s);
    }
    if (s->link == LINK_DOWN && (s->batch_count > 0 || line_queue_ready(s->queue) > 0)) {
        open_link(s);
    }
}

/* A receiver of syslog says nothing: what can be read is its end, or an error. */
static void look_for_end(struct syslog_sink *s)
{
    char ignored[256];
    ssize_t n = recv(s->fd, ignored, sizeof ignored, 0);
    if (n == 0 && s->framing == SYSLOG_COUNTED) {
        fail_link(s, "send", "the receiver closed the connection");
    } else if (n == -1 && errno != EAGAIN && errno != EINTR) {
        fail_link(s, "send", strerror(errno));
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct syslog_sink *s = poll->data;
    int error = 0;
    socklen_t len = sizeof error;
    if (s->link == LINK_CONNECTING) {
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) == -1 || error) {
            fail_link(s, "connect", strerror(error ? error : errno));
            return;
        }
        watch(s, UV_READABLE);
        if (s->link == LINK_CONNECTING) {
            come_up(s);
        }
        return;
    }
    if (status < 0 || events & UV_READABLE) {
        look_for_end(s);
    }
    if (s->link == LINK_UP && events & UV_WRITABLE) {
        go_on(s);
    }
}

void syslog_sink_add(struct syslog_sink *s, struct str line)
{
    if (!line_queue_push(s->queue, line)) {
        sink_report_dropped(&s->report, 1, uv_hrtime());
    }
}

void syslog_sink_release(struct syslog_sink *s)
{
    line_queue_release(s->queue);
    if (s->batch_count == 0) {
        go_on(s);
    }
}

size_t syslog_sink_depth(const struct syslog_sink *s)
{
    return line_queue_length(s->queue);
}

bool syslog_sink_is_idle(const struct syslog_sink *s)
{
    return line_queue_ready(s->queue) == 0;
}

/* ---- life ---- */

int syslog_sink_new(struct uv_loop_s *loop, const struct syslog_settings *settings,
                    struct syslog_sink **ret, struct error *err)
{
    struct syslog_sink *s = calloc(1, sizeof *s);
    struct line_queue *queue = line_queue_new(settings->queue_bytes_max);
    if (!s || !queue) {
        free(s);
        line_queue_free(queue);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the syslog sink: out of memory");
    }
    s->loop = loop;
    s->settings = *settings;
    s->framing = settings->target->scheme == ENDPOINT_TCP ? SYSLOG_COUNTED : SYSLOG_DATAGRAM;
    s->queue = queue;
    s->fd = -1;
    buf_init(&s->text, BATCH_MAX_BYTES);
    sink_report_init(&s->report, "syslog", METRIC_SINK_SYSLOG, settings->metrics);
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
    s->is_timer_open = true;
    uv_unref((uv_handle_t *)&s->timer);
    *ret = s;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct syslog_sink *s = handle->data;
    s->is_timer_open = false;
    free_when_closed(s);
}

void syslog_sink_free(struct syslog_sink *s)
{
    if (!s) {
        return;
    }
    s->is_freed = true;
    close_socket(s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
