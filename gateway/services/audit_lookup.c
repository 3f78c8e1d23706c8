#include "gateway/services/audit_lookup.h"

#include "gateway/auditfile/log_query.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/services/audit_desk.h"
#include "gateway/services/audit_service.h"

enum { LOOKUP_ARENA_MAX_BYTES = 16 << 20 };

struct lookup {
    const char *id;
    void (*found)(struct request *r, const struct audit_line *line, const struct error *err);
    struct str line; /* in the task's arena; empty: there is none */
    bool has_index;
};

static int find(struct audit_task *task, struct error *err)
{
    struct lookup *l = task->state;
    struct line_index *ix = audit_desk_index(task->desk);
    const uint64_t values[] = {line_index_hash(ix, str_from(l->id)),
                               line_index_hash(ix, STR("DECISION"))};
    const struct index_filter filter = {
        .clauses = {{.columns = {(enum index_column)LINE_ID},
                     .column_count = 1,
                     .values = &values[0],
                     .value_count = 1},
                    {.columns = {(enum index_column)LINE_EVENT},
                     .column_count = 1,
                     .values = &values[1],
                     .value_count = 1}},
        .clause_count = 2,
    };
    const struct index_range range = {.is_newest_first = true};
    struct log_query *query;
    struct log_match match;
    int rc = log_query_new(ix, &filter, &range, UINT64_MAX, &query, err);
    if (rc) {
        return rc;
    }
    rc = log_query_next(query, &match, err);
    char *copy = rc == 1 ? arena_strndup(&task->arena, match.line.ptr, match.line.len) : NULL;
    if (rc == 1) {
        l->line = str_make(copy, copy ? match.line.len : 0);
        rc = copy ? 0 : audit_no_memory(err);
    }
    log_query_free(query);
    return rc;
}

static int run_lookup(struct audit_task *task, struct error *err)
{
    struct lookup *l = task->state;
    struct index_snapshot snapshot = {0};
    struct error ignored;
    audit_await(task);
    l->has_index = line_index_snapshot(audit_desk_index(task->desk), &snapshot, &ignored) == 0;
    index_snapshot_free(&snapshot);
    return l->has_index ? find(task, err) : 0;
}

static void answer_from_file(struct request *r, const struct lookup *l)
{
    struct error err = {0};
    struct audit_line *line = arena_zalloc(&r->arena, sizeof *line);
    if (!line || !r->gateway->config->audit_dir) {
        error_set(&err, STATUS_FAILED_PRECONDITION, "There is no audit log to look at");
        l->found(r, NULL, &err);
        return;
    }
    int rc = audit_read_decision(r->gateway->config->audit_dir, l->id, &r->arena, line, &err);
    l->found(r, rc ? NULL : line, &err);
}

static void answer(struct audit_task *task)
{
    const struct lookup *l = task->state;
    struct request *r = task->request;
    struct error err = {0};
    struct audit_line *line = arena_zalloc(&r->arena, sizeof *line);
    if (!l->has_index) {
        answer_from_file(r, l);
    } else if (line && l->line.len > 0 && audit_parse_decision(l->line, &r->arena, line)) {
        l->found(r, line, &err);
    } else {
        error_set(&err, STATUS_NOT_FOUND,
                  "No decision with the id '%.100s' in the audit log; lines of kind END have none "
                  "of their own",
                  l->id);
        l->found(r, NULL, &err);
    }
}

void audit_lookup_decision(struct request *r, const char *id,
                           void (*found)(struct request *r, const struct audit_line *line,
                                         const struct error *err))
{
    const struct lookup lookup = {.id = id, .found = found};
    if (!r->gateway->audit_desk) {
        answer_from_file(r, &lookup);
        return;
    }
    struct audit_task *task = audit_task_new(r, false, LOOKUP_ARENA_MAX_BYTES);
    if (!task) {
        return;
    }
    task->state = arena_memdup(&task->arena, &lookup, sizeof lookup);
    if (!task->state) {
        request_fail_memory(r);
        return; /* the task ends with the request */
    }
    task->step = run_lookup;
    task->stepped = answer;
    audit_task_go_on(task);
}
