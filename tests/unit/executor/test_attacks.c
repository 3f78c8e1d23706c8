/* Attacks from inside a sandbox on its limits, its neighbours and the daemon. Each did work once.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "tests/unit/executor/world.h"

Suite *suite_attacks(void);

static void check_outcome(const struct executor_sandbox_spec *spec, const char *script,
                          uint32_t uid, const char *want)
{
    char text[256];
    (void)world_run_script(world, spec, script, uid, text, sizeof text);
    ck_assert_str_eq(text, want);
}

START_TEST(no_subvolume_escapes_the_disk_limit)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    check_outcome(&spec, "attack subvolume /workspace", 1000, "EPERM\n");
    check_outcome(&spec, "attack subvolume /tmp", 0, "EPERM\n");
    world_destroy(world, &spec);
}
END_TEST

START_TEST(no_lease_holds_up_the_neighbours_of_an_image)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    check_outcome(&spec, "attack lease /bin/lonely", 0, "EPERM\n");
    world_destroy(world, &spec);
}
END_TEST

/* Before Linux 6.12 a slice is nothing that a process has. */
START_TEST(no_short_slice_makes_the_neighbours_wait)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    struct utsname host;
    unsigned major = 0;
    unsigned minor = 0;
    ck_assert(uname(&host) == 0 && sscanf(host.release, "%u.%u", &major, &minor) == 2);
    const char *want = major > 6 || (major == 6 && minor >= 12) ? "5000000 EPERM\n" : "0 EPERM\n";
    world_create(world, &spec);
    check_outcome(&spec, "attack slice 100000", 1000, want);
    check_outcome(&spec, "attack slice 100000", 0, want);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(runs_have_no_capability_to_gain_and_die_before_pid_1)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    check_outcome(&spec, "grep CapBnd /proc/self/status", 1000, "CapBnd:\t0000000000000000\n");
    check_outcome(&spec, "sleep 0.2; cat /proc/1/oom_score_adj /proc/self/oom_score_adj", 1000,
                  "0\n500\n");
    check_outcome(&spec, "echo -1 2>/dev/null >/proc/self/oom_score_adj || echo no", 1000, "no\n");
    world_destroy(world, &spec);
}
END_TEST

/* The kernel's default is 128 instances for one user of the host. */
START_TEST(inotify_instances_are_not_taken_from_the_neighbours)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec greedy = world_default_spec(world);
    struct executor_sandbox_spec other = world_default_spec(world);
    int in[2];
    int out[2];
    char text[64] = "";
    world_create(world, &greedy);
    world_create(world, &other);
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    const int fds[3] = {in[0], out[1], out[1]};
    uint64_t run = world_start(world, &greedy, "exec attack inotify 1000", 1000, 0, fds);
    close(in[0]);
    close(out[1]);
    ck_assert_int_gt(read(out[0], text, sizeof text - 1), 0);
    check_outcome(&other, "attack inotify 10", 1000, "10\n");
    close(in[1]);
    close(out[0]);
    (void)world_wait_exit(world, run);
    world_destroy(world, &greedy);
    world_destroy(world, &other);
}
END_TEST

static struct executor_sandbox_spec crowd_spec(void)
{
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.limits.pids = 2100;
    spec.limits.memory_bytes = UINT64_C(2) << 30;
    return spec;
}

/* Starts a program that leaves 2,000 others behind, and waits until it has itself ended. */
static uint64_t start_crowd(const struct executor_sandbox_spec *spec, const char *script,
                            uint32_t flags)
{
    int out[2];
    char text[64];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    AUTO_FD int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int fds[3] = {null_fd, out[1], 2};
    uint64_t run = world_start(world, spec, script, 1000, flags, fds);
    close(out[1]);
    ck_assert_int_gt(read(out[0], text, sizeof text), 0);
    close(out[0]);
    return run;
}

static bool has_exited(uint64_t run)
{
    for (size_t i = 0; i < world->exit_count && i < 64; i++) {
        if (world->exits[i].run == run) {
            return true;
        }
    }
    return false;
}

static uint32_t processes_of(const struct executor_sandbox_spec *spec)
{
    struct error err;
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec->id, world_callback(world), &err), &err);
    return world->reply.stats.pids;
}

