#include "gateway/audit_command.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/confine.h"
#include "executor/proc/fd.h"
#include "gateway/audit/audit_erasure.h"
#include "gateway/audit/audit_state.h"
#include "gateway/auditfile/verify.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/state/store.h"
#include "policy/base/json_out.h"

enum {
    EXIT_NOT_INTACT = 2,
    EXIT_USAGE = 64,
    CONFIG_ARENA_BYTES = 4 * 1024 * 1024,
    REPORT_MAX_BYTES = 64 * 1024,
    THREADS_MAX = 16,
};

static const char usage[] =
    "Usage: cordium-gateway audit verify [--config FILE] [--dir DIR] [--public-key FILE]\n"
    "                                    [--anchor SEQUENCE:HASH] [-o text|json]\n"
    "       cordium-gateway audit erase --config FILE --user NAME|UID\n"
    "       cordium-gateway audit accept-loss --config FILE\n"
    "\n"
    "Commands:\n"
    "  verify       read the whole log and say whether it is what was written; the gateway may "
    "run.\n"
    "               Exit status 0: it is; 2: it is not; 1: this cannot be told\n"
    "  erase        replace the records of one person by their hashes; the gateway must be "
    "stopped\n"
    "  accept-loss  let the gateway go on with a log whose newest lines are lost\n"
    "\n"
    "  --config FILE      the gateway's settings, which tell --dir and --public-key\n"
    "  --dir DIR          folder of the log\n"
    "  --public-key FILE  audit.pub; default: beside the folder\n"
    "  --anchor S:HASH    a line that the log must have, noted earlier from what verify printed\n"
    "  --user NAME|UID    whose records; a name stands for every User that ever had it\n"
    "  -o text|json\n";

struct audit_command {
    const char *config_path;
    const char *dir;
    const char *public_key;
    const char *anchor_text;
    const char *user;
    bool is_json;
    struct arena arena;
    struct gateway_config config;
};

/* ---- verify ---- */

static void print_text(const struct verify_report *r)
{
    char last[CHAIN_TEXT_SIZE];
    chain_format(&r->last_checkpoint, last);
    if (r->fault != VERIFY_INTACT) {
        printf("NOT INTACT: %s: %s", verify_fault_name(r->fault), r->file);
        if (r->line > 0) {
            printf(", line %" PRIu64, r->line);
        }
        printf(" (sequence %" PRIu64 "): %s\n", r->sequence, r->text);
    } else {
        printf("intact\n");
    }
    printf("%" PRIu64 " lines in %" PRIu64 " files, sequence %" PRIu64 " to %" PRIu64 "\n",
           r->lines, r->files, r->first.sequence + 1, r->last.sequence);
    printf("%" PRIu64 " checkpoints; %" PRIu64 " lines behind the last one are not signed yet\n",
           r->checkpoints, r->unsigned_lines);
    if (r->checkpoints > 0) {
        printf("anchor %s\n", last);
    }
    if (r->deleted_lines + r->erased_lines > 0) {
        printf("%" PRIu64 " lines were deleted with their files, %" PRIu64 " were erased\n",
               r->deleted_lines, r->erased_lines);
    }
    if (r->gaps > 0) {
        printf("%" PRIu64 " times a crash tore lines (%" PRIu64 ")\n", r->gaps, r->torn_lines);
    }
    if (r->losses > 0) {
        printf("%" PRIu64 " times recorded lines were lost, and an administrator went on\n",
               r->losses);
    }
    if (r->unended_bytes > 0) {
        printf("%" PRIu64 " bytes at the end are no whole line yet\n", r->unended_bytes);
    }
}

static void put_fault(struct json_out *j, const struct verify_report *r)
{
    json_key(j, "fault");
    json_begin_object(j);
    json_member_string(j, "type", verify_fault_name(r->fault));
    json_member_string(j, "file", r->file);
    json_member_uint(j, "line", r->line);
    json_member_uint(j, "sequence", r->sequence);
    json_member_string(j, "text", r->text);
    json_end_object(j);
}

