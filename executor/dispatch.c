#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "executor/version.h"

/* From a datagram to one call of a handler: the table decides whether the handler sees it at all.
 * A handler gets bytes of an allowed size in an allowed state; it validates through sandbox_spec or
 * reads fixed fields, acts, and answers. */

enum { CONNECTIONS_MAX = 8, QUEUE_BYTES_MAX = 16 << 20, DATAGRAMS_PER_ROUND = 32 };

#define SPEC_ARENA_BYTES (UINT64_C(4) << 20)

struct request {
    struct executor *ex;
    struct asker asker;
    struct bytes body;
    struct channel_fds *fds;
};

static void connection_watch(struct connection *c, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &c->source};
    (void)epoll_ctl(c->ex->poll_fd, EPOLL_CTL_MOD, c->source.fd, &event);
}

/* What a waiting message counts for: a descriptor is dearer than its datagram. */
static size_t outgoing_cost(size_t size, int fd)
{
    return sizeof(struct outgoing) + size + (fd >= 0 ? MESSAGE_BYTES_MAX : 0);
}

static bool queue_later(struct connection *c, const struct iovec parts[2], int fd)
{
    size_t size = parts[0].iov_len + parts[1].iov_len;
    size_t cost = outgoing_cost(size, fd);
    struct outgoing *o =
        c->queue_bytes + cost <= QUEUE_BYTES_MAX ? calloc(1, sizeof *o + size) : NULL;
    if (!o) {
        return false;
    }
    memcpy(o->data, parts[0].iov_base, parts[0].iov_len);
    if (parts[1].iov_len > 0) {
        memcpy(o->data + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    }
    o->size = size;
    o->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd >= 0 && o->fd == -1) {
        free(o);
        return false;
    }
    *c->queue_last = o;
    c->queue_last = &o->next;
    c->queue_bytes += cost;
    connection_watch(c, EPOLLIN | EPOLLOUT);
    return true;
}

static void connection_send(struct connection *c, struct message_header header,
                            const struct buf *body, int fd)
{
    uint8_t head[MESSAGE_HEADER_BYTES];
    if (!c || c->is_closed) {
        return;
    }
    message_header_write(head, header);
    const struct iovec parts[2] = {{head, sizeof head}, {body->ptr, body->len}};
    int r = c->queue_first ? -EAGAIN : channel_send(c->source.fd, parts, 2, &fd, fd >= 0 ? 1 : 0);
    if (r == -EAGAIN && !queue_later(c, parts, fd)) {
        /* It does not read: what it misses cannot be made up for, so it must start anew. */
        (void)shutdown(c->source.fd, SHUT_RDWR);
    }
}

static void connection_flush(struct connection *c)
{
    while (c->queue_first) {
        struct outgoing *o = c->queue_first;
        const struct iovec part = {o->data, o->size};
        if (channel_send(c->source.fd, &part, 1, &o->fd, o->fd >= 0 ? 1 : 0) == -EAGAIN) {
            return;
        }
        c->queue_first = o->next;
        if (!c->queue_first) {
            c->queue_last = &c->queue_first;
            connection_watch(c, EPOLLIN);
        }
        c->queue_bytes -= outgoing_cost(o->size, o->fd);
        fd_close(&o->fd);
        free(o);
    }
}

void reply_ok(struct asker *to, const struct buf *fields, int fd)
{
    struct buf body;
    buf_init(&body, MESSAGE_BYTES_MAX - MESSAGE_HEADER_BYTES);
    buf_add_u32(&body, STATUS_OK);
    if (fields) {
        buf_add_str(&body, buf_str(fields));
    }
    connection_send(to->connection,
                    (struct message_header){.type = MESSAGE_REPLY, .call = to->call}, &body, fd);
    buf_free(&body);
    to->connection = NULL;
}

void reply_error(struct asker *to, const struct error *err)
{
    struct buf body;
    buf_init(&body, 4096);
    buf_add_u32(&body, (uint32_t)(err->status > 0 ? err->status : STATUS_INTERNAL));
    buf_add_counted(&body, str_from(err->text));
    connection_send(to->connection,
                    (struct message_header){.type = MESSAGE_REPLY, .call = to->call}, &body, -1);
    buf_free(&body);
    to->connection = NULL;
}

