#include "executor/image/build_log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void build_log_init(struct build_log *log, unsigned added_steps)
{
    memset(log, 0, sizeof(*log));
    log->added_steps = added_steps;
}

static void write_out(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, bytes, n);
        if (w <= 0) {
            return; /* nobody listens any more; the build itself goes on */
        }
        bytes += w;
        n -= (size_t)w;
    }
}

static void keep(struct build_log *log, const char *line, size_t n)
{
    char *kept = log->kept[log->kept_next];

    /* buildah shows its own insides for an unknown instruction. */
    const char *insides = memmem(line, n, " &imagebuilder.Step{", 20);
    if (insides) {
        n = (size_t)(insides - line);
        if (memmem(line, n, "(UNHANDLED LOGLEVEL)", 20)) {
            return;
        }
    }
    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) {
        n--;
    }
    if (n == 0) {
        return;
    }
    n = n < LOG_KEPT_LINE_MAX ? n : LOG_KEPT_LINE_MAX - 1;
    memcpy(kept, line, n);
    kept[n] = 0;
    log->kept_next = (log->kept_next + 1) % LOG_KEPT_LINES;
    log->kept_count += log->kept_count < LOG_KEPT_LINES;
}

/* "STEP 3/5: RUN false", in builds of several stages "[1/2] STEP 3/5: RUN false" (buildah,
 * imagebuildah/stage_executor.go). Returns the length of what stands before "STEP", or -1. */
static int parse_step(const char *line, unsigned *ret_step, unsigned *ret_count, int *ret_text)
{
    unsigned stage, stages;
    int before = 0;
    int text = 0;

    if (sscanf(line, "[%3u/%3u] %n", &stage, &stages, &before) != 2) {
        before = 0;
    }
    if (sscanf(line + before, "STEP %5u/%5u: %n", ret_step, ret_count, &text) != 2 || text == 0) {
        return -1;
    }
    *ret_text = before + text;
    return before;
}

static void take_step(struct build_log *log, int before, unsigned step, unsigned count,
                      const char *text)
{
    char line[LOG_LINE_MAX];

    log->in_added_step = step > 1 && step <= 1 + log->added_steps;
    if (log->in_added_step) {
        return;
    }
    log->step = step > 1 ? step - log->added_steps : step;
    log->step_count = count > log->added_steps ? count - log->added_steps : count;
    (void)snprintf(log->step_text, sizeof(log->step_text), "%.*s", (int)strcspn(text, "\n"), text);
    log->kept_count = 0; /* the report is of this step */
    log->exit_code = 0;
    int n = snprintf(line, sizeof(line), "%.*sSTEP %u/%u: %s", before, log->line, log->step,
                     log->step_count, text);
    write_out(line, n < LOG_LINE_MAX ? (size_t)n : LOG_LINE_MAX - 1);
}

/* "subprocess exited with status 1" is said by buildah's chroot isolation, once by each of two
 * processes. The author's program can say so too, and then misleads its author. */
static bool take_exit_code(struct build_log *log)
{
    return sscanf(log->line, "subprocess exited with status %d", &log->exit_code) == 1;
}

static void take_line(struct build_log *log)
{
    unsigned step, count;
    int text;

    log->line[log->line_length] = 0;
    int before = parse_step(log->line, &step, &count, &text);
    if (before >= 0) {
        take_step(log, before, step, count, log->line + text);
    } else if (!log->in_added_step || strncmp(log->line, "--> ", 4) != 0) {
        if (!take_exit_code(log)) {
            write_out(log->line, log->line_length);
            keep(log, log->line, log->line_length);
        }
    }
    log->line_length = 0;
}

void build_log_write(struct build_log *log, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        log->line[log->line_length++] = bytes[i] ? bytes[i] : ' ';
        if (bytes[i] == '\n' || bytes[i] == '\r' || log->line_length == LOG_LINE_MAX - 1) {
            take_line(log);
        }
    }
}

void build_log_flush(struct build_log *log)
{
    if (log->line_length > 0) {
        take_line(log);
    }
}

const char *build_log_kept(const struct build_log *log, unsigned i)
{
    if (i >= log->kept_count) {
        return NULL;
    }
    return log->kept[(log->kept_next + LOG_KEPT_LINES - log->kept_count + i) % LOG_KEPT_LINES];
}