START_TEST(others_are_answered_while_a_large_tree_dies)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = crowd_spec();
    struct executor_digest image = {{1}};
    struct error err;
    unsigned answers = 0;
    world_create(world, &spec);
    uint64_t run = start_crowd(&spec, "exec attack forks 2000", EXECUTOR_RUN_KILL_TREE_ON_EXIT);
    while (!has_exited(run) && answers < 1000) {
        world_reply_ok(
            world, executor_image_exists(world->client, &image, world_callback(world), &err), &err);
        answers++;
    }
    ck_assert_uint_gt(answers, 4);
    struct executor_run_exit e = world_wait_exit(world, run);
    ck_assert_int_eq(e.stage, EXECUTOR_STAGE_RAN);
    ck_assert_int_eq(e.wait_status, 0);
    ck_assert_uint_eq(processes_of(&spec), 1);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(a_kill_is_answered_when_the_large_tree_is_dead)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = crowd_spec();
    struct error err;
    world_create(world, &spec);
    uint64_t run = start_crowd(&spec, "attack forks 2000; sleep 100", 0);
    world_reply_ok(
        world,
        executor_run_kill(world->client, run, EXECUTOR_KILL_ASKED, world_callback(world), &err),
        &err);
    struct executor_run_exit e = world_wait_exit(world, run);
    ck_assert(e.killed_by_us);
    ck_assert_uint_eq(processes_of(&spec), 1);
    world_destroy(world, &spec);
}
END_TEST

/* A kill that comes before init has forked finds nobody: it must hold for who comes then. */
START_TEST(a_kill_right_after_the_start_is_not_lost)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    struct error err;
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    spec.limits.cpu_millicores = 20; /* and all of it for others than init */
    world_create(world, &spec);
    (void)world_start(world, &spec, "while :; do :; done", 1000, 0, fds);
    usleep(300000);
    for (int i = 0; i < 5; i++) {
        uint64_t run = world_start(world, &spec, "sleep 100", 1000, 0, fds);
        world_reply_ok(
            world,
            executor_run_kill(world->client, run, EXECUTOR_KILL_ASKED, world_callback(world), &err),
            &err);
        ck_assert(world_wait_exit(world, run).killed_by_us);
    }
    world_destroy(world, &spec);
}
END_TEST

START_TEST(a_link_in_a_storage_is_not_followed)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec build = world_default_spec(world);
    struct error err;
    char text[64];
    build.profile = EXECUTOR_PROFILE_BUILD;
    build.uid = 0;
    build.gid = 0;
    build.storage_is_ephemeral = false;
    world_create(world, &build);
    (void)world_run_script(world, &build, "/bin/ln -s / /build/workspace; /bin/ls -l /build", 0,
                           text, sizeof text);
    world_reply_ok(
        world,
        executor_sandbox_destroy(world->client, &build.id, false, world_callback(world), &err),
        &err);
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.storage = build.storage;
    spec.storage_is_ephemeral = false;
    int sent = executor_sandbox_create(world->client, &spec, world_callback(world), &err);
    ck_assert_int_ne(world_wait_reply(world, sent, &err), 0);
    world_reply_ok(
        world, executor_storage_delete(world->client, &build.storage, world_callback(world), &err),
        &err);
}
END_TEST

static void restart_daemon(unsigned descriptors)
{
    executor_client_close(world->client);
    ck_assert_int_eq(kill(world->daemon, SIGTERM), 0);
    ck_assert_int_eq(waitpid(world->daemon, NULL, 0), world->daemon);
    world->descriptors = descriptors;
    world->daemon = world_start_daemon(world);
    world_connect_client(world);
}

/* The status of starting a program that stays. */
static int start_sleeper(const struct executor_sandbox_spec *spec)
{
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *const argv[] = {"/bin/sleep", "100"};
    struct error err;
    struct executor_run_spec run = {
        .sandbox = spec->id,
        .argv = argv,
        .argc = 2,
        .cwd = "/",
        .uid = 1000,
        .gid = 1000,
        .fds = {null_fd, null_fd, null_fd},
    };
    int sent = executor_run_start(world->client, &run, world_callback(world), &err);
    return world_wait_reply(world, sent, &err);
}

START_TEST(used_up_descriptors_are_a_refusal_and_not_the_end)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    struct executor_sandbox_spec other = world_default_spec(world);
    unsigned count = 0;
    int status = 0;
    spec.limits.pids = 500;
    spec.limits.memory_bytes = UINT64_C(1) << 30;
    restart_daemon(1100);
    world_create(world, &spec);
    while (status == 0 && count++ < 400) {
        status = start_sleeper(&spec);
        if (status != 0 && strstr(world->reply.err.text, "too many runs")) {
            status = 0; /* faster than its first process reads */
            usleep(20000);
        }
    }
    ck_assert_int_eq(status, STATUS_RESOURCE_EXHAUSTED);
    ck_assert_msg(strstr(world->reply.err.text, "RLIMIT_NOFILE"), "%s", world->reply.err.text);
    world_destroy(world, &spec);
    world_create(world, &other);
    check_outcome(&other, "echo here", 1000, "here\n");
    world_destroy(world, &other);
    restart_daemon(0);
}
END_TEST

