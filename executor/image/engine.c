#include "executor/image/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/image/dockerfile.h"
#include "executor/image/engine_settings.h"
#include "executor/image/layers.h"
#include "executor/proc/fd.h"

enum { ARGV_MAX = 320, ID_OUTPUT_MAX = 1 << 16, INSPECT_MAX = 4 << 20 };

/* Where RUN steps find the CA bundle. Removed from the image by rootfs_sweep(). */
static const char CA_INSIDE[] = "/run/cordium-build/ca.crt";

/* What the usual programs call the CA bundle: OpenSSL and Go, pip, requests, curl, Node, git,
 * cargo. */
static const char *const CA_VARIABLES[] = {
    "SSL_CERT_FILE",       "PIP_CERT",       "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO"};
enum { CA_VARIABLE_COUNT = sizeof(CA_VARIABLES) / sizeof(CA_VARIABLES[0]) };

struct engine {
    const struct engine_options *options;
    struct arena *arena;
    const char *work; /* DIRECTORY/work */
    int directory_fd;
    const char *driver;
    const char **env;
    const char *names[ENGINE_ITEMS_MAX + CA_VARIABLE_COUNT]; /* of the variables of RUN steps */
    size_t name_count;
};

struct arguments {
    const char *of[ARGV_MAX];
    size_t count;
};

/* The last place stays NULL; the most that our options give fits. */
static void add(struct arguments *a, const char *argument)
{
    if (a->count < ARGV_MAX - 1) {
        a->of[a->count++] = argument;
    }
}

static const char *beneath(const struct engine *e, const char *name)
{
    const char *path = arena_printf(e->arena, "%s/%s", e->work, name);
    return path ? path : "";
}

static int make_directories(int at_fd, const char *const *names, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (mkdirat(at_fd, names[i], 0755) == -1 && errno != EEXIST) {
            return error_set_errno(err, STATUS_INTERNAL, errno, "make the directory %s", names[i]);
        }
    }
    return 0;
}

static const char *variable_name(struct arena *arena, const char *assignment)
{
    return arena_strndup(arena, assignment, strcspn(assignment, "="));
}

/* Names that a Dockerfile's ARG can have. */
static bool is_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && name[n] == 0 && (name[0] < '0' || name[0] > '9');
}

static int collect_names(struct engine *e, struct error *err)
{
    const struct engine_options *o = e->options;

    for (size_t i = 0; i < o->variable_count; i++) {
        const char *name = variable_name(e->arena, o->variables[i]);
        if (!name || !is_name(name) || !strchr(o->variables[i], '=')) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "build variable '%.100s' is not NAME=VALUE", o->variables[i]);
        }
        e->names[e->name_count++] = name;
    }
    for (size_t i = 0; o->ca_bundle && i < CA_VARIABLE_COUNT; i++) {
        e->names[e->name_count++] = CA_VARIABLES[i];
    }
    return 0;
}

/* buildah's own environment. It is inside a user namespace already, and must neither look for
 * /etc/subuid nor write outside its directory, as root does to /var/cache and a user does not. The
 * user must be one that passwd has; it is looked up where HOME is not set. */
