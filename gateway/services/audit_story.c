#include <stdlib.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/audit_record_message.h"
#include "gateway/services/audit_service.h"
#include "gateway/state/resource.h"

/* AuditService.Get: all lines of one request or Run. */

enum {
    STORY_ARENA_MAX_BYTES = 64 << 20,
    STORY_IDS_MAX = 64,
    STORY_ROUNDS_MAX = 4, /* a Run's line names its Run, whose request names others … */
};

struct story {
    struct audit_task *task;
    struct line_index *ix;
    Ext__AuditStory *message;
    size_t bytes;
    struct str ids[STORY_IDS_MAX]; /* of requests and Runs */
    size_t id_count;
    struct str workspace; /* UID, of the first line that names one */
    bool has_end;
};

static void add_id(struct story *s, struct str id)
{
    bool is_known = id.len == 0 || s->id_count == STORY_IDS_MAX;
    for (size_t i = 0; i < s->id_count && !is_known; i++) {
        is_known = str_eq(s->ids[i], id);
    }
    char *copy = is_known ? NULL : arena_strndup(&s->task->arena, id.ptr, id.len);
    if (copy) {
        s->ids[s->id_count++] = str_make(copy, id.len);
    }
}

static bool has_record(const struct story *s, uint64_t sequence)
{
    for (size_t i = 0; i < s->message->n_records; i++) {
        if (s->message->records[i]->sequence == sequence) {
            return true;
        }
    }
    return false;
}

static int add_match(struct story *s, const struct log_match *match, struct error *err)
{
    Ext__AuditStory *m = s->message;
    if (has_record(s, match->sequence)) {
        return 0;
    }
    if (m->n_records == AUDIT_PAGE_MAX || s->bytes >= AUDIT_ANSWER_MAX_BYTES) {
        m->is_cut = true;
        return 0;
    }
    Ext__AuditRecord *record =
        audit_record_message(match->sequence, match->line, &match->fields, false, &s->task->arena);
    if (!record) {
        return audit_no_memory(err);
    }
    m->records[m->n_records++] = record;
    s->bytes += match->line.len;
    s->has_end = s->has_end || cstr_eq(record->event, "END");
    if (s->workspace.len == 0) {
        s->workspace = str_from(record->workspace_uid);
    }
    return 0;
}

/* Adds what the filter finds in the range. */
static int collect(struct story *s, const struct index_filter *filter,
                   const struct index_range *range, bool follow_ids, struct error *err)
{
    struct log_query *query;
    struct log_match match;
    int rc = log_query_new(s->ix, filter, range, UINT64_MAX, &query, err);
    if (rc) {
        return rc;
    }
    while (!s->message->is_cut && (rc = log_query_next(query, &match, err)) == 1) {
        rc = add_match(s, &match, err);
        if (rc) {
            break;
        }
        if (follow_ids) {
            add_id(s, match.fields.text[LINE_REQUEST_ID]);
            add_id(s, match.fields.text[LINE_RUN_ID]);
        }
    }
    s->message->index = audit_index_message(s->task, log_query_snapshot(query), &s->task->arena);
    log_query_free(query);
    return rc < 0 ? rc : s->message->index ? 0 : audit_no_memory(err);
}

static int collect_values(struct story *s, const int *columns, size_t column_count,
                          const struct str *texts, size_t count, struct error *err)
{
    uint64_t values[STORY_IDS_MAX];
    struct index_filter filter = {.clause_count = 1};
    const struct index_range all = {0};
    for (size_t i = 0; i < count; i++) {
        values[i] = line_index_hash(s->ix, texts[i]);
    }
    filter.clauses[0] =
        (struct index_clause){.column_count = column_count, .values = values, .value_count = count};
    for (size_t i = 0; i < column_count; i++) {
        filter.clauses[0].columns[i] = (enum index_column)columns[i];
    }
    return collect(s, &filter, &all, true, err);
}

