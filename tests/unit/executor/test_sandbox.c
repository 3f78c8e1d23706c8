/* The real thing, through the client: a daemon of our own, an image of busybox, sandboxes. Needs
 * root, cgroups, loop devices, busybox-static and mkfs.btrfs; says so and passes over without. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executor/client/executor_client.h"
#include "executor/ipc/message.h"
#include "executor/proc/fd.h"
#include "tests/unit/executor/world.h"

Suite *suite_sandbox(void);

START_TEST(user_has_no_power_and_root_has_only_its_own)
{
    SKIP_WITHOUT_WORLD();
    char text[4096];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    world_run_script(world, &spec,
                     "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status", 1000, text,
                     sizeof text);
    ck_assert_str_eq(text, "1000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n");
    world_run_script(
        world, &spec,
        "mount -t tmpfs x /tmp 2>/dev/null && echo mounted; "
        "hostname x 2>/dev/null && echo renamed; echo 0 > /proc/sys/vm/swappiness && echo "
        "tuned; touch /x && echo wrote; id -u",
        0, text, sizeof text);
    ck_assert_ptr_null(strstr(text, "mounted"));
    ck_assert_ptr_null(strstr(text, "renamed"));
    ck_assert_ptr_null(strstr(text, "tuned"));
    ck_assert_ptr_null(strstr(text, "wrote"));
    ck_assert_ptr_nonnull(strstr(text, "\n0\n"));
    world_destroy(world, &spec);
}
END_TEST

START_TEST(only_the_given_descriptors_and_directories_are_there)
{
    SKIP_WITHOUT_WORLD();
    char text[4096];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    world_run_script(world, &spec, "for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done",
                     1000, text, sizeof text);
    ck_assert_str_eq(text, "0\n1\n2\n");
    world_run_script(world, &spec,
                     "touch /workspace/a ~/a /tmp/a /var/tmp/a /dev/shm/a && cat ~/.profile; cat "
                     "/proc/1/environ /proc/kallsyms /proc/keys 2>/dev/null | wc -c",
                     1000, text, sizeof text);
    ck_assert_str_eq(text, "hello\n0\n");
    world_destroy(world, &spec);
}
END_TEST

START_TEST(exit_codes_and_signals_are_told_apart)
{
    SKIP_WITHOUT_WORLD();
    char text[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_exit e =
        world_run_script(world, &spec, "exit 137", 1000, text, sizeof text);
    ck_assert(WIFEXITED(e.wait_status) && WEXITSTATUS(e.wait_status) == 137);
    e = world_run_script(world, &spec, "kill -9 $$", 1000, text, sizeof text);
    ck_assert(WIFSIGNALED(e.wait_status) && WTERMSIG(e.wait_status) == SIGKILL);
    ck_assert(!e.killed_by_us && !e.main_was_oom_killed && e.oom_kills == 0);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(start_failures_say_where)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    static const struct {
        const char *program;
        const char *cwd;
        enum executor_run_stage stage;
        int error_number;
    } cases[] = {
        {"nosuch", "/", EXECUTOR_STAGE_EXEC, ENOENT},
        {"/etc/hosts", "/", EXECUTOR_STAGE_EXEC, EACCES},
        {"/tmp", "/", EXECUTOR_STAGE_EXEC, EACCES},
        {"true", "/nosuch", EXECUTOR_STAGE_CWD, ENOENT},
        {"true", "/etc/hosts", EXECUTOR_STAGE_CWD, ENOTDIR},
        {"true", "/proc/self/fd/7", EXECUTOR_STAGE_CWD, ENOENT},
    };
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct executor_run_spec run = {
            .sandbox = spec.id,
            .argv = &cases[i].program,
            .argc = 1,
            .env = (const char *const[]){"PATH=/bin"},
            .env_count = 1,
            .cwd = cases[i].cwd,
            .uid = 1000,
            .gid = 1000,
            .fds = {null_fd, null_fd, null_fd},
        };
        world_reply_ok(world, executor_run_start(world->client, &run, world_callback(world), &err),
                       &err);
        struct executor_run_exit e = world_wait_exit(world, world->reply.started.run);
        ck_assert_int_eq((int)e.stage, (int)cases[i].stage);
        ck_assert_int_eq(e.error_number, cases[i].error_number);
    }
    world_destroy(world, &spec);
}
END_TEST

START_TEST(dev_shm_is_as_large_as_asked)
{
    SKIP_WITHOUT_WORLD();
    char text[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.limits.shm_bytes = 1u << 20;
    world_create(world, &spec);
    world_run_script(world, &spec,
                     "dd if=/dev/zero of=/dev/shm/x bs=64k count=32 2>/dev/null; stat -c %s "
                     "/dev/shm/x; df -k /dev/shm | tail -n 1 | awk '{print $2}'",
                     1000, text, sizeof text);
    ck_assert_str_eq(text, "1048576\n1024\n");
    world_destroy(world, &spec);
}
END_TEST

/* Where inodes are not counted a limit of them is refused, not forgotten. */
START_TEST(inodes_are_limited_or_refused)
{
    SKIP_WITHOUT_WORLD();
    char text[256];
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.limits.inodes = 100;
    if (executor_client_host(world->client)->quota_backend != EXECUTOR_QUOTA_PROJECT) {
        int sent = executor_sandbox_create(world->client, &spec, world_callback(world), &err);
        ck_assert_int_eq(world_wait_reply(world, sent, &err), STATUS_FAILED_PRECONDITION);
        ck_assert(strstr(world->reply.err.text, "inodes"));
        return;
    }
    world_create(world, &spec);
    world_run_script(world, &spec,
                     "cd /workspace; i=0; while [ $i -lt 200 ] && true 2>/dev/null >f$i; do "
                     "i=$((i+1)); done; [ $i -gt 80 ] && [ $i -lt 100 ] && echo held || echo $i",
                     1000, text, sizeof text);
    ck_assert_str_eq(text, "held\n");
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec.id, world_callback(world), &err), &err);
    ck_assert_uint_eq(world->reply.stats.disk_limit_inodes, 100);
    ck_assert_uint_eq(world->reply.stats.disk_inodes, 100);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(memory_over_the_limit_is_told_as_oom)
{
    SKIP_WITHOUT_WORLD();
    char text[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.limits.memory_bytes = 32u << 20;
    world_create(world, &spec);
    struct executor_run_exit e = world_run_script(
        world, &spec, "exec dd if=/dev/zero of=/dev/null bs=100M count=1", 1000, text, sizeof text);
    ck_assert(e.main_was_oom_killed && e.oom_kills == 1 && !e.killed_by_us);
    e = world_run_script(world, &spec, "dd if=/dev/zero of=/dev/null bs=100M count=1; exit 3", 1000,
                         text, sizeof text);
    ck_assert(!e.main_was_oom_killed && e.oom_kills == 1);
    ck_assert_int_eq(WEXITSTATUS(e.wait_status), 3);
    e = world_run_script(world, &spec, "true", 1000, text, sizeof text);
    ck_assert_uint_eq(e.oom_kills, 0);
    ck_assert_uint_eq(e.sandbox_oom_kills, 0);
    /* Counts of a group that is used again meanwhile are not lost, nor told to a later run. */
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int in[2];
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    const int fds[3] = {in[0], null_fd, null_fd};
    uint64_t waiting = world_start(world, &spec, "cat", 1000, 0, fds);
    close(in[0]);
    world_run_script(world, &spec, "exec dd if=/dev/zero of=/dev/null bs=100M count=1", 1000, text,
                     sizeof text);
    e = world_run_script(world, &spec, "true", 1000, text, sizeof text);
    ck_assert_uint_eq(e.sandbox_oom_kills, 0);
    close(in[1]);
    e = world_wait_exit(world, waiting);
    ck_assert_uint_eq(e.oom_kills, 0);
    ck_assert_uint_eq(e.sandbox_oom_kills, 1);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(forks_over_the_limit_are_counted)
{
    SKIP_WITHOUT_WORLD();
    char text[4096];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_exit e = world_run_script(
        world, &spec, "for i in $(seq 100); do sleep 5 & done; exit 0", 1000, text, sizeof text);
    ck_assert_uint_gt(e.pids_denied, 0);
    ck_assert_uint_lt(e.wall_ns, UINT64_C(4000000000));
    world_destroy(world, &spec);
}
END_TEST

START_TEST(disk_over_the_limit_fails)
{
    SKIP_WITHOUT_WORLD();
    char text[4096];
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_exit e =
        world_run_script(world, &spec,
                         "dd if=/dev/zero of=/workspace/f bs=1M count=100 2>&1; wc -c < "
                         "/workspace/f",
                         1000, text, sizeof text);
    ck_assert_int_eq(e.wait_status, 0);
    ck_assert_msg(strstr(text, "quota") || strstr(text, "No space"), "%s", text);
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec.id, world_callback(world), &err), &err);
    ck_assert_uint_le(world->reply.stats.disk_limit_bytes, UINT64_C(64) << 20);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(kill_ends_the_whole_tree)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    uint64_t run = world_start(
        world, &spec, "for i in 1 2 3; do (sleep 100 & sleep 100) & done; sleep 100", 1000, 0, fds);
    usleep(300000);
    world_reply_ok(
        world,
        executor_run_kill(world->client, run, EXECUTOR_KILL_DEADLINE, world_callback(world), &err),
        &err);
    struct executor_run_exit e = world_wait_exit(world, run);
    ck_assert(e.killed_by_us && e.kill_reason == EXECUTOR_KILL_DEADLINE);
    usleep(100000);
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec.id, world_callback(world), &err), &err);
    ck_assert_uint_eq(world->reply.stats.pids, 1); /* init */
    world_destroy(world, &spec);
}
END_TEST

