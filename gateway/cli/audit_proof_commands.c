/* audit verify, export, replay: whether the log is what was written, a copy of it, and whether what
 * it tells of happens again. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/audit.pb-c.h"
#include "api/ext.pb-c.h"
#include "gateway/cli/audit_filter.h"
#include "gateway/cli/audit_line.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/page.h"
#include "gateway/cli/table.h"

#define AUDIT_SERVICE "/cordium.ext.v1.AuditService/"

enum { EXIT_NOT_SAME = 2 /* broken, or another result */, PAGE_MAX_BYTES = 1024 * 1024 };

static bool is_text(const struct arguments *args)
{
    return !args->output || strcmp(args->output, "text") == 0 || strcmp(args->output, "table") == 0;
}

/* Protobuf-c's strings are not const; none of these is written to. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)(s ? s : "");
}

/* --- verify --- */

struct verification {
    const struct arguments *args;
    bool has_verdict;
    bool is_intact;
    struct error err;
};

static void add_verdict(const Ext__AuditVerifyEvent__Verdict *v, struct buf *out)
{
    if (v->is_intact) {
        buf_add_cstr(out, "intact\n");
    } else {
        buf_printf(out, "NOT INTACT: %s: %s", v->fault, v->file);
        if (v->line > 0) {
            buf_printf(out, ", line %" PRIu64, v->line);
        }
        buf_printf(out, " (sequence %" PRIu64 "): %s\n", v->sequence, v->text);
    }
    buf_printf(out, "%" PRIu64 " lines in %" PRIu64 " files, sequence %" PRIu64 " to %" PRIu64 "\n",
               v->lines, v->files, v->first_sequence, v->last_sequence);
    buf_printf(
        out, "%" PRIu64 " checkpoints; %" PRIu64 " lines behind the last one are not signed yet\n",
        v->checkpoints, v->unsigned_lines);
    if (v->last_checkpoint[0]) {
        buf_printf(out, "anchor %s\n", v->last_checkpoint);
    }
    if (v->deleted_lines + v->erased_lines > 0) {
        buf_printf(out,
                   "%" PRIu64 " lines were deleted with their files, %" PRIu64 " were erased\n",
                   v->deleted_lines, v->erased_lines);
    }
    if (v->torn_lines > 0) {
        buf_printf(out, "%" PRIu64 " lines were torn by crashes, each is accounted for\n",
                   v->torn_lines);
    }
    if (v->losses > 0) {
        buf_printf(out,
                   "%" PRIu64 " times recorded lines were lost, and an administrator went on\n",
                   v->losses);
    }
    buf_add_cstr(out, "This is what the server says of its own log. Without it: `cordium-gateway "
                      "audit verify` on its machine,\nor `cordium audit export --with-key` and the "
                      "same on another.\n");
}

static int print_verdict(const Ext__AuditVerifyEvent__Verdict *verdict,
                         const struct arguments *args, struct error *err)
{
    if (!is_text(args)) {
        return output_message(&verdict->base, args->output, err);
    }
    struct buf out;
    buf_init(&out, PAGE_MAX_BYTES);
    add_verdict(verdict, &out);
    int status = output_write(stdout, buf_str(&out), err);
    buf_free(&out);
    return status;
}

static bool on_verify_event(void *state, const ProtobufCMessage *message)
{
    struct verification *v = state;
    const Ext__AuditVerifyEvent *event = (const Ext__AuditVerifyEvent *)message;
    if (event->type_case == EXT__AUDIT_VERIFY_EVENT__TYPE_PROGRESS) {
        char amount[AUDIT_AMOUNT_SIZE];
        audit_bytes_text((double)event->progress->bytes, amount);
        output_progress("%" PRIu64 " lines, %s", event->progress->lines, amount);
    } else if (event->type_case == EXT__AUDIT_VERIFY_EVENT__TYPE_VERDICT) {
        output_progress_clear();
        v->has_verdict = true;
        v->is_intact = event->verdict->is_intact;
        return print_verdict(event->verdict, v->args, &v->err) == 0;
    }
    return true;
}