struct answer {
    bool is_there;
    int status;
    bool storage_was_made;
};

static void on_answer(void *context, const struct executor_reply *reply)
{
    struct answer *a = context;
    a->is_there = true;
    a->status = reply->err.status;
    a->storage_was_made = reply->created.storage_was_made;
}

/* How many small questions are answered before a large one is. */
static unsigned ask_until(const struct answer *answer)
{
    struct executor_digest image = {{1}};
    struct error err;
    unsigned count = 0;
    while (!answer->is_there && count < 100000) {
        world_reply_ok(
            world, executor_image_exists(world->client, &image, world_callback(world), &err), &err);
        count++;
    }
    return count;
}

/* Where the file system shares no blocks, a snapshot takes as long as the sandbox has written. Who
 * asks meanwhile has his answer first: of a daemon that only copies, one answer comes, behind it.
 */
START_TEST(a_copy_of_much_data_holds_up_nobody)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    char text[64];
    if (access("/sbin/mkfs.ext4", X_OK) != 0) {
        return;
    }
    world_write_config(world, "quota_backend = image\n");
    restart_daemon(0);
    struct executor_digest before = world->image;
    world_import_image(world, "true", &world->image);
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.storage_is_ephemeral = false;
    spec.limits.disk_bytes = UINT64_C(512) << 20;
    world_create(world, &spec);
    (void)world_run_script(world, &spec,
                           "cat /dev/urandom | head -c 200000000 > /workspace/big; sync", 1000,
                           text, sizeof text);
    world_reply_ok(
        world,
        executor_sandbox_destroy(world->client, &spec.id, false, world_callback(world), &err),
        &err);
    struct executor_uuid snapshot = world_new_uuid();
    struct answer copied = {0};
    ck_assert_int_eq(executor_storage_snapshot(world->client, &spec.storage, &snapshot,
                                               (struct executor_callback){on_answer, &copied},
                                               &err),
                     0);
    ck_assert_uint_gt(ask_until(&copied), 1);
    ck_assert_int_eq(copied.status, 0);
    struct executor_sandbox_spec other = spec;
    other.id = world_new_uuid();
    other.storage = world_new_uuid();
    other.storage_from = snapshot;
    struct answer created = {0};
    ck_assert_int_eq(executor_sandbox_create(world->client, &other,
                                             (struct executor_callback){on_answer, &created}, &err),
                     0);
    ck_assert_uint_gt(ask_until(&created), 1);
    ck_assert_int_eq(created.status, 0);
    ck_assert(created.storage_was_made);
    check_outcome(&other, "wc -c < /workspace/big", 1000, "200000000\n");
    world_destroy(world, &other);
    world_reply_ok(world,
                   executor_storage_delete(world->client, &snapshot, world_callback(world), &err),
                   &err);
    world_write_config(world, "");
    restart_daemon(0);
    world->image = before;
}
END_TEST

Suite *suite_attacks(void)
{
    Suite *s = suite_create("executor attacks");
    TCase *t = tcase_create("from inside");
    tcase_set_timeout(t, 120);
    tcase_add_unchecked_fixture(t, world_set_up, world_tear_down);
    tcase_add_test(t, no_subvolume_escapes_the_disk_limit);
    tcase_add_test(t, no_short_slice_makes_the_neighbours_wait);
    tcase_add_test(t, no_lease_holds_up_the_neighbours_of_an_image);
    tcase_add_test(t, runs_have_no_capability_to_gain_and_die_before_pid_1);
    tcase_add_test(t, inotify_instances_are_not_taken_from_the_neighbours);
    tcase_add_test(t, others_are_answered_while_a_large_tree_dies);
    tcase_add_test(t, a_kill_is_answered_when_the_large_tree_is_dead);
    tcase_add_test(t, a_kill_right_after_the_start_is_not_lost);
    tcase_add_test(t, a_link_in_a_storage_is_not_followed);
    tcase_add_test(t, a_copy_of_much_data_holds_up_nobody);
    tcase_add_test(t, used_up_descriptors_are_a_refusal_and_not_the_end);
    suite_add_tcase(s, t);
    return s;
}
