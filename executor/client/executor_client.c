#include "executor/client/executor_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "executor/client/encode.h"
#include "executor/ipc/channel.h"
#include "executor/ipc/message.h"
#include "executor/proc/fd.h"
#include "policy/base/bytes.h"

enum { REPLIES_PER_DISPATCH_MAX = 256, BODY_BYTES_MAX = EXECUTOR_ARGS_BYTES_MAX + 8192 };

struct pending {
    struct executor_callback cb;
    uint16_t type; /* 0 = free */
    uint16_t generation;
    uint32_t next_free;
};

/* A datagram that did not fit into the socket. */
struct queued {
    struct queued *next;
    size_t size;
    int fds[MESSAGE_FDS_MAX];
    size_t fd_count;
    uint8_t data[];
};

struct executor_client {
    int fd;
    bool is_dead;
    struct executor_client_events events;
    struct executor_host_report host;
    char *config_text; /* of host */
    struct pending *pending;
    uint32_t pending_room;
    uint32_t pending_free; /* index + 1 of the first free one, 0 = none */
    struct queued *queue_first;
    struct queued **queue_last;
    uint8_t received[MESSAGE_BYTES_MAX];
};

static void queued_free(struct queued *q)
{
    for (size_t i = 0; i < q->fd_count; i++) {
        fd_close(&q->fds[i]);
    }
    free(q);
}

static int pending_grow(struct executor_client *client)
{
    uint32_t room = client->pending_room ? client->pending_room * 2 : 64;
    if (room > EXECUTOR_CALLS_PENDING_MAX) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    struct pending *p = realloc(client->pending, room * sizeof *p);
    if (!p) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = client->pending_room; i < room; i++) {
        p[i] = (struct pending){.next_free = client->pending_free};
        client->pending_free = i + 1;
    }
    client->pending = p;
    client->pending_room = room;
    return 0;
}

/* Registers a call; its number on the wire tells a late answer to a reused slot apart. */
static int pending_add(struct executor_client *client, uint16_t type, struct executor_callback cb,
                       uint32_t *ret_call)
{
    if (client->pending_free == 0 && pending_grow(client) < 0) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    uint32_t index = client->pending_free - 1;
    struct pending *p = &client->pending[index];
    client->pending_free = p->next_free;
    p->cb = cb;
    p->type = type;
    p->generation++;
    *ret_call = ((uint32_t)p->generation << 16) | (index + 1);
    return 0;
}

static bool pending_take(struct executor_client *client, uint32_t call, struct pending *ret)
{
    uint32_t index = (call & 0xffff) - 1;
    if (index >= client->pending_room) {
        return false;
    }
    struct pending *p = &client->pending[index];
    if (p->type == 0 || p->generation != call >> 16) {
        return false;
    }
    *ret = *p;
    p->type = 0;
    p->next_free = client->pending_free;
    client->pending_free = index + 1;
    return true;
}

static void client_die(struct executor_client *client, const struct error *why)
{
    if (client->is_dead) {
        return;
    }
    client->is_dead = true;
    struct executor_reply reply = {.err = *why};
    for (uint32_t i = 0; i < client->pending_room; i++) {
        struct pending p = client->pending[i];
        if (p.type != 0) {
            client->pending[i].type = 0;
            p.cb.done(p.cb.context, &reply);
        }
    }
    if (client->events.disconnected) {
        client->events.disconnected(client->events.context, why);
    }
}

static int send_later(struct executor_client *client, const uint8_t header[MESSAGE_HEADER_BYTES],
                      const struct buf *body, const int *fds, size_t fd_count)
{
    struct queued *q = calloc(1, sizeof *q + MESSAGE_HEADER_BYTES + body->len);
    if (!q) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    memcpy(q->data, header, MESSAGE_HEADER_BYTES);
    if (body->len > 0) {
        memcpy(q->data + MESSAGE_HEADER_BYTES, body->ptr, body->len);
    }
    q->size = MESSAGE_HEADER_BYTES + body->len;
    for (size_t i = 0; i < fd_count; i++) {
        q->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        q->fd_count++;
        if (q->fds[i] == -1) {
            queued_free(q);
            return -STATUS_RESOURCE_EXHAUSTED;
        }
    }
    *client->queue_last = q;
    client->queue_last = &q->next;
    return 0;
}

