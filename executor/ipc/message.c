#include "executor/ipc/message.h"

#include <string.h>

static const struct message_rule rules[] = {
#define REQUEST(name, number, state, body_min, body_max, memfd_max, fds_min, fds_max, reply_max,   \
                reply_fds_max, handler)                                                            \
    {(number),  MESSAGE_STATE_##state, (body_min),      (body_max), (memfd_max), (fds_min),        \
     (fds_max), (reply_max),           (reply_fds_max), #name},
#include "executor/ipc/messages.def"
};

static const struct {
    uint16_t type;
    uint32_t body_min;
    uint32_t body_max;
} event_rules[] = {
#define EVENT(name, number, body_min, body_max) {(number), (body_min), (body_max)},
#include "executor/ipc/messages.def"
};

const struct message_rule *message_rule_find(uint16_t type)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].type == type) {
            return &rules[i];
        }
    }
    return NULL;
}

bool message_is_allowed(const struct message_header *header, enum message_state state,
                        size_t body_bytes, size_t fd_count)
{
    const struct message_rule *rule = message_rule_find(header->type);
    if (!rule || rule->state != state || header->call == 0) {
        return false;
    }
    if (header->flags == MESSAGE_FLAG_BODY_IN_MEMFD) {
        if (rule->memfd_max == 0 || body_bytes != 0 || fd_count == 0) {
            return false;
        }
        fd_count--;
    } else if (header->flags != 0 || body_bytes < rule->body_min || body_bytes > rule->body_max) {
        return false;
    }
    /* Between the two is nothing: three descriptors or none. */
    return fd_count == rule->fds_min || fd_count == rule->fds_max;
}

bool message_event_is_allowed(uint16_t type, size_t body_bytes)
{
    for (size_t i = 0; i < sizeof event_rules / sizeof *event_rules; i++) {
        if (event_rules[i].type == type) {
            return body_bytes >= event_rules[i].body_min && body_bytes <= event_rules[i].body_max;
        }
    }
    return false;
}

struct message_header message_header_read(const uint8_t bytes[MESSAGE_HEADER_BYTES])
{
    struct message_header h;
    memcpy(&h.type, bytes, 2);
    memcpy(&h.flags, bytes + 2, 2);
    memcpy(&h.call, bytes + 4, 4);
    return h;
}

void message_header_write(uint8_t bytes[MESSAGE_HEADER_BYTES], struct message_header header)
{
    memcpy(bytes, &header.type, 2);
    memcpy(bytes + 2, &header.flags, 2);
    memcpy(bytes + 4, &header.call, 4);
}