static void print_json(const struct verify_report *r)
{
    char last[CHAIN_TEXT_SIZE];
    struct buf out;
    buf_init(&out, REPORT_MAX_BYTES);
    struct json_out j = json_out_to(&out);
    json_begin_object(&j);
    json_member_bool(&j, "intact", r->fault == VERIFY_INTACT);
    if (r->fault != VERIFY_INTACT) {
        put_fault(&j, r);
    }
    json_member_uint(&j, "files", r->files);
    json_member_uint(&j, "lines", r->lines);
    json_member_uint(&j, "bytes", r->bytes);
    json_member_uint(&j, "firstSequence", r->first.sequence + 1);
    json_member_uint(&j, "lastSequence", r->last.sequence);
    json_member_uint(&j, "checkpoints", r->checkpoints);
    if (r->checkpoints > 0) {
        chain_format(&r->last_checkpoint, last);
        json_member_string(&j, "anchor", last);
    }
    json_member_uint(&j, "unsignedLines", r->unsigned_lines);
    json_member_uint(&j, "deletedLines", r->deleted_lines);
    json_member_uint(&j, "erasedLines", r->erased_lines);
    json_member_uint(&j, "gaps", r->gaps);
    json_member_uint(&j, "tornLines", r->torn_lines);
    json_member_uint(&j, "acceptedLosses", r->losses);
    json_member_uint(&j, "unendedBytes", r->unended_bytes);
    json_end_object(&j);
    printf("%.*s\n", (int)out.len, (const char *)out.ptr);
    buf_free(&out);
}

static int open_log_folder(const struct audit_command *c, struct error *err)
{
    int fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd != -1
               ? fd
               : error_set_errno(err, STATUS_UNAVAILABLE, errno, "open the folder '%s'", c->dir);
}

/* What was not given follows from the settings, or from the folder. */
static int complete(struct audit_command *c, struct error *err)
{
    if (!c->dir && !c->config_path) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "say where the log is: --dir or --config");
    }
    if (!c->public_key) {
        c->public_key = c->config_path
                            ? arena_printf(&c->arena, "%s/audit.pub", c->config.state_dir)
                            : arena_printf(&c->arena, "%s/../audit.pub", c->dir);
    }
    c->dir = c->dir ? c->dir : c->config.audit_dir;
    return c->public_key ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static int verify(struct audit_command *c, struct verify_report *report, struct error *err)
{
    struct chain anchor;
    struct public_keys *keys = NULL;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct verify_options options = {
        .threads = processors < 1             ? 1
                   : processors > THREADS_MAX ? THREADS_MAX
                                              : (unsigned)processors,
    };
    if (c->anchor_text && !chain_parse(str_from(c->anchor_text), &anchor)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "--anchor: expected SEQUENCE:HASH, a number and 64 hex digits");
    }
    options.anchor = c->anchor_text ? &anchor : NULL;
    int rc = complete(c, err);
    if (rc == 0 && public_keys_load(c->public_key, &keys, err) < 0) {
        rc = error_wrap(err, "the public keys of the log (--public-key tells another place)");
    }
    AUTO_FD int dir_fd = rc ? -1 : open_log_folder(c, err);
    rc = rc ? rc : dir_fd < 0 ? dir_fd : 0;
    options.keys = keys;
    rc = rc ? rc : verify_log(dir_fd, &options, report, err);
    public_keys_free(keys);
    return rc;
}

static int run_verify(struct audit_command *c, struct error *err)
{
    struct verify_report report;
    int rc = verify(c, &report, err);
    if (rc) {
        return rc;
    }
    if (report.files == 0) {
        return error_set(err, STATUS_NOT_FOUND, "there is no audit log in '%s'", c->dir);
    }
    (c->is_json ? print_json : print_text)(&report);
    return report.fault == VERIFY_INTACT ? EXIT_SUCCESS : EXIT_NOT_INTACT;
}