/* Sends or queues one request whose body and fds are ready. */
static int client_send(struct executor_client *client, uint16_t type, struct buf *body,
                       const int *fds, size_t fd_count, struct executor_callback cb,
                       struct error *err)
{
    if (client->is_dead) {
        return error_set(err, STATUS_UNAVAILABLE, "connection to the executor is lost");
    }
    AUTO_FD int memfd = -1;
    int all[MESSAGE_FDS_MAX];
    size_t all_count = 0;
    struct message_header header = {.type = type};
    if (body->len > message_rule_find(type)->body_max) {
        memfd = fd_sealed_memfd("cordium-message", body->ptr, body->len);
        if (memfd < 0) {
            return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, -memfd,
                                   "memfd for a message of %zu bytes", body->len);
        }
        header.flags = MESSAGE_FLAG_BODY_IN_MEMFD;
        all[all_count++] = memfd;
        buf_clear(body);
    }
    for (size_t i = 0; i < fd_count; i++) {
        all[all_count++] = fds[i];
    }
    if (pending_add(client, type, cb, &header.call) < 0) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "too many unanswered executor calls");
    }
    uint8_t head[MESSAGE_HEADER_BYTES];
    message_header_write(head, header);
    const struct iovec parts[] = {{head, sizeof head}, {body->ptr, body->len}};
    int r = client->queue_first ? -EAGAIN : channel_send(client->fd, parts, 2, all, all_count);
    if (r == -EAGAIN) {
        r = send_later(client, head, body, all, all_count);
    } else if (r < 0 && r != -EPIPE && r != -ECONNRESET) {
        r = -STATUS_INTERNAL;
    } else {
        r = 0; /* a broken connection is told by the next dispatch */
    }
    if (r < 0) {
        struct pending dropped;
        (void)pending_take(client, header.call, &dropped);
        return error_set(err, -r, "cannot send to the executor");
    }
    return 0;
}

static void client_flush(struct executor_client *client)
{
    while (client->queue_first) {
        struct queued *q = client->queue_first;
        const struct iovec part = {q->data, q->size};
        if (channel_send(client->fd, &part, 1, q->fds, q->fd_count) == -EAGAIN) {
            return;
        }
        client->queue_first = q->next;
        if (!client->queue_first) {
            client->queue_last = &client->queue_first;
        }
        queued_free(q);
    }
}

static bool read_list(struct bytes *in, struct executor_list *ret)
{
    struct str ids;
    if (!bytes_read_u32(in, &ret->total) || !bytes_read_u32(in, &ret->count) ||
        !bytes_read_u32(in, &ret->id_bytes) || ret->id_bytes > 32 || ret->count > 65536 ||
        !bytes_read_view(in, (size_t)ret->count * ret->id_bytes, &ids)) {
        return false;
    }
    ret->ids = (const uint8_t *)ids.ptr;
    return true;
}

static bool read_created(struct bytes *in, struct channel_fds *fds, struct executor_created *ret)
{
    uint32_t was_made;
    if (!bytes_read_u32(in, &ret->uid_base) || !bytes_read_u32(in, &was_made)) {
        return false;
    }
    ret->storage_was_made = was_made != 0;
    ret->proxy_fd = channel_fds_take(fds, 0);
    return true;
}

/* Fills the member of `reply` that belongs to the request. */
static bool read_reply(uint16_t type, struct bytes *in, struct channel_fds *fds,
                       struct executor_reply *reply)
{
    uint32_t word;
    switch (type) {
    case MESSAGE_SANDBOX_CREATE:
        return read_created(in, fds, &reply->created);
    case MESSAGE_RUN_START:
        reply->started.pty_fd = channel_fds_take(fds, 0);
        return bytes_read_u64(in, &reply->started.run);
    case MESSAGE_SANDBOX_STATS:
        return decode_stats(in, &reply->stats);
    case MESSAGE_LIST:
        return read_list(in, &reply->list);
    case MESSAGE_IMAGE_COMMIT:
        return bytes_read_u64(in, &reply->committed.size_bytes);
    case MESSAGE_IMAGE_EXISTS:
        if (!bytes_read_u32(in, &word)) {
            return false;
        }
        reply->exists = word != 0;
        return true;
    default:
        return true;
    }
}

static bool handle_reply(struct executor_client *client, uint32_t call, struct bytes in,
                         struct channel_fds *fds)
{
    struct pending p;
    struct executor_reply reply = {0};
    uint32_t status;
    if (!pending_take(client, call, &p)) {
        return false;
    }
    if (!bytes_read_u32(&in, &status)) {
        status = STATUS_INTERNAL;
    }
    if (status != 0) {
        struct str text;
        if (!bytes_read_str(&in, ERROR_TEXT_MAX, &text)) {
            text = STR("no text");
        }
        (void)error_set(&reply.err, (int)status, "%.*s", STR_ARG(text));
    } else if (!read_reply(p.type, &in, fds, &reply)) {
        (void)error_set(&reply.err, STATUS_INTERNAL, "ill-formed reply from the executor");
    }
    p.cb.done(p.cb.context, &reply);
    return true;
}