static int verify_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    struct verification v = {.args = args};
    Ext__AuditVerifyRequest *q = CLI_NEW(cli, Ext__AuditVerifyRequest, ext__audit_verify_request);
    const struct transport_stream_handler handler = {
        .on_message = on_verify_event, .state = &v, .input_fd = -1};
    q->anchor = text(args->anchor);
    int status = transport_stream(cli->transport, AUDIT_SERVICE "Verify", &q->base, &handler, err);
    output_progress_clear();
    if (v.err.status) {
        return error_set(err, v.err.status, "%s", v.err.text);
    }
    if (status == 0 && !v.has_verdict) {
        return error_set(err, STATUS_UNAVAILABLE, "the call ended without a verdict");
    }
    *exit_code = status == 0 && !v.is_intact ? EXIT_NOT_SAME : 0;
    return status;
}

static int run_verify(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, verify_body);
}

/* --- export --- */

struct exported {
    struct cli *cli;
    struct local_file file; /* fd -1: standard output */
    char *public_key;
    bool is_whole;
    bool has_end;
    uint64_t lines; /* counted as they come */
    uint64_t lines_told;
    struct error err;
};

static uint64_t count_lines(struct str lines)
{
    uint64_t count = 0;
    for (const char *at = lines.ptr; at; count++) {
        size_t left = (size_t)(lines.ptr + lines.len - at);
        at = left > 0 ? memchr(at, '\n', left) : NULL;
        if (!at) {
            break;
        }
        at++;
    }
    return count;
}

static int write_lines(struct exported *e, struct str lines)
{
    e->lines += count_lines(lines);
    if (e->file.fd == -1 && isatty(STDOUT_FILENO)) {
        return output_write(stdout, lines, &e->err);
    }
    const char *where = e->file.fd == -1 ? "standard output" : e->file.path;
    return local_file_write_all(e->file.fd == -1 ? STDOUT_FILENO : e->file.fd, lines)
               ? 0
               : error_set_errno(&e->err, STATUS_UNAVAILABLE, errno, "cannot write '%s'", where);
}

static bool on_export_event(void *state, const ProtobufCMessage *message)
{
    struct exported *e = state;
    const Ext__AuditExportEvent *event = (const Ext__AuditExportEvent *)message;
    if (event->type_case == EXT__AUDIT_EXPORT_EVENT__TYPE_BEGIN) {
        e->is_whole = event->begin->is_whole;
        e->public_key = cli_alloc(e->cli, strlen(event->begin->public_key) + 1);
        memcpy(e->public_key, event->begin->public_key, strlen(event->begin->public_key));
    } else if (event->type_case == EXT__AUDIT_EXPORT_EVENT__TYPE_LINES) {
        return write_lines(e, str_make(event->lines.data, event->lines.len)) == 0;
    } else if (event->type_case == EXT__AUDIT_EXPORT_EVENT__TYPE_END) {
        e->has_end = true;
        e->lines_told = event->end->lines;
    }
    return true;
}

static int receive(struct exported *e, const Ext__AuditExportRequest *q, int interrupt_fd,
                   struct error *err)
{
    const struct transport_stream_handler handler = {
        .on_message = on_export_event, .state = e, .input_fd = -1, .interrupt_fd = interrupt_fd};
    int status =
        transport_stream(e->cli->transport, AUDIT_SERVICE "Export", &q->base, &handler, err);
    if (e->err.status) {
        return error_set(err, e->err.status, "%s", e->err.text);
    }
    if (status == 0 && (!e->has_end || e->lines_told != e->lines)) {
        return error_set(err, STATUS_DATA_LOSS,
                         "the export ended early: %" PRIu64 " lines came, and the server %s",
                         e->lines, e->has_end ? "gave another number" : "did not end it");
    }
    return status;
}

