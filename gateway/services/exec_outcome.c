#include "gateway/services/exec_outcome.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static enum exec_outcome_kind kind_of_kill(enum executor_kill_reason reason)
{
    switch (reason) {
    case EXECUTOR_KILL_DEADLINE:
        return EXEC_TIMED_OUT;
    case EXECUTOR_KILL_OUTPUT_LIMIT:
        return EXEC_OUTPUT_LIMIT;
    case EXECUTOR_KILL_CPU_LIMIT:
        return EXEC_CPU_LIMIT;
    case EXECUTOR_KILL_SANDBOX_END:
        return EXEC_LOST;
    case EXECUTOR_KILL_NONE:
    case EXECUTOR_KILL_ASKED:
    case EXECUTOR_KILL_CANCELLED:
        break;
    }
    return EXEC_CANCELLED;
}

static void describe_stage(const struct executor_run_exit *event, const struct exec_asked *asked,
                           struct exec_outcome *o)
{
    const char *reason = strerror(event->error_number);
    o->kind = EXEC_NOT_STARTED;
    o->code = 126;
    switch (event->stage) {
    case EXECUTOR_STAGE_CWD:
        (void)snprintf(o->text, sizeof o->text,
                       "cannot change to the working directory '%.200s': %s",
                       asked->cwd[0] ? asked->cwd : "~", reason);
        return;
    case EXECUTOR_STAGE_EXEC:
        o->code = event->error_number == ENOENT ? 127 : 126;
        if (asked->is_by_shell && event->error_number == ENOENT) {
            (void)snprintf(o->text, sizeof o->text,
                           "the image has no shell; looked for bash, sh and zsh in /bin and "
                           "/usr/bin");
            return;
        }
        /* The kernel says the same of a script whose first line names a program that is not there.
         */
        (void)snprintf(o->text, sizeof o->text, "cannot execute '%.200s': %s%s", asked->program,
                       reason,
                       event->error_number == ENOENT && strchr(asked->program, '/')
                           ? " (it, or the interpreter that it names)"
                           : "");
        return;
    case EXECUTOR_STAGE_FORK:
        (void)snprintf(o->text, sizeof o->text,
                       "cannot start a process: %s; the workspace is at its limit of processes or "
                       "memory",
                       reason);
        return;
    case EXECUTOR_STAGE_TERMINAL:
    case EXECUTOR_STAGE_IDENTITY:
        (void)snprintf(o->text, sizeof o->text, "cannot prepare the process: %s", reason);
        return;
    case EXECUTOR_STAGE_LOST:
    case EXECUTOR_STAGE_RAN:
        o->kind = EXEC_LOST;
        o->code = -1;
        (void)snprintf(o->text, sizeof o->text, "the sandbox ended before the program started");
        return;
    }
}

void exec_outcome_judge(const struct executor_run_exit *event, const struct exec_asked *asked,
                        struct exec_outcome *o)
{
    o->event = *event;
    o->has_event = true;
    if (event->stage != EXECUTOR_STAGE_RAN) {
        describe_stage(event, asked, o);
        return;
    }
    if (WIFSIGNALED(event->wait_status)) {
        o->signal = WTERMSIG(event->wait_status);
    }
    o->code = -1;
    if (event->killed_by_us) {
        o->kind = kind_of_kill(event->kill_reason);
    } else if (asked->wall_limit_ns > 0 &&
               (asked->heard_limit || event->wall_ns >= asked->wall_limit_ns)) {
        /* It obeyed, or died of something else on the way: the time was up all the same. */
        o->kind = EXEC_TIMED_OUT;
    } else if (event->main_was_oom_killed) {
        o->kind = EXEC_OOM_KILLED;
        (void)snprintf(o->text, sizeof o->text, "killed: out of memory");
    } else if (WIFEXITED(event->wait_status)) {
        o->kind = EXEC_EXITED;
        o->code = WEXITSTATUS(event->wait_status);
    } else {
        o->kind = EXEC_SIGNALED;
    }
}

enum metric_outcome exec_outcome_metric(const struct exec_outcome *outcome)
{
    static_assert((int)METRIC_OUTCOME_LOST == EXEC_LOST && METRIC_OUTCOME_COUNT == EXEC_LOST + 1,
                  "one order");
    return outcome->kind == EXEC_NOT_STARTED ? METRIC_OUTCOME_EXITED
                                             : (enum metric_outcome)outcome->kind;
}

