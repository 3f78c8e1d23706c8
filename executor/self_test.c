#include "executor/self_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "executor/proc/clock.h"
#include "executor/proc/fd.h"

enum {
    TIMEOUT_S = 20, /* it takes some 20 ms, and under an emulator seconds */
    ROUND_MS = 100,
    USER_ID = 1000,
    PROGRAM_BYTES_MAX = 64 << 20,
    PIDS = 8,
    MEMORY_BYTES = 16 << 20,
    DISK_BYTES = 16 << 20,
    SHM_BYTES = 4096,
};

#define HOSTNAME "self-test"

/* Ids that no client may have: it would take them from a digest, or at random. */
static const struct executor_digest image_id = {"cordium self-test: its image...."};
static const struct executor_uuid sandbox_id = {"cordium selftest"};

static const struct {
    const char *title;
    const char *remedy;
    uint32_t attackers;
} layers[] = {
#define LAYER(name, title, attackers, remedy) {(title), (remedy), (attackers)},
#include "executor/init/self_test.def"
};

struct trial {
    struct executor *ex;
    struct executor_client *client;
    struct self_test_order order;
    int listener;
    int host_file;
    void *shm;
    uint64_t deadline_ns;
    bool has_reply;
    struct executor_reply reply;
    bool has_exited;
    struct executor_run_exit exit;
};

const char *self_test_layer_title(enum self_test_layer layer)
{
    return layers[layer].title;
}

const char *self_test_layer_remedy(enum self_test_layer layer)
{
    return layers[layer].remedy;
}

static void handle_reply(void *context, const struct executor_reply *reply)
{
    struct trial *t = context;
    t->reply = *reply;
    t->has_reply = true;
}

static void handle_exit(void *context, const struct executor_run_exit *event)
{
    struct trial *t = context;
    t->exit = *event;
    t->has_exited = true;
}

/* Serves ourselves until *flag is true. */
static int wait_for(struct trial *t, const bool *flag, const char *what, struct error *err)
{
    while (!*flag) {
        if (clock_now_ns() > t->deadline_ns) {
            return error_set(err, STATUS_FAILED_PRECONDITION, "%s takes over %d s", what,
                             TIMEOUT_S);
        }
        (void)executor_handle_events(t->ex, ROUND_MS);
        if (executor_client_dispatch(t->client) < 0 && !*flag) {
            return error_set(err, STATUS_INTERNAL, "%s: our own connection broke", what);
        }
    }
    return 0;
}

static int wait_for_reply(struct trial *t, int sent, const char *what, struct error *err)
{
    int r = sent < 0 ? sent : wait_for(t, &t->has_reply, what, err);
    t->has_reply = false;
    if (r == 0 && t->reply.err.status != 0) {
        r = error_set(err, STATUS_FAILED_PRECONDITION, "%s: %s", what, t->reply.err.text);
    }
    return r;
}

/* Abstract and in the host's network namespace; its name is nobody else's. */
static int open_listener(struct trial *t)
{
    uint8_t random[8];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return -errno;
    }
    uint64_t number;
    memcpy(&number, random, sizeof number);
    int n = snprintf(t->order.socket_name, sizeof t->order.socket_name, "cordium-%016llx",
                     (unsigned long long)number);
    memcpy(addr.sun_path + 1, t->order.socket_name, (size_t)n);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return t->listener == -1 || bind(t->listener, (const struct sockaddr *)&addr, size) == -1 ||
                   listen(t->listener, 1) == -1
               ? -errno
               : 0;
}

/* Removed while attached, so that it goes with us; until then its id is good for everybody. */
static int open_shared_memory(struct trial *t)
{
    t->order.shm_id = shmget(IPC_PRIVATE, SHM_BYTES, IPC_CREAT | 0666);
    if (t->order.shm_id == -1) {
        return errno == ENOSYS ? 0 : -errno; /* a kernel without it: nothing to reach */
    }
    t->shm = shmat(t->order.shm_id, NULL, 0);
    int saved = errno;
    (void)shmctl(t->order.shm_id, IPC_RMID, NULL);
    return t->shm == (void *)-1 ? -saved : 0;
}

/* In the state directory, which nobody but us can enter: what keeps the attacker from writing to it
 * is neither mode nor owner. Its name is gone at once. */
static int open_host_file(struct trial *t)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/self-test", t->ex->config->state_dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        return -ENAMETOOLONG;
    }
    t->host_file = open(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = t->host_file == -1 || fchmod(t->host_file, 0666) == -1 ? -errno : 0;
    (void)unlink(path);
    return r;
}

