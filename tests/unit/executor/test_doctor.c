/* What `cordium-executor --check` says, beside an executor that serves; and the limit of cpu, which
 * only shows over time. */
#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "tests/unit/executor/world.h"

Suite *suite_doctor(void);

/* The exit code of a check with the config NAME of the world's directory. */
static int run_check(const char *name, char *ret_text, size_t size)
{
    char command[512];
    snprintf(command, sizeof command, "%s --check --config %s/%s 2>&1", EXECUTOR_PROGRAM,
             world->dir, name);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(ret_text, 1, size - 1, f);
    ret_text[n] = '\0';
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_words(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(strstr(text, words[i]) != NULL, "no '%s' in:\n%s", words[i], text);
    }
}

START_TEST(check_tells_the_host_and_leaves_nothing_behind)
{
    SKIP_WITHOUT_WORLD();
    static const char *const words[] = {"kernel",    "user namespaces", "cgroups",
                                        "state_dir", "loop devices",    "ids",
                                        "gateway",   "disk limits",     "can serve"};
    char text[8192], command[256];
    struct error err;
    int code = run_check("executor.conf", text, sizeof text);
    ck_assert_msg(code == 0, "%s", text);
    expect_words(text, words, sizeof words / sizeof *words);
    snprintf(command, sizeof command,
             "! ls -d %s/state/check-* %s/run/check-* /sys/fs/cgroup/*/check-* "
             "/sys/fs/cgroup/check-* 2>/dev/null | grep -q .",
             world->dir, world->dir);
    world_shell(command);
    /* The one that serves was not disturbed. */
    world_reply_ok(world,
                   executor_image_exists(world->client, &world->image, world_callback(world), &err),
                   &err);
    ck_assert(world->reply.exists);
}
END_TEST

START_TEST(check_of_what_cannot_serve_says_why)
{
    SKIP_WITHOUT_WORLD();
    static const struct {
        const char *line;
        const char *says;
    } cases[] = {
        {"launcher_path = /nonexistent/launcher", "set launcher_path"},
        {"uid_base = 4000000000", "below 2147483648"},
        {"tools_dir = /nonexistent/tools", "tools_dir"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[8192], command[512];
        snprintf(command, sizeof command,
                 "key=$(echo '%s' | cut -d' ' -f1); grep -v \"^$key \" %s/executor.conf > "
                 "%s/broken.conf; echo '%s' >> %s/broken.conf",
                 cases[i].line, world->dir, world->dir, cases[i].line, world->dir);
        world_shell(command);
        ck_assert_int_eq(run_check("broken.conf", text, sizeof text), 1);
        const char *const words[] = {"PROBLEM  trial start", cases[i].says};
        expect_words(text, words, 2);
    }
}
END_TEST

/* The build's folder may be closed to others: the program is copied to where it is not. */
static int run_as_nobody(const char *option, char *ret_text, size_t size)
{
    enum { NOBODY = 65534 };
    char command[1024], program[256], config[256];
    int output[2];
    snprintf(command, sizeof command,
             "mkdir -pm 755 %s-open && cp %s %s-open/executor && cp %s/executor.conf %s-open",
             world->dir, EXECUTOR_PROGRAM, world->dir, world->dir, world->dir);
    world_shell(command);
    snprintf(program, sizeof program, "%.63s-open/executor", world->dir);
    snprintf(config, sizeof config, "%.63s-open/executor.conf", world->dir);
    ck_assert_int_eq(pipe(output), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(output[1], 1) == -1 || setgroups(0, NULL) == -1 ||
            setresgid(NOBODY, NOBODY, NOBODY) == -1 || setresuid(NOBODY, NOBODY, NOBODY) == -1) {
            _exit(126);
        }
        (void)close(output[0]);
        (void)close(output[1]);
        execl(program, "cordium-executor", "--config", config, "--check", option, (char *)NULL);
        _exit(127);
    }
    (void)close(output[1]);
    FILE *f = fdopen(output[0], "r");
    size_t n = fread(ret_text, 1, size - 1, f);
    ret_text[n] = '\0';
    (void)fclose(f);
    int status = 0;
    waitpid(pid, &status, 0);
    snprintf(command, sizeof command, "rm -r %s-open", world->dir);
    world_shell(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(check_tells_anybody_what_anybody_can_read)
{
    SKIP_WITHOUT_WORLD();
    static const char *const words[] = {"ok       kernel", "cgroups", "ids", "only root can"};
    char text[8192];
    int code = run_as_nobody(NULL, text, sizeof text);
    ck_assert_msg(code == 1, "%s", text);
    expect_words(text, words, sizeof words / sizeof *words);
    ck_assert_msg(strstr(text, "PROBLEM  trial") == NULL, "%s", text);
    code = run_as_nobody("--json", text, sizeof text);
    ck_assert_msg(code == 1, "%s", text);
    ck_assert_msg(strncmp(text, "{\"findings\":[{\"state\":", 22) == 0 &&
                      strstr(text, "\"subject\":\"trial start\"") != NULL,
                  "%s", text);
}
END_TEST

START_TEST(check_without_a_config_still_tells_of_the_host)
{
    SKIP_WITHOUT_WORLD();
    static const char *const words[] = {"ok       kernel", "cgroups", "PROBLEM  config",
                                        "'/nonexistent/"};
    char text[8192], command[512];
    snprintf(command, sizeof command, "%s --check --config /nonexistent/executor.conf 2>&1",
             EXECUTOR_PROGRAM);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(f)), 1);
    expect_words(text, words, sizeof words / sizeof *words);
}
END_TEST

START_TEST(cpu_over_the_limit_is_throttled)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.limits.cpu_millicores = 200;
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    uint64_t run = world_start(world, &spec, "while :; do :; done & while :; do :; done", 1000,
                               EXECUTOR_RUN_KILL_TREE_ON_EXIT, fds);
    usleep(1500000);
    world_reply_ok(
        world,
        executor_run_kill(world->client, run, EXECUTOR_KILL_DEADLINE, world_callback(world), &err),
        &err);
    struct executor_run_exit e = world_wait_exit(world, run);
    uint64_t used_us = e.cpu_user_us + e.cpu_system_us;
    /* A fifth, and what one period may run over. */
    ck_assert_uint_le(used_us, e.wall_ns / 1000 * 30 / 100);
    ck_assert_uint_gt(used_us, 0);
    world_destroy(world, &spec);
}
END_TEST

Suite *suite_doctor(void)
{
    Suite *s = suite_create("executor doctor");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, world_set_up, world_tear_down);
    tcase_add_test(t, check_tells_the_host_and_leaves_nothing_behind);
    tcase_add_test(t, check_of_what_cannot_serve_says_why);
    tcase_add_test(t, check_tells_anybody_what_anybody_can_read);
    tcase_add_test(t, check_without_a_config_still_tells_of_the_host);
    tcase_add_test(t, cpu_over_the_limit_is_throttled);
    suite_add_tcase(s, t);
    return s;
}
