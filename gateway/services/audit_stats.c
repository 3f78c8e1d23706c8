#include <stdlib.h>
#include <string.h>

#include "gateway/audit/wall_time.h"
#include "gateway/auditfile/index_stats.h"
#include "gateway/auditfile/line_fetch.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/audit_filter.h"
#include "gateway/services/audit_service.h"

/* AuditService.Stats: how many lines of which kind. */

enum {
    STATS_ARENA_MAX_BYTES = 64 << 20,
    TABLES_MAX = 16,
    ROWS_DEFAULT = 20,
    ROWS_MAX = 1000,
};

#define HOUR_NS (3600ULL * 1000000000)
#define DAY_NS (24 * HOUR_NS)

typedef Ext__AuditStatsResponse__Row row_message;
typedef Ext__AuditStatsResponse__Table table_message;

static const struct {
    int by;
    int column;
    int second; /* -1: none */
    uint64_t span_ns;
} tables[] = {
    {EXT__AUDIT_STATS_REQUEST__BY__DECISION, LINE_DECISION, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__REASON, LINE_REASON, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__POLICY, LINE_POLICY, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__RULE, LINE_POLICY, LINE_RULE, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__USER, LINE_USER, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__SPACE, LINE_SPACE, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__TEMPLATE, LINE_TEMPLATE, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__WORKSPACE, LINE_WORKSPACE, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__METHOD, LINE_METHOD, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__OUTCOME, LINE_OUTCOME, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__CODE, LINE_CODE, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__KIND, LINE_KIND, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__EVENT, LINE_EVENT, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__PEER, INDEX_PEER_ADDRESS, -1, 0},
    {EXT__AUDIT_STATS_REQUEST__BY__HOUR, INDEX_TIME, -1, HOUR_NS},
    {EXT__AUDIT_STATS_REQUEST__BY__DAY, INDEX_TIME, -1, DAY_NS},
};
enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

static const int tables_default[] = {
    EXT__AUDIT_STATS_REQUEST__BY__DECISION, EXT__AUDIT_STATS_REQUEST__BY__REASON,
    EXT__AUDIT_STATS_REQUEST__BY__RULE,     EXT__AUDIT_STATS_REQUEST__BY__USER,
    EXT__AUDIT_STATS_REQUEST__BY__METHOD,   EXT__AUDIT_STATS_REQUEST__BY__OUTCOME,
    EXT__AUDIT_STATS_REQUEST__BY__CODE,     EXT__AUDIT_STATS_REQUEST__BY__DAY,
};

struct stats {
    struct audit_task *task;
    struct line_index *ix;
    Ext__AuditStatsResponse *message;
    size_t rows_max;
    size_t count;
    size_t places[TABLES_MAX]; /* in `tables` */
    struct index_table results[TABLES_MAX];
    struct arena scratch; /* of a line's fields */
};

/* -1: there is none. */
static int find_table(int by)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (tables[i].by == by) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- what stands for a hash ---- */

/* The text of a group, from a line of it; "" when it cannot be told any more. */
static char *text_of(struct stats *s, size_t place, const struct line_fields *f)
{
    char *text;
    if (tables[place].second >= 0) {
        struct str rule = f->text[tables[place].second];
        text = arena_printf(&s->task->arena, "%.*s/%.*s", STR_ARG(f->text[LINE_POLICY]),
                            STR_ARG(rule));
    } else {
        struct str one = tables[place].column == INDEX_PEER_ADDRESS
                             ? line_peer_address(f->text[LINE_PEER])
                             : f->text[tables[place].column];
        text = arena_strndup(&s->task->arena, one.ptr ? one.ptr : "", one.len);
    }
    return text;
}

static int name_group(struct stats *s, size_t place, const struct index_group *g,
                      struct line_fetch *fetch, row_message *row, struct error *err)
{
    struct str line;
    struct line_fields fields;
    struct error gone;
    char time[WALL_TIME_TEXT_SIZE];
    char *text = NULL;
    if (g->key == 0) {
        return 0;
    }
    if (tables[place].span_ns) {
        wall_time_format_ns((int64_t)g->key, time);
        text = arena_strdup(&s->task->arena, time);
    } else if (line_fetch(fetch, &g->newest, &line, &gone) == 0) {
        arena_reset(&s->scratch);
        (void)line_fields_read(line, &s->scratch, &fields);
        text = text_of(s, place, &fields);
    } else {
        return 0; /* deleted a moment ago: it is counted and has no name */
    }
    row->key = text ? text : row->key;
    return text ? 0 : audit_no_memory(err);
}

