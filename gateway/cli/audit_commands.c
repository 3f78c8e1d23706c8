/* audit list, tail, show, explain, stats: the audit log, read from afar. */
#include "gateway/cli/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/audit.pb-c.h"
#include "api/ext.pb-c.h"
#include "executor/proc/fd.h"
#include "gateway/cli/audit_filter.h"
#include "gateway/cli/audit_follow.h"
#include "gateway/cli/audit_printer.h"
#include "gateway/cli/audit_story.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/policy_explain.h"

#define AUDIT_SERVICE "/cordium.ext.v1.AuditService/"

enum {
    PAGE_LINES_MAX = 500,
    LIST_LINES = 100,
    TAIL_LINES = 10,
    TAIL_LINES_MAX = 10000,
    STATS_ROWS = 24, /* the hours of a day */
    STATS_COLUMNS = 4,
    TABLE_MAX_BYTES = 16 * 1024 * 1024,
    PAGE_ARENA_BYTES = 64 * 1024 * 1024,
};

static int make_filter(struct cli *cli, const struct arguments *args, Ext__AuditFilter **ret,
                       struct error *err)
{
    return audit_filter_make(args, time(NULL), &cli->arena, ret, err);
}

static bool is_table(const struct arguments *args)
{
    return !args->output || strcmp(args->output, "table") == 0 || strcmp(args->output, "text") == 0;
}

/* Lines may be missing that are looked for. */
static void tell_unread(const Ext__AuditUnread *u)
{
    char last[24] = "its end";
    if (u->last_sequence > 0) {
        (void)snprintf(last, sizeof last, "%" PRIu64, u->last_sequence);
    }
    output_note("warning: the answer is without lines %" PRIu64
                " to %s: %s cannot be read (%s); `cordium audit verify` checks the log, and a copy "
                "of the file in its place is read at once",
                u->first_sequence, last, u->file, u->text);
}

/* A reader must know when the index lags behind the log: what is missing may be what is looked
 * for. */
static void tell_behind(const Ext__AuditIndex *index)
{
    if (index && (index->is_building || index->indexed_sequence < index->log_sequence)) {
        output_note("the log has %" PRIu64 " lines, the answer is of %" PRIu64
                    " of them: the index is %s; ask again",
                    index->log_sequence, index->indexed_sequence,
                    index->is_building ? "being made" : "behind");
    }
}

static void tell_index(const Ext__AuditIndex *index)
{
    tell_behind(index);
    for (size_t i = 0; index && i < index->n_unread; i++) {
        tell_unread(index->unread[i]);
    }
}

/* --- list --- */

/* The pages of a list, one after another. */
struct pages {
    struct cli *cli;
    struct arena *arena; /* of the pages */
    Ext__AuditListRequest *request;
    uint64_t wanted; /* lines; UINT64_MAX: all */
    uint64_t given;
    bool is_complete;
    uint64_t unread_told; /* the first line of the last file that was told to be damaged */
    Ext__AuditListResponse *page;
};

static struct pages pages_of(struct cli *cli, struct arena *arena, Ext__AuditFilter *filter,
                             bool oldest_first, uint64_t wanted)
{
    struct pages p = {.cli = cli, .arena = arena, .wanted = wanted};
    p.request = CLI_NEW(cli, Ext__AuditListRequest, ext__audit_list_request);
    p.request->filter = filter;
    p.request->order = oldest_first ? EXT__AUDIT_LIST_REQUEST__ORDER__OLDEST_FIRST
                                    : EXT__AUDIT_LIST_REQUEST__ORDER__NEWEST_FIRST;
    return p;
}

/* Each page tells which files it passed without reading them; two may meet in the same. */
static void tell_unread_of_page(struct pages *p)
{
    const Ext__AuditIndex *index = p->page->index;
    for (size_t i = 0; index && i < index->n_unread; i++) {
        if (index->unread[i]->first_sequence != p->unread_told) {
            p->unread_told = index->unread[i]->first_sequence;
            tell_unread(index->unread[i]);
        }
    }
}

