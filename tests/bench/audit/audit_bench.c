/* What the audit log costs at size: audit_bench FOLDER, made by audit_generate. Prints a table. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_log.h"
#include "gateway/auditfile/index_scan.h"
#include "gateway/auditfile/index_stats.h"
#include "gateway/auditfile/line_fetch.h"
#include "gateway/auditfile/verify.h"

enum {
    ROUNDS = 7,
    PAGE = 100,
    BUILD_TIMEOUT_MS = 3600 * 1000,
    APPENDS = 20000,
};

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what, const struct error *err)
{
    fprintf(stderr, "audit_bench: %s: %s\n", what, err->text);
    exit(EXIT_FAILURE);
}

/* ---- verification ---- */

static uint64_t bench_verify(const char *dir, int dir_fd)
{
    char path[4096];
    struct error err = {0};
    struct public_keys *keys = NULL;
    struct verify_report report;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct verify_options options = {.threads = processors > 0 ? (unsigned)processors : 1};
    (void)snprintf(path, sizeof path, "%s.pub", dir);
    if (public_keys_load(path, &keys, &err) < 0) {
        die("public key", &err);
    }
    options.keys = keys;
    double began = seconds();
    if (verify_log(dir_fd, &options, &report, &err) < 0) {
        die("verify", &err);
    }
    double took = seconds() - began;
    printf("verify            %s, %" PRIu64 " lines, %.2f GB of lines, %" PRIu64
           " files: %.1f s, %.0f MB/s, %.0f lines/s with %u threads\n",
           report.fault == VERIFY_INTACT ? "intact" : report.text, report.lines,
           (double)report.bytes / 1e9, report.files, took, (double)report.bytes / took / 1e6,
           (double)report.lines / took, options.threads);
    public_keys_free(keys);
    return report.lines;
}

/* ---- the index ---- */

static struct line_index *bench_build(const char *dir, uint64_t lines)
{
    struct error err = {0};
    struct line_index *ix;
    struct line_index_state state;
    const struct line_index_options options = {.dir = dir};
    char path[4096];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/index.db%s", dir, i ? "-wal" : "");
        (void)unlink(path);
    }
    double began = seconds();
    if (line_index_open(&options, &ix, &err) < 0) {
        die("index", &err);
    }
    bool is_ready = line_index_await(ix, 1, BUILD_TIMEOUT_MS);
    double ready = seconds() - began;
    bool is_built = line_index_await_built(ix, BUILD_TIMEOUT_MS);
    double took = seconds() - began;
    line_index_state(ix, &state);
    printf("index build       %s: %.1f s, %.0f lines/s, %.1f MB, %.1f bytes a line; new lines are "
           "found after %.2f s\n",
           is_ready && is_built ? "done" : state.failure, took, (double)lines / took,
           (double)state.bytes / 1e6, (double)state.bytes / (double)lines, ready);
    return ix;
}

struct question {
    const char *name;
    struct {
        int column;
        const char *value;
    } terms[4];
    const char *text;
};

static const struct question questions[] = {
    {"no filter", {{0}}, NULL},
    {"user", {{LINE_USER, "user-0"}}, NULL},
    {"rare user", {{LINE_USER, "user-499"}}, NULL},
    {"session", {{LINE_SESSION, "session-17"}}, NULL},
    {"space", {{LINE_SPACE, "space-3"}}, NULL},
    {"template", {{LINE_TEMPLATE, "template-7"}}, NULL},
    {"workspace", {{LINE_WORKSPACE, "workspace-19999"}}, NULL},
    {"method", {{LINE_METHOD, "Exec"}}, NULL},
    {"decision", {{LINE_DECISION, "DENIED"}}, NULL},
    {"reason", {{LINE_REASON, "NO_POLICY_MATCH"}}, NULL},
    {"policy", {{LINE_POLICY, "deny-3"}}, NULL},
    {"rule", {{LINE_RULE, "work hours"}}, NULL},
    {"outcome", {{LINE_OUTCOME, "oom_killed"}}, NULL},
    {"code", {{LINE_CODE, "UNAVAILABLE"}}, NULL},
    {"event", {{LINE_EVENT, "END"}}, NULL},
    {"kind", {{LINE_KIND, "AuditCheckpoint"}}, NULL},
    {"request id", {{LINE_REQUEST_ID, "none such"}}, NULL},
    {"peer address", {{INDEX_PEER_ADDRESS, "192.0.2.44"}}, NULL},
    {"user, decision, method, reason",
     {{LINE_USER, "user-400"},
      {LINE_DECISION, "DENIED"},
      {LINE_METHOD, "Run"},
      {LINE_REASON, "POLICY_MATCH"}},
     NULL},
    {"nothing matches four filters",
     {{LINE_USER, "user-3"},
      {LINE_DECISION, "ALLOWED"},
      {LINE_OUTCOME, "exited"},
      {LINE_RULE, "work hours"}},
     NULL},
};