static int read_namespaces(struct trial *t)
{
    static const char *const names[] = SELF_TEST_NAMESPACE_NAMES;
    char path[64];
    struct stat st;
    for (size_t i = 0; i < SELF_TEST_NAMESPACES; i++) {
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        if (stat(path, &st) == -1) {
            return -errno;
        }
        t->order.namespaces[i] = st.st_ino;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", t->ex->launchers[0].pid);
    if (stat(path, &st) == -1) {
        return -errno;
    }
    t->order.launcher_mnt = st.st_ino;
    return 0;
}

/* What of the host the attacker is to reach. */
static int lay_out_host(struct trial *t, struct error *err)
{
    static const struct {
        const char *name;
        int (*run)(struct trial *t);
    } steps[] = {{"an abstract socket", open_listener},
                 {"shared memory", open_shared_memory},
                 {"a file in state_dir", open_host_file},
                 {"the names of our namespaces", read_namespaces}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        int r = steps[i].run(t);
        if (r < 0) {
            return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r, "%s", steps[i].name);
        }
    }
    return 0;
}

static int copy_program(const char *from, int root)
{
    AUTO_FD int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_FD int out =
        openat(root, SELF_TEST_PROGRAM + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    struct stat st;
    if (in == -1 || out == -1 || fstat(in, &st) == -1) {
        return -errno;
    }
    off_t left = st.st_size;
    while (left > 0 && left <= PROGRAM_BYTES_MAX) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0) {
            return n == 0 ? -EIO : -errno;
        }
        left -= n;
    }
    return left == 0 ? 0 : -EFBIG;
}

/* The smallest image: places for mounts, the attacker, and a device that must not open. */
static int fill_image(int dir, const char *launcher)
{
    static const char *const directories[] = {"out/rootfs", "dev",       "proc", "tmp",
                                              "var",        "var/tmp",   "run",  "etc",
                                              "opt",        "workspace", "home", "home/test"};
    AUTO_FD int root = -1;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        if (mkdirat(i == 0 ? dir : root, directories[i], 0755) == -1) {
            return -errno;
        }
        if (i == 0) {
            root = fd_open_beneath(dir, directories[0], O_RDONLY | O_DIRECTORY);
            if (root < 0) {
                return root;
            }
        }
    }
    if (mknodat(root, SELF_TEST_DEVICE + 1, S_IFCHR | 0666, makedev(1, 3)) == -1 ||
        fchmodat(root, SELF_TEST_DEVICE + 1, 0666, 0) == -1) {
        return -errno;
    }
    return copy_program(launcher, root);
}

/* The same for storages. */
static struct image_id own_image(void)
{
    struct image_id id;
    memcpy(id.bytes, image_id.bytes, sizeof id.bytes);
    return id;
}

static void remove_image(struct executor *ex)
{
    const struct image_id id = own_image();
    struct error err;
    if (storage_image_exists(ex->storages, &id)) {
        (void)storage_image_delete(ex->storages, &id, &err);
        executor_wake_reaper(ex);
    }
}

/* As a build's image is made: a storage that is committed. */
static int make_image(struct executor *ex, struct error *err)
{
    const struct image_id id = own_image();
    struct storage_request request = {
        .disk_bytes = DISK_BYTES, .is_build = true, .is_ephemeral = true};
    struct storage *storage = NULL;
    char launcher[4096];
    uint64_t bytes;
    memcpy(request.id.bytes, sandbox_id.bytes, sizeof request.id.bytes);
    launcher_find(ex->config, launcher, sizeof launcher);
    remove_image(ex); /* of a predecessor that was killed */
    int r = storage_open(ex->storages, &request, &storage, err);
    if (r < 0) {
        return r;
    }
    r = fill_image(storage_directory(storage), launcher);
    if (r < 0) {
        storage_close(storage, true);
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r, "make an image of '%s'",
                               launcher);
    }
    return storage_commit(storage, &id, &bytes, err);
}

/* So that the sandbox's first process is one that was forked ahead of need, as a client's is. */
static int prepare_holder(struct trial *t, struct error *err)
{
    struct launcher *l = &t->ex->launchers[0];
    if (l->holder_count == 0 && !holder_pool_fill(l, 1)) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "the launcher takes no order");
    }
    while (l->holder_count > 0 && l->holders[0].pidfd < 0) {
        if (clock_now_ns() > t->deadline_ns) {
            return error_set(err, STATUS_FAILED_PRECONDITION, "the launcher does not fork");
        }
        (void)executor_handle_events(t->ex, ROUND_MS);
    }
    return l->holder_count > 0 ? 0
                               : error_set(err, STATUS_FAILED_PRECONDITION,
                                           "the launcher cannot fork: pids or memory are short");
}