/* The next page into p->page; 1: there is none. */
static int pages_next(struct pages *p, struct error *err)
{
    ProtobufCMessage *reply = NULL;
    if (p->is_complete || p->given >= p->wanted) {
        return 1;
    }
    uint64_t left = p->wanted - p->given;
    p->request->page_size = left < PAGE_LINES_MAX ? (uint32_t)left : PAGE_LINES_MAX;
    if (transport_unary(p->cli->transport, AUDIT_SERVICE "List", &p->request->base, p->arena,
                        &reply, err) < 0) {
        return -err->status;
    }
    p->page = (Ext__AuditListResponse *)reply;
    p->given += p->page->n_records;
    tell_unread_of_page(p);
    p->is_complete = p->page->is_complete;
    uint64_t *from = p->request->order == EXT__AUDIT_LIST_REQUEST__ORDER__OLDEST_FIRST
                         ? &p->request->after
                         : &p->request->before;
    if (!p->is_complete && *from == p->page->next) {
        return error_set(err, STATUS_INTERNAL, "the server's answer has no end");
    }
    *from = p->page->next;
    return 0;
}

/* Page by page, since all lines may be many. */
static int print_pages(struct pages *pages, struct audit_printer *printer, struct error *err)
{
    int status = pages_next(pages, err);
    if (status == 0) {
        tell_behind(pages->page->index);
    }
    while (status == 0) {
        status = audit_printer_add(printer, pages->page->records, pages->page->n_records, err);
        arena_reset(pages->arena);
        status = status < 0 ? status : pages_next(pages, err);
    }
    return status < 0 ? status : audit_printer_end(printer, err);
}

static int list_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    struct arena arena;
    Ext__AuditFilter *filter = NULL;
    if (make_filter(cli, args, &filter, err) < 0) {
        return -err->status;
    }
    arena_init(&arena, PAGE_ARENA_BYTES);
    struct audit_printer printer = audit_printer_for(args->output);
    printer.joins_ends = !args->every_line;
    printer.with_date = args->show_all;
    struct pages pages = pages_of(cli, &arena, filter, args->oldest_first,
                                  args->show_all         ? UINT64_MAX
                                  : args->has_line_count ? args->line_count
                                                         : LIST_LINES);
    int status = print_pages(&pages, &printer, err);
    arena_free(&arena);
    if (status == 0 && !pages.is_complete) {
        output_note("%s %s %" PRIu64 " line%s; -n N shows more, --all shows all",
                    pages.given == 1 ? "this is the" : "these are the",
                    args->oldest_first ? "oldest" : "newest", pages.given,
                    pages.given == 1 ? "" : "s");
    }
    return status;
}

static int run_list(const struct command *self, const struct arguments *args)
{
    struct error err = {0};
    (void)self;
    if (args->has_line_count && (args->line_count == 0 || args->show_all)) {
        error_set(&err, STATUS_INVALID_ARGUMENT, "%s",
                  args->show_all ? "-n and --all exclude each other"
                                 : "-n 0: there is nothing to list");
        (void)cli_report(&err);
        return CLI_EXIT_USAGE;
    }
    return audit_filter_run(args, list_body);
}

/* --- tail --- */

/* Pages come newest first; what is shown goes the other way. */
static int gather(struct pages *pages, Ext__AuditRecord ***ret, size_t *ret_count,
                  uint64_t *ret_behind, struct error *err)
{
    size_t room = (size_t)pages->wanted;
    Ext__AuditRecord **records = cli_alloc(pages->cli, (room + 1) * sizeof(Ext__AuditRecord *));
    size_t count = 0;
    int status = 0;
    bool is_first = true;
    while ((status = pages_next(pages, err)) == 0) {
        if (is_first && pages->page->index) {
            *ret_behind = pages->page->index->indexed_sequence;
            tell_behind(pages->page->index);
        }
        is_first = false;
        for (size_t i = 0; i < pages->page->n_records && count < room; i++) {
            count++;
            records[room - count] = pages->page->records[i];
        }
    }
    *ret = records + (room - count);
    *ret_count = count;
    return status < 0 ? status : 0;
}