static bool handle_gone(struct executor_client *client, struct bytes in)
{
    struct executor_sandbox_gone event;
    struct str id, text;
    uint32_t reason;
    char copy[1024];
    if (!bytes_read_view(&in, 16, &id) || !bytes_read_u32(&in, &reason) ||
        !bytes_read_str(&in, sizeof copy - 1, &text)) {
        return false;
    }
    memcpy(event.id.bytes, id.ptr, sizeof event.id.bytes);
    (void)snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
    event.reason = (enum executor_gone_reason)reason;
    event.text = copy;
    if (client->events.sandbox_gone) {
        client->events.sandbox_gone(client->events.context, &event);
    }
    return true;
}

static bool handle_denied(struct executor_client *client, struct bytes in)
{
    struct executor_network_denied event;
    if (!decode_network_denied(&in, &event)) {
        return false;
    }
    if (client->events.network_denied) {
        client->events.network_denied(client->events.context, &event);
    }
    return true;
}

static bool handle_datagram(struct executor_client *client, size_t size, struct channel_fds *fds)
{
    if (size < MESSAGE_HEADER_BYTES) {
        return false;
    }
    struct message_header header = message_header_read(client->received);
    size_t body_bytes = size - MESSAGE_HEADER_BYTES;
    struct bytes in = bytes_over(client->received + MESSAGE_HEADER_BYTES, body_bytes);
    if (!message_event_is_allowed(header.type, body_bytes)) {
        return false;
    }
    struct executor_run_exit exited;
    switch (header.type) {
    case MESSAGE_REPLY:
        return handle_reply(client, header.call, in, fds);
    case MESSAGE_RUN_EXITED:
        if (!decode_run_exit(&in, &exited)) {
            return false;
        }
        if (client->events.run_exited) {
            client->events.run_exited(client->events.context, &exited);
        }
        return true;
    case MESSAGE_SANDBOX_GONE:
        return handle_gone(client, in);
    case MESSAGE_NETWORK_DENIED:
        return handle_denied(client, in);
    default:
        return false;
    }
}

int executor_client_dispatch(struct executor_client *client)
{
    struct error why = {0};
    if (client->is_dead) {
        return -STATUS_UNAVAILABLE;
    }
    client_flush(client);
    for (int i = 0; i < REPLIES_PER_DISPATCH_MAX; i++) {
        struct channel_fds fds;
        ssize_t n = channel_recv(client->fd, client->received, sizeof client->received, &fds);
        if (n == -EAGAIN) {
            return 0;
        }
        if (n <= 0) {
            (void)error_set(&why, STATUS_UNAVAILABLE, "the executor went away: %s",
                            n == 0 ? "connection closed" : strerror((int)-n));
        } else if (!handle_datagram(client, (size_t)n, &fds)) {
            (void)error_set(&why, STATUS_UNAVAILABLE, "ill-formed message from the executor");
        }
        channel_fds_close(&fds);
        if (why.status) {
            client_die(client, &why);
            return -STATUS_UNAVAILABLE;
        }
    }
    return 0;
}

static int connect_socket(const char *path, int *ret_fd, struct error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof addr.sun_path) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "executor socket path '%s' is too long",
                         path);
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "socket");
    }
    if (connect(fd, (const struct sockaddr *)&addr, sizeof addr) == -1) {
        int status = errno == EACCES ? STATUS_PERMISSION_DENIED : STATUS_UNAVAILABLE;
        return error_set_errno(err, status, errno, "connect to the executor at '%s'", path);
    }
    uid_t uid;
    pid_t pid;
    int r = channel_peer(fd, &uid, &pid);
    if (r < 0 || uid != 0) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "whoever listens at '%s' is not root, so not the executor", path);
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

struct hello_result {
    bool is_done;
    struct error err;
};

static void hello_done(void *context, const struct executor_reply *reply)
{
    struct hello_result *result = context;
    result->is_done = true;
    result->err = reply->err;
}