void event_broadcast(struct executor *ex, uint16_t type, const struct buf *body)
{
    for (struct connection *c = ex->connections; c; c = c->next) {
        if (c->state == MESSAGE_STATE_READY) {
            connection_send(c, (struct message_header){.type = type}, body, -1);
        }
    }
}

static void reply_status(struct request *q, int r, const struct error *err)
{
    if (r < 0) {
        reply_error(&q->asker, err);
    } else {
        reply_ok(&q->asker, NULL, -1);
    }
}

static struct executor_uuid read_uuid(struct bytes *in)
{
    struct executor_uuid id = {0};
    struct str view;
    if (bytes_read_view(in, sizeof id.bytes, &view)) {
        memcpy(id.bytes, view.ptr, sizeof id.bytes);
    }
    return id;
}

static struct image_id read_digest(struct bytes *in)
{
    struct image_id id = {0};
    struct str view;
    if (bytes_read_view(in, sizeof id.bytes, &view)) {
        memcpy(id.bytes, view.ptr, sizeof id.bytes);
    }
    return id;
}

static struct storage_id read_storage_id(struct bytes *in)
{
    struct executor_uuid id = read_uuid(in);
    struct storage_id ret;
    memcpy(ret.bytes, id.bytes, sizeof ret.bytes);
    return ret;
}

static uint32_t read_u32(struct bytes *in)
{
    uint32_t v = 0;
    (void)bytes_read_u32(in, &v);
    return v;
}

static uint64_t read_u64(struct bytes *in)
{
    uint64_t v = 0;
    (void)bytes_read_u64(in, &v);
    return v;
}

static void handle_hello(struct request *q)
{
    const struct config *c = q->ex->config;
    struct buf out;
    buf_init(&out, MESSAGE_BYTES_MAX);
    if (read_u32(&q->body) == EXECUTOR_PROTOCOL_VERSION) {
        q->asker.connection->state = MESSAGE_STATE_READY;
    }
    buf_add_u32(&out, EXECUTOR_PROTOCOL_VERSION);
    buf_add_u32(&out, cgroup_host_is_v2(q->ex->cgroups) ? EXECUTOR_CGROUP_V2 : EXECUTOR_CGROUP_V1);
    buf_add_u32(&out, (uint32_t)storage_host_backend(q->ex->storages));
    buf_add_u32(&out, c->sandboxes_max);
    buf_add_u64(&out, c->memory_bytes_max);
    buf_add_u64(&out, c->disk_bytes_max);
    buf_add_u64(&out, c->inodes_max);
    buf_add_u32(&out, c->cpu_millicores_max);
    buf_add_u32(&out, c->pids_max);
    buf_add_u64(&out, c->capabilities_max);
    buf_add_u32(&out, q->ex->network != NULL);
    buf_add_counted(&out, str_from(EXECUTOR_VERSION));
    buf_add_counted(&out, str_from(c->text));
    reply_ok(&q->asker, &out, -1);
    buf_free(&out);
}

void sandbox_create_from_bytes(struct executor *ex, const uint8_t *body, size_t size,
                               struct asker asker)
{
    struct arena arena;
    struct sandbox_spec spec;
    struct error err;
    arena_init(&arena, SPEC_ARENA_BYTES);
    if (sandbox_spec_parse(body, size, ex->config, &arena, &spec, &err) < 0) {
        reply_error(&asker, &err);
    } else if (!copy_before_create(ex, &spec, bytes_over(body, size), asker)) {
        sandbox_create(ex, &spec, asker);
    }
    arena_free(&arena);
}

static void handle_sandbox_create(struct request *q)
{
    sandbox_create_from_bytes(q->ex, q->body.next, bytes_left(&q->body), q->asker);
}

/* The sandbox that a request names, or NULL after an answer. */
static struct sandbox *find_sandbox(struct request *q)
{
    struct executor_uuid id = read_uuid(&q->body);
    struct sandbox *s = sandbox_find(q->ex, &id);
    if (!s) {
        struct error err;
        (void)error_set(&err, STATUS_NOT_FOUND, "the sandbox does not exist, or is gone");
        reply_error(&q->asker, &err);
    }
    return s;
}