static int tail_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    Ext__AuditFilter *filter = NULL;
    Ext__AuditRecord **records = NULL;
    size_t count = 0;
    uint64_t behind = 0;
    if (make_filter(cli, args, &filter, err) < 0) {
        return -err->status;
    }
    if (args->line_count > TAIL_LINES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "-n %u: at most %d; `cordium audit list --oldest-first` shows more",
                         args->line_count, TAIL_LINES_MAX);
    }
    if (args->follow && filter->to) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--until and --follow exclude each other");
    }
    struct audit_printer printer = audit_printer_for(args->output);
    printer.is_endless = args->follow;
    printer.form = args->follow && printer.form == AUDIT_JSON ? AUDIT_JSONL : printer.form;
    struct pages pages = pages_of(cli, &cli->arena, filter, false,
                                  args->has_line_count ? args->line_count : TAIL_LINES);
    if (gather(&pages, &records, &count, &behind, err) < 0) {
        return -err->status;
    }
    AUTO_FD int interrupt_fd = args->follow ? interrupt_open() : -1;
    if (args->follow && interrupt_fd == -1) {
        return error_set(err, STATUS_INTERNAL, "cannot listen for interrupts");
    }
    if (audit_printer_add(&printer, records, count, err) < 0) {
        return -err->status;
    }
    return args->follow
               ? audit_follow(cli, filter, behind ? behind + 1 : 0, interrupt_fd, &printer, err)
               : audit_printer_end(&printer, err);
}

static int run_tail(const struct command *self, const struct arguments *args)
{
    (void)self;
    return audit_filter_run(args, tail_body);
}

/* --- show, explain --- */

static bool is_hex(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdefABCDEF") >= count;
}

/* Groups of hex digits between hyphens, of these lengths. */
static bool has_groups(const char *text, const size_t lengths[5])
{
    for (size_t i = 0; i < 5; i++) {
        if (!is_hex(text, lengths[i]) || text[lengths[i]] != (i < 4 ? '-' : '\0')) {
            return false;
        }
        text += lengths[i] + 1;
    }
    return true;
}

/* Which kind of id it is shows by its form. */
static int set_id(const char *id, Ext__AuditGetRequest *q, struct error *err)
{
    static const size_t audit_id[5] = {4, 4, 24, 4, 4};
    static const size_t run_id[5] = {8, 4, 4, 4, 12};
    char *copy = (char *)(uintptr_t)id; /* protobuf-c's strings are not const; not written to */
    size_t len = strlen(id);
    if (len == 32 && is_hex(id, len)) {
        q->request_id = copy;
    } else if (has_groups(id, audit_id)) {
        q->id = copy;
    } else if (has_groups(id, run_id)) {
        q->run_id = copy;
    } else if (len > 0 && len < 20 && strspn(id, "0123456789") == len && strtoull(id, NULL, 10)) {
        q->sequence = strtoull(id, NULL, 10);
    } else {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "'%.200s' is no id: give the number of a line (`cordium audit list` shows "
                         "it), an audit id (4-4-24-4-4 hex digits), a request's id (32) or a Run's "
                         "(8-4-4-4-12)",
                         id);
    }
    return 0;
}

static int get_story(struct cli *cli, const struct arguments *args, Ext__AuditStory **ret,
                     struct error *err)
{
    ProtobufCMessage *reply = NULL;
    Ext__AuditGetRequest *q = CLI_NEW(cli, Ext__AuditGetRequest, ext__audit_get_request);
    if (set_id(args->words.items[0], q, err) < 0 ||
        cli_call(cli, AUDIT_SERVICE "Get", &q->base, &reply, err) < 0) {
        return -err->status;
    }
    *ret = (Ext__AuditStory *)reply;
    tell_index((*ret)->index);
    return 0;
}

