#include "gateway/cli/audit_printer.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gateway/text/yaml_out.h"

enum {
    PAGE_ARENA_BYTES = 512 * 1024 * 1024, /* trees of 4 MiB of lines take a part of it */
    PAGE_TEXT_BYTES = 64 * 1024 * 1024,
    DAY_SECONDS = 86400,
};

static const struct table_column columns[AUDIT_COLUMNS] = {
    {"Line", 0, 7, true},     {"Time", 0, 12, false},    {"User", 5, 16, false},
    {"Method", 8, 24, false}, {"Decision", 0, 8, false}, {"Rule", 6, 28, false},
    {"Result", 8, 18, false}, {"Took", 0, 9, true},      {"Target", 6, 40, false},
};

/* --- a row --- */

static const char *time_cell(const struct audit_line *line, bool with_date, struct arena *arena)
{
    char text[AUDIT_TIME_SIZE];
    audit_time_text(line->record->time, with_date, text);
    if (with_date && text[0]) {
        text[strlen(text) - strlen(".000")] = '\0'; /* room is dear, and `audit show` has all */
    }
    return arena_strdup(arena, text);
}

/* Whoever is not known is "-". */
static const char *user_cell(const struct audit_line *line)
{
    const Ext__AuditRecord *r = line->record;
    return r->user[0] ? r->user : r->user_uid[0] ? r->user_uid : "-";
}

static const char *method_cell(const struct audit_line *line, struct arena *arena)
{
    const Ext__AuditRecord *r = line->record;
    return r->method[0]                ? audit_method_text(r->method)
           : !line->tree               ? "(no line of ours)"
           : r->event[0] && r->kind[0] ? arena_printf(arena, "%s %s", r->kind, r->event)
                                       : r->kind;
}

static const char *rule_cell(const struct audit_line *line, struct arena *arena)
{
    const Ext__AuditRecord *r = line->record;
    return !r->policy[0] ? r->reason
           : r->rule[0]  ? arena_printf(arena, "%s/%s", r->policy, r->rule)
                         : r->policy;
}

static struct table_cell result_cell(const struct audit_line *line, struct arena *arena)
{
    const Ext__AuditRecord *r = line->record;
    const char *number = audit_line_text(line, "cordium.outcome.exitCode");
    const char *signal = audit_line_text(line, "cordium.outcome.signal");
    bool has_exited = strcmp(r->outcome, "exited") == 0;
    if (has_exited && number[0]) {
        return (struct table_cell){arena_printf(arena, "exited %s", number),
                                   strcmp(number, "0") == 0 ? OUTPUT_PLAIN : OUTPUT_YELLOW};
    }
    if (strcmp(r->outcome, "signaled") == 0 && signal[0]) {
        return (struct table_cell){arena_printf(arena, "signaled %s", signal), OUTPUT_YELLOW};
    }
    if (r->outcome[0]) {
        return (struct table_cell){r->outcome, has_exited ? OUTPUT_PLAIN : OUTPUT_YELLOW};
    }
    bool is_fine = !r->code[0] || strcmp(r->code, "OK") == 0;
    return (struct table_cell){r->code, is_fine ? OUTPUT_PLAIN : OUTPUT_YELLOW};
}

static const char *took_cell(const struct audit_line *line, struct arena *arena)
{
    char text[AUDIT_AMOUNT_SIZE];
    audit_duration_text(audit_line_number(line, "cordium.durationMilliseconds"), text);
    return arena_strdup(arena, text);
}

/* What it was done to; of lines without such, what tells most. */
static const char *target_cell(const struct audit_line *line, struct arena *arena)
{
    static const char *const others[] = {
        "cordium.outcome.runId", "cordium.runId",  "cordium.detail",
        "checkpoint.reason",     "tombstone.file", "gap.reason",
    };
    const char *kind = audit_line_text(line, "metadata.targetRef.kind");
    const char *name = audit_line_text(line, "metadata.targetRef.name");
    const char *workspace = audit_line_text(line, "cordium.workspaceRef.name");
    if (kind[0]) {
        return arena_printf(arena, "%s %s", kind, name);
    }
    if (workspace[0]) {
        return arena_printf(arena, "Workspace %s", workspace);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *text = audit_line_text(line, others[i]);
        if (text[0]) {
            return text;
        }
    }
    return "";
}

