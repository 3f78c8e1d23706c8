#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "executor/proc/fd.h"
#include "executor/steps/cgroup.h"
#include "tests/unit/executor/world.h"

Suite *suite_usage(void);

/* What a run used: the parsers of the kernel's files, and live runs whose groups are used again. */

START_TEST(io_stat_counts_the_named_device_alone)
{
    const char *text = "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n"
                       "7:3 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"
                       "7:30 rbytes=100 wbytes=200 rios=300 wios=400 dbytes=0 dios=0\n";
    struct cgroup_io io;
    cgroup_io_read_stat(text, &(struct block_device){7, 3, false}, &io);
    ck_assert_uint_eq(io.read_bytes, 4096);
    ck_assert_uint_eq(io.write_bytes, 8192);
    ck_assert_uint_eq(io.reads, 1);
    ck_assert_uint_eq(io.writes, 2);
    cgroup_io_read_stat(text, &(struct block_device){7, 0, true}, &io);
    ck_assert_uint_eq(io.read_bytes, 4196);
    ck_assert_uint_eq(io.writes, 402);
}
END_TEST

START_TEST(io_stat_without_figures_is_nothing)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "7:3\n",
                                        "7:3 \n",
                                        "7:3 rbytes=1\n",
                                        "x",
                                        "7:3 rbytes=1 wbytes=x rios=1 wios=1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct cgroup_io io = {1, 1, 1, 1};
        cgroup_io_read_stat(texts[i], &(struct block_device){7, 3, false}, &io);
        ck_assert_uint_eq(io.read_bytes + io.write_bytes + io.reads + io.writes, 0);
    }
}
END_TEST

START_TEST(blkio_counts_reads_and_writes_and_no_total)
{
    const char *text = "254:0 Read 77\n254:0 Write 78\n254:0 Total 155\n"
                       "7:3 Read 5\n7:3 Write 6\n7:3 Sync 11\n7:3 Async 0\n7:3 Discard 9\n"
                       "7:3 Total 20\nTotal 175\n";
    uint64_t reads, writes;
    cgroup_io_read_blkio(text, &(struct block_device){7, 3, false}, &reads, &writes);
    ck_assert_uint_eq(reads, 5);
    ck_assert_uint_eq(writes, 6);
    cgroup_io_read_blkio("Total 0\n", &(struct block_device){7, 3, false}, &reads, &writes);
    ck_assert_uint_eq(reads + writes, 0);
}
END_TEST

static bool kernel_is_at_least(int major, int minor)
{
    struct utsname name;
    ck_assert_int_eq(uname(&name), 0);
    char *rest;
    long has_major = strtol(name.release, &rest, 10);
    long has_minor = strtol(rest + 1, NULL, 10);
    return has_major > major || (has_major == major && has_minor >= minor);
}

static struct executor_run_exit run_ok(const struct executor_sandbox_spec *spec, const char *script)
{
    char text[256];
    struct executor_run_exit e = world_run_script(world, spec, script, 1000, text, sizeof text);
    ck_assert_msg(e.stage == EXECUTOR_STAGE_RAN && WIFEXITED(e.wait_status) &&
                      WEXITSTATUS(e.wait_status) == 0,
                  "'%s': status %#x, %s", script, (unsigned)e.wait_status, text);
    return e;
}

/* Linux 6.6 has pids.peak; since 6.11 a group that is used again has it, too. */
START_TEST(the_peak_of_processes_is_each_runs_own)
{
    SKIP_WITHOUT_WORLD();
    bool is_v2 = executor_client_host(world->client)->cgroup_mode == EXECUTOR_CGROUP_V2;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    for (int i = 0; i < 3; i++) {
        struct executor_run_exit many =
            run_ok(&spec, "for i in 1 2 3 4 5 6 7 8; do sleep 0.3 & done; wait");
        struct executor_run_exit one = run_ok(&spec, "true");
        if (kernel_is_at_least(6, is_v2 ? 11 : 6)) {
            ck_assert(many.has_pids_peak && one.has_pids_peak);
        } else if (!kernel_is_at_least(6, 6)) {
            ck_assert(!many.has_pids_peak && !one.has_pids_peak);
        }
        if (many.has_pids_peak) {
            ck_assert_uint_ge(many.pids_peak, 9);
            ck_assert_uint_le(many.pids_peak, 10);
        }
        if (one.has_pids_peak) {
            ck_assert_uint_ge(one.pids_peak, 1);
            ck_assert_uint_le(one.pids_peak, 2);
        }
    }
    world_destroy(world, &spec);
}
END_TEST

