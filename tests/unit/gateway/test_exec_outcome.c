#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "gateway/services/exec_outcome.h"

Suite *suite_exec_outcome(void);

/* Each outcome alone and with another cause beside it. A wait status is code << 8, or a signal. */

#define EXIT(code) ((code) << 8)

struct row {
    const char *name;
    struct executor_run_exit event;
    uint64_t wall_limit_ns;
    const char *outcome;
    int code;
    int signal;
};

static const struct row rows[] = {
    {"exit 0", {.wait_status = EXIT(0)}, 0, "exited", 0, 0},
    {"exit 1", {.wait_status = EXIT(1)}, 0, "exited", 1, 0},
    {"exit 137 is an exit status", {.wait_status = EXIT(137)}, 0, "exited", 137, 0},
    {"exit 124 is no time-out", {.wait_status = EXIT(124)}, 0, "exited", 124, 0},
    {"SIGKILL by its own hand", {.wait_status = SIGKILL}, 0, "signaled", -1, SIGKILL},
    {"SIGSEGV", {.wait_status = SIGSEGV | 0x80}, 0, "signaled", -1, SIGSEGV},
    {"OOM of the main process",
     {.wait_status = SIGKILL, .oom_kills = 1, .main_was_oom_killed = true},
     0,
     "oom_killed",
     -1,
     SIGKILL},
    {"OOM inside, exit 1", {.wait_status = EXIT(1), .oom_kills = 1}, 0, "exited", 1, 0},
    {"OOM inside, then SIGSEGV",
     {.wait_status = SIGSEGV, .oom_kills = 1},
     0,
     "signaled",
     -1,
     SIGSEGV},
    {"pids denied, exit 0", {.wait_status = EXIT(0), .pids_denied = 3}, 0, "exited", 0, 0},
    {"deadline",
     {.wait_status = SIGKILL, .killed_by_us = true, .kill_reason = EXECUTOR_KILL_DEADLINE},
     0,
     "timed_out",
     -1,
     SIGKILL},
    {"exit before the deadline's kill was in force",
     {.wait_status = EXIT(0), .kill_reason = EXECUTOR_KILL_DEADLINE},
     0,
     "exited",
     0,
     0},
    {"told to end at the limit, obeyed",
     {.wait_status = SIGTERM, .wall_ns = 1001},
     1000,
     "timed_out",
     -1,
     SIGTERM},
    {"told to end at the limit, exited with 0",
     {.wait_status = EXIT(0), .wall_ns = 1001},
     1000,
     "timed_out",
     -1,
     0},
    {"told to end, had ended just before",
     {.wait_status = EXIT(0), .wall_ns = 999},
     1000,
     "exited",
     0,
     0},
    {"told to end at the limit, then OOM",
     {.wait_status = SIGKILL, .wall_ns = 1500, .oom_kills = 1, .main_was_oom_killed = true},
     1000,
     "timed_out",
     -1,
     SIGKILL},
    {"OOM just before the limit",
     {.wait_status = SIGKILL, .wall_ns = 900, .oom_kills = 1, .main_was_oom_killed = true},
     1000,
     "oom_killed",
     -1,
     SIGKILL},
    {"kill and OOM",
     {.wait_status = SIGKILL,
      .killed_by_us = true,
      .kill_reason = EXECUTOR_KILL_CANCELLED,
      .oom_kills = 1,
      .main_was_oom_killed = true},
     0,
     "cancelled",
     -1,
     SIGKILL},
    {"OOM before the kill was in force",
     {.wait_status = SIGKILL,
      .kill_reason = EXECUTOR_KILL_CANCELLED,
      .oom_kills = 1,
      .main_was_oom_killed = true},
     0,
     "oom_killed",
     -1,
     SIGKILL},
    {"cancelled while its time was up",
     {.wait_status = SIGKILL,
      .killed_by_us = true,
      .kill_reason = EXECUTOR_KILL_CANCELLED,
      .wall_ns = 2000},
     1000,
     "cancelled",
     -1,
     SIGKILL},
    {"asked by a person",
     {.wait_status = SIGKILL, .killed_by_us = true, .kill_reason = EXECUTOR_KILL_ASKED},
     0,
     "cancelled",
     -1,
     SIGKILL},
    {"output limit",
     {.wait_status = SIGKILL, .killed_by_us = true, .kill_reason = EXECUTOR_KILL_OUTPUT_LIMIT},
     0,
     "output_limit",
     -1,
     SIGKILL},
    {"output limit, and it had caught SIGPIPE before",
     {.wait_status = EXIT(3), .kill_reason = EXECUTOR_KILL_OUTPUT_LIMIT},
     0,
     "exited",
     3,
     0},
    {"CPU limit",
     {.wait_status = SIGKILL, .killed_by_us = true, .kill_reason = EXECUTOR_KILL_CPU_LIMIT},
     0,
     "cpu_limit",
     -1,
     SIGKILL},
    {"CPU limit, OOM inside",
     {.wait_status = SIGKILL,
      .killed_by_us = true,
      .kill_reason = EXECUTOR_KILL_CPU_LIMIT,
      .oom_kills = 1},
     0,
     "cpu_limit",
     -1,
     SIGKILL},
    {"the sandbox ended",
     {.wait_status = SIGKILL, .killed_by_us = true, .kill_reason = EXECUTOR_KILL_SANDBOX_END},
     0,
     "lost",
     -1,
     SIGKILL},
    {"init went away first", {.stage = EXECUTOR_STAGE_LOST}, 0, "lost", -1, 0},
    {"no such program",
     {.stage = EXECUTOR_STAGE_EXEC, .error_number = ENOENT},
     0,
     "exited",
     127,
     0},
    {"no right to execute",
     {.stage = EXECUTOR_STAGE_EXEC, .error_number = EACCES},
     0,
     "exited",
     126,
     0},
    {"no such folder", {.stage = EXECUTOR_STAGE_CWD, .error_number = ENOENT}, 0, "exited", 126, 0},
    {"no process left",
     {.stage = EXECUTOR_STAGE_FORK, .error_number = EAGAIN},
     0,
     "exited",
     126,
     0},
};

