#include <fcntl.h>
#include <stdlib.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/audit_filter.h"
#include "gateway/services/audit_service.h"

/* AuditService.Export: lines as they are. All of them come from the files without the index. */

enum {
    EXPORT_ARENA_MAX_BYTES = 16 << 20,
    STEP_BYTES = 256 << 10,
    STEP_MAX_BYTES = SEGMENT_LINE_MAX_BYTES,
    PUBLIC_KEY_MAX_BYTES = 64 << 10,
};

struct export
{
    const char *key_path; /* of the public key */
    bool is_whole;
    bool is_begun;
    bool is_over;
    bool is_waiting; /* for the index to have the next file */
    char public_key[PUBLIC_KEY_MAX_BYTES];
    struct log_reader *reader; /* when it is whole */
    uint64_t position;
    struct buf lines;
    uint64_t step_lines; /* in it */
    uint64_t first_sequence, last_sequence;
};

/* ---- on a thread ---- */

static void add_line(struct audit_task *task, uint64_t sequence, struct str text)
{
    struct export *e = task->state;
    buf_add_str(&e->lines, text);
    buf_add_u8(&e->lines, '\n');
    e->step_lines++;
    if (sequence) {
        e->first_sequence = e->first_sequence ? e->first_sequence : sequence;
        e->last_sequence = sequence;
    }
}

/* Up to the line that was the newest when the call came. */
static int read_all(struct audit_task *task, struct error *err)
{
    struct export *e = task->state;
    struct log_line one;
    struct line line;
    int rc = e->reader ? 1
                       : log_reader_open(line_index_dir(audit_desk_index(task->desk)), 0,
                                         &e->reader, err);
    rc = rc < 0 ? rc : 1;
    while (rc == 1 && e->lines.len < STEP_BYTES &&
           (rc = log_reader_next(e->reader, &one, err)) == 1) {
        bool is_ours = line_read_head(one.text, &line);
        if (is_ours && line.sequence > task->log_sequence) {
            rc = 0;
        } else {
            add_line(task, is_ours ? line.sequence : 0, one.text);
        }
    }
    e->is_over = rc == 0;
    return rc < 0 ? rc : 0;
}

static int read_matches(struct audit_task *task, struct log_query *query, struct error *err)
{
    struct export *e = task->state;
    struct log_match match;
    uint64_t position;
    int rc = 1;
    while (e->lines.len < STEP_BYTES && (rc = log_query_next(query, &match, err)) == 1) {
        add_line(task, match.sequence, match.line);
        e->position = match.sequence;
    }
    if (rc == 0) {
        enum log_query_end end = log_query_end(query, &position);
        e->position = position > e->position ? position : e->position;
        e->is_over = end == LOG_QUERY_COMPLETE;
        e->is_waiting = end == LOG_QUERY_GAP;
    }
    return rc < 0 ? rc : 0;
}

static int read_some(struct audit_task *task, struct error *err)
{
    const Ext__AuditExportRequest *q = (const Ext__AuditExportRequest *)task->request->message;
    struct export *e = task->state;
    struct line_index *ix = audit_desk_index(task->desk);
    struct index_snapshot snapshot = {0};
    struct index_filter filter;
    struct log_query *query;
    const struct index_range range = {.after = e->position, .before = task->log_sequence + 1};
    if (!e->is_begun) {
        audit_await(task);
    }
    int rc = line_index_snapshot(ix, &snapshot, err);
    index_snapshot_free(&snapshot);
    rc = rc ? rc : audit_filter_compile(q->filter, ix, &task->arena, &filter, err);
    rc = rc ? rc : log_query_new(ix, &filter, &range, audit_text_deadline(), &query, err);
    if (rc == 0) {
        rc = read_matches(task, query, err);
        log_query_free(query);
    }
    return rc;
}

static int read_key(struct export *e, struct error *err)
{
    ssize_t n = fd_read_file(AT_FDCWD, e->key_path, e->public_key, sizeof e->public_key);
    return n < 0 ? error_set_errno(err, STATUS_UNAVAILABLE, (int)-n,
                                   "The audit log's public key cannot be read")
                 : 0;
}

