/* A client of the executor for people and tests.
 *
 *   executor_probe SOCKET import TAR             -> image id (a build sandbox unpacks TAR)
 *   executor_probe SOCKET run IMAGE [OPTION...] -- ARGV...
 *                                                   -w writable root, -r as root, -t terminal,
 *                                                   -n public network; limits: -m memory, -d disk,
 *                                                   -i inodes, -p pids, -c thousandths of a cpu
 *   executor_probe SOCKET build -- ARGV...          in a build sandbox with the build network
 *   executor_probe SOCKET ping N                    N small questions; the slowest answer
 *   executor_probe SOCKET bench IMAGE N -- ARGV...  create, run, destroy, N times; medians
 *   executor_probe SOCKET list sandboxes|storages|images
 *                                                   what the executor has: one id a line
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executor/client/executor_client.h"
#include "executor/proc/fd.h"

struct probe {
    struct executor_client *client;
    bool done;
    bool exited;
    struct executor_reply reply;
    struct executor_run_exit exit;
};

static void on_exit_event(void *context, const struct executor_run_exit *event)
{
    struct probe *p = context;
    p->exited = true;
    p->exit = *event;
}

static void on_gone(void *context, const struct executor_sandbox_gone *event)
{
    (void)context;
    if (event->reason != EXECUTOR_GONE_DESTROYED && event->reason != EXECUTOR_GONE_COMMITTED) {
        fprintf(stderr, "sandbox gone (%d): %s\n", (int)event->reason, event->text);
    }
}

static void on_disconnect(void *context, const struct error *why)
{
    (void)context;
    fprintf(stderr, "%s\n", why->text);
    exit(1);
}

static void on_reply(void *context, const struct executor_reply *reply)
{
    struct probe *p = context;
    p->done = true;
    p->reply = *reply;
}

static void pump(struct probe *p, const bool *until)
{
    while (!*until) {
        struct pollfd fd = {.fd = executor_client_fd(p->client),
                            .events = executor_client_poll_events(p->client)};
        (void)poll(&fd, 1, -1);
        (void)executor_client_dispatch(p->client);
    }
}

static struct executor_callback callback(struct probe *p)
{
    p->done = false;
    return (struct executor_callback){on_reply, p};
}

static void need(struct probe *p, int r, const struct error *err, const char *what)
{
    if (r == 0) {
        pump(p, &p->done);
        err = &p->reply.err;
    }
    if (r < 0 || err->status) {
        fprintf(stderr, "%s: %s: %s\n", what, status_name(err->status), err->text);
        exit(1);
    }
}

static struct executor_uuid new_uuid(void)
{
    struct executor_uuid id;
    if (getrandom(id.bytes, sizeof id.bytes, 0) != sizeof id.bytes) {
        abort();
    }
    return id;
}

static struct executor_sandbox_spec default_spec(void)
{
    return (struct executor_sandbox_spec){
        .id = new_uuid(),
        .profile = EXECUTOR_PROFILE_WORKSPACE,
        .storage = new_uuid(),
        .storage_is_ephemeral = true,
        .limits = {.memory_bytes = 512u << 20,
                   .disk_bytes = UINT64_C(1) << 30,
                   .cpu_millicores = 2000,
                   .pids = 256},
        .root_read_only = true,
        .uid = 1000,
        .gid = 1000,
        .home = "/home/sandbox",
        .hostname = "",
        .want_proxy_socket = true,
    };
}

static void create(struct probe *p, const struct executor_sandbox_spec *spec)
{
    struct error err;
    need(p, executor_sandbox_create(p->client, spec, callback(p), &err), &err, "create");
    if (p->reply.created.proxy_fd >= 0) {
        close(p->reply.created.proxy_fd);
    }
}

static void destroy(struct probe *p, const struct executor_sandbox_spec *spec)
{
    struct error err;
    need(p, executor_sandbox_destroy(p->client, &spec->id, true, callback(p), &err), &err,
         "destroy");
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Runs a command to its end; a terminal's output is copied to stdout. */
static void run(struct probe *p, const struct executor_sandbox_spec *spec, char **argv, int argc,
                bool as_root, bool tty, int in)
{
    static const char *const env[] = {
        "PATH=/opt/cordium/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/home/sandbox",
        "LANG=C.UTF-8", "TERM=xterm"};
    struct error err;
    struct executor_run_spec r = {
        .sandbox = spec->id,
        .argv = (const char *const *)argv,
        .argc = (size_t)argc,
        .env = env,
        .env_count = 4,
        .cwd = spec->profile == EXECUTOR_PROFILE_BUILD ? "/build" : "/workspace",
        .uid = as_root ? 0 : spec->uid,
        .gid = as_root ? 0 : spec->gid,
        .flags = EXECUTOR_RUN_KILL_TREE_ON_EXIT | (tty ? EXECUTOR_RUN_TTY : 0u),
        .columns = 80,
        .rows = 24,
        .fds = {in, 1, 2},
    };
    p->exited = false;
    need(p, executor_run_start(p->client, &r, callback(p), &err), &err, "run");
    int master = p->reply.started.pty_fd;
    if (master >= 0) {
        char piece[4096];
        ssize_t n;
        fcntl(master, F_SETFL, 0);
        while ((n = read(master, piece, sizeof piece)) > 0) {
            (void)!write(1, piece, (size_t)n);
        }
        close(master);
    }
    pump(p, &p->exited);
}