START_TEST(background_process_outlives_its_run_unless_told)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    world_wait_exit(world, world_start(world, &spec, "sleep 100 &", 1000, 0, fds));
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec.id, world_callback(world), &err), &err);
    ck_assert_uint_eq(world->reply.stats.pids, 2);
    world_wait_exit(
        world, world_start(world, &spec, "sleep 100 &", 1000, EXECUTOR_RUN_KILL_TREE_ON_EXIT, fds));
    usleep(100000);
    world_reply_ok(
        world, executor_sandbox_stats(world->client, &spec.id, world_callback(world), &err), &err);
    ck_assert_uint_eq(world->reply.stats.pids, 2);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(half_close_is_end_of_file)
{
    SKIP_WITHOUT_WORLD();
    int in[2], out[2];
    char text[64];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    ck_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    const int fds[3] = {in[0], out[1], out[1]};
    uint64_t run = world_start(world, &spec, "cat; echo end", 1000, 0, fds);
    close(in[0]);
    close(out[1]);
    ck_assert_int_eq(write(in[1], "abc\n", 4), 4);
    ck_assert_int_eq(read(out[0], text, sizeof text), 4);
    close(in[1]);
    ck_assert_int_eq(read(out[0], text, sizeof text), 4);
    ck_assert_int_eq(memcmp(text, "end\n", 4), 0);
    ck_assert_int_eq(read(out[0], text, sizeof text), 0);
    close(out[0]);
    ck_assert_int_eq(world_wait_exit(world, run).wait_status, 0);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(long_command_arrives_whole)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    size_t n = 100000;
    char *script = malloc(n + 64);
    memset(script, ' ', n);
    memcpy(script, "x='", 3);
    snprintf(script + n, 64, "'; exit ${#x}");
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    struct executor_run_exit e =
        world_wait_exit(world, world_start(world, &spec, script, 1000, 0, fds));
    ck_assert_int_eq((int)e.stage, 0);
    ck_assert_int_eq(WEXITSTATUS(e.wait_status), (int)((n - 3) & 255));
    free(script);
    (void)err;
    world_destroy(world, &spec);
}
END_TEST