static int make_env(struct engine *e, struct error *err)
{
    static const char *const PASSED_ON[] = {"PATH",       "http_proxy",  "https_proxy", "no_proxy",
                                            "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};
    const char *ca = e->options->ca_bundle;
    size_t n = 0;

    e->env = arena_calloc(e->arena, 32, sizeof(*e->env));
    if (!e->env) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    for (size_t i = 0; i < sizeof(PASSED_ON) / sizeof(PASSED_ON[0]); i++) {
        const char *value = getenv(PASSED_ON[i]);
        if (value) {
            e->env[n++] = arena_printf(e->arena, "%s=%s", PASSED_ON[i], value);
        }
    }
    e->env[n++] = "BUILDAH_ISOLATION=chroot";
    e->env[n++] = "_CONTAINERS_USERNS_CONFIGURED=1";
    e->env[n++] = "_CONTAINERS_ROOTLESS_UID=65534";
    e->env[n++] = arena_printf(e->arena, "HOME=%s/home", e->work);
    e->env[n++] = arena_printf(e->arena, "XDG_CONFIG_HOME=%s/home", e->work);
    e->env[n++] = arena_printf(e->arena, "XDG_CACHE_HOME=%s/home", e->work);
    e->env[n++] = arena_printf(e->arena, "XDG_DATA_HOME=%s/home", e->work);
    e->env[n++] = arena_printf(e->arena, "XDG_RUNTIME_DIR=%s/run", e->work);
    e->env[n++] = arena_printf(e->arena, "TMPDIR=%s/tmp", e->work);
    e->env[n++] = arena_printf(e->arena, "CONTAINERS_REGISTRIES_CONF=%s/registries.conf", e->work);
    e->env[n++] = arena_printf(e->arena, "CONTAINERS_STORAGE_CONF=%s/storage.conf", e->work);
    e->env[n++] = arena_printf(e->arena, "CONTAINERS_CONF=%s/containers.conf", e->work);
    if (ca) {
        e->env[n++] = arena_printf(e->arena, "SSL_CERT_FILE=%s", ca);
    }
    e->env[n] = NULL;
    return 0;
}

/* Whether an overlay with its layers in work/ can be mounted here; else buildah copies whole trees
 * from layer to layer, which is slow and works everywhere. */
static const char *choose_driver(const struct engine *e)
{
    static const char *const PROBE[] = {"work/probe", "work/probe/lower", "work/probe/upper",
                                        "work/probe/work", "work/probe/merged"};
    struct error ignored;
    bool works = false;

    char *options = arena_printf(e->arena,
                                 "lowerdir=%s/probe/lower,upperdir=%s/probe/upper,"
                                 "workdir=%s/probe/work,userxattr",
                                 e->work, e->work, e->work);
    if (options && make_directories(e->directory_fd, PROBE, 5, &ignored) == 0) {
        const char *merged = beneath(e, "probe/merged");
        works = mount("overlay", merged, "overlay", 0, options) == 0;
        if (works) {
            (void)umount2(merged, MNT_DETACH);
        }
        AUTO_FD int work = fd_open_beneath(e->directory_fd, "work", O_RDONLY | O_DIRECTORY);
        (void)fd_remove_tree(work, "probe");
    }
    return works ? "overlay" : "vfs";
}

int engine_open(const struct engine_options *options, struct arena *arena, struct engine **ret,
                struct error *err)
{
    static const char *const TREE[] = {"work",         "work/home",    "work/run", "work/tmp",
                                       "work/context", "work/storage", "out"};

    struct engine *e = arena_zalloc(arena, sizeof(*e));
    if (!e) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    e->options = options;
    e->arena = arena;
    e->work = arena_printf(arena, "%s/work", options->directory);
    e->directory_fd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!e->work || e->directory_fd == -1) {
        return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "open the build directory %s",
                               options->directory);
    }
    int r = make_directories(e->directory_fd, TREE, sizeof(TREE) / sizeof(TREE[0]), err);
    if (r == 0) {
        r = collect_names(e, err);
    }
    if (r == 0) {
        r = make_env(e, err);
    }
    if (r == 0) {
        r = engine_settings_write(e->directory_fd, options, err);
    }
    if (r < 0) {
        close(e->directory_fd);
        return r;
    }
    e->driver = choose_driver(e);
    *ret = e;
    return 0;
}

static void begin(const struct engine *e, struct arguments *a, const char *command)
{
    memset(a, 0, sizeof(*a));
    add(a, "buildah");
    add(a, "--root");
    add(a, beneath(e, "storage"));
    add(a, "--runroot");
    add(a, beneath(e, "run"));
    add(a, "--storage-driver");
    add(a, e->driver);
    add(a, command);
}

