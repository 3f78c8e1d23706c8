#include <stdlib.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/audit_filter.h"
#include "gateway/services/audit_record_message.h"
#include "gateway/services/audit_service.h"

/* AuditService.Watch. Nothing is queued for a reader: each step reads from the log what comes
 * behind his position, and he gets no more until he has taken that. So a slow one costs nothing,
 * and misses only what was deleted meanwhile, which he is told. */

enum {
    WATCH_ARENA_MAX_BYTES = 64 << 20,
    STEP_RECORDS_MAX = 200,
    STEP_BYTES_MAX = 1 << 20,
    TICKS_PER_POSITION = 10 * 1000 / AUDIT_TICK_MS,
};

struct watch {
    uint64_t position; /* lines up to it were looked at */
    bool is_begun;
    bool has_more;                /* behind it, in the index already */
    unsigned ticks;               /* since something was sent */
    uint64_t gap_first, gap_last; /* lines that are not there any more; 0: none */
    Ext__AuditRecord *records[STEP_RECORDS_MAX];
    size_t count;
};

/* ---- on a thread ---- */

/* What stood behind the position and was deleted. */
static void find_gap(struct watch *w, const struct index_snapshot *s)
{
    w->gap_first = 0;
    if (s->chunk_count == 0 || (s->gap_count > 0 && s->gaps[0] < s->chunks[0].file)) {
        return;
    }
    if (s->chunks[0].first_sequence > w->position + 1) {
        w->gap_first = w->position + 1;
        w->gap_last = s->chunks[0].first_sequence - 1;
        w->position = w->gap_last;
    }
}

static int take_records(struct audit_task *task, struct log_query *query, struct error *err)
{
    struct watch *w = task->state;
    struct log_match match;
    size_t bytes = 0;
    int rc = 1;
    w->count = 0;
    while (w->count < STEP_RECORDS_MAX && bytes < STEP_BYTES_MAX &&
           (rc = log_query_next(query, &match, err)) == 1) {
        w->records[w->count] =
            audit_record_message(match.sequence, match.line, &match.fields, false, &task->arena);
        if (!w->records[w->count++]) {
            return audit_no_memory(err);
        }
        bytes += match.line.len;
        w->position = match.sequence;
    }
    w->has_more = rc == 1;
    return rc;
}

/* After a query that found no more. */
static void move_on(struct watch *w, const struct log_query *query)
{
    uint64_t position;
    enum log_query_end end = log_query_end(query, &position);
    if (end == LOG_QUERY_COMPLETE) {
        position = log_query_snapshot(query)->indexed_sequence;
    }
    w->position = position > w->position ? position : w->position;
    w->has_more = end == LOG_QUERY_PAUSED;
}

static int run_watch(struct audit_task *task, struct error *err)
{
    const Ext__AuditWatchRequest *q = (const Ext__AuditWatchRequest *)task->request->message;
    struct watch *w = task->state;
    struct line_index *ix = audit_desk_index(task->desk);
    struct index_snapshot snapshot;
    struct index_filter filter;
    struct log_query *query;
    if (!w->is_begun) {
        audit_await(task);
    }
    int rc = line_index_snapshot(ix, &snapshot, err);
    if (rc) {
        return rc;
    }
    find_gap(w, &snapshot);
    index_snapshot_free(&snapshot);
    const struct index_range range = {.after = w->position};
    rc = audit_filter_compile(q->filter, ix, &task->arena, &filter, err);
    rc = rc ? rc : log_query_new(ix, &filter, &range, audit_text_deadline(), &query, err);
    if (rc) {
        return rc;
    }
    rc = take_records(task, query, err);
    if (rc == 0) {
        move_on(w, query);
    }
    log_query_free(query);
    return rc < 0 ? rc : 0;
}

/* ---- on the loop ---- */

static bool send_position(struct audit_task *task)
{
    struct watch *w = task->state;
    Ext__AuditWatchEvent event = EXT__AUDIT_WATCH_EVENT__INIT;
    event.type_case = EXT__AUDIT_WATCH_EVENT__TYPE_POSITION;
    event.position = w->position;
    w->ticks = 0;
    return request_send(task->request, &event.base);
}

static bool send_gap(struct audit_task *task)
{
    const struct watch *w = task->state;
    Ext__AuditWatchEvent event = EXT__AUDIT_WATCH_EVENT__INIT;
    Ext__AuditWatchEvent__Gap gap = EXT__AUDIT_WATCH_EVENT__GAP__INIT;
    gap.first_sequence = w->gap_first;
    gap.last_sequence = w->gap_last;
    event.type_case = EXT__AUDIT_WATCH_EVENT__TYPE_GAP;
    event.gap = &gap;
    return request_send(task->request, &event.base);
}

static bool send_records(struct audit_task *task)
{
    struct watch *w = task->state;
    bool is_full = false;
    for (size_t i = 0; i < w->count; i++) {
        Ext__AuditWatchEvent event = EXT__AUDIT_WATCH_EVENT__INIT;
        event.type_case = EXT__AUDIT_WATCH_EVENT__TYPE_RECORD;
        event.record = w->records[i];
        is_full = request_send(task->request, &event.base);
        w->ticks = 0;
    }
    task->records += w->count;
    return is_full;
}

static void go_on(struct audit_task *task)
{
    struct watch *w = task->state;
    bool is_full = w->gap_first > 0 && send_gap(task);
    is_full = send_records(task) || is_full;
    if (!w->is_begun) {
        w->is_begun = true;
        is_full = send_position(task) || is_full;
    }
    arena_reset(&task->arena);
    if (is_full) {
        audit_task_await_client(task);
    } else if (w->has_more) {
        audit_task_go_on(task);
    } else {
        audit_task_await_lines(task);
    }
}

static void on_tick(struct audit_task *task)
{
    struct watch *w = task->state;
    if (w->is_begun && task->waits_for_lines && ++w->ticks >= TICKS_PER_POSITION) {
        (void)send_position(task);
    }
}

static void end(struct audit_task *task)
{
    free(task->state);
}

void audit_watch_handle(struct request *r)
{
    const Ext__AuditWatchRequest *q = (const Ext__AuditWatchRequest *)r->message;
    struct error err = {0};
    if (audit_filter_check(q->filter, &err)) {
        request_fail(r, &err);
        return;
    }
    struct audit_task *task = audit_task_new(r, true, WATCH_ARENA_MAX_BYTES);
    if (!task) {
        return;
    }
    struct watch *w = calloc(1, sizeof *w);
    task->state = w;
    if (!w) {
        request_fail_memory(r);
        return; /* the task ends with the request */
    }
    w->position = q->from_sequence ? q->from_sequence - 1 : task->log_sequence;
    task->step = run_watch;
    task->stepped = go_on;
    task->tick = on_tick;
    task->end = end;
    audit_task_go_on(task);
}