static int show_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    Ext__AuditStory *story = NULL;
    if (get_story(cli, args, &story, err) < 0) {
        return -err->status;
    }
    if (!is_table(args)) {
        struct audit_printer printer = audit_printer_for(args->output);
        int status = audit_printer_add(&printer, story->records, story->n_records, err);
        return status < 0 ? status : audit_printer_end(&printer, err);
    }
    struct buf out;
    buf_init(&out, TABLE_MAX_BYTES);
    struct page page = page_for_stdout(&out);
    int status = audit_story_print(story, &cli->arena, &page)
                     ? page_show(&page, err)
                     : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    buf_free(&out);
    return status;
}

static int run_show(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, show_body);
}

/* What is explained is a decision: of the lines of a request, the first one. */
static int find_decision(struct cli *cli, const struct arguments *args, char **ret,
                         struct error *err)
{
    Ext__AuditStory *story = NULL;
    if (get_story(cli, args, &story, err) < 0) {
        return -err->status;
    }
    for (size_t i = 0; i < story->n_records; i++) {
        if (strcmp(story->records[i]->event, "DECISION") == 0 && story->records[i]->id[0]) {
            *ret = story->records[i]->id;
            return 0;
        }
    }
    return error_set(err, STATUS_FAILED_PRECONDITION,
                     "'%s' is about nothing that was decided: there is nothing to explain",
                     args->words.items[0]);
}

static int explain_body(struct cli *cli, const struct arguments *args, int *exit_code,
                        struct error *err)
{
    (void)exit_code;
    ProtobufCMessage *reply = NULL;
    Ext__ExplainRequest *q = CLI_NEW(cli, Ext__ExplainRequest, ext__explain_request);
    if (find_decision(cli, args, &q->audit_id, err) < 0 ||
        cli_call(cli, "/cordium.ext.v1.PolicyService/Explain", &q->base, &reply, err) < 0) {
        return -err->status;
    }
    return policy_explain_print((const Ext__Explanation *)reply, args, err);
}

static int run_explain(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, explain_body);
}

/* --- stats --- */

static const char *const by_names[] = {
    [EXT__AUDIT_STATS_REQUEST__BY__DECISION] = "decision",
    [EXT__AUDIT_STATS_REQUEST__BY__REASON] = "reason",
    [EXT__AUDIT_STATS_REQUEST__BY__POLICY] = "policy",
    [EXT__AUDIT_STATS_REQUEST__BY__RULE] = "rule",
    [EXT__AUDIT_STATS_REQUEST__BY__USER] = "user",
    [EXT__AUDIT_STATS_REQUEST__BY__SPACE] = "space",
    [EXT__AUDIT_STATS_REQUEST__BY__TEMPLATE] = "template",
    [EXT__AUDIT_STATS_REQUEST__BY__WORKSPACE] = "workspace",
    [EXT__AUDIT_STATS_REQUEST__BY__METHOD] = "method",
    [EXT__AUDIT_STATS_REQUEST__BY__OUTCOME] = "outcome",
    [EXT__AUDIT_STATS_REQUEST__BY__CODE] = "code",
    [EXT__AUDIT_STATS_REQUEST__BY__KIND] = "kind",
    [EXT__AUDIT_STATS_REQUEST__BY__EVENT] = "event",
    [EXT__AUDIT_STATS_REQUEST__BY__PEER] = "peer",
    [EXT__AUDIT_STATS_REQUEST__BY__HOUR] = "hour",
    [EXT__AUDIT_STATS_REQUEST__BY__DAY] = "day",
};

enum { BY_COUNT = sizeof by_names / sizeof *by_names };

static int parse_by(const char *text, Ext__AuditStatsRequest__By *ret, struct error *err)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 1; i < BY_COUNT; i++) {
        if (strcmp(by_names[i], text) == 0) {
            *ret = (Ext__AuditStatsRequest__By)i;
            return 0;
        }
        int n = snprintf(list + used, sizeof list - used, "%s%s", i > 1 ? ", " : "", by_names[i]);
        used += n > 0 && used + (size_t)n < sizeof list ? (size_t)n : 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "--by '%s': one of %s", text, list);
}