/* Beside the lines: FILE.pub. */
static int write_key(const struct exported *e, struct error *err)
{
    struct local_file file;
    const char *path = cli_printf(e->cli, "%s.pub", e->file.path);
    if (!e->public_key || !e->public_key[0]) {
        return error_set(err, STATUS_DATA_LOSS, "the server gave no public key");
    }
    if (local_file_begin(path, &e->cli->arena, &file, err) < 0) {
        return -err->status;
    }
    if (!local_file_write_all(file.fd, str_from(e->public_key))) {
        int saved = errno;
        local_file_abandon(&file);
        return error_set_errno(err, STATUS_UNAVAILABLE, saved, "cannot write '%s'", path);
    }
    return local_file_commit(&file, err);
}

static int export_into(struct exported *e, const Ext__AuditExportRequest *q, bool with_key,
                       const char *path, struct error *err)
{
    int interrupt_fd = interrupt_open();
    int status = local_file_begin(path, &e->cli->arena, &e->file, err);
    status = status < 0 ? status : receive(e, q, interrupt_fd > 0 ? interrupt_fd : 0, err);
    status = status == 0 && with_key ? write_key(e, err) : status;
    status = status < 0 ? status : local_file_commit(&e->file, err);
    local_file_abandon(&e->file);
    return status;
}

static int export_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    (void)exit_code;
    struct exported e = {.cli = cli, .file = {.fd = -1}};
    Ext__AuditExportRequest *q = CLI_NEW(cli, Ext__AuditExportRequest, ext__audit_export_request);
    if (args->with_key && !args->into) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "--with-key: the key is written beside a file: give --into=FILE");
    }
    bool is_filtered = args->where_count > 0 || args->words.count > 0;
    if (is_filtered && audit_filter_make(args, time(NULL), &cli->arena, &q->filter, err) < 0) {
        return -err->status;
    }
    int status =
        args->into ? export_into(&e, q, args->with_key, args->into, err) : receive(&e, q, 0, err);
    if (status == 0) {
        output_note("%" PRIu64 " lines%s", e.lines,
                    e.is_whole ? ", the whole log"
                               : ": a part of the log, which cannot be verified by itself");
    }
    return status;
}

static int run_export(const struct command *self, const struct arguments *args)
{
    (void)self;
    return audit_filter_run(args, export_body);
}

/* --- replay --- */

enum { DIFFERENCE_COLUMNS = 3 };

struct replayed {
    struct cli *cli;
    const struct arguments *args;
    bool has_answer;
    bool is_same;
    struct error err;
};

static const char *fate(struct cli *cli, const Ext__RunResult *r)
{
    bool has_code = r->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE;
    return has_code            ? cli_printf(cli, "exited with %d", r->exit_code)
           : r->signal_name[0] ? cli_printf(cli, "%.60s (%.30s)", r->outcome, r->signal_name)
                               : cli_printf(cli, "%.60s", r->outcome);
}

static void add_differences(struct cli *cli, const Ext__ReplayRunResponse *r, struct buf *out)
{
    static const struct table_column columns[DIFFERENCE_COLUMNS] = {
        {"What", 0, 0, false}, {"Then", 10, 0, false}, {"Now", 10, 0, false}};
    struct table table = table_for(stdout, columns, DIFFERENCE_COLUMNS);
    struct table_cell *cells =
        cli_alloc(cli, (r->n_differences + 1) * DIFFERENCE_COLUMNS * sizeof *cells);
    for (size_t i = 0; i < r->n_differences; i++) {
        const Ext__ReplayRunResponse__Difference *d = r->differences[i];
        struct table_cell *row = cells + i * DIFFERENCE_COLUMNS;
        row[0].text = d->what;
        row[1].text = d->before;
        row[2].text = d->after;
    }
    table_fit(&table, cells, r->n_differences);
    buf_add_u8(out, '\n');
    table_add_titles(&table, out);
    for (size_t i = 0; i < r->n_differences; i++) {
        table_add_row(&table, cells + i * DIFFERENCE_COLUMNS, out);
    }
}

