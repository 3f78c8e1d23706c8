#include "gateway/services/audit_filter.h"

#include <assert.h>
#include <string.h>

#include "gateway/state/resource.h"

/* A member of the message with a list of texts, and the columns that may have one of them. */
struct filter_member {
    const char *name;
    size_t count_offset;
    size_t values_offset;
    int columns[3];
    size_t column_count;
};

#define NAMED(name, field, ...)                                                                    \
    {                                                                                              \
        name, offsetof(Ext__AuditFilter, n_##field), offsetof(Ext__AuditFilter, field),            \
            {__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int)                              \
    }

#define MEMBER(field, ...) NAMED(#field, field, __VA_ARGS__)

static const struct filter_member members[] = {
    MEMBER(user, LINE_USER, LINE_USER_UID),
    MEMBER(session, LINE_SESSION, LINE_SESSION_UID),
    MEMBER(space, LINE_SPACE, LINE_SPACE_UID),
    NAMED("template", template_, LINE_TEMPLATE, LINE_TEMPLATE_UID),
    MEMBER(workspace, LINE_WORKSPACE, LINE_WORKSPACE_UID),
    MEMBER(method, LINE_METHOD, LINE_PATH, INDEX_PATH_TAIL),
    MEMBER(decision, LINE_DECISION),
    MEMBER(reason, LINE_REASON),
    MEMBER(policy, LINE_POLICY, LINE_POLICY_UID),
    MEMBER(rule, LINE_RULE),
    MEMBER(outcome, LINE_OUTCOME),
    MEMBER(code, LINE_CODE),
    MEMBER(kind, LINE_KIND),
    MEMBER(event, LINE_EVENT),
    MEMBER(id, LINE_ID),
    MEMBER(request_id, LINE_REQUEST_ID),
    MEMBER(run_id, LINE_RUN_ID),
    MEMBER(peer, LINE_PEER, INDEX_PEER_ADDRESS),
};
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

/* And one for in_workspace. */
static_assert(MEMBER_COUNT + 1 <= INDEX_CLAUSES_MAX, "a clause per member");

static size_t count_of(const Ext__AuditFilter *f, const struct filter_member *m)
{
    size_t count;
    memcpy(&count, (const char *)f + m->count_offset, sizeof count);
    return count;
}

static char *const *values_of(const Ext__AuditFilter *f, const struct filter_member *m)
{
    char **values;
    memcpy(&values, (const char *)f + m->values_offset, sizeof values);
    return values;
}

/* ---- checks ---- */

static int check_values(const Ext__AuditFilter *f, size_t *count, struct error *err)
{
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        size_t n = count_of(f, &members[i]);
        for (size_t k = 0; k < n; k++) {
            if (values_of(f, &members[i])[k][0] == '\0') {
                return error_set(err, STATUS_INVALID_ARGUMENT,
                                 "filter.%s: an empty value; leave it out", members[i].name);
            }
        }
        *count += n;
    }
    if (*count > AUDIT_FILTER_VALUES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "filter: %zu values, at most %d are allowed together", *count,
                         AUDIT_FILTER_VALUES_MAX);
    }
    return 0;
}

static int check_decisions(const Ext__AuditFilter *f, struct error *err)
{
    for (size_t i = 0; i < f->n_decision; i++) {
        if (!cstr_eq(f->decision[i], "ALLOWED") && !cstr_eq(f->decision[i], "DENIED")) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "filter.decision: '%.60s' is neither ALLOWED nor DENIED",
                             f->decision[i]);
        }
    }
    return 0;
}

static int check_text(const Ext__AuditFilter *f, struct error *err)
{
    size_t len = strlen(f->text);
    if (len == 0 || (len >= AUDIT_FILTER_TEXT_MIN_BYTES && len <= AUDIT_FILTER_TEXT_MAX_BYTES)) {
        return 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "filter.text: %zu bytes, %d to %d are allowed",
                     len, AUDIT_FILTER_TEXT_MIN_BYTES, AUDIT_FILTER_TEXT_MAX_BYTES);
}