const char *exec_outcome_name(const struct exec_outcome *outcome)
{
    switch (outcome->kind) {
    case EXEC_EXITED:
        return "exited";
    case EXEC_SIGNALED:
        return "signaled";
    case EXEC_TIMED_OUT:
        return "timed_out";
    case EXEC_CPU_LIMIT:
        return "cpu_limit";
    case EXEC_OOM_KILLED:
        return "oom_killed";
    case EXEC_OUTPUT_LIMIT:
        return "output_limit";
    case EXEC_CANCELLED:
        return "cancelled";
    case EXEC_LOST:
        return "lost";
    case EXEC_NOT_STARTED:
        return "exited"; /* 126 and 127, as a shell would exit */
    }
    return "lost";
}

#define SET_USAGE(u, NAME, member, value)                                                          \
    do {                                                                                           \
        (u)->has_##member##_case = EXT__RUN_USAGE__HAS_##NAME##_##NAME;                            \
        (u)->member = (value);                                                                     \
    } while (0)

void exec_outcome_fill_usage(const struct executor_run_exit *e, Ext__RunUsage *u)
{
    u->wall_ms = e->wall_ns / 1000000;
    u->cpu_ms = (e->cpu_user_us + e->cpu_system_us) / 1000;
    u->cpu_user_us = e->cpu_user_us;
    u->cpu_system_us = e->cpu_system_us;
    if (e->has_memory_peak) {
        SET_USAGE(u, MEMORY_PEAK_BYTES, memory_peak_bytes, e->memory_peak_bytes);
    }
    if (e->has_pids_peak) {
        SET_USAGE(u, PIDS_PEAK, pids_peak, e->pids_peak);
    }
    if (e->has_io) {
        SET_USAGE(u, IO_READ_BYTES, io_read_bytes, e->io_read_bytes);
        SET_USAGE(u, IO_WRITE_BYTES, io_write_bytes, e->io_write_bytes);
        SET_USAGE(u, IO_READS, io_reads, e->io_reads);
        SET_USAGE(u, IO_WRITES, io_writes, e->io_writes);
    }
}

void exec_outcome_write_known_usage(const Ext__RunUsage *u, struct json_out *j)
{
    if (u->has_memory_peak_bytes_case) {
        json_member_uint(j, "memoryPeakBytes", u->memory_peak_bytes);
    }
    if (u->has_pids_peak_case) {
        json_member_uint(j, "pidsPeak", u->pids_peak);
    }
    if (u->has_io_read_bytes_case) {
        json_member_uint(j, "ioReadBytes", u->io_read_bytes);
        json_member_uint(j, "ioWriteBytes", u->io_write_bytes);
        json_member_uint(j, "ioReads", u->io_reads);
        json_member_uint(j, "ioWrites", u->io_writes);
    }
}

void exec_outcome_write_json(const struct exec_outcome *outcome, struct buf *out)
{
    struct json_out j = json_out_to(out);
    const struct executor_run_exit *e = &outcome->event;
    json_begin_object(&j);
    json_member_string(&j, "outcome", exec_outcome_name(outcome));
    json_member_int(&j, "exitCode", outcome->code);
    if (outcome->signal) {
        json_member_int(&j, "signal", outcome->signal);
    }
    json_member_string_opt(&j, "detail", outcome->text);
    if (outcome->has_event) {
        json_member_int(&j, "oomKills", e->oom_kills);
        json_member_int(&j, "pidsDenied", e->pids_denied);
        Ext__RunUsage usage = EXT__RUN_USAGE__INIT;
        exec_outcome_fill_usage(e, &usage);
        json_key(&j, "usage");
        json_begin_object(&j);
        json_member_uint(&j, "cpuUserUs", e->cpu_user_us);
        json_member_uint(&j, "cpuSystemUs", e->cpu_system_us);
        json_member_uint(&j, "wallUs", e->wall_ns / 1000);
        exec_outcome_write_known_usage(&usage, &j);
        json_end_object(&j);
    }
    json_end_object(&j);
}
