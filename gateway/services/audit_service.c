#include "gateway/services/audit_service.h"

#include <inttypes.h>
#include <string.h>

#include "executor/proc/clock.h"
#include "gateway/auditfile/index_unread.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/audit_filter.h"
#include "gateway/services/audit_record_message.h"
#include "gateway/state/resource.h"

enum { LIST_ARENA_MAX_BYTES = 64 << 20 };

/* ---- who may ---- */

static bool is_reader(const struct request *r)
{
    const char *group = r->gateway->config->audit_readers_group;
    for (size_t i = 0; i < r->actor.group_count; i++) {
        if (strcmp(resource_name(&r->actor.groups[i]->base), group) == 0) {
            return true;
        }
    }
    return false;
}

int audit_resolve(struct request *r, struct error *err)
{
    if (r->actor.is_workspace) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The Session of a Workspace cannot read the audit log: make this call "
                         "from outside");
    }
    if (!actor_is_admin(&r->actor) && !is_reader(r)) {
        return error_set(err, STATUS_PERMISSION_DENIED,
                         "The User '%.60s' may not read the audit log: an administrator can put "
                         "it into the Group '%.60s'",
                         access_user_name(r), r->gateway->config->audit_readers_group);
    }
    return 0;
}

/* ---- what all have in common ---- */

int audit_no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The answer needs too much memory");
}

void audit_await(struct audit_task *task)
{
    (void)line_index_await(audit_desk_index(task->desk), task->log_sequence, AUDIT_AWAIT_MS);
}

uint64_t audit_text_deadline(void)
{
    return clock_now_ns() + (uint64_t)AUDIT_TEXT_TIME_MS * 1000000;
}

static Ext__AuditUnread *unread_message(const struct index_unread *u, struct arena *arena)
{
    Ext__AuditUnread *m = CODEC_NEW(arena, Ext__AuditUnread, ext__audit_unread);
    if (m) {
        m->file = arena_strdup(arena, u->name);
        m->text = arena_strdup(arena, u->text);
        m->first_sequence = u->file;
        m->last_sequence = u->last_sequence == UINT64_MAX ? 0 : u->last_sequence;
    }
    return m && m->file && m->text ? m : NULL;
}

Ext__AuditIndex *audit_index_message(struct audit_task *task, const struct index_snapshot *snapshot,
                                     const struct index_filter *filter,
                                     const struct index_range *range)
{
    Ext__AuditIndex *m = CODEC_NEW(&task->arena, Ext__AuditIndex, ext__audit_index);
    if (!m) {
        return NULL;
    }
    m->log_sequence = task->log_sequence;
    m->indexed_sequence = snapshot->indexed_sequence;
    m->is_building = snapshot->gap_count > 0;
    m->unread = arena_calloc(&task->arena, snapshot->unread_count + 1, sizeof *m->unread);
    for (size_t i = 0; m->unread && i < snapshot->unread_count; i++) {
        if (index_unread_may_match(&snapshot->unread[i], filter, range)) {
            Ext__AuditUnread *one = unread_message(&snapshot->unread[i], &task->arena);
            if (!one) {
                return NULL;
            }
            m->unread[m->n_unread++] = one;
        }
    }
    return m->unread ? m : NULL;
}

/* ---- List ---- */

struct list_run {
    const Ext__AuditListRequest *request;
    struct audit_task *task;
    struct log_query *query;
    Ext__AuditListResponse *message;
    size_t page, bytes;
};

static int add_record(struct list_run *run, const struct log_match *match, struct error *err)
{
    Ext__AuditListResponse *m = run->message;
    Ext__AuditRecord *record = audit_record_message(match->sequence, match->line, &match->fields,
                                                    run->request->without_lines, &run->task->arena);
    if (!record) {
        return audit_no_memory(err);
    }
    m->records[m->n_records++] = record;
    m->next = match->sequence;
    run->bytes += match->line.len;
    return 0;
}