/* HELLO is the one synchronous exchange: its reply is read here, not by dispatch. */
static int say_hello(struct executor_client *client, int timeout_ms, struct error *err)
{
    struct buf body;
    struct hello_result result = {0};
    buf_init(&body, 64);
    buf_add_u32(&body, EXECUTOR_PROTOCOL_VERSION);
    buf_add_u32(&body, 0);
    int r = client_send(client, MESSAGE_HELLO, &body, NULL, 0,
                        (struct executor_callback){hello_done, &result}, err);
    buf_free(&body);
    if (r < 0) {
        return r;
    }
    struct pollfd p = {.fd = client->fd, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) != 1) {
        return error_set(err, STATUS_UNAVAILABLE, "the executor did not answer in %d ms",
                         timeout_ms);
    }
    struct channel_fds fds;
    ssize_t n = channel_recv(client->fd, client->received, sizeof client->received, &fds);
    channel_fds_close(&fds);
    if (n < MESSAGE_HEADER_BYTES + 4) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "the executor refused us: run the gateway as the executor's gateway_uid");
    }
    struct bytes in =
        bytes_over(client->received + MESSAGE_HEADER_BYTES, (size_t)n - MESSAGE_HEADER_BYTES);
    uint32_t status = 0;
    (void)bytes_read_u32(&in, &status);
    if (status != 0 || !decode_host_report(&in, &client->host) ||
        client->host.version != EXECUTOR_PROTOCOL_VERSION) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "the executor speaks another protocol version than ours (%d): install "
                         "both from one build",
                         EXECUTOR_PROTOCOL_VERSION);
    }
    client->config_text = malloc(client->host.config_text.len + 1);
    if (!client->config_text) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the executor's report");
    }
    memcpy(client->config_text, client->host.config_text.ptr, client->host.config_text.len);
    client->host.config_text.ptr = client->config_text;
    struct pending done;
    (void)pending_take(client, message_header_read(client->received).call, &done);
    return 0;
}

static int client_new(int *fd, struct executor_client **ret, struct error *err)
{
    struct executor_client *client = calloc(1, sizeof *client);
    if (!client) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for the executor's client");
    }
    client->fd = fd_take(fd);
    client->queue_last = &client->queue_first;
    *ret = client;
    return 0;
}

int executor_client_adopt(int *fd, const struct executor_client_events *events,
                          struct executor_client **ret, struct error *err)
{
    int r = client_new(fd, ret, err);
    if (r == 0) {
        (*ret)->events = *events;
    }
    return r;
}

int executor_client_connect(const char *path, int timeout_ms,
                            const struct executor_client_events *events,
                            struct executor_client **ret, struct error *err)
{
    AUTO_FD int fd = -1;
    struct executor_client *client = NULL;
    int r = connect_socket(path, &fd, err);
    r = r < 0 ? r : client_new(&fd, &client, err);
    if (r < 0) {
        return r;
    }
    r = say_hello(client, timeout_ms, err);
    if (r < 0) {
        client->is_dead = true;
        executor_client_close(client);
        return r;
    }
    client->events = *events;
    *ret = client;
    return 0;
}

void executor_client_close(struct executor_client *client)
{
    if (!client) {
        return;
    }
    struct error why;
    (void)error_set(&why, STATUS_UNAVAILABLE, "connection to the executor was closed");
    client->events.disconnected = NULL;
    client_die(client, &why);
    while (client->queue_first) {
        struct queued *q = client->queue_first;
        client->queue_first = q->next;
        queued_free(q);
    }
    fd_close(&client->fd);
    free(client->pending);
    free(client->config_text);
    free(client);
}

const struct executor_host_report *executor_client_host(const struct executor_client *client)
{
    return &client->host;
}

int executor_client_fd(const struct executor_client *client)
{
    return client->fd;
}

short executor_client_poll_events(const struct executor_client *client)
{
    return (short)(POLLIN | (client->queue_first ? POLLOUT : 0));
}

int executor_sandbox_create(struct executor_client *client,
                            const struct executor_sandbox_spec *spec, struct executor_callback cb,
                            struct error *err)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    int r = encode_sandbox_spec(&body, spec, err);
    if (r == 0) {
        r = client_send(client, MESSAGE_SANDBOX_CREATE, &body, NULL, 0, cb, err);
    }
    buf_free(&body);
    return r;
}

int executor_run_start(struct executor_client *client, const struct executor_run_spec *spec,
                       struct executor_callback cb, struct error *err)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    int r = encode_run_spec(&body, spec, err);
    if (r == 0) {
        size_t fd_count = spec->flags & EXECUTOR_RUN_TTY ? 0 : 3;
        r = client_send(client, MESSAGE_RUN_START, &body, spec->fds, fd_count, cb, err);
    }
    buf_free(&body);
    return r;
}