static int check_time(const char *name, const Google__Protobuf__Timestamp *t, struct error *err)
{
    if (!t || (t->seconds >= 0 && t->seconds < INT64_MAX / 1000000000 && t->nanos >= 0 &&
               t->nanos <= 999999999)) {
        return 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "filter.%s: no time between 1970 and 2262",
                     name);
}

static int check_one(const Ext__AuditFilter *f, size_t *count, struct error *err)
{
    int rc = check_values(f, count, err);
    rc = rc ? rc : check_decisions(f, err);
    rc = rc ? rc : check_text(f, err);
    rc = rc ? rc : check_time("from", f->from, err);
    return rc ? rc : check_time("to", f->to, err);
}

int audit_filter_check(const Ext__AuditFilter *f, struct error *err)
{
    size_t count = 0;
    int rc = f ? check_one(f, &count, err) : 0;
    if (rc || !f) {
        return rc;
    }
    if (f->n_except > AUDIT_FILTER_EXCEPT_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "filter.except: %zu filters, at most %d are allowed", f->n_except,
                         AUDIT_FILTER_EXCEPT_MAX);
    }
    for (size_t i = 0; rc == 0 && i < f->n_except; i++) {
        rc = f->except[i]->n_except > 0
                 ? error_set(err, STATUS_INVALID_ARGUMENT,
                             "filter.except[%zu].except: an exception has none of its own", i)
                 : check_one(f->except[i], &count, err);
    }
    return rc;
}

/* ---- compiling ---- */

static int add_clause(const struct line_index *ix, const struct filter_member *m,
                      char *const *texts, size_t n, struct arena *arena, struct index_filter *ret,
                      struct error *err)
{
    uint64_t *values = arena_calloc(arena, n, sizeof *values);
    struct index_clause *c = &ret->clauses[ret->clause_count++];
    if (!values) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the filter");
    }
    for (size_t i = 0; i < n; i++) {
        values[i] = line_index_hash(ix, str_from(texts[i]));
    }
    *c = (struct index_clause){.column_count = m->column_count, .values = values, .value_count = n};
    for (size_t i = 0; i < m->column_count; i++) {
        c->columns[i] = (enum index_column)m->columns[i];
    }
    return 0;
}

static void add_in_workspace(const Ext__AuditFilter *f, struct index_filter *ret)
{
    static const uint64_t truths[] = {0, 1};
    if (f->has_in_workspace_case == EXT__AUDIT_FILTER__HAS_IN_WORKSPACE_IN_WORKSPACE) {
        ret->clauses[ret->clause_count++] =
            (struct index_clause){.columns = {INDEX_IN_WORKSPACE},
                                  .column_count = 1,
                                  .values = &truths[f->in_workspace ? 1 : 0],
                                  .value_count = 1};
    }
}

static int compile_one(const Ext__AuditFilter *f, const struct line_index *ix, struct arena *arena,
                       struct index_filter *ret, struct error *err)
{
    int rc = 0;
    *ret = (struct index_filter){
        .has_time = f->from || f->to,
        .time_from = f->from ? resource_timestamp_ns(f->from) : INT64_MIN,
        .time_to = f->to ? resource_timestamp_ns(f->to) : INT64_MAX,
        .text = str_from(f->text),
    };
    for (size_t i = 0; rc == 0 && i < MEMBER_COUNT; i++) {
        size_t n = count_of(f, &members[i]);
        rc = n > 0 ? add_clause(ix, &members[i], values_of(f, &members[i]), n, arena, ret, err) : 0;
    }
    add_in_workspace(f, ret);
    return rc;
}

int audit_filter_compile(const Ext__AuditFilter *f, const struct line_index *ix,
                         struct arena *arena, struct index_filter *ret, struct error *err)
{
    *ret = (struct index_filter){0};
    if (!f) {
        return 0;
    }
    struct index_filter *except = arena_calloc(arena, f->n_except, sizeof *except);
    if (!except) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the filter");
    }
    int rc = compile_one(f, ix, arena, ret, err);
    for (size_t i = 0; rc == 0 && i < f->n_except; i++) {
        rc = compile_one(f->except[i], ix, arena, &except[i], err);
    }
    ret->except = except;
    ret->except_count = f->n_except;
    return rc;
}