/* Until the page is full, or nothing is left: of the log, of what the index has of it, or of the
 * time for a search. is_complete tells the first; otherwise `next` is where the next page goes on.
 */
static int fill_list(struct list_run *run, struct error *err)
{
    Ext__AuditListResponse *m = run->message;
    struct log_match match;
    uint64_t position;
    int rc = 1;
    while (rc == 1 && m->n_records < run->page && run->bytes < AUDIT_ANSWER_MAX_BYTES &&
           (rc = log_query_next(run->query, &match, err)) == 1) {
        int added = add_record(run, &match, err);
        rc = added ? added : 1;
    }
    if (rc == 0) {
        m->is_complete = log_query_end(run->query, &position) == LOG_QUERY_COMPLETE;
        m->next = m->is_complete ? m->next : position;
    }
    return rc < 0 ? rc : 0;
}

/* What this page is about: a later one tells what it passes. */
static struct index_range range_of_page(const struct index_range *asked,
                                        const Ext__AuditListResponse *m)
{
    struct index_range range = *asked;
    if (m->is_complete || m->next == 0) {
        return range;
    }
    if (range.is_newest_first) {
        range.after = m->next - 1;
    } else {
        range.before = m->next + 1;
    }
    return range;
}

static int run_list(struct audit_task *task, struct error *err)
{
    const Ext__AuditListRequest *q = (const Ext__AuditListRequest *)task->request->message;
    struct line_index *ix = audit_desk_index(task->desk);
    struct index_filter filter;
    struct index_snapshot snapshot;
    const struct index_range range = {
        .after = q->after,
        .before = q->before,
        .is_newest_first = q->order == EXT__AUDIT_LIST_REQUEST__ORDER__NEWEST_FIRST,
    };
    struct list_run run = {.request = q, .task = task};
    run.page = q->page_size ? q->page_size : AUDIT_PAGE_DEFAULT;
    run.message = CODEC_NEW(&task->arena, Ext__AuditListResponse, ext__audit_list_response);
    audit_await(task);
    int rc = run.message ? line_index_snapshot(ix, &snapshot, err) : audit_no_memory(err);
    if (rc) {
        return rc;
    }
    index_snapshot_free(&snapshot);
    run.message->records = arena_calloc(&task->arena, run.page, sizeof(struct Ext__AuditRecord *));
    rc = run.message->records ? audit_filter_compile(q->filter, ix, &task->arena, &filter, err)
                              : audit_no_memory(err);
    rc = rc ? rc : log_query_new(ix, &filter, &range, audit_text_deadline(), &run.query, err);
    if (rc) {
        return rc;
    }
    rc = fill_list(&run, err);
    const struct index_range looked_at = range_of_page(&range, run.message);
    run.message->index =
        audit_index_message(task, log_query_snapshot(run.query), &filter, &looked_at);
    log_query_free(run.query);
    task->reply = &run.message->base;
    task->records = run.message->n_records;
    return rc || run.message->index ? rc : audit_no_memory(err);
}

void audit_list_handle(struct request *r)
{
    const Ext__AuditListRequest *q = (const Ext__AuditListRequest *)r->message;
    struct error err = {0};
    int rc = audit_filter_check(q->filter, &err);
    if (rc == 0 && q->page_size > AUDIT_PAGE_MAX) {
        rc = error_set(&err, STATUS_INVALID_ARGUMENT, "page_size: %u, at most %d are allowed",
                       q->page_size, AUDIT_PAGE_MAX);
    }
    if (rc == 0 && q->before && q->before <= q->after) {
        rc = error_set(&err, STATUS_INVALID_ARGUMENT,
                       "before: %" PRIu64 " is not greater than `after`, %" PRIu64, q->before,
                       q->after);
    }
    if (rc) {
        request_fail(r, &err);
        return;
    }
    struct audit_task *task = audit_task_new(r, false, LIST_ARENA_MAX_BYTES);
    if (task) {
        task->step = run_list;
        task->stepped = audit_task_reply;
        audit_task_go_on(task);
    }
}