/* A terminal gives its output in pieces. */
static void expect_line(int fd, const char *line)
{
    char text[256] = "";
    size_t used = 0;
    while (!memchr(text, '\n', used) && used < sizeof text - 1) {
        ssize_t n = read(fd, text + used, sizeof text - 1 - used);
        ck_assert_int_gt(n, 0);
        used += (size_t)n;
    }
    ck_assert_str_eq(text, line);
}

START_TEST(terminal_has_its_size_and_is_resized)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    struct executor_run_spec run = {
        .sandbox = spec.id,
        .argv = (const char *const[]){"sh", "-c", "stty size; cat >/dev/null; stty size"},
        .argc = 3,
        .env = (const char *const[]){"PATH=/bin"},
        .env_count = 1,
        .cwd = "/",
        .uid = 1000,
        .gid = 1000,
        .flags = EXECUTOR_RUN_TTY,
        .columns = 81,
        .rows = 25,
        .fds = {-1, -1, -1},
    };
    world_reply_ok(world, executor_run_start(world->client, &run, world_callback(world), &err),
                   &err);
    uint64_t id = world->reply.started.run;
    AUTO_FD int master = world->reply.started.pty_fd;
    ck_assert_int_ge(master, 0);
    fcntl(master, F_SETFL, 0);
    expect_line(master, "25 81\r\n");
    world_reply_ok(
        world, executor_run_resize(world->client, id, 100, 30, world_callback(world), &err), &err);
    ck_assert_int_eq(write(master, "\4", 1), 1);
    expect_line(master, "30 100\r\n");
    world_wait_exit(world, id);
    world_destroy(world, &spec);
}
END_TEST

