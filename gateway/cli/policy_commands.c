/* policy …: what admins do with policy files, most of it without a server. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/authorize/text_diff.h"
#include "gateway/cli/cli.h"
#include "gateway/cli/policy_online.h"
#include "gateway/cli/yaml_folder.h"
#include "gateway/policyfile/format.h"
#include "gateway/policyfile/policy_files.h"

enum { FILES_MEMORY_MAX_BYTES = 1024 * 1024 * 1024, OUTPUT_MAX_BYTES = 256 * 1024 * 1024 };

/* Exit codes of `policy check`; policy/README.md lists them. */
enum { EXIT_ERRORS = 1, EXIT_WARNINGS = 2 };

struct reading {
    struct policy_files files;
    struct arena arena;
    size_t file_count;
    struct cli *cli; /* NULL without a server */
    struct policy_texts texts;
};

static int take_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct reading *r = arg;
    r->file_count++;
    if (r->cli) {
        return policy_texts_add(r->cli, &r->texts, path, text, err);
    }
    policy_files_add(&r->files, path, text);
    return 0;
}

static void read_all(struct reading *r, const struct argument_list *words)
{
    for (size_t i = 0; i < words->count; i++) {
        struct error err = {0};
        if (yaml_folder_visit(words->items[i], take_file, r, &r->arena, &err)) {
            policy_files_add_unreadable(&r->files, words->items[i], err.text);
        }
    }
}

static int open_reading(struct reading *r, struct cli *cli, struct error *err)
{
    *r = (struct reading){.cli = cli};
    arena_init(&r->arena, FILES_MEMORY_MAX_BYTES);
    return policy_files_open(&r->files, &r->arena, err);
}

static void close_reading(struct reading *r)
{
    policy_files_close(&r->files);
    arena_free(&r->arena);
}

static enum diagnostic_format format_of(const char *name)
{
    return !name                        ? DIAGNOSTIC_TEXT
           : strcmp(name, "json") == 0  ? DIAGNOSTIC_JSON
           : strcmp(name, "sarif") == 0 ? DIAGNOSTIC_SARIF
                                        : DIAGNOSTIC_TEXT;
}

/* Notes are many and rarely wanted: text leaves them out unless --all. */
static void drop_notes(struct diagnostics *d)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->items[i].severity != POLICY_SEVERITY_NOTE) {
            d->items[kept++] = d->items[i];
        }
    }
    d->count = kept;
}

static int exit_code_of(const struct diagnostics *d, bool is_strict)
{
    return d->by_severity[POLICY_SEVERITY_ERROR] > 0                  ? EXIT_ERRORS
           : is_strict && d->by_severity[POLICY_SEVERITY_WARNING] > 0 ? EXIT_WARNINGS
                                                                      : 0;
}

static int print_findings(struct reading *r, size_t policy_count, const struct arguments *args)
{
    struct diagnostics *d = &r->files.diagnostics;
    enum diagnostic_format format = format_of(args->output);
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    if (format == DIAGNOSTIC_TEXT && !args->show_all) {
        drop_notes(d);
    }
    diagnostics_print(d, format, &out);
    if (format == DIAGNOSTIC_TEXT) {
        buf_printf(&out, "%zu files, %zu policies: %zu errors, %zu warnings, %zu notes%s\n",
                   r->file_count, policy_count, d->by_severity[POLICY_SEVERITY_ERROR],
                   d->by_severity[POLICY_SEVERITY_WARNING], d->by_severity[POLICY_SEVERITY_NOTE],
                   d->is_cut ? " (not all are shown)" : "");
    }
    bool ok = !out.failed && fwrite(out.ptr, 1, out.len, stdout) == out.len;
    buf_free(&out);
    return ok ? exit_code_of(d, args->is_strict) : EXIT_ERRORS;
}

static int check_offline(const struct arguments *args)
{
    struct reading r;
    struct error err = {0};
    int code = EXIT_ERRORS;
    if (open_reading(&r, NULL, &err)) {
        (void)cli_report(&err);
    } else {
        read_all(&r, &args->words);
        policy_files_check(&r.files, true);
        code = print_findings(&r, r.files.policy_count, args);
    }
    close_reading(&r);
    return code;
}