/* ---- tables ---- */

static int by_lines(const void *a, const void *b)
{
    const struct index_group *x = a;
    const struct index_group *y = b;
    if (x->count.lines != y->count.lines) {
        return x->count.lines < y->count.lines ? 1 : -1;
    }
    return (x->key > y->key) - (x->key < y->key);
}

static int newest_first(const void *a, const void *b)
{
    const struct index_group *x = a;
    const struct index_group *y = b;
    return (x->key < y->key) - (x->key > y->key);
}

/* In the order of the file, so that a frame is decoded once. */
static int by_place(const void *a, const void *b)
{
    const struct index_group *x = *(struct index_group *const *)a;
    const struct index_group *y = *(struct index_group *const *)b;
    return (x->newest.sequence > y->newest.sequence) - (x->newest.sequence < y->newest.sequence);
}

static row_message *make_row(const struct index_group *g, struct arena *arena)
{
    row_message *row =
        CODEC_NEW(arena, Ext__AuditStatsResponse__Row, ext__audit_stats_response__row);
    if (row) {
        row->lines = g->count.lines;
        row->allowed = g->count.allowed;
        row->denied = g->count.denied;
    }
    return row;
}

static int name_rows(struct stats *s, size_t place, struct index_group *groups, size_t count,
                     row_message **rows, struct error *err)
{
    struct line_fetch *fetch = line_fetch_new(line_index_dir(s->ix));
    struct index_group **sorted = arena_calloc(&s->task->arena, count, sizeof(void *));
    int rc = fetch && sorted ? 0 : audit_no_memory(err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        sorted[i] = &groups[i];
    }
    if (rc == 0 && count > 0) {
        qsort(sorted, count, sizeof(void *), by_place);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = name_group(s, place, sorted[i], fetch, rows[sorted[i] - groups], err);
    }
    line_fetch_free(fetch);
    return rc;
}

/* Hours and days run forward, and the newest of them are given. */
static void reverse(row_message **rows, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        row_message *swap = rows[i];
        rows[i] = rows[count - 1 - i];
        rows[count - 1 - i] = swap;
    }
}

static int fill_rows(struct stats *s, size_t place, struct index_table *t, table_message *m,
                     struct error *err)
{
    size_t count = t->count < s->rows_max ? t->count : s->rows_max;
    m->rows = arena_calloc(&s->task->arena, count, sizeof(void *));
    if (!m->rows) {
        return audit_no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        m->rows[i] = make_row(&t->groups[i], &s->task->arena);
        if (!m->rows[i]) {
            return audit_no_memory(err);
        }
    }
    m->n_rows = count;
    int rc = name_rows(s, place, t->groups, count, m->rows, err);
    if (tables[place].span_ns) {
        reverse(m->rows, count);
    }
    for (size_t i = count; i < t->count; i++) {
        m->other_rows++;
        m->other_lines += t->groups[i].count.lines;
    }
    m->other_lines += t->rest.lines;
    return rc;
}

static int fill_table(struct stats *s, size_t i, struct error *err)
{
    struct index_table *t = &s->results[i];
    size_t place = s->places[i];
    table_message *m = CODEC_NEW(&s->task->arena, Ext__AuditStatsResponse__Table,
                                 ext__audit_stats_response__table);
    if (!m) {
        return audit_no_memory(err);
    }
    m->by = (Ext__AuditStatsRequest__By)tables[place].by;
    if (t->count > 0) {
        qsort(t->groups, t->count, sizeof t->groups[0],
              tables[place].span_ns ? newest_first : by_lines);
    }
    s->message->tables[s->message->n_tables++] = m;
    return fill_rows(s, place, t, m, err);
}

/* ---- the call ---- */

static bool is_cancelled(void *arg)
{
    struct audit_task *task = arg;
    return atomic_load(&task->is_cancelled);
}