static int connect_to_ourselves(struct trial *t, struct error *err)
{
    const struct executor_client_events events = {.run_exited = handle_exit, .context = t};
    int pair[2];
    if (channel_pair(pair, true) < 0) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no descriptors");
    }
    AUTO_FD int ours = pair[0];
    AUTO_FD int theirs = pair[1];
    if (!connection_open(t->ex, &theirs, MESSAGE_STATE_READY)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    return executor_client_adopt(&ours, &events, &t->client, err);
}

static uint64_t at_most(uint64_t wanted, uint64_t ceiling)
{
    return wanted < ceiling ? wanted : ceiling;
}

static int create_sandbox(struct trial *t, struct error *err)
{
    const struct config *c = t->ex->config;
    const struct executor_sandbox_spec spec = {
        .id = sandbox_id,
        .profile = EXECUTOR_PROFILE_WORKSPACE,
        .image = image_id,
        .storage = sandbox_id,
        .storage_is_ephemeral = true,
        .limits = {.memory_bytes = at_most(MEMORY_BYTES, c->memory_bytes_max),
                   .disk_bytes = at_most(DISK_BYTES, c->disk_bytes_max),
                   .cpu_millicores = (uint32_t)at_most(1000, c->cpu_millicores_max),
                   .pids = (uint32_t)at_most(PIDS, c->pids_max)},
        .root_read_only = true,
        .uid = USER_ID,
        .gid = USER_ID,
        .home = "/home/test",
        .hostname = HOSTNAME,
        .capabilities = UINT64_MAX, /* all that the ceiling allows */
    };
    const struct executor_callback done = {handle_reply, t};
    int r = wait_for_reply(t, executor_sandbox_create(t->client, &spec, done, err),
                           "start its sandbox", err);
    if (r < 0) {
        return r;
    }
    t->order.uid_base = t->reply.created.uid_base;
    t->order.pids = spec.limits.pids;
    t->order.memory_bytes = spec.limits.memory_bytes;
    t->order.disk_bytes = spec.limits.disk_bytes;
    t->order.capabilities = c->capabilities_max;
    t->order.keyring = t->ex->keyring;
    (void)snprintf(t->order.hostname, sizeof t->order.hostname, "%s", HOSTNAME);
    return 0;
}

/* One run of the attacker. What it wrote is in ret_findings, as many as fitted whole. */
static int run_attacker(struct trial *t, enum self_test_attacker attacker,
                        struct self_test_finding ret_findings[SELF_TEST_LAYERS], size_t *ret_count,
                        struct error *err)
{
    static const char *const argv[] = {SELF_TEST_PROGRAM};
    const struct executor_callback done = {handle_reply, t};
    int output[2];
    t->order.attacker = attacker;
    AUTO_FD int order = fd_sealed_memfd("cordium-self-test", &t->order, sizeof t->order);
    if (order < 0 || lseek(order, 0, SEEK_SET) == -1 ||
        pipe2(output, O_CLOEXEC | O_NONBLOCK) == -1) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no descriptors");
    }
    AUTO_FD int ours = output[0];
    AUTO_FD int theirs = output[1];
    uint32_t id = attacker == SELF_TEST_ROOT ? 0 : USER_ID;
    const struct executor_run_spec spec = {
        .sandbox = sandbox_id,
        .argv = argv,
        .argc = 1,
        .cwd = "/",
        .uid = id,
        .gid = id,
        .flags = EXECUTOR_RUN_KILL_TREE_ON_EXIT,
        .fds = {order, theirs, t->host_file},
    };
    t->has_exited = false;
    int r =
        wait_for_reply(t, executor_run_start(t->client, &spec, done, err), "run the attacker", err);
    r = r < 0 ? r : wait_for(t, &t->has_exited, "the attacker", err);
    if (r < 0) {
        return r;
    }
    if (t->exit.stage != EXECUTOR_STAGE_RAN) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, t->exit.error_number,
                               "run the attacker (stage %d)", (int)t->exit.stage);
    }
    ssize_t n = read(ours, ret_findings, SELF_TEST_LAYERS * sizeof *ret_findings);
    *ret_count = n < 0 ? 0 : (size_t)n / sizeof *ret_findings;
    return 0;
}