/* On v2 a peak begins anew since Linux 6.12; before that one below the last is not told. */
START_TEST(the_peak_of_memory_is_each_runs_own)
{
    SKIP_WITHOUT_WORLD();
    bool is_v2 = executor_client_host(world->client)->cgroup_mode == EXECUTOR_CGROUP_V2;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_exit large =
        run_ok(&spec, "dd if=/dev/zero of=/dev/null bs=24M count=1 2>/dev/null");
    struct executor_run_exit small = run_ok(&spec, "true");
    ck_assert(large.has_memory_peak);
    ck_assert_uint_ge(large.memory_peak_bytes, 24u << 20);
    ck_assert(small.has_memory_peak == (!is_v2 || kernel_is_at_least(6, 12)));
    if (small.has_memory_peak) {
        ck_assert_uint_lt(small.memory_peak_bytes, 16u << 20);
    }
    world_destroy(world, &spec);
}
END_TEST

START_TEST(what_a_run_writes_through_is_counted_once_and_for_it)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_exit e =
        run_ok(&spec, "dd if=/dev/urandom of=/workspace/x bs=1M count=8 conv=fsync 2>/dev/null");
    const struct executor_host_report *host = executor_client_host(world->client);
    /* Each workspace's own device on v1 is the one case in which it is not counted. */
    ck_assert(e.has_io || (host->cgroup_mode == EXECUTOR_CGROUP_V1 &&
                           host->quota_backend == EXECUTOR_QUOTA_IMAGE));
    if (e.has_io) {
        ck_assert_uint_ge(e.io_write_bytes, 8u << 20);
        ck_assert_uint_lt(e.io_write_bytes, 14u << 20);
        ck_assert_uint_ge(e.io_writes, 1);
        e = run_ok(&spec, "true");
        ck_assert(e.has_io);
        ck_assert_uint_lt(e.io_write_bytes, 1u << 20);
    }
    world_destroy(world, &spec);
}
END_TEST

static unsigned count_behind(void)
{
    char command[256];
    unsigned count = 0;
    snprintf(command, sizeof command,
             "cat /sys/fs/cgroup/cpu*/%s/s*/cpu.idle /sys/fs/cgroup/%s/s*/cpu.idle 2>/dev/null | "
             "grep -c 1",
             world->dir + 5, world->dir + 5);
    FILE *f = popen(command, "r");
    ck_assert(f && fscanf(f, "%u", &count) == 1);
    (void)pclose(f);
    return count;
}

static bool behind_becomes(unsigned count)
{
    for (int i = 0; i < 100; i++) {
        if (count_behind() == count) {
            return true;
        }
        world_pump_once(world, 50);
    }
    return false;
}

/* What sleeps stays in front, what takes more than its share goes behind, and is in front again
 * when it is to end. */
START_TEST(who_computes_goes_behind_and_comes_back)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec busy = world_default_spec(world);
    struct executor_sandbox_spec quiet = world_default_spec(world);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    /* One alone on an idle machine takes from nobody. */
    const char *spin =
        "n=$(nproc); while [ $n -gt 0 ]; do n=$((n-1)); (while :; do :; done) & done; wait";
    world_create(world, &busy);
    world_create(world, &quiet);
    uint64_t spinner = world_start(world, &busy, spin, 1000, 0, fds);
    (void)world_start(world, &quiet, "sleep 60", 1000, 0, fds);
    ck_assert(behind_becomes(1));
    world_reply_ok(
        world,
        executor_run_kill(world->client, spinner, EXECUTOR_KILL_ASKED, world_callback(world), &err),
        &err);
    ck_assert(behind_becomes(0));
    (void)world_start(world, &busy, spin, 1000, 0, fds);
    ck_assert(behind_becomes(1));
    world_destroy(world, &busy);
    world_destroy(world, &quiet);
    ck_assert(behind_becomes(0)); /* in the group that waits for the next sandbox, too */
}
END_TEST

Suite *suite_usage(void)
{
    Suite *s = suite_create("executor usage");
    TCase *t = tcase_create("files of the kernel");
    tcase_add_test(t, io_stat_counts_the_named_device_alone);
    tcase_add_test(t, io_stat_without_figures_is_nothing);
    tcase_add_test(t, blkio_counts_reads_and_writes_and_no_total);
    suite_add_tcase(s, t);
    t = tcase_create("live");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, world_set_up, world_tear_down);
    tcase_add_test(t, the_peak_of_processes_is_each_runs_own);
    tcase_add_test(t, the_peak_of_memory_is_each_runs_own);
    tcase_add_test(t, what_a_run_writes_through_is_counted_once_and_for_it);
    tcase_add_test(t, who_computes_goes_behind_and_comes_back);
    suite_add_tcase(s, t);
    return s;
}