START_TEST(outcome_follows_from_kernel_facts)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        const struct exec_asked asked = {
            .cwd = "/workspace", .program = "prog", .wall_limit_ns = row->wall_limit_ns};
        struct exec_outcome outcome = {0};
        exec_outcome_judge(&row->event, &asked, &outcome);
        ck_assert_msg(strcmp(exec_outcome_name(&outcome), row->outcome) == 0, "%s: %s", row->name,
                      exec_outcome_name(&outcome));
        ck_assert_msg(outcome.code == row->code, "%s: code %d", row->name, outcome.code);
        ck_assert_msg(outcome.signal == row->signal, "%s: signal %d", row->name, outcome.signal);
    }
}
END_TEST

START_TEST(who_heard_of_the_limit_is_timed_out_whatever_the_clocks_say)
{
    const struct executor_run_exit event = {.wait_status = EXIT(0), .wall_ns = 999};
    struct exec_asked asked = {
        .cwd = "/", .program = "prog", .wall_limit_ns = 1000, .heard_limit = true};
    struct exec_outcome outcome = {0};
    exec_outcome_judge(&event, &asked, &outcome);
    ck_assert_str_eq(exec_outcome_name(&outcome), "timed_out");
}
END_TEST

START_TEST(facts_stand_beside_the_outcome)
{
    const struct executor_run_exit event = {.wait_status = EXIT(1),
                                            .oom_kills = 2,
                                            .pids_denied = 5,
                                            .has_memory_peak = true,
                                            .memory_peak_bytes = 4096,
                                            .has_pids_peak = true,
                                            .pids_peak = 7,
                                            .has_io = true,
                                            .io_write_bytes = 8192,
                                            .io_writes = 2};
    const struct exec_asked asked = {.cwd = "/", .program = "prog"};
    struct exec_outcome outcome = {0};
    struct buf json;
    buf_init(&json, 4096);
    exec_outcome_judge(&event, &asked, &outcome);
    exec_outcome_write_json(&outcome, &json);
    buf_add_u8(&json, 0);
    ck_assert(strstr((const char *)json.ptr, "\"outcome\":\"exited\""));
    ck_assert(strstr((const char *)json.ptr, "\"oomKills\":2"));
    ck_assert(strstr((const char *)json.ptr, "\"pidsDenied\":5"));
    ck_assert(strstr((const char *)json.ptr, "\"memoryPeakBytes\":4096"));
    ck_assert(strstr((const char *)json.ptr, "\"pidsPeak\":7"));
    ck_assert(strstr((const char *)json.ptr, "\"ioReadBytes\":0"));
    ck_assert(strstr((const char *)json.ptr, "\"ioWriteBytes\":8192"));
    ck_assert(strstr((const char *)json.ptr, "\"ioWrites\":2"));
    buf_free(&json);
}
END_TEST

START_TEST(what_the_kernel_cannot_tell_is_absent_and_not_zero)
{
    const struct executor_run_exit event = {.wait_status = EXIT(0)};
    const struct exec_asked asked = {.cwd = "/", .program = "prog"};
    struct exec_outcome outcome = {0};
    struct buf json;
    buf_init(&json, 4096);
    exec_outcome_judge(&event, &asked, &outcome);
    exec_outcome_write_json(&outcome, &json);
    buf_add_u8(&json, 0);
    ck_assert(strstr((const char *)json.ptr, "\"cpuUserUs\":0"));
    ck_assert(!strstr((const char *)json.ptr, "memoryPeakBytes"));
    ck_assert(!strstr((const char *)json.ptr, "pidsPeak"));
    ck_assert(!strstr((const char *)json.ptr, "ioReadBytes"));
    buf_free(&json);
}
END_TEST

Suite *suite_exec_outcome(void)
{
    Suite *suite = suite_create("exec_outcome");
    TCase *tc = tcase_create("outcome");
    tcase_add_test(tc, outcome_follows_from_kernel_facts);
    tcase_add_test(tc, who_heard_of_the_limit_is_timed_out_whatever_the_clocks_say);
    tcase_add_test(tc, facts_stand_beside_the_outcome);
    tcase_add_test(tc, what_the_kernel_cannot_tell_is_absent_and_not_zero);
    suite_add_tcase(suite, tc);
    return suite;
}