static int run_export(struct audit_task *task, struct error *err)
{
    struct export *e = task->state;
    buf_clear(&e->lines);
    e->step_lines = 0;
    e->is_waiting = false;
    int rc = e->is_begun ? 0 : read_key(e, err);
    rc = rc ? rc : e->is_whole ? read_all(task, err) : read_some(task, err);
    return rc || !e->lines.failed ? rc : audit_no_memory(err);
}

/* ---- on the loop ---- */

static void send_begin(struct audit_task *task)
{
    struct export *e = task->state;
    Ext__AuditExportEvent event = EXT__AUDIT_EXPORT_EVENT__INIT;
    Ext__AuditExportEvent__Begin begin = EXT__AUDIT_EXPORT_EVENT__BEGIN__INIT;
    begin.public_key = e->public_key;
    begin.is_whole = e->is_whole;
    event.type_case = EXT__AUDIT_EXPORT_EVENT__TYPE_BEGIN;
    event.begin = &begin;
    e->is_begun = true;
    (void)request_send(task->request, &event.base);
}

static bool send_lines(struct audit_task *task)
{
    struct export *e = task->state;
    Ext__AuditExportEvent event = EXT__AUDIT_EXPORT_EVENT__INIT;
    event.type_case = EXT__AUDIT_EXPORT_EVENT__TYPE_LINES;
    event.lines = (ProtobufCBinaryData){.len = e->lines.len, .data = e->lines.ptr};
    return e->lines.len > 0 && request_send(task->request, &event.base);
}

static void send_end(struct audit_task *task)
{
    const struct export *e = task->state;
    Ext__AuditExportEvent event = EXT__AUDIT_EXPORT_EVENT__INIT;
    Ext__AuditExportEvent__End ending = EXT__AUDIT_EXPORT_EVENT__END__INIT;
    ending.lines = task->records;
    ending.first_sequence = e->first_sequence;
    ending.last_sequence = e->last_sequence;
    event.type_case = EXT__AUDIT_EXPORT_EVENT__TYPE_END;
    event.end = &ending;
    (void)request_send(task->request, &event.base);
}

static void go_on(struct audit_task *task)
{
    struct export *e = task->state;
    if (!e->is_begun) {
        send_begin(task);
    }
    bool is_full = send_lines(task);
    task->records += e->step_lines;
    arena_reset(&task->arena);
    if (e->is_over) {
        send_end(task);
        audit_task_finish(task);
    } else if (is_full) {
        audit_task_await_client(task);
    } else if (e->is_waiting) {
        audit_task_await_lines(task);
    } else {
        audit_task_go_on(task);
    }
}

static void end(struct audit_task *task)
{
    struct export *e = task->state;
    if (e) {
        log_reader_close(e->reader);
        buf_free(&e->lines);
        free(e);
    }
}

static int check(const Ext__AuditExportRequest *q, struct error *err)
{
    return q->format == EXT__AUDIT_EXPORT_REQUEST__FORMAT__JSONL
               ? audit_filter_check(q->filter, err)
               : error_set(err, STATUS_INVALID_ARGUMENT, "format: %d is none that is known",
                           (int)q->format);
}

/* A filter without any member is none. */
static bool is_whole(const Ext__AuditFilter *f)
{
    static const Ext__AuditFilter none = EXT__AUDIT_FILTER__INIT;
    return !f || codec_equal(&f->base, &none.base);
}

void audit_export_handle(struct request *r)
{
    const Ext__AuditExportRequest *q = (const Ext__AuditExportRequest *)r->message;
    struct error err = {0};
    const char *path = arena_printf(&r->arena, "%s/audit.pub", r->gateway->config->state_dir);
    if (check(q, &err)) {
        request_fail(r, &err);
        return;
    }
    struct audit_task *task = audit_task_new(r, false, EXPORT_ARENA_MAX_BYTES);
    if (!task) {
        return;
    }
    struct export *e = calloc(1, sizeof *e);
    task->state = e;
    task->end = end;
    if (!e || !path) {
        request_fail_memory(r);
        return; /* the task ends with the request */
    }
    buf_init(&e->lines, STEP_MAX_BYTES + STEP_BYTES);
    e->key_path = path;
    e->is_whole = is_whole(q->filter);
    task->step = run_export;
    task->stepped = go_on;
    audit_task_go_on(task);
}
