/* What a line of the audit log costs, and how fast a log is verified.
 *
 *     audit_log_bench DIR LINES LINES_PER_ROUND    DIR is made, and stays */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_log.h"
#include "gateway/auditfile/verify.h"

enum { RECORD_BYTES = 900, DIGITS_BASE = 10 };

/* Wall time, and what this process used of the processors: on a busy machine only that can be
 * compared. */
static double seconds(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *text)
{
    (void)fprintf(stderr, "audit_log_bench: %s\n", text);
    exit(EXIT_FAILURE);
}

static void on_done(void *arg, int status)
{
    if (status != 0) {
        fail("a line was not written");
    }
    ++*(unsigned long *)arg;
}

/* As large as most, and about as compressible. */
static void make_record(struct buf *record, uint64_t *random)
{
    static const char part[] = "\"reason\":{\"type\":\"POLICY_MATCH\",\"details\":\"";
    buf_clear(record);
    buf_add_cstr(record, "{\"apiVersion\":\"core/v1\",\"kind\":\"AccessLog\",\"entry\":{");
    while (record->len < RECORD_BYTES) {
        *random = *random * 6364136223846793005U + 1442695040888963407U;
        buf_printf(record, "%s%016" PRIx64 "\",", part, *random);
    }
    buf_add_cstr(record, "\"end\":1}}");
}

static struct audit_log *open_log(uv_loop_t *loop, const char *dir, struct public_keys **ret_keys)
{
    char key[4096];
    char public_key[4096];
    struct error err;
    struct audit_log *log;
    struct audit_log_options options = {
        .dir = dir, .rotate_bytes = 1UL << 40, .checkpoint_lines = 1000, .checkpoint_seconds = 60};
    (void)snprintf(key, sizeof key, "%s.key", dir);
    (void)snprintf(public_key, sizeof public_key, "%s.pub", dir);
    (void)unlink(key);
    (void)unlink(public_key);
    if (signing_key_make(key, public_key, &err) < 0 ||
        signing_key_load(key, &options.key, &err) < 0 ||
        public_keys_load(public_key, ret_keys, &err) < 0 ||
        audit_log_open(loop, &options, &log, &err) < 0) {
        fail(err.text);
    }
    return log;
}

static void append_all(struct audit_log *log, uv_loop_t *loop, unsigned long lines,
                       unsigned long round)
{
    unsigned long done = 0;
    uint64_t random = 1;
    double in_append = 0;
    double began = seconds(CLOCK_MONOTONIC);
    double began_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct buf record;
    buf_init(&record, 4096);
    for (unsigned long i = 0; i < lines; i += round) {
        make_record(&record, &random);
        double before = seconds(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned long k = 0; k < round; k++) {
            if (audit_log_append(log, &record, on_done, &done) < 0) {
                fail("a line was not taken");
            }
        }
        in_append += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        while (done < i + round) {
            (void)uv_run(loop, UV_RUN_ONCE);
        }
    }
    double all = seconds(CLOCK_MONOTONIC) - began;
    double all_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - began_cpu;
    printf("append %.2f us of CPU a line, %.2f with the writing, %.2f us of time with the wait for "
           "the disk (%lu lines by %lu)\n",
           in_append / (double)lines * 1e6, all_cpu / (double)lines * 1e6,
           all / (double)lines * 1e6, lines, round);
    buf_free(&record);
}

static void verify(const char *form, const char *dir, const struct public_keys *keys)
{
    struct verify_report report;
    struct error err;
    AUTO_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned threads = 1; threads <= 4; threads *= 2) {
        const struct verify_options options = {.keys = keys, .threads = threads};
        double began = seconds(CLOCK_MONOTONIC);
        double began_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (verify_log(dir_fd, &options, &report, &err) < 0 || report.fault != VERIFY_INTACT) {
            fail("the log is not intact");
        }
        double took = seconds(CLOCK_MONOTONIC) - began;
        double took_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - began_cpu;
        double megabytes = (double)report.bytes / 1e6;
        printf("verify %s with %u threads: %.0f MB/s, %.0f MB per second of CPU (%" PRIu64
               " lines)\n",
               form, threads, megabytes / took, megabytes / took_cpu, report.lines);
    }
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct public_keys *keys;
    unsigned long lines = argc == 4 ? strtoul(argv[2], NULL, DIGITS_BASE) : 0;
    unsigned long round = argc == 4 ? strtoul(argv[3], NULL, DIGITS_BASE) : 0;
    if (lines == 0 || round == 0 || uv_loop_init(&loop) < 0) {
        (void)fprintf(stderr, "usage: audit_log_bench DIR LINES LINES_PER_ROUND\n");
        return EXIT_FAILURE;
    }
    struct audit_log *log = open_log(&loop, argv[1], &keys);
    append_all(log, &loop, lines / round * round, round);
    verify("plain", argv[1], keys);
    audit_log_rotate(log);
    append_all(log, &loop, 1, 1);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    verify("compressed", argv[1], keys);
    audit_log_close(log);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    public_keys_free(keys);
    return EXIT_SUCCESS;
}