/* Processes in a user namespace of this test's range; zombies that nobody waits for are no
 * matter, nor are the helpers that hold a new namespace for an instant. *ret_pid is one of them. */
static unsigned count_sandbox_processes(pid_t *ret_pid)
{
    unsigned n = 0;
    DIR *d = opendir("/proc");
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char path[300], text[256] = "";
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
        unsigned inside, outside;
        if (pid == 0 || fd_read_file(AT_FDCWD, path, text, sizeof text) < 0 ||
            sscanf(text, "%u %u", &inside, &outside) != 2 ||
            outside - world->uid_base >= 64u << 16) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%d/comm", pid);
        bool is_helper = fd_read_file(AT_FDCWD, path, text, sizeof text) < 0 ||
                         strncmp(text, "cordium-exec", 12) == 0;
        snprintf(path, sizeof path, "/proc/%d/exe", pid);
        if (!is_helper && readlink(path, text, sizeof text) > 0) {
            n++;
            *ret_pid = pid;
        }
    }
    closedir(d);
    return n;
}

/* Dying takes a moment. */
static bool sandbox_processes_vanish(void)
{
    pid_t ignored;
    for (int i = 0; i < 100; i++) {
        if (count_sandbox_processes(&ignored) == 0) {
            return true;
        }
        usleep(20000);
    }
    return false;
}

