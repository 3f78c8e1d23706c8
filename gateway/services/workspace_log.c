#include "gateway/services/workspace_log.h"

#include <stdlib.h>
#include <string.h>

#include "policy/base/bytes.h"

/* Entries lie one after the other in `data`; `base` is the position of its first byte since the
 * log began, so that positions never mean another entry after old ones are gone. */
struct workspace_log {
    char uid[64];
    char name[192];
    char owner_uid[64];
    struct buf data;
    uint64_t base;
    unsigned references;
    bool is_closed;
    struct workspace_log_listener *listeners;
};

struct entry_head {
    int64_t at_ns;
    uint32_t len;
    uint16_t type;
    uint16_t mode;
};

static void copy_text(char *to, size_t room, const char *from)
{
    size_t n = strnlen(from, room - 1);
    memcpy(to, from, n);
    to[n] = '\0';
}

struct workspace_log *workspace_log_new(const char *uid, const char *name, const char *owner_uid)
{
    struct workspace_log *log = calloc(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    copy_text(log->uid, sizeof log->uid, uid);
    copy_text(log->name, sizeof log->name, name);
    copy_text(log->owner_uid, sizeof log->owner_uid, owner_uid);
    buf_init(&log->data, WORKSPACE_LOG_MAX_BYTES);
    log->references = 1;
    return log;
}

struct workspace_log *workspace_log_ref(struct workspace_log *log)
{
    log->references++;
    return log;
}

void workspace_log_unref(struct workspace_log *log)
{
    if (log && --log->references == 0) {
        buf_free(&log->data);
        free(log);
    }
}

const char *workspace_log_uid(const struct workspace_log *log)
{
    return log->uid;
}

const char *workspace_log_name(const struct workspace_log *log)
{
    return log->name;
}

const char *workspace_log_owner_uid(const struct workspace_log *log)
{
    return log->owner_uid;
}

static struct entry_head head_at(const struct workspace_log *log, size_t offset)
{
    struct entry_head head;
    memcpy(&head, log->data.ptr + offset, sizeof head);
    return head;
}

/* Drops old entries until n bytes fit. A quarter at a time, since dropping moves the rest. */
static void make_room(struct workspace_log *log, size_t n)
{
    if (log->data.len + n <= WORKSPACE_LOG_MAX_BYTES) {
        return;
    }
    size_t least = log->data.len + n - WORKSPACE_LOG_MAX_BYTES;
    size_t wanted = least > WORKSPACE_LOG_MAX_BYTES / 4 ? least : WORKSPACE_LOG_MAX_BYTES / 4;
    size_t drop = 0;
    while (drop < wanted && drop < log->data.len) {
        drop += sizeof(struct entry_head) + head_at(log, drop).len;
    }
    buf_consume(&log->data, drop);
    log->base += drop;
}

static void append_piece(struct workspace_log *log, struct entry_head head, const char *text)
{
    make_room(log, sizeof head + head.len);
    uint8_t *room = buf_reserve(&log->data, sizeof head + head.len);
    if (!room) {
        log->data.failed = false; /* out of memory: this piece is lost, later ones may fit */
        return;
    }
    memcpy(room, &head, sizeof head);
    memcpy(room + sizeof head, text, head.len);
    log->data.len += sizeof head + head.len;
}

static void tell_listeners(struct workspace_log *log)
{
    struct workspace_log_listener *next;
    for (struct workspace_log_listener *l = log->listeners; l; l = next) {
        next = l->next;
        l->changed(l);
    }
}

void workspace_log_append(struct workspace_log *log, int64_t at_ns,
                          Cordium__ListenLogResponse__Type type,
                          Cordium__ListenLogResponse__Mode mode, struct str data)
{
    if (!log || log->is_closed || data.len == 0) {
        return;
    }
    for (size_t at = 0; at < data.len; at += WORKSPACE_LOG_PIECE_MAX_BYTES) {
        size_t n = data.len - at;
        if (n > WORKSPACE_LOG_PIECE_MAX_BYTES) {
            n = WORKSPACE_LOG_PIECE_MAX_BYTES;
        }
        struct entry_head head = {at_ns, (uint32_t)n, (uint16_t)type, (uint16_t)mode};
        append_piece(log, head, data.ptr + at);
    }
    tell_listeners(log);
}

void workspace_log_close(struct workspace_log *log)
{
    if (log && !log->is_closed) {
        log->is_closed = true;
        tell_listeners(log);
    }
}

bool workspace_log_is_closed(const struct workspace_log *log)
{
    return log->is_closed;
}

bool workspace_log_read(const struct workspace_log *log, uint64_t *position,
                        struct workspace_log_entry *ret, bool *ret_was_cut)
{
    *ret_was_cut = *position<log->base && * position> 0;
    if (*position < log->base) {
        *position = log->base;
    }
    size_t offset = (size_t)(*position - log->base);
    if (offset >= log->data.len) {
        return false;
    }
    struct entry_head head = head_at(log, offset);
    ret->at_ns = head.at_ns;
    ret->type = (Cordium__ListenLogResponse__Type)head.type;
    ret->mode = (Cordium__ListenLogResponse__Mode)head.mode;
    ret->data = str_make(log->data.ptr + offset + sizeof head, head.len);
    *position += sizeof head + head.len;
    return true;
}

void workspace_log_listen(struct workspace_log *log, struct workspace_log_listener *listener)
{
    listener->next = log->listeners;
    log->listeners = listener;
}

void workspace_log_unlisten(struct workspace_log *log, struct workspace_log_listener *listener)
{
    for (struct workspace_log_listener **at = &log->listeners; *at; at = &(*at)->next) {
        if (*at == listener) {
            *at = listener->next;
            return;
        }
    }
}