static void handle_sandbox_destroy(struct request *q)
{
    struct sandbox *s = find_sandbox(q);
    if (!s) {
        return;
    }
    struct asker *asker = calloc(1, sizeof *asker);
    if (!asker) {
        struct error err;
        (void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to end a sandbox");
        reply_error(&q->asker, &err);
        return;
    }
    *asker = q->asker;
    asker->next = s->destroyers;
    s->destroyers = asker;
    if (read_u32(&q->body) & 1) {
        s->remove_storage = true;
    }
    sandbox_end(s, EXECUTOR_GONE_DESTROYED, "destroyed");
}

static void handle_sandbox_stats(struct request *q)
{
    struct sandbox *s = find_sandbox(q);
    if (!s) {
        return;
    }
    struct cgroup_usage usage;
    struct storage_usage disk = {0};
    struct buf out;
    cgroup_read_usage(s->cgroup, &usage);
    (void)storage_read_usage(s->storage, &disk);
    buf_init(&out, 128);
    buf_add_u64(&out, usage.memory_bytes);
    buf_add_u64(&out, usage.memory_peak_bytes);
    buf_add_u64(&out, usage.cpu_user_us);
    buf_add_u64(&out, usage.cpu_system_us);
    buf_add_u64(&out, disk.bytes);
    buf_add_u64(&out, disk.limit_bytes);
    buf_add_u64(&out, disk.inodes);
    buf_add_u64(&out, disk.limit_inodes);
    buf_add_u64(&out, usage.oom_kills);
    buf_add_u64(&out, usage.pids_denied);
    buf_add_u32(&out, usage.pids);
    buf_add_u32(&out, s->run_count);
    reply_ok(&q->asker, &out, -1);
    buf_free(&out);
}

static void handle_network_denials(struct request *q)
{
    struct sandbox *s = find_sandbox(q);
    if (s) {
        denials_tell(s);
        reply_ok(&q->asker, NULL, -1);
    }
}

static void handle_run_start(struct request *q)
{
    struct arena arena;
    struct run_spec spec;
    struct error err;
    arena_init(&arena, SPEC_ARENA_BYTES);
    int r = run_spec_parse(q->body.next, bytes_left(&q->body), q->ex->config, &arena, &spec, &err);
    struct sandbox *s = r < 0 ? NULL : sandbox_find(q->ex, &spec.sandbox);
    if (r == 0 && (!s || s->state != SANDBOX_RUNNING)) {
        r = error_set(&err, s ? STATUS_FAILED_PRECONDITION : STATUS_NOT_FOUND,
                      s ? "the sandbox is starting or ending"
                        : "the sandbox does not exist, or is gone");
    }
    if (r == 0 && q->fds->count != (spec.flags & EXECUTOR_RUN_TTY ? 0u : 3u)) {
        r = error_set(&err, STATUS_INVALID_ARGUMENT,
                      "a run has three descriptors, or none with a terminal");
    }
    if (r < 0) {
        reply_error(&q->asker, &err);
    } else {
        run_start(s, &spec, q->fds, q->asker);
    }
    arena_free(&arena);
}

static struct run *find_run(struct request *q)
{
    struct run *run = run_find(q->ex, read_u64(&q->body));
    if (!run) {
        struct error err;
        (void)error_set(&err, STATUS_NOT_FOUND, "the run does not exist, or has ended");
        reply_error(&q->asker, &err);
    }
    return run;
}

static void handle_run_kill(struct request *q)
{
    struct run *run = find_run(q);
    if (run) {
        run_kill(run, read_u32(&q->body), q->asker);
    }
}

static void handle_run_signal(struct request *q)
{
    struct error err;
    struct run *run = find_run(q);
    if (run) {
        uint32_t number = read_u32(&q->body);
        uint32_t scope = read_u32(&q->body);
        int r = number >= 1 && number <= 64 && scope <= 1
                    ? run_signal(run, (int)number, scope == 1, &err)
                    : error_set(&err, STATUS_INVALID_ARGUMENT, "signal %u does not exist", number);
        reply_status(q, r, &err);
    }
}

static void handle_run_resize(struct request *q)
{
    struct error err;
    struct run *run = find_run(q);
    if (run) {
        uint32_t size = read_u32(&q->body);
        reply_status(q, run_resize(run, (uint16_t)size, (uint16_t)(size >> 16), &err), &err);
    }
}

static void handle_storage_delete(struct request *q)
{
    struct error err;
    struct storage_id id = read_storage_id(&q->body);
    reply_status(q, storage_delete(q->ex->storages, &id, &err), &err);
    executor_wake_reaper(q->ex);
}

static void handle_storage_snapshot(struct request *q)
{
    struct error err;
    struct storage_id from = read_storage_id(&q->body);
    struct storage_id to = read_storage_id(&q->body);
    if (storage_copies_slowly(q->ex->storages)) {
        copy_snapshot(q->ex, &from, &to, q->asker);
        return;
    }
    reply_status(q, storage_snapshot(q->ex->storages, &from, &to, &err), &err);
}

static void handle_image_commit(struct request *q)
{
    struct error err = {0};
    struct sandbox *s = find_sandbox(q);
    if (!s) {
        return;
    }
    struct image_id image = read_digest(&q->body);
    struct asker *asker = calloc(1, sizeof *asker);
    if (!asker) {
        (void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to commit an image");
    } else if (!s->is_build || s->committer || s->state == SANDBOX_ENDING) {
        (void)error_set(&err, STATUS_FAILED_PRECONDITION,
                        "only a live build sandbox can become an image");
    } else if (storage_image_exists(q->ex->storages, &image)) {
        (void)error_set(&err, STATUS_ALREADY_EXISTS, "the image exists");
    }
    if (err.status) {
        free(asker);
        reply_error(&q->asker, &err);
        return;
    }
    *asker = q->asker;
    s->committer = asker;
    memcpy(s->commit_image.bytes, image.bytes, sizeof image.bytes);
    sandbox_end(s, EXECUTOR_GONE_COMMITTED, "its files became an image");
}

static void handle_image_delete(struct request *q)
{
    struct error err;
    struct image_id id = read_digest(&q->body);
    reply_status(q, storage_image_delete(q->ex->storages, &id, &err), &err);
    executor_wake_reaper(q->ex);
}

static void handle_image_exists(struct request *q)
{
    struct image_id id = read_digest(&q->body);
    struct buf out;
    buf_init(&out, 8);
    buf_add_u32(&out, storage_image_exists(q->ex->storages, &id));
    reply_ok(&q->asker, &out, -1);
    buf_free(&out);
}

struct page {
    struct buf ids;
    uint32_t id_bytes;
    uint32_t offset;
    uint32_t total;
    uint32_t count;
};

static void page_add(void *context, const uint8_t *id)
{
    enum { PAGE_BYTES_MAX = 56 * 1024 };
    struct page *page = context;
    if (page->total++ >= page->offset && page->ids.len + page->id_bytes <= PAGE_BYTES_MAX) {
        buf_add(&page->ids, id, page->id_bytes);
        page->count++;
    }
}

static void handle_list(struct request *q)
{
    uint32_t kind = read_u32(&q->body);
    struct page page = {.id_bytes = kind == EXECUTOR_LIST_IMAGES ? 32 : 16,
                        .offset = read_u32(&q->body)};
    buf_init(&page.ids, MESSAGE_BYTES_MAX);
    if (kind == EXECUTOR_LIST_SANDBOXES) {
        for (unsigned i = 0; i < TABLE_SIZE; i++) {
            for (struct sandbox *s = q->ex->sandboxes[i]; s; s = s->next_in_table) {
                page_add(&page, s->id.bytes);
            }
        }
    } else {
        (void)storage_list(q->ex->storages, kind == EXECUTOR_LIST_IMAGES, page_add, &page);
    }
    struct buf out;
    buf_init(&out, MESSAGE_BYTES_MAX);
    buf_add_u32(&out, page.total);
    buf_add_u32(&out, page.count);
    buf_add_u32(&out, page.id_bytes);
    buf_add_str(&out, buf_str(&page.ids));
    reply_ok(&q->asker, &out, -1);
    buf_free(&out);
    buf_free(&page.ids);
}

static void call_handler(uint16_t type, struct request *q)
{
    switch (type) {
#define REQUEST(name, number, state, body_min, body_max, memfd_max, fds_min, fds_max, reply_max,   \
                reply_fds_max, handler)                                                            \
    case (number):                                                                                 \
        handler(q);                                                                                \
        break;
#include "executor/ipc/messages.def"
    default:
        break;
    }
}

/* False when the connection must end. */
static bool dispatch(struct executor *ex, struct connection *c, size_t size,
                     struct channel_fds *fds)
{
    if (size < MESSAGE_HEADER_BYTES) {
        return false;
    }
    struct message_header header = message_header_read(ex->received);
    size_t body_bytes = size - MESSAGE_HEADER_BYTES;
    if (!message_is_allowed(&header, c->state, body_bytes, fds->count)) {
        return false;
    }
    struct request q = {
        .ex = ex,
        .asker = {.connection = c, .call = header.call},
        .body = bytes_over(ex->received + MESSAGE_HEADER_BYTES, body_bytes),
        .fds = fds,
    };
    uint8_t *long_body = NULL;
    if (header.flags & MESSAGE_FLAG_BODY_IN_MEMFD) {
        const struct message_rule *rule = message_rule_find(header.type);
        if (fd_read_sealed(fds->fds[0], rule->memfd_max, &long_body, &body_bytes) < 0) {
            return false;
        }
        fd_close(&fds->fds[0]);
        memmove(fds->fds, fds->fds + 1, (fds->count - 1) * sizeof *fds->fds);
        fds->count--;
        q.body = bytes_over(long_body, body_bytes);
    }
    call_handler(header.type, &q);
    free(long_body);
    return true;
}

static void connection_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct connection *c = (struct connection *)source;
    (void)events;
    connection_flush(c);
    for (int i = 0; i < DATAGRAMS_PER_ROUND && !c->is_closed; i++) {
        struct channel_fds fds;
        ssize_t n = channel_recv(c->source.fd, ex->received, sizeof ex->received, &fds);
        if (n == -EAGAIN) {
            return;
        }
        bool goes_on = n > 0 && dispatch(ex, c, (size_t)n, &fds);
        channel_fds_close(&fds);
        if (!goes_on) {
            if (n > 0 || n == -EMSGSIZE) {
                log_warning("connection ended: a message that is not in the table");
            }
            connection_close(ex, c);
        }
    }
}

