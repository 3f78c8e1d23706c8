/* The self-test with each layer missing in turn: the executor says which, and does not serve. The
 * programs are the real one's objects with some calls turned, see tests/tools/executor_without.c.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/init/self_test.h"
#include "executor/proc/fd.h"
#include "tests/unit/executor/world.h"

Suite *suite_self_test(void);

static const struct {
    const char *name;
    const char *title;
    const char *remedy;
} layers[] = {
#define LAYER(name, title, attackers, remedy) {#name, (title), (remedy)},
#include "executor/init/self_test.def"
};

static struct world bench; /* no daemon of its own: each test starts them */

static bool can_run(void)
{
    if (geteuid() == 0 && access(EXECUTOR_WITHOUT, X_OK) == 0 &&
        access(LAUNCHER_WITHOUT, X_OK) == 0) {
        return true;
    }
    ck_assert_msg(!getenv("MUST_WORK"), "needs root, '%s' and '%s'", EXECUTOR_WITHOUT,
                  LAUNCHER_WITHOUT);
    fprintf(stderr, "self-test's tests skipped: they need root, '%s' and '%s'\n", EXECUTOR_WITHOUT,
            LAUNCHER_WITHOUT);
    return false;
}

static void set_up(void)
{
    snprintf(bench.dir, sizeof bench.dir, "/tmp/cordium-layers-%d", getpid());
    snprintf(bench.socket, sizeof bench.socket, "%.63s/run/executor.sock", bench.dir);
    bench.uid_base = 1600000000u + (uint32_t)(getpid() % 128) * (64u << 16);
    ck_assert_int_eq(mkdir(bench.dir, 0700), 0);
}

static void tear_down(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %.63s", bench.dir);
    (void)!system(command);
}

/* The launcher takes the name of what it lacks from the path that it is started by. */
static void write_config(const char *layer, char *ret_path, size_t size)
{
    char extra[1024], folder[256], link_path[512], program[4096];
    snprintf(folder, sizeof folder, "%.63s/%.63s", bench.dir, layer);
    snprintf(link_path, sizeof link_path, "%s/cordium-launcher", folder);
    snprintf(extra, sizeof extra, "launcher_path = %s\n", link_path);
    ck_assert(realpath(LAUNCHER_WITHOUT, program) != NULL);
    ck_assert(mkdir(folder, 0700) == 0 || errno == EEXIST);
    ck_assert(symlink(program, link_path) == 0 || errno == EEXIST);
    world_write_config(&bench, extra);
    snprintf(ret_path, size, "%.63s/executor.conf", bench.dir);
}

static pid_t start(const char *layer, const char *option, const char *output)
{
    char config[256];
    write_config(layer, config, sizeof config);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (dup2(fd, 1) == -1 || dup2(fd, 2) == -1 || setenv("WITHOUT_LAYER", layer, 1) == -1) {
            _exit(126);
        }
        execl(EXECUTOR_WITHOUT, "cordium-executor", "--config", config, option, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Its exit code, or -1 when it serves; then it is told to stop. What it said is in ret_text. */
static int run_without(const char *layer, const char *option, char *ret_text, size_t size)
{
    char output[256];
    int status = 0;
    bool serves = false;
    snprintf(output, sizeof output, "%.63s/output", bench.dir);
    pid_t pid = start(layer, option, output);
    pid_t ended = 0;
    for (int i = 0; i < 3000 && ended == 0 && !serves; i++) {
        usleep(10000);
        ended = waitpid(pid, &status, WNOHANG);
        serves = ended == 0 && access(bench.socket, F_OK) == 0;
    }
    if (ended == 0) {
        kill(pid, serves ? SIGTERM : SIGKILL);
        waitpid(pid, &status, 0);
        (void)unlink(bench.socket);
    }
    ck_assert_int_ge(fd_read_file(AT_FDCWD, output, ret_text, size), 0);
    ck_assert_msg(serves || ended == pid, "without %s: no end in 30 s: %s", layer, ret_text);
    return serves ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

START_TEST(without_any_one_layer_it_does_not_serve_and_names_it)
{
    if (!can_run()) {
        return;
    }
    char text[8192], expected[512];
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        int code = run_without(layers[i].name, NULL, text, sizeof text);
        ck_assert_msg(code == 1, "without %s: exit code %d: %s", layers[i].name, code, text);
        snprintf(expected, sizeof expected,
                 "does not serve: layer '%s' does not hold: ", layers[i].title);
        ck_assert_msg(strstr(text, expected) != NULL, "without %s: %s", layers[i].name, text);
        snprintf(expected, sizeof expected, "(remedy: %s)", layers[i].remedy);
        ck_assert_msg(strstr(text, expected) != NULL, "without %s: %s", layers[i].name, text);
    }
}
END_TEST

START_TEST(with_all_layers_the_same_programs_serve)
{
    if (!can_run()) {
        return;
    }
    char text[8192];
    int code = run_without("nothing", NULL, text, sizeof text);
    ck_assert_msg(code == -1, "exit code %d: %s", code, text);
    ck_assert_msg(strstr(text, "layers held in a self-test") != NULL, "%s", text);
}
END_TEST

static void expect_layer(const char *text, const char *word, size_t layer, const char *rest)
{
    char expected[512];
    snprintf(expected, sizeof expected, "%-8s %-16s %s%s", word, "layer", layers[layer].title,
             rest);
    ck_assert_msg(strstr(text, expected) != NULL, "no '%s' in:\n%s", expected, text);
}

START_TEST(check_tells_of_each_layer)
{
    if (!can_run()) {
        return;
    }
    char text[16384];
    int code = run_without("nothing", "--check", text, sizeof text);
    ck_assert_msg(code == 0, "exit code %d: %s", code, text);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        expect_layer(text, "ok", i, "\n");
    }
    code = run_without("core_limit", "--check", text, sizeof text);
    ck_assert_msg(code == 1, "exit code %d: %s", code, text);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        bool is_missing = i == SELF_TEST_LAYER_core_limit;
        expect_layer(text, is_missing ? "PROBLEM" : "ok", i,
                     is_missing ? " does not hold: " : "\n");
    }
}
END_TEST

/* A client never meets what the self-test made. */
START_TEST(nothing_of_it_is_left)
{
    if (!can_run()) {
        return;
    }
    static const enum executor_list_kind kinds[] = {EXECUTOR_LIST_SANDBOXES, EXECUTOR_LIST_STORAGES,
                                                    EXECUTOR_LIST_IMAGES};
    char output[256];
    struct error err;
    snprintf(output, sizeof output, "%.63s/output", bench.dir);
    pid_t pid = start("nothing", NULL, output);
    world_connect_client(&bench);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        world_reply_ok(
            &bench, executor_list(bench.client, kinds[i], 0, world_callback(&bench), &err), &err);
        ck_assert_uint_eq(bench.reply.list.total, 0);
    }
    executor_client_close(bench.client);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}
END_TEST

Suite *suite_self_test(void)
{
    Suite *s = suite_create("executor self-test");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 300);
    tcase_add_unchecked_fixture(t, set_up, tear_down);
    tcase_add_test(t, without_any_one_layer_it_does_not_serve_and_names_it);
    tcase_add_test(t, with_all_layers_the_same_programs_serve);
    tcase_add_test(t, check_tells_of_each_layer);
    tcase_add_test(t, nothing_of_it_is_left);
    suite_add_tcase(s, t);
    return s;
}