static int report(const struct probe *p)
{
    const struct executor_run_exit *e = &p->exit;
    fprintf(stderr,
            "stage %d errno %d status %#x oom %u/%u denied %u killed %d reason %d; user %llu us, "
            "system %llu us, peak %llu KiB, wall %llu us\n",
            (int)e->stage, e->error_number, (unsigned)e->wait_status, e->oom_kills,
            e->sandbox_oom_kills, e->pids_denied, e->killed_by_us, (int)e->kill_reason,
            (unsigned long long)e->cpu_user_us, (unsigned long long)e->cpu_system_us,
            (unsigned long long)e->memory_peak_bytes / 1024, (unsigned long long)e->wall_ns / 1000);
    return e->stage ? 127 : WIFEXITED(e->wait_status) ? WEXITSTATUS(e->wait_status) : 128;
}

static int do_import(struct probe *p, const char *tar)
{
    struct error err;
    struct executor_sandbox_spec spec = default_spec();
    struct executor_digest image;
    char *argv[] = {"/bin/sh", "-c",
                    "mkdir -p /build/out/rootfs && tar -xf - -C /build/out/rootfs --numeric-owner "
                    "--delay-directory-restore"};
    AUTO_FD int in = open(tar, O_RDONLY | O_CLOEXEC);
    spec.profile = EXECUTOR_PROFILE_BUILD;
    spec.uid = 0;
    spec.gid = 0;
    spec.want_proxy_socket = false;
    create(p, &spec);
    run(p, &spec, argv, 3, true, false, in);
    int status = report(p);
    if (status != 0) {
        return status;
    }
    if (getrandom(image.bytes, sizeof image.bytes, 0) != sizeof image.bytes) {
        return 1;
    }
    need(p, executor_image_commit(p->client, &spec.id, &image, callback(p), &err), &err, "commit");
    fprintf(stderr, "image of %llu bytes\n", (unsigned long long)p->reply.committed.size_bytes);
    for (size_t i = 0; i < sizeof image.bytes; i++) {
        printf("%02x", image.bytes[i]);
    }
    printf("\n");
    return 0;
}

static bool read_image(const char *text, struct executor_digest *ret)
{
    for (size_t i = 0; i < sizeof ret->bytes; i++) {
        unsigned v;
        if (sscanf(text + 2 * i, "%2x", &v) != 1) {
            return false;
        }
        ret->bytes[i] = (uint8_t)v;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t percentile(uint64_t *values, int n, int percent)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[(n - 1) * percent / 100] / 1000;
}

static int do_bench(struct probe *p, const char *image, int n, char **argv, int argc)
{
    uint64_t *t[4];
    static const char *const names[] = {"create", "run", "destroy", "total"};
    for (int k = 0; k < 4; k++) {
        t[k] = calloc((size_t)n, sizeof **t);
    }
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = -5; i < n; i++) {
        struct executor_sandbox_spec spec = default_spec();
        spec.want_proxy_socket = false;
        if (!read_image(image, &spec.image)) {
            return 2;
        }
        uint64_t a = now_ns();
        create(p, &spec);
        uint64_t b = now_ns();
        run(p, &spec, argv, argc, false, false, null_fd);
        uint64_t c = now_ns();
        destroy(p, &spec);
        uint64_t d = now_ns();
        if (p->exit.stage || p->exit.wait_status) {
            report(p);
        }
        if (i >= 0) {
            t[0][i] = b - a;
            t[1][i] = c - b;
            t[2][i] = d - c;
            t[3][i] = d - a;
        }
        usleep(5000); /* the pools fill while nobody asks */
    }
    for (int k = 0; k < 4; k++) {
        printf("%-8s median %6llu us, p90 %6llu us\n", names[k],
               (unsigned long long)percentile(t[k], n, 50),
               (unsigned long long)percentile(t[k], n, 90));
        free(t[k]);
    }
    return 0;
}

/* How long the daemon leaves somebody waiting who asks next to nothing. */
static int do_ping(struct probe *p, int n)
{
    struct executor_digest image = {{1}};
    struct error err;
    uint64_t slowest = 0;
    for (int i = 0; i < n; i++) {
        uint64_t before = now_ns();
        need(p, executor_image_exists(p->client, &image, callback(p), &err), &err, "ping");
        uint64_t took = now_ns() - before;
        slowest = took > slowest ? took : slowest;
        (void)usleep(500);
    }
    printf("slowest %llu us\n", (unsigned long long)slowest / 1000);
    return 0;
}

