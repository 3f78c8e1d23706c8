#include "tests/unit/executor/world.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"

struct world *world;

static void on_exited(void *context, const struct executor_run_exit *event)
{
    struct world *w = context;
    w->exits[w->exit_count++ % 64] = *event;
}

static void on_denied(void *context, const struct executor_network_denied *event)
{
    struct world *w = context;
    w->denied = *event;
    w->denied_count++;
}

static void on_gone(void *context, const struct executor_sandbox_gone *event)
{
    struct world *w = context;
    w->gone = *event;
    w->gone_count++;
}

static void on_reply(void *context, const struct executor_reply *reply)
{
    struct world *w = context;
    w->done = true;
    w->reply = *reply;
}

struct executor_callback world_callback(struct world *w)
{
    w->done = false;
    return (struct executor_callback){on_reply, w};
}

bool world_pump_once(struct world *w, int timeout_ms)
{
    struct pollfd p = {.fd = executor_client_fd(w->client),
                       .events = executor_client_poll_events(w->client)};
    int n = poll(&p, 1, timeout_ms);
    return executor_client_dispatch(w->client) == 0 && n > 0;
}

int world_wait_reply(struct world *w, int sent, const struct error *err)
{
    ck_assert_msg(sent == 0, "%s", err->text);
    for (int i = 0; !w->done && i < 200; i++) {
        world_pump_once(w, 100);
    }
    ck_assert_msg(w->done, "no answer in 20 s");
    return w->reply.err.status;
}

void world_reply_ok(struct world *w, int sent, const struct error *err)
{
    int status = world_wait_reply(w, sent, err);
    ck_assert_msg(status == 0, "%s", w->reply.err.text);
}

void world_shell(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void make_image_tar(const struct world *w)
{
    char command[2048];
    snprintf(
        command, sizeof command,
        "set -e; r=%s/root; mkdir -p $r/bin $r/dev $r/proc $r/sys $r/tmp $r/var/tmp $r/run "
        "$r/etc $r/workspace $r/home/user $r/opt/cordium $r/root; cp /bin/busybox " ATTACK_PROGRAM
        " $r/bin; cp $r/bin/attack $r/bin/lonely; "
        "for a in sh true cat id ls head sleep touch tr mount dd kill wc echo chown stty tty "
        "nc grep seq mkdir ln rm hostname df; do ln -s busybox $r/bin/$a; done; "
        "ln -s ../run $r/var/run; touch $r/etc/hosts $r/etc/hostname $r/etc/resolv.conf; "
        "echo hello > $r/home/user/.profile; chown -R 1000:1000 $r/home/user; "
        "tar -C $r -cf %s/image.tar .",
        w->dir, w->dir);
    world_shell(command);
}

void world_write_config(const struct world *w, const char *extra)
{
    char path[128];
    snprintf(path, sizeof path, "%s/executor.conf", w->dir);
    FILE *f = fopen(path, "w");
    fprintf(f,
            "state_dir = %s/state\nruntime_dir = %s/run\ninstance = %s\ngateway_uid = 0\n"
            "pool_mebibytes = 2048\nnetwork = false\nuid_base = %u\nuid_ranges = 64\n"
            "launcher_path = build/release/cordium-launcher\n%s",
            w->dir, w->dir, w->dir + 5, w->uid_base, extra);
    fclose(f);
}

pid_t world_start_daemon(const struct world *w)
{
    char path[128];
    char log[128];
    snprintf(path, sizeof path, "%s/executor.conf", w->dir);
    snprintf(log, sizeof log, "%s/log", w->dir);
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit few = {w->descriptors, w->descriptors};
        if (w->descriptors != 0 && setrlimit(RLIMIT_NOFILE, &few) == -1) {
            _exit(126);
        }
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 2);
        execl(EXECUTOR_PROGRAM, "cordium-executor", "--config", path, (char *)NULL);
        _exit(127);
    }
    return pid;
}

void world_connect_client(struct world *w)
{
    struct error err;
    const struct executor_client_events events = {.run_exited = on_exited,
                                                  .sandbox_gone = on_gone,
                                                  .network_denied = on_denied,
                                                  .context = w};
    int r = -1;
    w->exit_count = 0; /* a new daemon counts its runs from one again */
    for (int i = 0; i < 300 && r < 0; i++) {
        r = executor_client_connect(w->socket, 2000, &events, &w->client, &err);
        if (r < 0) {
            usleep(50000);
        }
    }
    ck_assert_msg(r == 0, "%s", err.text);
}

struct executor_uuid world_new_uuid(void)
{
    struct executor_uuid id;
    ck_assert_int_eq(getrandom(id.bytes, sizeof id.bytes, 0), sizeof id.bytes);
    return id;
}

struct executor_sandbox_spec world_default_spec(const struct world *w)
{
    return (struct executor_sandbox_spec){
        .id = world_new_uuid(),
        .profile = EXECUTOR_PROFILE_WORKSPACE,
        .image = w->image,
        .storage = world_new_uuid(),
        .storage_is_ephemeral = true,
        .limits = {.memory_bytes = 128u << 20,
                   .disk_bytes = UINT64_C(64) << 20,
                   .cpu_millicores = 1000,
                   .pids = 32},
        .root_read_only = true,
        .uid = 1000,
        .gid = 1000,
        .home = "/home/user",
    };
}

void world_create(struct world *w, const struct executor_sandbox_spec *spec)
{
    struct error err;
    world_reply_ok(w, executor_sandbox_create(w->client, spec, world_callback(w), &err), &err);
}

