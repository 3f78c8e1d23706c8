#ifndef SERVICES_WORKSPACE_LOG_H
#define SERVICES_WORKSPACE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "api/cordium.pb-c.h"
#include "policy/base/str.h"

/* What a run said while it was made ready and by its tasks: the newest WORKSPACE_LOG_MAX_BYTES,
 * kept after the run has ended, so that a failure can be read afterwards. Counted references. */
struct workspace_log;

enum {
    WORKSPACE_LOG_MAX_BYTES = 512 * 1024,
    WORKSPACE_LOG_PIECE_MAX_BYTES = 32 * 1024, /* longer texts are kept in several entries */
};

struct workspace_log_entry {
    int64_t at_ns; /* wall clock */
    Cordium__ListenLogResponse__Type type;
    Cordium__ListenLogResponse__Mode mode;
    struct str data; /* borrowed until the log changes */
};

/* Told after each change; must not change the log from within. */
struct workspace_log_listener {
    void (*changed)(struct workspace_log_listener *listener);
    struct workspace_log_listener *next;
};

/* One reference; NULL when memory is out. The texts are copied. */
struct workspace_log *workspace_log_new(const char *uid, const char *name, const char *owner_uid);
struct workspace_log *workspace_log_ref(struct workspace_log *log);
void workspace_log_unref(struct workspace_log *log); /* NULL is fine */

const char *workspace_log_uid(const struct workspace_log *log);
const char *workspace_log_name(const struct workspace_log *log);
const char *workspace_log_owner_uid(const struct workspace_log *log);

/* Oldest entries make room. A NULL log takes everything and keeps nothing. */
void workspace_log_append(struct workspace_log *log, int64_t at_ns,
                          Cordium__ListenLogResponse__Type type,
                          Cordium__ListenLogResponse__Mode mode, struct str data);

/* Nothing will be added. */
void workspace_log_close(struct workspace_log *log);
bool workspace_log_is_closed(const struct workspace_log *log);

/* The entry at *position (0: the oldest), which moves on; false at the end. A reader that was
 * overtaken goes on with the oldest entry, and *ret_was_cut is set. */
bool workspace_log_read(const struct workspace_log *log, uint64_t *position,
                        struct workspace_log_entry *ret, bool *ret_was_cut);

void workspace_log_listen(struct workspace_log *log, struct workspace_log_listener *listener);
void workspace_log_unlisten(struct workspace_log *log, struct workspace_log_listener *listener);

#endif