void connection_close(struct executor *ex, struct connection *c)
{
    if (c->is_closed) {
        return;
    }
    c->is_closed = true;
    struct connection **at = &ex->connections;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    sandbox_forget_connection(ex, c);
    copy_forget_connection(ex, c);
    executor_unwatch(ex, &c->source);
    while (c->queue_first) {
        struct outgoing *o = c->queue_first;
        c->queue_first = o->next;
        fd_close(&o->fd);
        free(o);
    }
    executor_free_later(ex, &c->source);
}

struct connection *connection_open(struct executor *ex, int *fd, enum message_state state)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    c->source = (struct source){.fd = fd_take(fd), .handle = connection_handle};
    c->ex = ex;
    c->state = state;
    c->queue_last = &c->queue_first;
    c->next = ex->connections;
    ex->connections = c;
    /* Edge-triggered for writing alone would not do: reading is level-triggered, and a full queue
     * is looked at again with the next message or event. */
    if (executor_watch(ex, &c->source, EPOLLIN) < 0) {
        connection_close(ex, c);
        return NULL;
    }
    return c;
}

void connection_accept(struct executor *ex, struct source *source, uint32_t events)
{
    (void)events;
    AUTO_FD int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uid_t uid;
    pid_t pid;
    if (fd == -1 || channel_peer(fd, &uid, &pid) < 0) {
        return;
    }
    unsigned count = 0;
    for (struct connection *c = ex->connections; c; c = c->next) {
        count++;
    }
    if (uid != ex->config->gateway_uid) {
        log_warning("connection refused: peer uid %u is not gateway_uid %u", uid,
                    ex->config->gateway_uid);
        return;
    }
    if (count < CONNECTIONS_MAX) {
        (void)connection_open(ex, &fd, MESSAGE_STATE_NEW);
    }
}