void world_destroy(struct world *w, const struct executor_sandbox_spec *spec)
{
    struct error err;
    world_reply_ok(w, executor_sandbox_destroy(w->client, &spec->id, true, world_callback(w), &err),
                   &err);
}

uint64_t world_start(struct world *w, const struct executor_sandbox_spec *spec, const char *script,
                     uint32_t uid, uint32_t flags, const int fds[3])
{
    static const char *const env[] = {"PATH=/bin", "HOME=/home/user"};
    const char *const argv[] = {"sh", "-c", script};
    struct error err;
    struct executor_run_spec run = {
        .sandbox = spec->id,
        .argv = argv,
        .argc = 3,
        .env = env,
        .env_count = 2,
        .cwd = "/",
        .uid = uid,
        .gid = uid,
        .flags = flags,
        .fds = {fds[0], fds[1], fds[2]},
    };
    world_reply_ok(w, executor_run_start(w->client, &run, world_callback(w), &err), &err);
    return w->reply.started.run;
}

struct executor_run_exit world_wait_exit(struct world *w, uint64_t run)
{
    for (int i = 0; i < 300; i++) {
        for (size_t k = 0; k < w->exit_count && k < 64; k++) {
            if (w->exits[k].run == run) {
                return w->exits[k];
            }
        }
        world_pump_once(w, 100);
    }
    ck_abort_msg("run did not end in 30 s");
}

/* Runs a script to its end; what it printed is in ret_text. */
struct executor_run_exit world_run_script(struct world *w, const struct executor_sandbox_spec *spec,
                                          const char *script, uint32_t uid, char *ret_text,
                                          size_t size)
{
    int p[2];
    ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
    AUTO_FD int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int fds[3] = {null_fd, p[1], p[1]};
    uint64_t run = world_start(w, spec, script, uid, EXECUTOR_RUN_KILL_TREE_ON_EXIT, fds);
    close(p[1]);
    size_t used = 0;
    ssize_t n;
    while (used < size - 1 && (n = read(p[0], ret_text + used, size - 1 - used)) > 0) {
        used += (size_t)n;
    }
    ret_text[used] = '\0';
    close(p[0]);
    return world_wait_exit(w, run);
}

/* Makes an image of the tar, after `change` ran in its root. */
void world_import_image(struct world *w, const char *change, struct executor_digest *ret)
{
    char script[512];
    snprintf(
        script, sizeof script,
        "mkdir -p /build/out/rootfs && cd /build/out/rootfs && tar -xf - --numeric-owner && %s",
        change);
    struct error err;
    char path[128];
    struct executor_sandbox_spec spec = world_default_spec(w);
    spec.profile = EXECUTOR_PROFILE_BUILD;
    spec.uid = 0;
    spec.gid = 0;
    spec.limits.pids = 64;
    world_create(w, &spec);
    snprintf(path, sizeof path, "%s/image.tar", w->dir);
    AUTO_FD int tar = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[3] = {tar, null_fd, 2};
    struct executor_run_spec run = {
        .sandbox = spec.id,
        .argv = (const char *const[]){"/bin/sh", "-c", script},
        .argc = 3,
        .env = (const char *const[]){"PATH=/usr/bin:/bin"},
        .env_count = 1,
        .cwd = "/build",
        .fds = {fds[0], fds[1], fds[2]},
    };
    world_reply_ok(w, executor_run_start(w->client, &run, world_callback(w), &err), &err);
    struct executor_run_exit e = world_wait_exit(w, w->reply.started.run);
    ck_assert_int_eq(e.stage, EXECUTOR_STAGE_RAN);
    ck_assert_int_eq(e.wait_status, 0);
    ck_assert_int_eq(getrandom(ret->bytes, 32, 0), 32);
    world_reply_ok(w, executor_image_commit(w->client, &spec.id, ret, world_callback(w), &err),
                   &err);
}

static const char *missing(void)
{
    if (geteuid() != 0) {
        return "needs root";
    }
    if (access("/bin/busybox", X_OK) != 0) {
        return "needs busybox-static";
    }
    if (access("/sbin/mkfs.btrfs", X_OK) != 0 && access("/usr/sbin/mkfs.btrfs", X_OK) != 0) {
        return "needs btrfs-progs";
    }
    if (access("build/release/cordium-launcher", X_OK) != 0 ||
        access(EXECUTOR_PROGRAM, X_OK) != 0) {
        return "needs the executor and its launcher to be built";
    }
    return NULL;
}

void world_set_up(void)
{
    const char *why = missing();
    if (why) {
        ck_assert_msg(!getenv("MUST_WORK"), "sandbox tests cannot run: %s", why);
        fprintf(stderr, "sandbox tests skipped: %s\n", why);
        return;
    }
    world = calloc(1, sizeof *world);
    snprintf(world->dir, sizeof world->dir, "/tmp/cordium-test-%d", getpid());
    ck_assert_int_eq(mkdir(world->dir, 0700), 0);
    world->uid_base = 1500000000u + (uint32_t)(getpid() % 128) * (64u << 16);
    snprintf(world->socket, sizeof world->socket, "%s/run/executor.sock", world->dir);
    make_image_tar(world);
    world_write_config(world, "");
    world->daemon = world_start_daemon(world);
    world_connect_client(world);
    world_import_image(world, "true", &world->image);
}

void world_tear_down(void)
{
    char command[256];
    if (!world) {
        return;
    }
    executor_client_close(world->client);
    if (world->daemon > 0) {
        kill(world->daemon, SIGTERM);
        waitpid(world->daemon, NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", world->dir);
    (void)!system(command);
    free(world);
    world = NULL;
}