bool audit_row_make(const struct audit_line *line, bool with_date, struct arena *arena,
                    struct table_cell cells[AUDIT_COLUMNS])
{
    const Ext__AuditRecord *r = line->record;
    bool is_denied = strcmp(r->decision, "DENIED") == 0;
    enum output_style style = is_denied ? OUTPUT_RED : r->decision[0] ? OUTPUT_GREEN : OUTPUT_PLAIN;
    const struct table_cell made[AUDIT_COLUMNS] = {
        {arena_printf(arena, "%" PRIu64, r->sequence), OUTPUT_DIM},
        {time_cell(line, with_date, arena), OUTPUT_PLAIN},
        {user_cell(line), OUTPUT_PLAIN},
        {method_cell(line, arena), OUTPUT_PLAIN},
        {r->decision, style},
        {rule_cell(line, arena), OUTPUT_PLAIN},
        result_cell(line, arena),
        {took_cell(line, arena), OUTPUT_PLAIN},
        {target_cell(line, arena), OUTPUT_PLAIN},
    };
    for (size_t i = 0; i < AUDIT_COLUMNS; i++) {
        if (!made[i].text) {
            return false;
        }
    }
    memcpy(cells, made, sizeof made);
    return true;
}

/* --- a page of rows --- */

static bool has_its_end(const struct audit_printer *p, const Ext__AuditRecord *r,
                        Ext__AuditRecord *const *records, size_t count)
{
    for (size_t i = 0; i < p->ended_count; i++) {
        if (strcmp(p->ended[i], r->request_id) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(records[i]->event, "END") == 0 &&
            strcmp(records[i]->request_id, r->request_id) == 0) {
            return true;
        }
    }
    return false;
}

static void remember_ends(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count)
{
    p->ended_count = 0;
    for (size_t i = 0; i < count && p->ended_count < AUDIT_ENDS_MAX; i++) {
        const char *id = records[i]->request_id;
        if (strcmp(records[i]->event, "END") == 0 && strlen(id) < sizeof p->ended[0]) {
            memcpy(p->ended[p->ended_count++], id, strlen(id) + 1);
        }
    }
}

static bool is_of_today(const Ext__AuditRecord *r)
{
    return r->time && r->time->seconds / DAY_SECONDS == time(NULL) / DAY_SECONDS;
}

static void begin_table(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count)
{
    p->table = table_for(stdout, columns, AUDIT_COLUMNS);
    for (size_t i = 0; i < count; i++) {
        p->with_date = p->with_date || !is_of_today(records[i]);
    }
}

static bool add_rows(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count,
                     struct arena *arena, struct buf *out)
{
    struct table_cell *cells = arena_calloc(arena, count + 1, AUDIT_COLUMNS * sizeof *cells);
    size_t rows = 0;
    if (!p->has_begun) {
        begin_table(p, records, count);
    }
    for (size_t i = 0; cells && i < count; i++) {
        struct audit_line line = audit_line_of(records[i], arena);
        bool is_joined = p->joins_ends && audit_line_is_decision(&line) &&
                         records[i]->request_id[0] && has_its_end(p, records[i], records, count);
        if (!is_joined &&
            !audit_row_make(&line, p->with_date, arena, cells + AUDIT_COLUMNS * rows++)) {
            return false;
        }
    }
    remember_ends(p, records, count);
    if (!p->has_begun && cells) {
        if (!p->is_endless) {
            table_fit(&p->table, cells, rows);
        }
        table_add_titles(&p->table, out);
    }
    for (size_t i = 0; cells && i < rows; i++) {
        table_add_row(&p->table, cells + AUDIT_COLUMNS * i, out);
    }
    return cells;
}

/* --- as they are --- */