static void make_filter(const struct line_index *ix, const struct question *q, uint64_t values[4],
                        struct index_filter *ret)
{
    *ret = (struct index_filter){.text = str_from(q->text)};
    for (size_t i = 0; i < 4 && q->terms[i].value; i++) {
        values[i] = line_index_hash(ix, str_from(q->terms[i].value));
        ret->clauses[ret->clause_count++] =
            (struct index_clause){.columns = {(enum index_column)q->terms[i].column},
                                  .column_count = 1,
                                  .values = &values[i],
                                  .value_count = 1};
    }
}

/* A page of the newest, lines and all. */
static size_t ask(struct line_index *ix, const struct index_filter *filter, struct line_fetch *f)
{
    struct error err = {0};
    struct index_scan *scan;
    struct index_place place;
    struct str line;
    size_t found = 0;
    const struct index_range range = {.is_newest_first = true};
    if (index_scan_new(ix, filter, &range, &scan, &err) < 0) {
        die("scan", &err);
    }
    while (found < PAGE && index_scan_next(scan, &err) == 1) {
        for (size_t i = index_scan_rows(scan); i > 0 && found < PAGE; i--) {
            if (!index_scan_is_wanted(scan, i - 1)) {
                continue;
            }
            if (index_scan_locate(scan, i - 1, &place, &err) < 0 ||
                line_fetch(f, &place, &line, &err) < 0) {
                die("fetch", &err);
            }
            found++;
        }
    }
    index_scan_free(scan);
    return found;
}

static uint64_t count(struct line_index *ix, const struct index_filter *filter)
{
    struct error err = {0};
    struct index_scan *scan;
    uint64_t found = 0;
    const struct index_range range = {.is_newest_first = true};
    if (index_scan_new(ix, filter, &range, &scan, &err) < 0) {
        die("scan", &err);
    }
    while (index_scan_next(scan, &err) == 1) {
        for (size_t i = 0; i < index_scan_rows(scan); i++) {
            found += index_scan_is_wanted(scan, i);
        }
    }
    index_scan_free(scan);
    return found;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench_questions(struct line_index *ix)
{
    struct line_fetch *f = line_fetch_new(line_index_dir(ix));
    printf("%-34s %10s %10s %12s %12s\n", "query", "p50 ms", "max ms", "lines", "all of them");
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        struct index_filter filter;
        uint64_t values[4];
        double took[ROUNDS];
        size_t found = 0;
        make_filter(ix, &questions[i], values, &filter);
        for (int round = 0; round < ROUNDS; round++) {
            double began = seconds();
            found = ask(ix, &filter, f);
            took[round] = (seconds() - began) * 1e3;
        }
        double began = seconds();
        uint64_t all = count(ix, &filter);
        double counted = (seconds() - began) * 1e3;
        double max = 0;
        for (int round = 0; round < ROUNDS; round++) {
            max = took[round] > max ? took[round] : max;
        }
        qsort(took, ROUNDS, sizeof took[0], compare);
        printf("%-34s %10.1f %10.1f %12zu %12" PRIu64 " in %.0f ms\n", questions[i].name,
               took[ROUNDS / 2], max, found, all, counted);
    }
    line_fetch_free(f);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void bench_stats(struct line_index *ix)
{
    static const int columns[] = {LINE_DECISION, LINE_REASON,  LINE_RULE, LINE_USER,
                                  LINE_METHOD,   LINE_OUTCOME, LINE_CODE, INDEX_TIME};
    enum { KEYS = sizeof columns / sizeof columns[0] };
    struct error err = {0};
    struct index_scan *scan;
    struct index_key keys[KEYS];
    struct index_table tables[KEYS] = {{0}};
    struct index_count all;
    const struct index_filter filter = {0};
    const struct index_range range = {.is_newest_first = true};
    const struct index_stats_hashes hashes = {line_index_hash(ix, STR("DECISION")),
                                              line_index_hash(ix, STR("ALLOWED")),
                                              line_index_hash(ix, STR("DENIED"))};
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = (struct index_key){.column = (enum index_column)columns[i],
                                     .span_ns = columns[i] == INDEX_TIME ? 86400000000000 : 0};
    }
    double began = seconds();
    if (index_scan_new(ix, &filter, &range, &scan, &err) < 0 ||
        index_stats_run(scan, &hashes, keys, KEYS, never, NULL, tables, &all, &err) < 0) {
        die("stats", &err);
    }
    printf("statistics        %d tables over %" PRIu64 " lines: %.2f s\n", KEYS, all.lines,
           seconds() - began);
    for (size_t i = 0; i < KEYS; i++) {
        index_table_free(&tables[i]);
    }
    index_scan_free(scan);
}