static int print_replay(struct cli *cli, const Ext__ReplayRunResponse *r, struct error *err)
{
    struct buf out;
    char took[AUDIT_AMOUNT_SIZE];
    buf_init(&out, PAGE_MAX_BYTES);
    struct page page = page_for_stdout(&out);
    page_heading(&page, r->is_same ? "The same result" : "Another result");
    page_field(&page, "run", r->replayed_run_id);
    if (r->result) {
        audit_duration_text(r->result->usage ? (double)r->result->usage->wall_ms : -1, took);
        page_field(&page, "again as", r->result->run_id);
        page_field(&page, "program", fate(cli, r->result));
        page_field(&page, "detail", r->result->detail);
        page_field(&page, "took", took);
    }
    if (r->n_differences > 0) {
        add_differences(cli, r, &out);
    }
    int status = page_show(&page, err);
    buf_free(&out);
    return status;
}

static bool on_replay(void *state, const ProtobufCMessage *message)
{
    struct replayed *p = state;
    const Ext__ReplayRunResponse *r = (const Ext__ReplayRunResponse *)message;
    p->has_answer = true;
    p->is_same = r->is_same;
    return (is_text(p->args) ? print_replay(p->cli, r, &p->err)
                             : output_message(message, p->args->output, &p->err)) == 0;
}

/* As a stream of one message, since it may take longer than other calls. */
static int replay_body(struct cli *cli, const struct arguments *args, int *exit_code,
                       struct error *err)
{
    struct replayed p = {.cli = cli, .args = args};
    Ext__ReplayRunRequest *q = CLI_NEW(cli, Ext__ReplayRunRequest, ext__replay_run_request);
    const struct transport_stream_handler handler = {
        .on_message = on_replay, .state = &p, .input_fd = -1};
    q->run_id = text(args->words.items[0]);
    int status = transport_stream(cli->transport, "/cordium.ext.v1.RunService/Replay", &q->base,
                                  &handler, err);
    if (p.err.status) {
        return error_set(err, p.err.status, "%s", p.err.text);
    }
    if (status == 0 && !p.has_answer) {
        return error_set(err, STATUS_UNAVAILABLE, "the call ended without an answer");
    }
    *exit_code = status == 0 && !p.is_same ? EXIT_NOT_SAME : 0;
    return status;
}

static int run_replay(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, replay_body);
}

static const struct argp_option verify_options[] = {
    {"output", 'o', "FORMAT", 0, "text, json or yaml", 0},
    {"anchor", OPT_ANCHOR, "SEQUENCE:HASH", 0, "a line that the log must have, noted earlier", 0},
    ARG_END,
};

static const struct argp_option export_options[] = {
    ARG_WHERE,
    {NULL, 0, NULL, 0, "Of the answer:", 2},
    {"into", OPT_INTO, "FILE", 0, "a file (mode 0600) instead of standard output", 0},
    {"with-key", OPT_WITH_KEY, NULL, 0, "write the public key to FILE.pub", 0},
    ARG_END,
};

static const struct argp_option replay_options[] = {ARG_OUTPUT, ARG_END};

const struct command audit_proof_commands[] = {
    {"audit verify", "Check that the audit log is what was written; 2 when it is not.", "",
     verify_options, 0, 0, 0, run_verify},
    {"audit export", "Copy lines of the audit log, byte for byte.", "[TEXT]", export_options, 0, 0,
     1, run_export},
    {"audit replay", "Run again what a Run ran, and compare; 2 when the result is another.",
     "RUN-ID", replay_options, 0, 1, 1, run_replay},
    {0},
};