/* Sends a short fixed message. */
static int send_fixed(struct executor_client *client, uint16_t type, const void *data, size_t size,
                      struct executor_callback cb, struct error *err)
{
    struct buf body;
    buf_init(&body, size);
    buf_add(&body, data, size);
    int r = body.failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a message")
                        : client_send(client, type, &body, NULL, 0, cb, err);
    buf_free(&body);
    return r;
}

int executor_sandbox_destroy(struct executor_client *client, const struct executor_uuid *id,
                             bool delete_storage, struct executor_callback cb, struct error *err)
{
    uint8_t data[20];
    uint32_t flags = delete_storage;
    memcpy(data, id->bytes, 16);
    memcpy(data + 16, &flags, 4);
    return send_fixed(client, MESSAGE_SANDBOX_DESTROY, data, sizeof data, cb, err);
}

int executor_sandbox_stats(struct executor_client *client, const struct executor_uuid *id,
                           struct executor_callback cb, struct error *err)
{
    return send_fixed(client, MESSAGE_SANDBOX_STATS, id->bytes, 16, cb, err);
}

int executor_network_denials(struct executor_client *client, const struct executor_uuid *id,
                             struct executor_callback cb, struct error *err)
{
    return send_fixed(client, MESSAGE_NETWORK_DENIALS, id->bytes, 16, cb, err);
}

static int send_run_words(struct executor_client *client, uint16_t type, uint64_t run,
                          uint32_t first, uint32_t second, struct executor_callback cb,
                          struct error *err)
{
    uint8_t data[16];
    memcpy(data, &run, 8);
    memcpy(data + 8, &first, 4);
    memcpy(data + 12, &second, 4);
    return send_fixed(client, type, data, sizeof data, cb, err);
}

int executor_run_kill(struct executor_client *client, uint64_t run,
                      enum executor_kill_reason reason, struct executor_callback cb,
                      struct error *err)
{
    return send_run_words(client, MESSAGE_RUN_KILL, run, (uint32_t)reason, 0, cb, err);
}

int executor_run_signal(struct executor_client *client, uint64_t run, int signal_number,
                        bool whole_group, struct executor_callback cb, struct error *err)
{
    return send_run_words(client, MESSAGE_RUN_SIGNAL, run, (uint32_t)signal_number, whole_group, cb,
                          err);
}

int executor_run_resize(struct executor_client *client, uint64_t run, uint16_t columns,
                        uint16_t rows, struct executor_callback cb, struct error *err)
{
    return send_run_words(client, MESSAGE_RUN_RESIZE, run, columns | (uint32_t)rows << 16, 0, cb,
                          err);
}

int executor_storage_delete(struct executor_client *client, const struct executor_uuid *storage,
                            struct executor_callback cb, struct error *err)
{
    return send_fixed(client, MESSAGE_STORAGE_DELETE, storage->bytes, 16, cb, err);
}

int executor_storage_snapshot(struct executor_client *client, const struct executor_uuid *from,
                              const struct executor_uuid *to, struct executor_callback cb,
                              struct error *err)
{
    uint8_t data[32];
    memcpy(data, from->bytes, 16);
    memcpy(data + 16, to->bytes, 16);
    return send_fixed(client, MESSAGE_STORAGE_SNAPSHOT, data, sizeof data, cb, err);
}

int executor_image_commit(struct executor_client *client, const struct executor_uuid *sandbox,
                          const struct executor_digest *image, struct executor_callback cb,
                          struct error *err)
{
    uint8_t data[48];
    memcpy(data, sandbox->bytes, 16);
    memcpy(data + 16, image->bytes, 32);
    return send_fixed(client, MESSAGE_IMAGE_COMMIT, data, sizeof data, cb, err);
}

int executor_image_delete(struct executor_client *client, const struct executor_digest *image,
                          struct executor_callback cb, struct error *err)
{
    return send_fixed(client, MESSAGE_IMAGE_DELETE, image->bytes, 32, cb, err);
}

int executor_image_exists(struct executor_client *client, const struct executor_digest *image,
                          struct executor_callback cb, struct error *err)
{
    return send_fixed(client, MESSAGE_IMAGE_EXISTS, image->bytes, 32, cb, err);
}

int executor_list(struct executor_client *client, enum executor_list_kind kind, uint32_t offset,
                  struct executor_callback cb, struct error *err)
{
    uint32_t data[2] = {(uint32_t)kind, offset};
    return send_fixed(client, MESSAGE_LIST, data, sizeof data, cb, err);
}