/* Part of a line that is in none: every line is read. For a second, as the service does it. */
static void bench_text(struct line_index *ix)
{
    struct error err = {0};
    struct index_scan *scan;
    struct index_place place;
    struct str line;
    const struct index_filter filter = {0};
    const struct index_range range = {.is_newest_first = true};
    struct line_fetch *f = line_fetch_new(line_index_dir(ix));
    double began = seconds();
    uint64_t lines = 0;
    uint64_t bytes = 0;
    if (index_scan_new(ix, &filter, &range, &scan, &err) < 0) {
        die("scan", &err);
    }
    while (seconds() - began < 1 && index_scan_next(scan, &err) == 1) {
        for (size_t i = index_scan_rows(scan); i > 0; i--) {
            if (index_scan_locate(scan, i - 1, &place, &err) < 0 ||
                line_fetch(f, &place, &line, &err) < 0 ||
                memmem(line.ptr, line.len, "\"none such\"", 11)) {
                die("fetch", &err);
            }
            lines++;
            bytes += line.len;
        }
    }
    double took = seconds() - began;
    printf("text              %.0f lines/s searched (%.0f MB/s)\n", (double)lines / took,
           (double)bytes / took / 1e6);
    index_scan_free(scan);
    line_fetch_free(f);
}

/* ---- appending ---- */

static void on_done(void *arg, int status)
{
    unsigned *done = arg;
    *done += status == 0;
}

static void bench_append(const char *dir)
{
    char path[4096];
    char key[4200];
    char public_key[4200];
    char record[2000];
    struct error err = {0};
    uv_loop_t loop;
    struct audit_log *log;
    unsigned done = 0;
    struct audit_log_options options = {
        .dir = path, .rotate_bytes = 64 << 20, .checkpoint_lines = 1000, .checkpoint_seconds = 60};
    (void)snprintf(path, sizeof path, "%s-append-%d", dir, (int)getpid());
    (void)snprintf(key, sizeof key, "%s.key", path);
    (void)snprintf(public_key, sizeof public_key, "%s.pub", path);
    (void)uv_loop_init(&loop);
    if (signing_key_make(key, public_key, &err) < 0 ||
        signing_key_load(key, &options.key, &err) < 0 ||
        audit_log_open(&loop, &options, &log, &err) < 0) {
        die("append", &err);
    }
    memset(record, 'x', sizeof record);
    memcpy(record, "{\"a\":\"", 6);
    memcpy(record + 1798, "\"}", 2);
    const struct buf bytes = {.ptr = (uint8_t *)record, .len = 1800};
    double began = seconds();
    for (unsigned i = 0; i < APPENDS; i++) {
        if (audit_log_append(log, &bytes, i % 16 == 15 ? on_done : NULL, &done) < 0) {
            die("append", &err);
        }
        if (i % 16 == 15) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
    }
    while (done < APPENDS / 16) {
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    double took = seconds() - began;
    printf("append            %.1f us a line, 16 lines to a group, each group on the disk\n",
           took / APPENDS * 1e6);
    audit_log_close(log);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    (void)unlink(key);
    (void)unlink(public_key);
    char active[4200];
    (void)snprintf(active, sizeof active, "%s/audit.jsonl", path);
    (void)unlink(active);
    (void)rmdir(path);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "Usage: audit_bench FOLDER\n");
        return 64;
    }
    AUTO_FD int dir_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd == -1) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    bench_append(argv[1]);
    uint64_t lines = bench_verify(argv[1], dir_fd);
    struct line_index *ix = bench_build(argv[1], lines);
    bench_questions(ix);
    bench_stats(ix);
    bench_text(ix);
    line_index_close(ix);
    return EXIT_SUCCESS;
}