/* ---- erase, accept-loss ---- */

static int with_store(struct audit_command *c,
                      int (*act)(struct gateway *g, struct audit_command *c, struct error *err),
                      struct error *err)
{
    struct gateway g = {.config = &c->config};
    if (!c->config_path) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--config must be given");
    }
    const char *path = arena_printf(&c->arena, "%s/store.db", c->config.state_dir);
    if (!path) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (access(path, F_OK) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open '%s'", path);
    }
    int rc = confine_require_unprivileged("cordium-gateway", err);
    rc = rc ? rc : store_open(path, &g.store, err);
    if (rc == 0) {
        rc = act(&g, c, err);
        store_close(g.store);
    }
    return rc;
}

static int erase(struct gateway *g, struct audit_command *c, struct error *err)
{
    struct audit_erasure done;
    int rc = audit_erase(g, c->user, &done, err);
    if (rc == 0) {
        printf("%" PRIu64 " lines in %" PRIu64 " files were erased\n", done.lines, done.files);
    }
    return rc;
}

static int run_erase(struct audit_command *c, struct error *err)
{
    return c->user ? with_store(c, erase, err)
                   : error_set(err, STATUS_INVALID_ARGUMENT, "--user must be given");
}

static int accept_loss(struct gateway *g, struct audit_command *c, struct error *err)
{
    (void)c;
    int rc = audit_anchor_accept_loss(g->store, err);
    if (rc == 0) {
        printf("the gateway may be started; the log will tell what is missing\n");
    }
    return rc;
}

static int run_accept_loss(struct audit_command *c, struct error *err)
{
    return with_store(c, accept_loss, err);
}

/* ---- the command line ---- */

static const struct {
    const char *name;
    /* An exit status, or negative with *err. */
    int (*run)(struct audit_command *c, struct error *err);
} commands[] = {{"verify", run_verify}, {"erase", run_erase}, {"accept-loss", run_accept_loss}};

static int run(struct audit_command *c, const char *name)
{
    struct error err = {0};
    int rc = c->config_path ? gateway_config_load(c->config_path, &c->arena, &c->config, &err) : 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            rc = rc < 0 ? rc : commands[i].run(c, &err);
            if (rc < 0) {
                fprintf(stderr, "cordium-gateway audit %s: %s\n", name, err.text);
            }
            return rc < 0 ? EXIT_FAILURE : rc;
        }
    }
    fprintf(stderr, "cordium-gateway audit: '%s' is no command\n%s", name, usage);
    return EXIT_USAGE;
}

/* False for a wrong command line. */
static bool take_option(struct audit_command *c, int key)
{
    switch (key) {
    case 'c':
        c->config_path = optarg;
        return true;
    case 'd':
        c->dir = optarg;
        return true;
    case 'k':
        c->public_key = optarg;
        return true;
    case 'a':
        c->anchor_text = optarg;
        return true;
    case 'u':
        c->user = optarg;
        return true;
    case 'o':
        c->is_json = strcmp(optarg, "json") == 0;
        return c->is_json || strcmp(optarg, "text") == 0;
    default:
        return false;
    }
}

int audit_command_run(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"dir", required_argument, NULL, 'd'},
                                            {"public-key", required_argument, NULL, 'k'},
                                            {"anchor", required_argument, NULL, 'a'},
                                            {"user", required_argument, NULL, 'u'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct audit_command c = {0};
    int key;
    while ((key = getopt_long(argc, argv, "c:o:h", options, NULL)) != -1) {
        if (key == 'h') {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (!take_option(&c, key)) {
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    arena_init(&c.arena, CONFIG_ARENA_BYTES);
    int status = run(&c, argv[optind]);
    arena_free(&c.arena);
    return status;
}
