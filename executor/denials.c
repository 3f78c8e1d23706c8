#include <stdlib.h>

#include "executor/executor.h"
#include "executor/proc/clock.h"
#include "executor/proc/log.h"

/* What sandboxes were refused by the rules of their network, told to the gateway: every now and
 * then, when it asks, and at a sandbox's end. */

#define TELL_EVERY_NS (30 * UINT64_C(1000000000))

static bool somebody_listens(const struct executor *ex)
{
    for (const struct connection *c = ex->connections; c; c = c->next) {
        if (c->state == MESSAGE_STATE_READY) {
            return true;
        }
    }
    return false;
}

/* What could not be read stays in the kernel for the next time. */
static void collect(struct executor *ex)
{
    struct error err;
    if (network_collect_denials(ex->network, &err) < 0) {
        log_warning("network denials: %s", err.text);
    }
}

/* Tells what was collected of the sandbox. */
static void tell(struct sandbox *s)
{
    struct network_denials denials;
    struct buf body;
    if (!s->link || !network_take_denials(s->link, &denials)) {
        return;
    }
    buf_init(&body, MESSAGE_BYTES_MAX);
    buf_add(&body, s->id.bytes, sizeof s->id.bytes);
    buf_add_u64(&body, denials.others);
    buf_add_u32(&body, (uint32_t)denials.count);
    buf_add_u32(&body, 0);
    for (size_t i = 0; i < denials.count; i++) {
        const struct network_denial *d = &denials.entries[i];
        buf_add_u32(&body, d->address);
        buf_add_u16(&body, d->port);
        buf_add_u8(&body, d->protocol);
        buf_add_u8(&body, d->reason);
        buf_add_u64(&body, d->packets);
    }
    event_broadcast(s->ex, MESSAGE_NETWORK_DENIED, &body);
    buf_free(&body);
}

void denials_tell(struct sandbox *s)
{
    if (!s->link) {
        return;
    }
    collect(s->ex);
    if (somebody_listens(s->ex)) {
        tell(s);
    }
}

int denials_tell_when_due(struct executor *ex)
{
    const uint64_t now = clock_now_ns();
    if (!ex->network || ex->sandbox_count == 0) {
        return -1;
    }
    if (now >= ex->denials_due_ns) {
        ex->denials_due_ns = now + TELL_EVERY_NS;
        collect(ex);
        for (unsigned i = 0; i < TABLE_SIZE && somebody_listens(ex); i++) {
            for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
                tell(s);
            }
        }
    }
    return (int)((ex->denials_due_ns - now) / 1000000) + 1;
}
