#ifndef IPC_MESSAGE_H
#define IPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The message table as C: see messages.def for what each row means. */
enum message_type {
#define REQUEST(name, number, ...) MESSAGE_##name = (number),
#define EVENT(name, number, ...) MESSAGE_##name = (number),
#include "executor/ipc/messages.def"
};

enum message_state { MESSAGE_STATE_NEW, MESSAGE_STATE_READY };

enum {
    MESSAGE_BYTES_MAX = 65536, /* one datagram */
    MESSAGE_HEADER_BYTES = 8,
    MESSAGE_FDS_MAX = 4,
    MESSAGE_FLAG_BODY_IN_MEMFD = 1,
};

/* Flags of RUN_EXITED: what was done to the program, and which figures are known. */
enum {
    MESSAGE_RUN_KILLED_BY_US = 1,
    MESSAGE_RUN_MAIN_OOM_KILLED = 2,
    MESSAGE_RUN_HAS_MEMORY_PEAK = 4,
    MESSAGE_RUN_HAS_PIDS_PEAK = 8,
    MESSAGE_RUN_HAS_IO = 16,
};

struct message_header {
    uint16_t type;
    uint16_t flags;
    uint32_t call;
};

/* What the table allows for one request. */
struct message_rule {
    uint16_t type;
    enum message_state state;
    uint32_t body_min;
    uint32_t body_max;
    uint32_t memfd_max;
    uint32_t fds_min;
    uint32_t fds_max;
    uint32_t reply_max;
    uint32_t reply_fds_max;
    const char *name;
};

/* The rule of a request type, or NULL. */
const struct message_rule *message_rule_find(uint16_t type);

/* True when a datagram of that size and number of descriptors may be this request in this state.
 * With the memfd flag the datagram is the header alone and the first descriptor the body. */
bool message_is_allowed(const struct message_header *header, enum message_state state,
                        size_t body_bytes, size_t fd_count);

/* Whether an event's body has a size that the table allows; false for unknown types. */
bool message_event_is_allowed(uint16_t type, size_t body_bytes);

struct message_header message_header_read(const uint8_t bytes[MESSAGE_HEADER_BYTES]);
void message_header_write(uint8_t bytes[MESSAGE_HEADER_BYTES], struct message_header header);

#endif
