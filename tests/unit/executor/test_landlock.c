/* Landlock as programs meet it: nothing that a workspace could do before is refused. What it does
 * refuse is the self-test's business. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/executor/world.h"

Suite *suite_landlock(void);

/* Moves, links and special files, over directories and mounts; and what only a descriptor names. */
static const char script[] =
    "set -e; b=/bin/busybox; cd $1; mkdir a c; echo one > a/f; $b mv a/f c/f; ln c/f a/g; "
    "ln -s c s; $b mkfifo a/p; $b mv c a/; $b mv a/c/f /tmp/f; $b mv /tmp/f a/h; "
    "exec 3>/dev/shm/x; rm /dev/shm/x; echo two > /proc/self/fd/3; "
    "$b cp $b a/busybox; a/busybox cat a/h a/g; $b rm -r a; echo done";

static void expect_whole(const struct executor_sandbox_spec *spec, const char *place, uint32_t uid)
{
    char text[4096], command[1024];
    (void)snprintf(command, sizeof command, "set -- %s; %s", place, script);
    struct executor_run_exit e = world_run_script(world, spec, command, uid, text, sizeof text);
    ck_assert_msg(e.wait_status == 0 && strcmp(text, "one\none\ndone\n") == 0,
                  "in %s as %u: status 0x%x: %s", place, uid, e.wait_status, text);
}

START_TEST(workspace_moves_links_and_runs_its_files)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    expect_whole(&spec, "/workspace", 1000);
    expect_whole(&spec, "/home/user", 1000);
    expect_whole(&spec, "/tmp", 0);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(writable_root_moves_links_and_runs_its_files)
{
    SKIP_WITHOUT_WORLD();
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.root_read_only = false;
    spec.capabilities = UINT64_MAX;
    world_create(world, &spec);
    expect_whole(&spec, "/opt", 0);
    expect_whole(&spec, "/", 0);
    world_destroy(world, &spec);
}
END_TEST

Suite *suite_landlock(void)
{
    Suite *s = suite_create("executor landlock");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, world_set_up, world_tear_down);
    tcase_add_test(t, workspace_moves_links_and_runs_its_files);
    tcase_add_test(t, writable_root_moves_links_and_runs_its_files);
    suite_add_tcase(s, t);
    return s;
}