START_TEST(proxy_socket_leads_to_us)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    char text[64] = "";
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.want_proxy_socket = true;
    world_reply_ok(
        world, executor_sandbox_create(world->client, &spec, world_callback(world), &err), &err);
    AUTO_FD int listener = world->reply.created.proxy_fd;
    ck_assert_int_ge(listener, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    pid_t init = 0;
    /* Init, as soon as the child that fills the home is done. */
    for (int i = 0; i < 100 && count_sandbox_processes(&init) != 1; i++) {
        usleep(20000);
    }
    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/%d/root/run/octelium-proxy.sock", init);
    struct stat st;
    ck_assert_int_eq(stat(addr.sun_path, &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0600);
    ck_assert_uint_eq(st.st_uid, world->reply.created.uid_base + 1000);
    AUTO_FD int inside = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(inside, (const struct sockaddr *)&addr, sizeof addr), 0);
    ck_assert_int_eq(write(inside, "hi", 2), 2);
    AUTO_FD int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_eq(recv(peer, text, sizeof text - 1, 0), 2);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(writable_root_keeps_the_image_as_it_is)
{
    SKIP_WITHOUT_WORLD();
    char text[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.root_read_only = false;
    spec.capabilities = UINT64_MAX;
    world_create(world, &spec);
    world_run_script(world, &spec,
                     "echo a > /etc/new; echo b > /etc/hosts.copy; rm /bin/true; cat "
                     "/etc/new; ls /bin/true 2>/dev/null",
                     0, text, sizeof text);
    ck_assert_str_eq(text, "a\n");
    world_destroy(world, &spec);
    spec = world_default_spec(world);
    world_create(world, &spec);
    world_run_script(world, &spec, "ls /bin/true /etc/new 2>/dev/null", 1000, text, sizeof text);
    ck_assert_str_eq(text, "/bin/true\n");
    world_destroy(world, &spec);
}
END_TEST

START_TEST(an_image_with_links_where_we_mount_is_refused)
{
    SKIP_WITHOUT_WORLD();
    static const struct {
        const char *change;
        const char *says;
    } cases[] = {
        {"rmdir dev && ln -s ../../tmp dev", "/dev"},
        {"rmdir proc && ln -s /tmp proc", "proc"},
        {"rm -r workspace && ln -s etc workspace", "/workspace"},
        {"rm -r home && ln -s tmp home", "/home/user"},
        {"rmdir tmp && touch tmp", "/tmp"},
        {"rmdir run && ln -s /proc run", "/run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err;
        struct executor_digest image;
        world_import_image(world, cases[i].change, &image);
        struct executor_sandbox_spec spec = world_default_spec(world);
        spec.image = image;
        int status = world_wait_reply(
            world, executor_sandbox_create(world->client, &spec, world_callback(world), &err),
            &err);
        ck_assert_msg(status != 0, "case %zu", i);
        ck_assert_msg(strstr(world->reply.err.text, cases[i].says) != NULL, "case %zu: %s", i,
                      world->reply.err.text);
        world_reply_ok(
            world, executor_image_delete(world->client, &image, world_callback(world), &err), &err);
    }
    /* Links of small files are left alone, and lead nowhere but inside. */
    char text[256];
    struct error err;
    struct executor_digest image;
    world_import_image(
        world, "ln -sf /workspace/x etc/hosts && ln -sf ../../../etc/shadow etc/hostname", &image);
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.image = image;
    world_create(world, &spec);
    world_run_script(world, &spec, "cat /etc/hosts /etc/hostname 2>/dev/null; echo end", 1000, text,
                     sizeof text);
    ck_assert_str_eq(text, "end\n");
    world_destroy(world, &spec);
    world_reply_ok(world, executor_image_delete(world->client, &image, world_callback(world), &err),
                   &err);
}
END_TEST

START_TEST(a_commit_without_a_root_or_through_a_link_fails)
{
    SKIP_WITHOUT_WORLD();
    static const char *const scripts[] = {"true", "ln -s /etc /build/out/rootfs",
                                          "rmdir /build/out; ln -s /usr /build/out"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct error err;
        char text[64];
        struct executor_sandbox_spec spec = world_default_spec(world);
        struct executor_digest image = {.bytes = {7}};
        spec.profile = EXECUTOR_PROFILE_BUILD;
        spec.uid = 0;
        spec.gid = 0;
        world_create(world, &spec);
        world_run_script(world, &spec, scripts[i], 0, text, sizeof text);
        ck_assert_int_eq(world_wait_reply(world,
                                          executor_image_commit(world->client, &spec.id, &image,
                                                                world_callback(world), &err),
                                          &err),
                         STATUS_FAILED_PRECONDITION);
    }
}
END_TEST

START_TEST(storage_survives_its_sandbox_and_snapshots_copy_it)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    char text[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.storage_is_ephemeral = false;
    world_create(world, &spec);
    world_run_script(world, &spec, "echo kept > /workspace/f", 1000, text, sizeof text);
    world_reply_ok(
        world,
        executor_sandbox_destroy(world->client, &spec.id, false, world_callback(world), &err),
        &err);
    struct executor_uuid snapshot = world_new_uuid();
    world_reply_ok(world,
                   executor_storage_snapshot(world->client, &spec.storage, &snapshot,
                                             world_callback(world), &err),
                   &err);
    world_create(world, &spec);
    ck_assert(!world->reply.created.storage_was_made);
    world_run_script(world, &spec, "cat /workspace/f; echo more >> /workspace/f", 1000, text,
                     sizeof text);
    ck_assert_str_eq(text, "kept\n");
    struct executor_sandbox_spec other = world_default_spec(world);
    other.storage_from = snapshot;
    world_create(world, &other);
    world_run_script(world, &other, "cat /workspace/f; echo own >> /workspace/f", 1000, text,
                     sizeof text);
    ck_assert_str_eq(text, "kept\n");
    world_destroy(world, &other);
    world_destroy(world, &spec);
    world_reply_ok(world,
                   executor_storage_delete(world->client, &snapshot, world_callback(world), &err),
                   &err);
    ck_assert_int_eq(world_wait_reply(world,
                                      executor_storage_delete(world->client, &spec.storage,
                                                              world_callback(world), &err),
                                      &err),
                     STATUS_NOT_FOUND);
}
END_TEST

START_TEST(unknown_names_are_not_found)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    spec.image.bytes[0] ^= 1;
    ck_assert_int_eq(
        world_wait_reply(world,
                         executor_sandbox_create(world->client, &spec, world_callback(world), &err),
                         &err),
        STATUS_NOT_FOUND);
    ck_assert_int_eq(world_wait_reply(world,
                                      executor_sandbox_destroy(world->client, &spec.id, true,
                                                               world_callback(world), &err),
                                      &err),
                     STATUS_NOT_FOUND);
    ck_assert_int_eq(world_wait_reply(world,
                                      executor_run_kill(world->client, 99999, EXECUTOR_KILL_ASKED,
                                                        world_callback(world), &err),
                                      &err),
                     STATUS_NOT_FOUND);
    world_reply_ok(world,
                   executor_image_exists(world->client, &spec.image, world_callback(world), &err),
                   &err);
    ck_assert(!world->reply.exists);
    world_reply_ok(world,
                   executor_image_exists(world->client, &world->image, world_callback(world), &err),
                   &err);
    ck_assert(world->reply.exists);
}
END_TEST

START_TEST(a_message_outside_the_table_ends_the_connection)
{
    SKIP_WITHOUT_WORLD();
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path, world->socket, strlen(world->socket) + 1);
    static const uint8_t bad[][16] = {
        {2, 0, 0, 0, 1, 0, 0, 0},             /* SANDBOX_CREATE before HELLO */
        {1, 0, 0, 0, 0, 0, 0, 0, 1},          /* call 0 */
        {99, 0, 0, 0, 1, 0, 0, 0, 1},         /* no such type */
        {1, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0}, /* unknown flag */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        uint8_t answer[64];
        ck_assert_int_eq(connect(fd, (const struct sockaddr *)&addr, sizeof addr), 0);
        ck_assert_int_eq(send(fd, bad[i], 16, 0), 16);
        ssize_t n = recv(fd, answer, sizeof answer, 0);
        ck_assert_msg(n <= 0, "message %zu was answered", i);
    }
    /* And the daemon goes on. */
    struct error err;
    world_reply_ok(
        world, executor_list(world->client, EXECUTOR_LIST_IMAGES, 0, world_callback(world), &err),
        &err);
    ck_assert_uint_eq(world->reply.list.total, 1);
}
END_TEST

START_TEST(a_peer_with_another_uid_is_refused)
{
    SKIP_WITHOUT_WORLD();
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        memcpy(addr.sun_path, world->socket, strlen(world->socket) + 1);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        /* Even when the file system lets it through. */
        chmod(world->socket, 0666);
        chmod(world->dir, 0755);
        if (setresuid(65534, 65534, 65534) == -1 ||
            connect(fd, (const struct sockaddr *)&addr, sizeof addr) == -1) {
            _exit(3);
        }
        const uint8_t hello[16] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        uint8_t answer[64];
        (void)!send(fd, hello, sizeof hello, MSG_NOSIGNAL);
        _exit(recv(fd, answer, sizeof answer, 0) > 0 ? 1 : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    chmod(world->socket, 0600);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_second_executor_refuses)
{
    SKIP_WITHOUT_WORLD();
    pid_t pid = world_start_daemon(world);
    int status;
    waitpid(pid, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
END_TEST

START_TEST(leftovers_of_a_killed_executor_are_removed)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    world_start(world, &spec, "sleep 1000 & sleep 1000", 1000, 0, fds);
    usleep(200000);
    ck_assert_uint_ge(count_sandbox_processes(&(pid_t){0}), 2);
    kill(world->daemon, SIGKILL);
    waitpid(world->daemon, NULL, 0);
    executor_client_close(world->client);
    world->client = NULL;
    world->daemon = world_start_daemon(world);
    world_connect_client(world);
    ck_assert(sandbox_processes_vanish());
    world_reply_ok(
        world, executor_list(world->client, EXECUTOR_LIST_STORAGES, 0, world_callback(world), &err),
        &err);
    ck_assert_uint_eq(world->reply.list.total, 0);
    world_reply_ok(world,
                   executor_image_exists(world->client, &world->image, world_callback(world), &err),
                   &err);
    ck_assert(world->reply.exists);
    spec = world_default_spec(world);
    world_create(world, &spec);
    world_destroy(world, &spec);
}
END_TEST

START_TEST(many_sandboxes_leave_nothing_behind)
{
    SKIP_WITHOUT_WORLD();
    struct error err;
    enum { N = 40 };
    struct executor_sandbox_spec specs[N];
    char text[64];
    for (int i = 0; i < N; i++) {
        specs[i] = world_default_spec(world);
        world_create(world, &specs[i]);
    }
    for (int i = 0; i < N; i += 7) {
        world_run_script(world, &specs[i], "echo $$", 1000, text, sizeof text);
    }
    world_reply_ok(
        world,
        executor_list(world->client, EXECUTOR_LIST_SANDBOXES, 0, world_callback(world), &err),
        &err);
    ck_assert_uint_eq(world->reply.list.total, N);
    for (int i = 0; i < N; i++) {
        world_destroy(world, &specs[i]);
    }
    world_reply_ok(
        world,
        executor_list(world->client, EXECUTOR_LIST_SANDBOXES, 0, world_callback(world), &err),
        &err);
    ck_assert_uint_eq(world->reply.list.total, 0);
    ck_assert(sandbox_processes_vanish());
}
END_TEST

START_TEST(a_stop_with_live_sandboxes_leaves_nothing_behind)
{
    SKIP_WITHOUT_WORLD();
    char command[256];
    struct executor_sandbox_spec spec = world_default_spec(world);
    world_create(world, &spec);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {null_fd, null_fd, null_fd};
    world_start(world, &spec, "sleep 1000", 1000, 0, fds);
    kill(world->daemon, SIGTERM);
    int status;
    waitpid(world->daemon, &status, 0);
    world->daemon = 0;
    ck_assert_int_eq(status, 0);
    ck_assert(sandbox_processes_vanish());
    snprintf(command, sizeof command, "ls -d /sys/fs/cgroup/*/%s 2>/dev/null", world->dir + 5);
    ck_assert_int_ne(system(command), 0);
}
END_TEST

Suite *suite_sandbox(void)
{
    Suite *s = suite_create("executor sandboxes");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 60);
    tcase_add_unchecked_fixture(t, world_set_up, world_tear_down);
    tcase_add_test(t, user_has_no_power_and_root_has_only_its_own);
    tcase_add_test(t, only_the_given_descriptors_and_directories_are_there);
    tcase_add_test(t, exit_codes_and_signals_are_told_apart);
    tcase_add_test(t, start_failures_say_where);
    tcase_add_test(t, dev_shm_is_as_large_as_asked);
    tcase_add_test(t, inodes_are_limited_or_refused);
    tcase_add_test(t, memory_over_the_limit_is_told_as_oom);
    tcase_add_test(t, forks_over_the_limit_are_counted);
    tcase_add_test(t, disk_over_the_limit_fails);
    tcase_add_test(t, kill_ends_the_whole_tree);
    tcase_add_test(t, background_process_outlives_its_run_unless_told);
    tcase_add_test(t, half_close_is_end_of_file);
    tcase_add_test(t, long_command_arrives_whole);
    tcase_add_test(t, terminal_has_its_size_and_is_resized);
    tcase_add_test(t, proxy_socket_leads_to_us);
    tcase_add_test(t, writable_root_keeps_the_image_as_it_is);
    tcase_add_test(t, an_image_with_links_where_we_mount_is_refused);
    tcase_add_test(t, a_commit_without_a_root_or_through_a_link_fails);
    tcase_add_test(t, storage_survives_its_sandbox_and_snapshots_copy_it);
    tcase_add_test(t, unknown_names_are_not_found);
    tcase_add_test(t, a_message_outside_the_table_ends_the_connection);
    tcase_add_test(t, a_peer_with_another_uid_is_refused);
    tcase_add_test(t, a_second_executor_refuses);
    tcase_add_test(t, many_sandboxes_leave_nothing_behind);
    tcase_add_test(t, leftovers_of_a_killed_executor_are_removed);
    tcase_add_test(t, a_stop_with_live_sandboxes_leaves_nothing_behind);
    suite_add_tcase(s, t);
    return s;
}