/* What reviewers ask for first: what was refused and why, who is busy, how it ended, and when. */
static const Ext__AuditStatsRequest__By by_default[] = {
    EXT__AUDIT_STATS_REQUEST__BY__RULE,    EXT__AUDIT_STATS_REQUEST__BY__REASON,
    EXT__AUDIT_STATS_REQUEST__BY__USER,    EXT__AUDIT_STATS_REQUEST__BY__METHOD,
    EXT__AUDIT_STATS_REQUEST__BY__OUTCOME, EXT__AUDIT_STATS_REQUEST__BY__CODE,
    EXT__AUDIT_STATS_REQUEST__BY__HOUR,
};

enum { BY_DEFAULT_COUNT = sizeof by_default / sizeof *by_default };

static int make_stats_request(struct cli *cli, const struct arguments *args,
                              Ext__AuditStatsRequest **ret, struct error *err)
{
    Ext__AuditStatsRequest *q = CLI_NEW(cli, Ext__AuditStatsRequest, ext__audit_stats_request);
    q->by = cli_alloc(cli, (args->by.count + BY_DEFAULT_COUNT) * sizeof *q->by);
    q->top = args->top ? args->top : STATS_ROWS;
    for (size_t i = 0; i < args->by.count; i++) {
        if (parse_by(args->by.items[i], &q->by[q->n_by++], err) < 0) {
            return -err->status;
        }
    }
    for (size_t i = 0; args->by.count == 0 && i < BY_DEFAULT_COUNT; i++) {
        q->by[q->n_by++] = by_default[i];
    }
    *ret = q;
    return make_filter(cli, args, &q->filter, err);
}

static const char *count_text(struct cli *cli, uint64_t n)
{
    return n > 0 ? cli_printf(cli, "%" PRIu64, n) : "";
}

static void add_stats_table(struct cli *cli, const Ext__AuditStatsResponse__Table *t,
                            struct buf *out)
{
    char title[32];
    const char *name = (size_t)t->by < BY_COUNT && by_names[t->by] ? by_names[t->by] : "?";
    (void)snprintf(title, sizeof title, "By %s", name);
    const struct table_column columns[STATS_COLUMNS] = {{"Lines", 0, 0, true},
                                                        {"Allowed", 0, 0, true},
                                                        {"Denied", 0, 0, true},
                                                        {title, 8, 0, false}};
    struct table table = table_for(stdout, columns, STATS_COLUMNS);
    struct table_cell *cells =
        cli_alloc(cli, (t->n_rows + 2) * STATS_COLUMNS * sizeof(struct table_cell));
    for (size_t i = 0; i < t->n_rows; i++) {
        const Ext__AuditStatsResponse__Row *r = t->rows[i];
        const struct table_cell row[STATS_COLUMNS] = {
            {count_text(cli, r->lines), OUTPUT_PLAIN},
            {count_text(cli, r->allowed), OUTPUT_PLAIN},
            {count_text(cli, r->denied), OUTPUT_RED},
            {r->key[0] ? r->key : "(not said)", r->key[0] ? OUTPUT_PLAIN : OUTPUT_DIM}};
        memcpy(cells + i * STATS_COLUMNS, row, sizeof row);
    }
    size_t rows = t->n_rows;
    if (t->other_rows > 0) {
        const struct table_cell row[STATS_COLUMNS] = {
            {count_text(cli, t->other_lines), OUTPUT_DIM},
            {"", OUTPUT_PLAIN},
            {"", OUTPUT_PLAIN},
            {cli_printf(cli, "(%" PRIu64 " others)", t->other_rows), OUTPUT_DIM}};
        memcpy(cells + rows++ * STATS_COLUMNS, row, sizeof row);
    }
    table_fit(&table, cells, rows);
    buf_add_u8(out, '\n');
    table_add_titles(&table, out);
    for (size_t i = 0; i < rows; i++) {
        table_add_row(&table, cells + i * STATS_COLUMNS, out);
    }
}