/* Printable, and as long as it is. */
static void clean_text(char text[SELF_TEST_TEXT_MAX])
{
    text[SELF_TEST_TEXT_MAX - 1] = '\0';
    for (size_t i = 0; text[i]; i++) {
        text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
}

/* The attacker must have said of each of its layers, in order, that it held; anything else is
 * taken as broken. */
static void judge(struct trial *t, enum self_test_attacker attacker,
                  const struct self_test_finding *said, size_t count)
{
    size_t at = 0;
    for (uint32_t i = 0; i < SELF_TEST_LAYERS; i++) {
        struct self_test_finding *layer = &t->ex->layers[i];
        if (!(layers[i].attackers & (uint32_t)attacker)) {
            continue;
        }
        bool was_said = at < count && said[at].layer == i;
        bool is_absent =
            was_said && i == SELF_TEST_LAYER_landlock && said[at].outcome == SELF_TEST_ABSENT;
        bool held = is_absent || (was_said && said[at].outcome == SELF_TEST_HELD);
        layer->layer = i;
        if (layer->outcome == SELF_TEST_UNKNOWN && held) {
            layer->outcome = is_absent ? SELF_TEST_ABSENT : SELF_TEST_HELD;
        } else if (layer->outcome != SELF_TEST_BROKEN && !held) {
            layer->outcome = SELF_TEST_BROKEN;
            (void)snprintf(layer->text, sizeof layer->text, "the attacker did not end here");
            if (was_said) {
                memcpy(layer->text, said[at].text, sizeof layer->text);
            }
            clean_text(layer->text);
        }
        at += was_said;
    }
}

static int attack(struct trial *t, enum self_test_attacker attacker, struct error *err)
{
    struct self_test_finding findings[SELF_TEST_LAYERS] = {0};
    size_t count = 0;
    int r = run_attacker(t, attacker, findings, &count, err);
    if (r == 0) {
        judge(t, attacker, findings, count);
    }
    return r;
}

/* The kernel's own count tells whether the limit was what ended the attacker's child. */
static int check_oom_kill(struct trial *t, struct error *err)
{
    const struct executor_callback done = {handle_reply, t};
    struct self_test_finding *layer = &t->ex->layers[SELF_TEST_LAYER_memory_limit];
    int r = wait_for_reply(t, executor_sandbox_stats(t->client, &sandbox_id, done, err),
                           "read its usage", err);
    if (r == 0 && layer->outcome == SELF_TEST_HELD && t->reply.stats.oom_kills == 0) {
        layer->outcome = SELF_TEST_BROKEN;
        (void)snprintf(layer->text, sizeof layer->text, "no kill is counted for its cgroup");
    }
    return r;
}

static int destroy_sandbox(struct trial *t, struct error *err)
{
    const struct executor_callback done = {handle_reply, t};
    return wait_for_reply(t, executor_sandbox_destroy(t->client, &sandbox_id, true, done, err),
                          "end its sandbox", err);
}

static int refuse_broken(const struct executor *ex, struct error *err)
{
    const struct self_test_finding *first = NULL;
    char others[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < SELF_TEST_LAYERS; i++) {
        const struct self_test_finding *layer = &ex->layers[i];
        if (layer->outcome == SELF_TEST_HELD || layer->outcome == SELF_TEST_ABSENT) {
            continue;
        }
        if (!first) {
            first = layer;
            continue;
        }
        int n = snprintf(others + used, sizeof others - used, "%s'%s'", used ? ", " : "; nor do ",
                         layers[i].title);
        used += n > 0 && (size_t)n < sizeof others - used ? (size_t)n : 0;
    }
    return first ? error_set(err, STATUS_FAILED_PRECONDITION,
                             "layer '%s' does not hold: %s (remedy: %s)%s",
                             layers[first->layer].title, first->text, layers[first->layer].remedy,
                             others)
                 : 0;
}

static int run_trial(struct trial *t, struct error *err)
{
    int r = lay_out_host(t, err);
    r = r < 0 ? r : make_image(t->ex, err);
    r = r < 0 ? r : prepare_holder(t, err);
    r = r < 0 ? r : connect_to_ourselves(t, err);
    r = r < 0 ? r : create_sandbox(t, err);
    r = r < 0 ? r : attack(t, SELF_TEST_USER, err);
    r = r < 0 ? r : attack(t, SELF_TEST_ROOT, err);
    r = r < 0 ? r : check_oom_kill(t, err);
    return r < 0 ? r : destroy_sandbox(t, err);
}

int self_test(struct executor *ex, struct error *err)
{
    uint64_t begin_ns = clock_now_ns();
    struct trial t = {.ex = ex,
                      .listener = -1,
                      .host_file = -1,
                      .shm = (void *)-1,
                      .deadline_ns = begin_ns + TIMEOUT_S * UINT64_C(1000000000)};
    int r = run_trial(&t, err);
    executor_client_close(t.client);
    while (ex->connections) {
        connection_close(ex, ex->connections);
    }
    executor_free_pending(ex);
    remove_image(ex);
    fd_close(&t.listener);
    fd_close(&t.host_file);
    if (t.shm != (void *)-1) {
        (void)shmdt(t.shm);
    }
    ex->self_test_ns = clock_now_ns() - begin_ns;
    return r < 0 ? error_wrap(err, "self-test") : refuse_broken(ex, err);
}