static int run(const struct engine *e, const struct arguments *a, struct build_log *log,
               struct buf *capture, int *ret_exit_code, struct error *err)
{
    struct command c = {
        .argv = a->of, .env = e->env, .stdin_fd = -1, .log = log, .capture = capture};
    return command_run(&c, ret_exit_code, err);
}

/* An id or a path: the last line of the output. */
static const char *last_line(const struct engine *e, const struct buf *output)
{
    size_t end = output->len;
    while (end > 0 && (output->ptr[end - 1] == '\n' || output->ptr[end - 1] == '\r')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && output->ptr[start - 1] != '\n') {
        start--;
    }
    return arena_strndup(e->arena, (const char *)output->ptr + start, end - start);
}

static const char *last_said(const struct build_log *log)
{
    const char *said = build_log_kept(log, log->kept_count > 0 ? log->kept_count - 1 : 0);
    return said ? said : "it said nothing";
}

/* Runs a command that answers with one line. */
static int ask(const struct engine *e, const struct arguments *a, struct build_log *log,
               const char **ret, struct error *err)
{
    struct buf output;
    int exit_code = 0;

    buf_init(&output, ID_OUTPUT_MAX);
    int r = run(e, a, log, &output, &exit_code, err);
    if (r == 0 && exit_code != 0) {
        r = error_set(err, STATUS_UNKNOWN, "buildah %s failed with exit code %d: %.800s", a->of[7],
                      exit_code, last_said(log));
    }
    if (r == 0) {
        *ret = last_line(e, &output);
        r = *ret ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    buf_free(&output);
    return r;
}

static void add_variables(const struct engine *e, struct arguments *a)
{
    const struct engine_options *o = e->options;

    for (size_t i = 0; i < o->variable_count; i++) {
        add(a, "--build-arg");
        add(a, o->variables[i]);
    }
    for (size_t i = 0; o->ca_bundle && i < CA_VARIABLE_COUNT; i++) {
        add(a, "--build-arg");
        add(a, arena_printf(e->arena, "%s=%s", CA_VARIABLES[i], CA_INSIDE));
    }
    if (o->ca_bundle) {
        add(a, "--volume");
        add(a, arena_printf(e->arena, "%s:%s:ro", o->ca_bundle, CA_INSIDE));
    }
    for (size_t i = 0; i < o->host_count; i++) {
        add(a, "--add-host");
        add(a, o->hosts[i]);
    }
}

static int write_dockerfile(const struct engine *e, struct str text, struct error *err)
{
    struct buf changed;

    buf_init(&changed, 2 * DOCKERFILE_MAX);
    int r = dockerfile_add_args(text, e->names, e->name_count, &changed, err);
    if (r == 0) {
        r = engine_file_write(e->directory_fd, "Dockerfile", &changed, err);
    }
    buf_free(&changed);
    return r;
}

static int step_failed(const struct build_log *log, struct error *err)
{
    if (log->step == 0) {
        return error_set(err, STATUS_UNKNOWN, "the build failed before its first step: %.800s",
                         last_said(log));
    }
    if (log->exit_code != 0) {
        return error_set(err, STATUS_UNKNOWN, "step %u/%u failed with exit code %d: %.800s",
                         log->step, log->step_count, log->exit_code, log->step_text);
    }
    return error_set(err, STATUS_UNKNOWN, "step %u/%u failed: %.300s: %.600s", log->step,
                     log->step_count, log->step_text, last_said(log));
}

int engine_build(struct engine *e, struct str dockerfile, const char *context,
                 struct build_log *log, const char **ret_image, struct error *err)
{
    struct arguments a;
    char id[128] = "";
    int exit_code = 0;

    build_log_init(log, (unsigned)e->name_count);
    int r = write_dockerfile(e, dockerfile, err);
    if (r < 0) {
        return r;
    }
    begin(e, &a, "bud");
    add(&a, "--signature-policy");
    add(&a, beneath(e, "policy.json"));
    add(&a, "--layers");
    add(&a, "--force-rm");
    /* The OCI format has no SHELL and no HEALTHCHECK, and buildah passes over them there. */
    add(&a, "--format");
    add(&a, "docker");
    add(&a, "--iidfile");
    add(&a, beneath(e, "image-id"));
    add(&a, "--tag");
    add(&a, "result");
    add_variables(e, &a);
    add(&a, "--file");
    add(&a, beneath(e, "Dockerfile"));
    add(&a, context ? context : beneath(e, "context"));
    r = run(e, &a, log, NULL, &exit_code, err);
    if (r < 0) {
        return r;
    }
    if (exit_code != 0) {
        return step_failed(log, err);
    }
    AUTO_FD int work = fd_open_beneath(e->directory_fd, "work", O_RDONLY | O_DIRECTORY);
    ssize_t n = fd_read_file(work, "image-id", id, sizeof(id));
    if (n <= 0) {
        return error_set(err, STATUS_INTERNAL, "buildah left no image id");
    }
    id[strcspn(id, "\n")] = 0;
    *ret_image = arena_strdup(e->arena, id);
    return *ret_image ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
}

int engine_pull(struct engine *e, const char *reference, struct build_log *log,
                const char **ret_image, struct error *err)
{
    struct arguments a;
    const char *id;

    build_log_init(log, 0);
    begin(e, &a, "pull");
    add(&a, "--signature-policy");
    add(&a, beneath(e, "policy.json"));
    if (e->options->credentials) {
        add(&a, "--creds");
        add(&a, e->options->credentials);
    }
    /* With its transport, so that no reference can mean a file. */
    add(&a, arena_printf(e->arena, "docker://%s", reference));
    int r = ask(e, &a, log, &id, err);
    if (r < 0) {
        return error_wrap(err, "pull '%.300s'", reference);
    }
    *ret_image = arena_printf(e->arena, "sha256:%s", id);
    return *ret_image ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
}

int engine_inspect(struct engine *e, const char *image, struct build_log *log, struct buf *ret,
                   struct error *err)
{
    struct arguments a;
    int exit_code = 0;

    begin(e, &a, "inspect");
    add(&a, "--type");
    add(&a, "image");
    add(&a, image);
    buf_init(ret, INSPECT_MAX);
    int r = run(e, &a, log, ret, &exit_code, err);
    if (r == 0 && exit_code != 0) {
        r = error_set(err, STATUS_INTERNAL, "buildah inspect failed with exit code %d", exit_code);
    }
    return r;
}

static int copy_tree(const struct engine *e, const char *from, struct build_log *log,
                     struct error *err)
{
    const char *to = arena_printf(e->arena, "%s/out/rootfs", e->options->directory);
    const char *source = arena_printf(e->arena, "%s/.", from);
    const char *argv[] = {"cp", "--archive", "--reflink=auto", "--", source, to, NULL};
    struct command c = {.argv = argv, .stdin_fd = -1, .log = log};
    int exit_code = 0;

    if (!to || !source) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    int r = command_run(&c, &exit_code, err);
    if (r == 0 && exit_code != 0) {
        r = error_set(err, STATUS_RESOURCE_EXHAUSTED,
                      "copying the image's files failed; is the build's disk limit reached? %.600s",
                      last_said(log));
    }
    return r;
}

static int open_output(const struct engine *e, struct error *err)
{
    AUTO_FD int out = fd_open_beneath(e->directory_fd, "out", O_RDONLY | O_DIRECTORY);
    int r = out < 0 ? out : fd_remove_tree(out, "rootfs");

    if (r == 0 || r == -ENOENT) {
        r = mkdirat(out, "rootfs", 0755) == -1 ? -errno : 0;
    }
    if (r == 0) {
        r = fd_open_beneath(out, "rootfs", O_RDONLY | O_DIRECTORY);
    }
    return r < 0 ? error_set_errno(err, STATUS_INTERNAL, -r, "make out/rootfs anew") : r;
}

/* buildah leaves a bind mount of its storage on itself. Files can be linked out of it, and it
 * can be removed, only without. */
static void unmount_storage(const char *directory)
{
    char overlay[4096];

    int n = snprintf(overlay, sizeof(overlay), "%s/work/storage/overlay", directory);
    while (n < (int)sizeof(overlay) && umount2(overlay, MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    }
}

struct container {
    const char *name;
    const char *mounted;
};

static int container_mount(struct engine *e, const char *image, struct build_log *log,
                           struct container *ret, struct error *err)
{
    struct arguments a;

    begin(e, &a, "from");
    add(&a, "--signature-policy");
    add(&a, beneath(e, "policy.json"));
    add(&a, "--pull=false");
    add(&a, image);
    int r = ask(e, &a, log, &ret->name, err);
    if (r < 0) {
        return r;
    }
    begin(e, &a, "mount");
    add(&a, ret->name);
    return ask(e, &a, log, &ret->mounted, err);
}

static void container_remove(struct engine *e, const struct container *c, struct build_log *log)
{
    struct arguments a;
    const char *answer;
    struct error ignored;

    begin(e, &a, "rm");
    add(&a, c->name);
    (void)ask(e, &a, log, &answer, &ignored); /* a mount left ends with the sandbox */
}

/* By links where the storage is an overlay's. *ret_fd is -1 when copying must do it. */
static int export_by_links(struct engine *e, const struct container *c, struct build_log *log,
                           int *ret_fd, struct error *err)
{
    struct layers layers;

    *ret_fd = -1;
    if (strcmp(e->driver, "overlay") != 0 ||
        layers_find(beneath(e, "storage"), c->mounted, e->arena, &layers, err) < 0) {
        return 0;
    }
    container_remove(e, c, log);
    unmount_storage(e->options->directory);
    int root = open_output(e, err);
    if (root < 0) {
        return root;
    }
    if (layers_link(&layers, root, err) < 0) {
        (void)fprintf(stderr, "cordium-image: %s; copying instead\n", err->text);
        fd_close(&root);
    }
    *ret_fd = root;
    return 0;
}

int engine_export(struct engine *e, const char *image, struct build_log *log, int *ret_fd,
                  struct error *err)
{
    struct container c;

    int r = container_mount(e, image, log, &c, err);
    if (r == 0) {
        r = export_by_links(e, &c, log, ret_fd, err);
    }
    if (r < 0 || *ret_fd != -1) {
        return r;
    }
    r = container_mount(e, image, log, &c, err);
    if (r < 0) {
        return r;
    }
    int root = open_output(e, err);
    r = root < 0 ? root : copy_tree(e, c.mounted, log, err);
    container_remove(e, &c, log);
    if (r < 0) {
        fd_close(&root);
        return r;
    }
    *ret_fd = root;
    return 0;
}

void engine_prune(struct engine *e, struct build_log *log)
{
    struct arguments a;
    struct error err;
    const char *answer;

    begin(e, &a, "rm");
    add(&a, "--all");
    int r = ask(e, &a, log, &answer, &err);
    begin(e, &a, "rmi");
    add(&a, "--prune");
    r = r == 0 ? ask(e, &a, log, &answer, &err) : r;
    if (r < 0) {
        (void)fprintf(stderr, "cordium-image: old layers stay: %s\n", err.text);
    }
}

int engine_remove_work(const char *directory, struct error *err)
{
    unmount_storage(directory);
    AUTO_FD int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd == -1 ? -errno : fd_remove_tree(fd, "work");

    if (r < 0 && r != -ENOENT) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "remove %s/work", directory);
    }
    return 0;
}