static int stats_body(struct cli *cli, const struct arguments *args, int *exit_code,
                      struct error *err)
{
    (void)exit_code;
    ProtobufCMessage *reply = NULL;
    Ext__AuditStatsRequest *q = NULL;
    if (make_stats_request(cli, args, &q, err) < 0 ||
        cli_call(cli, AUDIT_SERVICE "Stats", &q->base, &reply, err) < 0) {
        return -err->status;
    }
    const Ext__AuditStatsResponse *r = (const Ext__AuditStatsResponse *)reply;
    tell_index(r->index);
    if (!is_table(args)) {
        return output_message(reply, args->output, err);
    }
    struct buf out;
    buf_init(&out, TABLE_MAX_BYTES);
    buf_printf(&out,
               "%" PRIu64 " lines; of these %" PRIu64 " decisions allowed, %" PRIu64 " denied\n",
               r->lines, r->allowed, r->denied);
    for (size_t i = 0; i < r->n_tables; i++) {
        add_stats_table(cli, r->tables[i], &out);
    }
    struct page page = page_for_stdout(&out);
    int status = page_show(&page, err);
    buf_free(&out);
    return status;
}

static int run_stats(const struct command *self, const struct arguments *args)
{
    (void)self;
    return audit_filter_run(args, stats_body);
}

#define ARG_LINES_OUTPUT                                                                           \
    {                                                                                              \
        "output", 'o', "FORMAT", 0,                                                                \
            "table (on a terminal), jsonl (else: the log's own lines), json or yaml", 0            \
    }

static const struct argp_option list_options[] = {
    ARG_WHERE,
    {NULL, 0, NULL, 0, "Of the answer:", 2},
    ARG_LINES_OUTPUT,
    {"lines", 'n', "N", 0, "at most so many (100)", 0},
    {"all", OPT_ALL, NULL, 0, "all lines", 0},
    {"oldest-first", OPT_OLDEST_FIRST, NULL, 0, "instead of the newest", 0},
    {"every-line", OPT_EVERY_LINE, NULL, 0,
     "in a table, a request's decision and its end are two rows", 0},
    ARG_END,
};

static const struct argp_option tail_options[] = {
    ARG_WHERE,
    {NULL, 0, NULL, 0, "Of the answer:", 2},
    ARG_LINES_OUTPUT,
    {"lines", 'n', "N", 0, "begin with the last N (10); 0 for those to come only", 0},
    {"follow", 'f', NULL, 0, "go on with lines as they come, until interrupted", 0},
    ARG_END,
};

static const struct argp_option show_options[] = {
    {"output", 'o', "FORMAT", 0, "text, jsonl (the log's own lines), json or yaml", 0},
    ARG_END,
};

static const struct argp_option explain_options[] = {
    ARG_OUTPUT,
    {"all", OPT_ALL, NULL, 0, "the value of each sub-expression", 0},
    ARG_END,
};

static const struct argp_option stats_options[] = {
    ARG_WHERE,
    {NULL, 0, NULL, 0, "Of the answer:", 2},
    ARG_OUTPUT,
    {"by", OPT_BY, "WHAT", 0, "a table by rule, user, outcome, hour ... (may be repeated)", 0},
    {"top", OPT_TOP, "N", 0, "rows of a table (24)", 0},
    ARG_END,
};

const struct command audit_commands[] = {
    {"audit list", "List lines of the audit log, the newest first.", "[TEXT]", list_options, 0, 0,
     1, run_list},
    {"audit tail", "Show the last lines of the audit log, and those that come.", "[TEXT]",
     tail_options, 0, 0, 1, run_tail},
    {"audit show", "Tell the story of a request or a Run.", "ID", show_options, 0, 1, 1, run_show},
    {"audit explain", "Show why it was allowed or denied: by the policies of then, and of now.",
     "ID", explain_options, 0, 1, 1, run_explain},
    {"audit stats", "Count lines by rule, user, outcome, hour and more.", "", stats_options, 0, 0,
     0, run_stats},
    {0},
};