static int do_run(struct probe *p, char **argv, bool is_build)
{
    struct executor_sandbox_spec spec = default_spec();
    bool as_root = is_build, tty = false;
    int i = 0;
    for (; argv[i] && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-w") == 0) {
            spec.root_read_only = false;
        } else if (strcmp(argv[i], "-r") == 0) {
            as_root = true;
            spec.capabilities = UINT64_MAX;
        } else if (strcmp(argv[i], "-t") == 0) {
            tty = true;
        } else if (strcmp(argv[i], "-n") == 0) {
            spec.network = (struct executor_network){.mode = EXECUTOR_NETWORK_RULES,
                                                     .default_allow_public = true};
        } else if (strcmp(argv[i], "-m") == 0 && argv[i + 1]) {
            spec.limits.memory_bytes = strtoull(argv[++i], NULL, 10) << 20;
        } else if (strcmp(argv[i], "-d") == 0 && argv[i + 1]) {
            spec.limits.disk_bytes = strtoull(argv[++i], NULL, 10) << 20;
        } else if (strcmp(argv[i], "-i") == 0 && argv[i + 1]) {
            spec.limits.inodes = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "-c") == 0 && argv[i + 1]) {
            spec.limits.cpu_millicores = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "-p") == 0 && argv[i + 1]) {
            spec.limits.pids = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!read_image(argv[i], &spec.image)) {
            fprintf(stderr, "'%s'?\n", argv[i]);
            return 2;
        }
    }
    if (!argv[i] || !argv[i + 1]) {
        return 2;
    }
    if (is_build) {
        spec.profile = EXECUTOR_PROFILE_BUILD;
        spec.want_proxy_socket = false;
        spec.uid = 0;
        spec.gid = 0;
        spec.limits.disk_bytes = UINT64_C(8) << 30;
        spec.limits.memory_bytes = UINT64_C(2) << 30;
        spec.limits.pids = 1024;
        spec.network.mode = executor_client_host(p->client)->has_network ? EXECUTOR_NETWORK_BUILD
                                                                         : EXECUTOR_NETWORK_NONE;
    }
    int argc = 0;
    while (argv[i + 1 + argc]) {
        argc++;
    }
    create(p, &spec);
    run(p, &spec, argv + i + 1, argc, as_root, tty, 0);
    int status = report(p);
    destroy(p, &spec);
    return status;
}

struct id_listing {
    struct probe *probe;
    uint32_t count;
    uint32_t total;
};

/* The ids of a page are there only during the call. */
static void on_ids(void *context, const struct executor_reply *reply)
{
    struct id_listing *l = context;
    const struct executor_list *page = &reply->list;
    l->probe->done = true;
    l->probe->reply.err = reply->err;
    if (reply->err.status) {
        return;
    }
    for (uint32_t i = 0; i < page->count * page->id_bytes; i++) {
        printf("%02x%s", page->ids[i], (i + 1) % page->id_bytes ? "" : "\n");
    }
    l->count += page->count;
    l->total = page->count > 0 ? page->total : l->count;
}

static int do_list(struct probe *p, const char *what)
{
    static const char *const kinds[] = {[EXECUTOR_LIST_SANDBOXES] = "sandboxes",
                                        [EXECUTOR_LIST_STORAGES] = "storages",
                                        [EXECUTOR_LIST_IMAGES] = "images"};
    struct id_listing l = {.probe = p};
    struct error err;
    unsigned kind = 0;
    while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind], what) != 0) {
        kind++;
    }
    if (kind == sizeof kinds / sizeof *kinds) {
        fprintf(stderr, "list '%s'?\n", what);
        return 2;
    }
    do {
        p->done = false;
        need(p,
             executor_list(p->client, (enum executor_list_kind)kind, l.count,
                           (struct executor_callback){on_ids, &l}, &err),
             &err, "list");
    } while (l.count < l.total);
    return 0;
}

int main(int argc, char **argv)
{
    struct probe p = {0};
    struct error err;
    const struct executor_client_events events = {.run_exited = on_exit_event,
                                                  .sandbox_gone = on_gone,
                                                  .disconnected = on_disconnect,
                                                  .context = &p};
    if (argc < 4) {
        fprintf(stderr, "see the head of tests/tools/executor_probe.c\n");
        return 2;
    }
    if (executor_client_connect(argv[1], 2000, &events, &p.client, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int status = 2;
    if (strcmp(argv[2], "import") == 0) {
        status = do_import(&p, argv[3]);
    } else if (strcmp(argv[2], "run") == 0 || strcmp(argv[2], "build") == 0) {
        status = do_run(&p, argv + 3, strcmp(argv[2], "build") == 0);
    } else if (strcmp(argv[2], "ping") == 0) {
        status = do_ping(&p, atoi(argv[3]));
    } else if (strcmp(argv[2], "bench") == 0 && argc > 6) {
        status = do_bench(&p, argv[3], atoi(argv[4]), argv + 6, argc - 6);
    } else if (strcmp(argv[2], "list") == 0) {
        status = do_list(&p, argv[3]);
    }
    executor_client_close(p.client);
    return status;
}