/* False when it is deeper than a sink goes. */
static bool write_node(const struct tree_node *node, unsigned depth, const struct sink *sink)
{
    const struct sink_ops *ops = sink->ops;
    bool is_map = node->type == TREE_MAP;
    if (!is_map && node->type != TREE_LIST) {
        if (node->type == TREE_STRING) {
            ops->string(sink->state, node->text);
        } else {
            ops->word(sink->state, node->type == TREE_NULL ? "null" : node->text.ptr);
        }
        return true;
    }
    bool is_shallow = depth < SINK_DEPTH_MAX;
    (is_map ? ops->begin_map : ops->begin_list)(sink->state);
    for (const struct tree_node *n = is_shallow ? node->first : NULL; n; n = n->next) {
        if (is_map) {
            ops->key(sink->state, n->key);
        }
        is_shallow = write_node(n, depth + 1, sink) && is_shallow;
    }
    (is_map ? ops->end_map : ops->end_list)(sink->state);
    return is_shallow;
}

static bool add_yaml(const Ext__AuditRecord *r, struct arena *arena, struct buf *out)
{
    struct audit_line line = audit_line_of(r, arena);
    struct yaml_out yaml = yaml_out_to(out);
    const struct sink sink = yaml_out_sink(&yaml);
    buf_add_cstr(out, "---\n");
    if (!line.tree) {
        sink.ops->string(sink.state, str_from(r->line));
        return true;
    }
    return write_node(line.tree, 0, &sink);
}

static bool add_lines(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count,
                      struct arena *arena, struct buf *out)
{
    if (p->form == AUDIT_JSON && !p->has_begun) {
        buf_add_cstr(out, "[");
    }
    for (size_t i = 0; i < count; i++) {
        if (p->form == AUDIT_YAML) {
            if (!add_yaml(records[i], arena, out)) {
                return false;
            }
            continue;
        }
        if (p->form == AUDIT_JSON) {
            buf_add_cstr(out, p->lines + i == 0 ? "\n" : ",\n");
        }
        buf_add_cstr(out, records[i]->line);
        buf_add_cstr(out, p->form == AUDIT_JSON ? "" : "\n");
    }
    return true;
}

/* --- the whole --- */

struct audit_printer audit_printer_for(const char *format)
{
    static const char *const names[] = {"table", "jsonl", "json", "yaml"};
    struct audit_printer p = {.form = isatty(STDOUT_FILENO) ? AUDIT_TABLE : AUDIT_JSONL};
    for (size_t i = 0; format && i < sizeof names / sizeof *names; i++) {
        p.form = strcmp(format, names[i]) == 0 ? (enum audit_form)i : p.form;
    }
    return p;
}

/* What table.c made is safe already, and has its colours. */
static int show(const struct audit_printer *p, struct str text, struct error *err)
{
    if (p->form != AUDIT_TABLE) {
        return output_write(stdout, text, err);
    }
    return (text.len == 0 || fwrite(text.ptr, 1, text.len, stdout) == text.len) &&
                   fflush(stdout) == 0
               ? 0
               : error_set(err, STATUS_UNAVAILABLE, "cannot write to standard output");
}

int audit_printer_add(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count,
                      struct error *err)
{
    struct arena arena;
    struct buf out;
    if (count == 0) {
        return 0;
    }
    arena_init(&arena, PAGE_ARENA_BYTES);
    buf_init(&out, PAGE_TEXT_BYTES);
    bool is_made = p->form == AUDIT_TABLE ? add_rows(p, records, count, &arena, &out)
                                          : add_lines(p, records, count, &arena, &out);
    int status = is_made && !out.failed ? show(p, buf_str(&out), err)
                                        : error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                                    "these lines cannot be shown so: use -o jsonl");
    p->has_begun = true;
    p->lines += count;
    buf_free(&out);
    arena_free(&arena);
    return status;
}

int audit_printer_end(struct audit_printer *p, struct error *err)
{
    if (p->form == AUDIT_JSON) {
        return output_write(stdout, p->has_begun ? STR("\n]\n") : STR("[]\n"), err);
    }
    if (p->form == AUDIT_TABLE && !p->has_begun) {
        fputs("No such lines\n", stderr);
    }
    return 0;
}