static int count_all(struct stats *s, const struct index_filter *filter, struct error *err)
{
    struct index_scan *scan;
    struct index_count all;
    struct index_key keys[TABLES_MAX];
    const struct index_range range = {.is_newest_first = true};
    const struct index_stats_hashes hashes = {line_index_hash(s->ix, STR("DECISION")),
                                              line_index_hash(s->ix, STR("ALLOWED")),
                                              line_index_hash(s->ix, STR("DENIED"))};
    for (size_t i = 0; i < s->count; i++) {
        size_t place = s->places[i];
        keys[i] = (struct index_key){.column = (enum index_column)tables[place].column,
                                     .has_second = tables[place].second >= 0,
                                     .span_ns = tables[place].span_ns};
        keys[i].second = (enum index_column)(keys[i].has_second ? tables[place].second : 0);
    }
    int rc = index_scan_new(s->ix, filter, &range, &scan, err);
    if (rc) {
        return rc;
    }
    rc = index_stats_run(scan, &hashes, keys, s->count, is_cancelled, s->task, s->results, &all,
                         err);
    s->message->lines = all.lines;
    s->message->allowed = all.allowed;
    s->message->denied = all.denied;
    s->message->index = audit_index_message(s->task, index_scan_snapshot(scan), filter, NULL);
    index_scan_free(scan);
    return rc || s->message->index ? rc : audit_no_memory(err);
}

static void choose_tables(struct stats *s, const Ext__AuditStatsRequest *q)
{
    size_t n = q->n_by ? q->n_by : sizeof tables_default / sizeof tables_default[0];
    for (size_t i = 0; i < n && s->count < TABLES_MAX; i++) {
        int by = q->n_by ? (int)q->by[i] : tables_default[i];
        s->places[s->count++] = (size_t)find_table(by);
    }
}

static int run_stats(struct audit_task *task, struct error *err)
{
    const Ext__AuditStatsRequest *q = (const Ext__AuditStatsRequest *)task->request->message;
    struct index_snapshot snapshot = {0};
    struct index_filter filter;
    struct stats s = {.task = task, .ix = audit_desk_index(task->desk)};
    s.rows_max = q->top ? q->top : ROWS_DEFAULT;
    choose_tables(&s, q);
    s.message = CODEC_NEW(&task->arena, Ext__AuditStatsResponse, ext__audit_stats_response);
    if (s.message) {
        s.message->tables = arena_calloc(&task->arena, s.count, sizeof(void *));
    }
    audit_await(task);
    int rc = s.message && s.message->tables ? line_index_snapshot(s.ix, &snapshot, err)
                                            : audit_no_memory(err);
    index_snapshot_free(&snapshot);
    rc = rc ? rc : audit_filter_compile(q->filter, s.ix, &task->arena, &filter, err);
    rc = rc ? rc : count_all(&s, &filter, err);
    arena_init(&s.scratch, STATS_ARENA_MAX_BYTES);
    for (size_t i = 0; rc == 0 && i < s.count; i++) {
        rc = fill_table(&s, i, err);
    }
    arena_free(&s.scratch);
    for (size_t i = 0; i < s.count; i++) {
        index_table_free(&s.results[i]);
    }
    task->reply = s.message ? &s.message->base : NULL;
    return rc;
}

static bool asks_for_text(const Ext__AuditFilter *f)
{
    bool does = f && f->text[0];
    for (size_t i = 0; f && i < f->n_except; i++) {
        does = does || f->except[i]->text[0];
    }
    return does;
}

static int check(const Ext__AuditStatsRequest *q, struct error *err)
{
    int rc = audit_filter_check(q->filter, err);
    if (rc == 0 && asks_for_text(q->filter)) {
        rc = error_set(err, STATUS_INVALID_ARGUMENT,
                       "filter.text: statistics are made without reading lines; use List");
    }
    if (rc == 0 && (q->top > ROWS_MAX || q->n_by > TABLES_MAX)) {
        rc = error_set(err, STATUS_INVALID_ARGUMENT,
                       "top: at most %d rows of at most %d tables are allowed", ROWS_MAX,
                       TABLES_MAX);
    }
    for (size_t i = 0; rc == 0 && i < q->n_by; i++) {
        if (find_table((int)q->by[i]) < 0) {
            rc = error_set(err, STATUS_INVALID_ARGUMENT, "by[%zu]: %d is none of the kinds", i,
                           (int)q->by[i]);
        }
    }
    return rc;
}

void audit_stats_handle(struct request *r)
{
    struct error err = {0};
    if (check((const Ext__AuditStatsRequest *)r->message, &err)) {
        request_fail(r, &err);
        return;
    }
    struct audit_task *task = audit_task_new(r, false, STATS_ARENA_MAX_BYTES);
    if (task) {
        task->step = run_stats;
        task->stepped = audit_task_reply;
        audit_task_go_on(task);
    }
}