static int check_online(struct cli *cli, const struct arguments *args, int *exit_code,
                        struct error *err)
{
    struct reading r;
    size_t policy_count = 0;
    int rc = open_reading(&r, cli, err);
    if (rc == 0) {
        read_all(&r, &args->words);
    }
    if (rc == 0 && r.texts.count > 0) {
        rc = policy_online_check(cli, &r.texts, args, &r.files.diagnostics, &policy_count, err);
    }
    if (rc == 0) {
        *exit_code = print_findings(&r, policy_count, args);
    }
    close_reading(&r);
    return rc;
}

static int run_check(const struct command *self, const struct arguments *args)
{
    (void)self;
    return policy_is_online(args) ? cli_run(args, check_online) : check_offline(args);
}

struct formatting {
    const struct arguments *args;
    struct arena arena;
    size_t changed;
    size_t failed;
};

static int replace_file(const char *path, struct str text, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    ssize_t n = fd == -1 ? -1 : write(fd, text.ptr, text.len);
    return n == (ssize_t)text.len
               ? 0
               : error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'", path);
}

/* Standard input goes to standard output; files are changed in place. */
static int put_formatted(struct formatting *f, const char *path, struct str before,
                         struct str after, struct error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    if (is_stdin && !f->args->is_dry_run) {
        (void)fwrite(after.ptr, 1, after.len, stdout);
        return 0;
    }
    if (str_eq(before, after)) {
        return 0;
    }
    f->changed++;
    if (!f->args->is_dry_run) {
        printf("%s\n", path);
        return replace_file(path, after, err);
    }
    struct buf diff;
    buf_init(&diff, OUTPUT_MAX_BYTES);
    text_diff(path, before, after, &diff);
    (void)fwrite(diff.ptr, 1, diff.len, stdout);
    buf_free(&diff);
    return 0;
}

static int format_file(void *arg, const char *path, struct str text, struct error *err)
{
    struct formatting *f = arg;
    struct arena arena;
    struct buf out;
    arena_init(&arena, FILES_MEMORY_MAX_BYTES);
    buf_init(&out, OUTPUT_MAX_BYTES);
    int rc = policy_format(text, &arena, &out, err);
    rc = rc ? rc : put_formatted(f, path, text, buf_str(&out), err);
    if (rc) {
        fprintf(stderr, "%s:%u:%u: error: %s\n", path, err->line, err->column, err->text);
        f->failed++;
    }
    buf_free(&out);
    arena_free(&arena);
    return 0;
}

static int run_fmt(const struct command *self, const struct arguments *args)
{
    (void)self;
    struct formatting f = {.args = args};
    arena_init(&f.arena, FILES_MEMORY_MAX_BYTES);
    for (size_t i = 0; i < args->words.count; i++) {
        struct error err = {0};
        if (yaml_folder_visit(args->words.items[i], format_file, &f, &f.arena, &err)) {
            f.failed++;
            (void)cli_report(&err);
        }
    }
    arena_free(&f.arena);
    return f.failed > 0 || (args->is_dry_run && f.changed > 0) ? EXIT_ERRORS : 0;
}

static const struct argp_option fmt_options[] = {
    {"dry-run", OPT_DRY_RUN, NULL, 0, "show what would change; exit with 1 when something would",
     0},
    ARG_END,
};

static const struct argp_option check_options[] = {
    {"output", 'o', "FORMAT", 0, "text, json or sarif", 0},
    {"strict", OPT_STRICT, NULL, 0, "exit with 2 when there are warnings", 0},
    {"all", OPT_ALL, NULL, 0, "show notes too", 0},
    {"online", OPT_ONLINE, NULL, 0,
     "ask the server, which knows what is in force; --server does too", 0},
    ARG_END,
};

const struct command policy_commands[] = {
    {"policy check",
     "Check policy files: syntax, types, references, and what rules do that is not meant.\v"
     "Needs no server, but can ask one. Exit codes: 0 nothing wrong, 1 errors, 2 warnings with "
     "--strict, 64 usage.",
     "FILE|FOLDER...", check_options, 0, 1, ARGUMENTS_LIST_MAX, run_check},
    {"policy fmt",
     "Bring policy files into their canonical form, in place.\v"
     "Comments are kept; those behind a value move to a line above it. Exit codes: 0 "
     "done, 1 a file was refused or, with --dry-run, would change, 64 usage.",
     "FILE|FOLDER|-...", fmt_options, 0, 1, ARGUMENTS_LIST_MAX, run_fmt},
    {0},
};
