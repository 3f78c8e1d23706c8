#include <stdlib.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/audit_record_message.h"
#include "gateway/services/audit_service.h"
#include "gateway/state/resource.h"

/* AuditService.Get: all lines of one request or Run, and of a workspace's start what became of it.
 */

enum {
    STORY_ARENA_MAX_BYTES = 64 << 20,
    STORY_IDS_MAX = 64,
    STORY_REFUSED_MAX = 16,
    STORY_ROUNDS_MAX = 4, /* a Run's line names its Run, whose request names others … */
};

#define START_METHOD STR("MainService/StartWorkspace")

struct story {
    struct audit_task *task;
    struct line_index *ix;
    Ext__AuditStory *message;
    size_t bytes;
    struct str ids[STORY_IDS_MAX]; /* of requests and Runs */
    size_t id_count;
    struct str workspace; /* UID, of the first line that names one */
    bool has_end;
    bool has_start;                        /* of a workspace, by a request */
    bool is_of_workspace;                  /* a line that no request waited for was asked for */
    bool has_life_end;                     /* of the workspace */
    struct str refused[STORY_REFUSED_MAX]; /* ids of requests that started nothing, the latest */
    size_t refused_count;
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
    s->has_start = s->has_start || str_eq(line_path_tail(str_from(record->method)), START_METHOD);
    s->has_life_end = s->has_life_end || cstr_eq(record->event, "WORKSPACE_END");
    s->is_of_workspace = s->is_of_workspace || cstr_eq(record->kind, "WorkspaceLog");
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
    s->message->index = audit_index_message(s->task, log_query_snapshot(query), NULL, NULL);
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

/* A start that was refused leaves the workspace as it was. Going back its end comes first; of one
 * whose end is not met, the programs were running before it. */
static bool is_start_that_counts(struct story *s, const struct line_fields *f)
{
    struct str code = f->text[LINE_CODE];
    struct str id = f->text[LINE_REQUEST_ID];
    if (code.len > 0 && !str_eq(code, STR("OK"))) {
        char *copy = arena_strndup(&s->task->arena, id.ptr ? id.ptr : "", id.len);
        s->refused[s->refused_count++ % STORY_REFUSED_MAX] = str_make(copy, copy ? id.len : 0);
        return false;
    }
    for (size_t i = 0; i < STORY_REFUSED_MAX; i++) {
        if (str_eq(s->refused[i], id)) {
            return false;
        }
    }
    return str_eq(f->text[LINE_KIND], STR("AccessLog"));
}

/* What the workspace's log says before the first line, back to the start that it belongs to; or
 * behind it, up to its end. */
static int collect_life(struct story *s, bool is_backward, struct error *err)
{
    const uint64_t values[] = {line_index_hash(s->ix, s->workspace),
                               line_index_hash(s->ix, STR("WorkspaceLog")),
                               line_index_hash(s->ix, START_METHOD)};
    const uint64_t first = s->message->records[0]->sequence;
    const struct index_range range = {.after = is_backward ? 0 : first,
                                      .before = is_backward ? first : 0,
                                      .is_newest_first = is_backward};
    const struct index_filter filter = {
        .clauses = {{.columns = {(enum index_column)LINE_WORKSPACE_UID},
                     .column_count = 1,
                     .values = &values[0],
                     .value_count = 1},
                    {.columns = {(enum index_column)LINE_KIND, INDEX_PATH_TAIL},
                     .column_count = is_backward ? 2 : 1,
                     .values = &values[1],
                     .value_count = is_backward ? 2 : 1}},
        .clause_count = 2,
    };
    struct log_query *query;
    struct log_match match;
    bool is_over = false;
    int rc = log_query_new(s->ix, &filter, &range, UINT64_MAX, &query, err);
    if (rc) {
        return rc;
    }
    while (!is_over && (rc = log_query_next(query, &match, err)) == 1) {
        bool is_end = str_eq(match.fields.text[LINE_EVENT], STR("WORKSPACE_END"));
        bool is_log = str_eq(match.fields.text[LINE_KIND], STR("WorkspaceLog"));
        bool is_start = is_start_that_counts(s, &match.fields);
        is_over = is_end || is_start;
        if (is_start) {
            add_id(s, match.fields.text[LINE_REQUEST_ID]);
        } else if (is_log && !(is_backward && is_end)) {
            rc = add_match(s, &match, err);
            is_over = is_over || rc < 0;
        }
    }
    log_query_free(query);
    return rc < 0 ? rc : 0;
}

static bool has_life(const struct story *s)
{
    return s->workspace.len > 0 && s->message->n_records > 0 &&
           (s->has_start || s->is_of_workspace);
}

static uint64_t last_of_requests(const Ext__AuditStory *m)
{
    size_t i = m->n_records - 1;
    while (i > 0 && cstr_eq(m->records[i]->kind, "WorkspaceLog")) {
        i--;
    }
    return m->records[i]->sequence;
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
                                        .before = last_of_requests(m)};
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
    if (rc == 0 && s.is_of_workspace && has_life(&s)) {
        rc = collect_life(&s, true, err);
    }
    rc = rc ? rc : collect_related(&s, err);
    if (rc == 0) {
        sort(s.message);
        rc = collect_inside(&s, err);
    }
    if (rc == 0 && has_life(&s) && (s.has_start || !s.has_life_end)) {
        sort(s.message);
        rc = collect_life(&s, false, err);
    }
    sort(s.message);
    if (rc == 0 && s.message->n_records == 0) {
        return error_set(err, STATUS_NOT_FOUND,
                         "The audit log has no such line%s; List finds lines by what they say",
                         s.message->index->is_building
                             ? " among those that are indexed so far: try again later"
                         : s.message->index->n_unread > 0
                             ? ", or it is in a file that is damaged: Verify names it"
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
