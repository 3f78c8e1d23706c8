#include "tests/bench/executor_side.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { CONNECT_TIMEOUT_MS = 2000 };

struct executor_side {
    struct executor_client *client;
    struct executor_digest image;
    bool is_answered;
    bool has_exited;
    bool is_lost;
    struct executor_reply reply;
    struct executor_run_exit exit;
};

static void on_exited(void *context, const struct executor_run_exit *event)
{
    struct executor_side *e = context;
    e->has_exited = true;
    e->exit = *event;
}

static void on_gone(void *context, const struct executor_sandbox_gone *event)
{
    (void)context;
    (void)event; /* of others too */
}

static void on_lost(void *context, const struct error *why)
{
    struct executor_side *e = context;
    (void)why;
    e->is_lost = true;
}

static void on_reply(void *context, const struct executor_reply *reply)
{
    struct executor_side *e = context;
    e->is_answered = true;
    e->reply = *reply;
}

static struct executor_callback expect(struct executor_side *e)
{
    e->is_answered = false;
    return (struct executor_callback){on_reply, e};
}

static int wait_for(struct executor_side *e, const bool *until, struct error *err)
{
    while (!*until && !e->is_lost) {
        struct pollfd fd = {.fd = executor_client_fd(e->client),
                            .events = executor_client_poll_events(e->client)};
        (void)poll(&fd, 1, -1);
        (void)executor_client_dispatch(e->client);
    }
    return e->is_lost ? error_set(err, STATUS_UNAVAILABLE, "the executor went away") : 0;
}

/* rc is what the request function returned. */
static int answer(struct executor_side *e, int rc, struct error *err)
{
    rc = rc ? rc : wait_for(e, &e->is_answered, err);
    if (!rc && e->reply.err.status) {
        *err = e->reply.err;
        rc = -err->status;
    }
    return rc;
}

static void on_list(void *context, const struct executor_reply *reply)
{
    struct executor_side *e = context;
    if (reply->err.status == 0 && reply->list.count > 0) {
        memcpy(e->image.bytes, reply->list.ids, sizeof e->image.bytes);
    }
    on_reply(context, reply);
}

static int find_image(struct executor_side *e, struct error *err)
{
    e->is_answered = false;
    int rc = answer(e,
                    executor_list(e->client, EXECUTOR_LIST_IMAGES, 0,
                                  (struct executor_callback){on_list, e}, err),
                    err);
    if (!rc && e->reply.list.count == 0) {
        rc = error_set(err, STATUS_NOT_FOUND, "the executor has no image");
    }
    return rc;
}

int executor_side_new(const char *socket_path, uint32_t gateway_uid, struct executor_side **ret,
                      struct error *err)
{
    struct executor_side *e = calloc(1, sizeof *e);
    if (!e) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    const struct executor_client_events events = {
        .run_exited = on_exited, .sandbox_gone = on_gone, .disconnected = on_lost, .context = e};
    if (seteuid(gateway_uid) == -1) {
        free(e);
        return error_set_errno(err, STATUS_PERMISSION_DENIED, errno, "take the gateway's identity");
    }
    int rc = executor_client_connect(socket_path, CONNECT_TIMEOUT_MS, &events, &e->client, err);
    if (seteuid(0) == -1) {
        abort();
    }
    rc = rc ? rc : find_image(e, err);
    if (rc) {
        executor_side_free(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void executor_side_free(struct executor_side *e)
{
    if (e) {
        executor_client_close(e->client);
        free(e);
    }
}

static int random_id(struct executor_uuid *ret, struct error *err)
{
    return getrandom(ret->bytes, sizeof ret->bytes, 0) == (ssize_t)sizeof ret->bytes
               ? 0
               : error_set_errno(err, STATUS_INTERNAL, errno, "get random bytes");
}

/* As the gateway asks for the workspace of the benchmark's template. */
static int make_spec(const struct executor_side *e, struct executor_sandbox_spec *ret,
                     struct error *err)
{
    *ret = (struct executor_sandbox_spec){
        .profile = EXECUTOR_PROFILE_WORKSPACE,
        .image = e->image,
        .storage_is_ephemeral = true,
        .limits = {.memory_bytes = UINT64_C(256) << 20,
                   .disk_bytes = UINT64_C(200) << 20,
                   .cpu_millicores = 1000,
                   .pids = 1024},
        .root_read_only = true,
        .uid = 1000,
        .gid = 1000,
        .home = "/home/octelium",
        .hostname = "",
        .want_proxy_socket = true,
    };
    int rc = random_id(&ret->id, err);
    return rc ? rc : random_id(&ret->storage, err);
}

static int run(struct executor_side *e, const struct executor_uuid *sandbox,
               const char *const *argv, size_t argc, struct error *err)
{
    static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/octelium"};
    AUTO_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const struct executor_run_spec spec = {
        .sandbox = *sandbox,
        .argv = argv,
        .argc = argc,
        .env = env,
        .env_count = sizeof env / sizeof env[0],
        .cwd = "/workspace",
        .uid = 1000,
        .gid = 1000,
        .fds = {null_fd, null_fd, null_fd},
    };
    e->has_exited = false;
    int rc = answer(e, executor_run_start(e->client, &spec, expect(e), err), err);
    rc = rc ? rc : wait_for(e, &e->has_exited, err);
    if (!rc && (e->exit.stage != EXECUTOR_STAGE_RAN || e->exit.wait_status != 0)) {
        rc = error_set(err, STATUS_FAILED_PRECONDITION, "%s: stage %d, status %#x", argv[0],
                       (int)e->exit.stage, (unsigned)e->exit.wait_status);
    }
    return rc;
}

int executor_side_cycle(struct executor_side *e, const char *const *argv, size_t argc,
                        struct executor_side_times *times, struct error *err)
{
    struct executor_sandbox_spec spec;
    int rc = make_spec(e, &spec, err);
    uint64_t began = clock_ns();
    rc = rc ? rc : answer(e, executor_sandbox_create(e->client, &spec, expect(e), err), err);
    if (rc) {
        return rc;
    }
    fd_close(&e->reply.created.proxy_fd);
    uint64_t created = clock_ns();
    rc = run(e, &spec.id, argv, argc, err);
    uint64_t ran = clock_ns();
    int destroyed =
        answer(e, executor_sandbox_destroy(e->client, &spec.id, true, expect(e), err), err);
    uint64_t ended = clock_ns();
    samples_add(&times->create, created - began);
    samples_add(&times->run, ran - created);
    samples_add(&times->destroy, ended - ran);
    samples_add(&times->total, ended - began);
    return rc ? rc : destroyed;
}