static int collect_key(struct story *s, const Ext__AuditGetRequest *q, struct error *err)
{
    if (q->sequence) {
        const struct index_filter any = {0};
        const struct index_range one = {.after = q->sequence - 1, .before = q->sequence + 1};
        return collect(s, &any, &one, true, err);
    }
    int column = q->id[0] ? LINE_ID : q->request_id[0] ? LINE_REQUEST_ID : LINE_RUN_ID;
    struct str text = str_from(q->id[0] ? q->id : q->request_id[0] ? q->request_id : q->run_id);
    return collect_values(s, &column, 1, &text, 1, err);
}

/* Lines of the same requests and Runs, and of those that these name. */
static int collect_related(struct story *s, struct error *err)
{
    static const int columns[] = {LINE_REQUEST_ID, LINE_RUN_ID};
    size_t known = 0;
    int rc = 0;
    for (int i = 0; rc == 0 && i < STORY_ROUNDS_MAX && s->id_count > known; i++) {
        known = s->id_count;
        rc = collect_values(s, columns, 2, s->ids, s->id_count, err);
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    const Ext__AuditRecord *x = *(Ext__AuditRecord *const *)a;
    const Ext__AuditRecord *y = *(Ext__AuditRecord *const *)b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static void sort(Ext__AuditStory *m)
{
    qsort(m->records, m->n_records, sizeof(Ext__AuditRecord *), compare);
}

/* What was called from inside of the workspace between the decision and the end. */
static int collect_inside(struct story *s, struct error *err)
{
    Ext__AuditStory *m = s->message;
    if (!s->has_end || s->workspace.len == 0 || m->n_records < 2) {
        return 0;
    }
    const uint64_t values[] = {line_index_hash(s->ix, s->workspace), 1};
    const struct index_filter filter = {
        .clauses = {{.columns = {(enum index_column)LINE_WORKSPACE_UID},
                     .column_count = 1,
                     .values = &values[0],
                     .value_count = 1},
                    {.columns = {INDEX_IN_WORKSPACE},
                     .column_count = 1,
                     .values = &values[1],
                     .value_count = 1}},
        .clause_count = 2,
    };
    const struct index_range between = {.after = m->records[0]->sequence,
                                        .before = m->records[m->n_records - 1]->sequence};
    return collect(s, &filter, &between, false, err);
}

static int run_get(struct audit_task *task, struct error *err)
{
    const Ext__AuditGetRequest *q = (const Ext__AuditGetRequest *)task->request->message;
    struct index_snapshot snapshot = {0};
    struct story s = {.task = task, .ix = audit_desk_index(task->desk)};
    s.message = CODEC_NEW(&task->arena, Ext__AuditStory, ext__audit_story);
    if (s.message) {
        s.message->records = arena_calloc(&task->arena, AUDIT_PAGE_MAX, sizeof(Ext__AuditRecord *));
    }
    audit_await(task);
    int rc = s.message && s.message->records ? line_index_snapshot(s.ix, &snapshot, err)
                                             : audit_no_memory(err);
    index_snapshot_free(&snapshot);
    rc = rc ? rc : collect_key(&s, q, err);
    rc = rc ? rc : collect_related(&s, err);
    if (rc == 0) {
        sort(s.message);
        rc = collect_inside(&s, err);
        sort(s.message);
    }
    if (rc == 0 && s.message->n_records == 0) {
        return error_set(err, STATUS_NOT_FOUND,
                         "The audit log has no such line%s; List finds lines by what they say",
                         s.message->index->is_building
                             ? " among those that are indexed so far: try again later"
                             : ": it may have been deleted or erased");
    }
    task->reply = &s.message->base;
    task->records = s.message->n_records;
    return rc;
}

void audit_get_handle(struct request *r)
{
    const Ext__AuditGetRequest *q = (const Ext__AuditGetRequest *)r->message;
    int keys = (q->id[0] != 0) + (q->sequence != 0) + (q->request_id[0] != 0) + (q->run_id[0] != 0);
    if (keys != 1) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "give one of id, sequence, request_id and run_id");
        return;
    }
    struct audit_task *task = audit_task_new(r, false, STORY_ARENA_MAX_BYTES);
    if (task) {
        task->step = run_get;
        task->stepped = audit_task_reply;
        audit_task_go_on(task);
    }
}
