#include "gateway/idle_memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"

struct idle_memory {
    struct gateway *gateway;
    uv_timer_t timer;
    uint64_t seen;    /* sequence of the audit log at the last look */
    uint64_t trimmed; /* and when memory was given back */
};

static void on_timer(uv_timer_t *timer)
{
    struct idle_memory *m = timer->data;
    uint64_t now = audit_log_sequence(m->gateway->audit);
    bool is_quiet = now - m->seen < IDLE_MEMORY_QUIET_LINES;
    m->seen = now;
    if (is_quiet && now != m->trimmed) {
        (void)malloc_trim(0);
        m->trimmed = now;
    }
}

int idle_memory_new(struct gateway *g, struct idle_memory **ret, struct error *err)
{
    struct idle_memory *m = calloc(1, sizeof *m);
    if (!m) {
        return error_set(err, STATUS_INTERNAL, "no memory for a timer");
    }
    m->gateway = g;
    m->seen = m->trimmed = audit_log_sequence(g->audit);
    (void)uv_timer_init(g->loop, &m->timer);
    m->timer.data = m;
    (void)uv_timer_start(&m->timer, on_timer, IDLE_MEMORY_PAUSE_MS, IDLE_MEMORY_PAUSE_MS);
    uv_unref((uv_handle_t *)&m->timer);
    *ret = m;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void idle_memory_free(struct idle_memory *m)
{
    if (m) {
        uv_close((uv_handle_t *)&m->timer, on_closed);
    }
}
