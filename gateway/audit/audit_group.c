#include "gateway/audit/audit_group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/hex.h"
#include "gateway/auditfile/checkpoint.h"

enum { CHECKPOINT_MAX_BYTES = 4096 };

void audit_group_init(struct audit_group *g)
{
    *g = (struct audit_group){0};
    buf_init(&g->lines, AUDIT_PENDING_MAX_BYTES);
}

void audit_group_free(struct audit_group *g)
{
    buf_free(&g->lines);
    free(g->waiters);
}

void audit_group_clear(struct audit_group *g, const struct audit_position *end)
{
    buf_clear(&g->lines);
    g->waiter_count = 0;
    g->first_ns = 0;
    g->has_checkpoint = false;
    g->has_cut = false;
    g->end = *end;
}

bool audit_group_add_waiter(struct audit_group *g, void (*done)(void *, int), void *arg)
{
    if (g->waiter_count == g->waiter_room) {
        size_t room = g->waiter_room ? g->waiter_room * 2 : 16;
        struct audit_waiter *waiters =
            room > AUDIT_WAITERS_MAX ? NULL : realloc(g->waiters, room * sizeof *waiters);
        if (!waiters) {
            return false;
        }
        g->waiters = waiters;
        g->waiter_room = room;
    }
    g->waiters[g->waiter_count++] = (struct audit_waiter){done, arg};
    return true;
}

/* The record is an object: its first member follows ours. */
bool audit_group_add_line(struct audit_group *g, struct str record, struct hasher *hasher)
{
    char prev[HASH_HEX_SIZE];
    struct chain next = {.sequence = g->end.chain.sequence + 1};
    size_t start = g->lines.len;
    hex_encode(g->end.chain.hash, HASH_BYTES, prev);
    buf_printf(&g->lines, "{\"sequence\":%" PRIu64 ",\"prev\":\"%s\"%s", next.sequence, prev,
               record.len > 2 ? "," : "");
    buf_add(&g->lines, record.ptr + 1, record.len - 1);
    buf_add_u8(&g->lines, '\n');
    if (g->lines.failed ||
        !hasher_digest(hasher, str_make(g->lines.ptr + start, g->lines.len - start - 1),
                       next.hash)) {
        /* Earlier lines of the group are complete: they stay, this one goes. */
        g->lines.len = start;
        g->lines.failed = false;
        return false;
    }
    g->first_ns = start == 0 ? uv_hrtime() : g->first_ns;
    g->end.chain = next;
    g->end.file_bytes += g->lines.len - start;
    return true;
}

int audit_group_add_checkpoint(struct audit_group *g, const struct signing_key *key,
                               struct hasher *hasher, int64_t wall_ns, const char *reason,
                               struct error *err)
{
    struct buf record;
    buf_init(&record, CHECKPOINT_MAX_BYTES);
    int rc = checkpoint_write(key, g->end.chain.sequence + 1, g->end.chain.hash, wall_ns, reason,
                              &record, err);
    if (rc == 0 && !audit_group_add_line(g, buf_str(&record), hasher)) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "too many lines wait for the disk");
    }
    buf_free(&record);
    if (rc == 0) {
        g->has_checkpoint = true;
        g->checkpoint = g->end.chain;
        g->end.checkpoint_sequence = g->end.chain.sequence;
    }
    return rc;
}

void audit_group_cut(struct audit_group *g)
{
    g->has_cut = true;
    g->cut_bytes = g->lines.len;
    g->cut_waiters = g->waiter_count;
    g->cut_end = g->end;
    g->cut_end.file_bytes = 0;
    g->cut_end.file_first_sequence = g->end.chain.sequence + 1;
    g->end = g->cut_end;
}

void audit_group_notify(struct audit_group *g, size_t first, size_t last, int status)
{
    for (size_t i = first; i < last; i++) {
        g->waiters[i].done(g->waiters[i].arg, status);
    }
}
