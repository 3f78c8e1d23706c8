/* cordium-image: makes the files of an image, inside a build sandbox. See README.md beside this. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/image/account.h"
#include "executor/image/dockerfile.h"
#include "executor/image/engine.h"
#include "executor/image/image_config.h"
#include "executor/image/rootfs.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"

static const char USAGE[] =
    "usage: cordium-image build [options]             Dockerfile on standard input\n"
    "       cordium-image pull [options] REFERENCE    from a registry\n"
    "       cordium-image prepare ROOTFS              only what a workspace needs of a tree\n"
    "       cordium-image clean [--directory DIR]     removes layers kept by --keep-work\n"
    "\n"
    "Leaves the files in DIR/out/rootfs, logs to standard error, and ends with one line of JSON\n"
    "on standard output. Exit code 0, 1 when it failed, 2 for wrong usage.\n"
    "\n"
    "  --directory DIR        where to work (default /build)\n"
    "  --dockerfile FILE      instead of standard input\n"
    "  --context DIR          for COPY and ADD (default an empty one)\n"
    "  --keep-work            keep the layers in DIR/work, for the next build of the same "
    "template\n"
    "  --mirror PREFIX=LOCATION[,insecure]\n"
    "                         ask LOCATION first for images of PREFIX (\"docker.io\")\n"
    "  --ca-bundle FILE       certificates that registries and RUN steps trust\n"
    "  --build-env NAME=VALUE environment of RUN steps; not kept in the image\n"
    "  --add-host NAME:IP     an entry of /etc/hosts during RUN steps\n"
    "\n"
    "http_proxy, https_proxy and no_proxy in the environment count for pulls and RUN steps.\n"
    "CORDIUM_IMAGE_CREDENTIALS=USER:PASSWORD logs in to the registry of a pull.\n";

enum { ARENA_BYTES_MAX = 32 << 20, RESULT_MAX = 8 << 20 };

struct job {
    struct engine_options engine;
    const char *dockerfile;
    const char *context;
    bool keep_work;
    struct arena arena;
    struct build_log log;
    const char *image;
    struct account account;
    uint64_t bytes;
    uint64_t files;
    struct buf inspected;
};

static int usage_error(const char *text, const char *what)
{
    (void)fprintf(stderr, "cordium-image: %s%s\n%s", text, what, USAGE);
    return 2;
}

static bool item_add(const char **items, size_t *count, const char *item)
{
    if (*count == ENGINE_ITEMS_MAX) {
        return false;
    }
    items[(*count)++] = item;
    return true;
}

/* 0, or the exit code for wrong usage. */
static int parse_options(struct job *job, int argc, char **argv)
{
    static const struct option OPTIONS[] = {
        {"directory", required_argument, NULL, 'd'},
        {"dockerfile", required_argument, NULL, 'f'},
        {"context", required_argument, NULL, 'c'},
        {"keep-work", no_argument, NULL, 'k'},
        {"mirror", required_argument, NULL, 'm'},
        {"ca-bundle", required_argument, NULL, 'a'},
        {"build-env", required_argument, NULL, 'e'},
        {"add-host", required_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct engine_options *o = &job->engine;
    bool fits = true;

    o->directory = "/build";
    o->credentials = getenv("CORDIUM_IMAGE_CREDENTIALS");
    for (int c; (c = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (c) {
        case 'd':
            o->directory = optarg;
            break;
        case 'f':
            job->dockerfile = optarg;
            break;
        case 'c':
            job->context = optarg;
            break;
        case 'k':
            job->keep_work = true;
            break;
        case 'm':
            fits = fits && item_add(o->mirrors, &o->mirror_count, optarg);
            break;
        case 'a':
            o->ca_bundle = optarg;
            break;
        case 'e':
            fits = fits && item_add(o->variables, &o->variable_count, optarg);
            break;
        case 'h':
            fits = fits && item_add(o->hosts, &o->host_count, optarg);
            break;
        default:
            return usage_error("", "");
        }
    }
    if (!fits) {
        return usage_error("too many mirrors, variables or hosts", "");
    }
    return o->directory[0] == '/' ? 0 : usage_error("--directory must be absolute", "");
}

static uint64_t now_ms(void)
{
    return clock_now_ns() / 1000000;
}

static int read_dockerfile(const struct job *job, struct buf *ret, struct error *err)
{
    AUTO_FD int own = job->dockerfile ? open(job->dockerfile, O_RDONLY | O_CLOEXEC) : -1;
    int fd = job->dockerfile ? own : STDIN_FILENO;

    buf_init(ret, DOCKERFILE_MAX + 1);
    for (;;) {
        uint8_t *room = buf_reserve(ret, 4096);
        ssize_t n = room ? read(fd, room, 4096) : -1;
        if (!room) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Dockerfile is larger than %d bytes",
                             DOCKERFILE_MAX);
        }
        if (n == -1 && errno != EINTR) {
            return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "read the Dockerfile");
        }
        if (n == 0) {
            return 0;
        }
        ret->len += n > 0 ? (size_t)n : 0;
    }
}

/* What a workspace needs of the tree, and what is known of it afterwards. */
static int prepare(struct job *job, int root_fd, struct error *err)
{
    uint64_t start = now_ms();

    /* Devices go first, so that nothing later opens one. */
    int r = rootfs_sweep(root_fd, &job->bytes, &job->files, err);
    if (r == 0) {
        r = rootfs_make_mount_points(root_fd, err);
    }
    if (r == 0) {
        r = account_choose(root_fd, &job->arena, &job->account, err);
    }
    if (r == 0) {
        (void)fprintf(stderr, "PREPARED %llu files, %llu bytes, user %s (%llu ms)\n",
                      (unsigned long long)job->files, (unsigned long long)job->bytes,
                      job->account.user, (unsigned long long)(now_ms() - start));
    }
    return r;
}

static int export_and_prepare(struct job *job, struct engine *engine, struct error *err)
{
    AUTO_FD int root_fd = -1;
    uint64_t start = now_ms();

    int r = engine_inspect(engine, job->image, &job->log, &job->inspected, err);
    if (r == 0) {
        r = engine_export(engine, job->image, &job->log, &root_fd, err);
    }
    if (r < 0) {
        return r;
    }
    (void)fprintf(stderr, "EXPORTED %s (%llu ms)\n", job->image,
                  (unsigned long long)(now_ms() - start));
    return prepare(job, root_fd, err);
}

static int make(struct job *job, const char *reference, struct error *err)
{
    struct engine *engine;
    struct buf dockerfile;

    buf_init(&dockerfile, 1);
    int r = reference ? 0 : read_dockerfile(job, &dockerfile, err);
    if (r == 0) {
        r = engine_open(&job->engine, &job->arena, &engine, err);
    }
    if (r == 0) {
        r = reference ? engine_pull(engine, reference, &job->log, &job->image, err)
                      : engine_build(engine, buf_str(&dockerfile), job->context, &job->log,
                                     &job->image, err);
    }
    buf_free(&dockerfile);
    if (r < 0) {
        return r;
    }
    build_log_init(&job->log, 0); /* what fails from here on is no step of the author's */
    r = export_and_prepare(job, engine, err);
    if (r == 0 && job->keep_work) {
        engine_prune(engine, &job->log);
    } else if (r == 0) {
        r = engine_remove_work(job->engine.directory, err);
    }
    return r;
}

static int prepare_tree(struct job *job, const char *path, struct error *err)
{
    AUTO_FD int root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (root_fd == -1) {
        return error_set_errno(err, STATUS_INVALID_ARGUMENT, errno, "open %s", path);
    }
    return prepare(job, root_fd, err);
}

static int print_result(struct job *job, uint64_t start_ms, struct error *err)
{
    struct image_config *config = NULL;
    struct buf out;
    int r = 0;

    if (job->inspected.len > 0) {
        r = image_config_parse(buf_str(&job->inspected), &config, err);
    }
    if (r < 0) {
        return r;
    }
    struct image_result result = {.config = config,
                                  .account = &job->account,
                                  .digest = job->image ? job->image : "",
                                  .size_bytes = job->bytes,
                                  .file_count = job->files,
                                  .build_ms = now_ms() - start_ms};
    buf_init(&out, RESULT_MAX);
    image_result_write(&out, &result);
    if (out.failed) {
        r = error_set(err, STATUS_RESOURCE_EXHAUSTED, "the image's configuration is too large");
    } else {
        (void)fwrite(out.ptr, 1, out.len, stdout);
        r = fflush(stdout) == 0 ? 0 : error_set(err, STATUS_INTERNAL, "standard output is closed");
    }
    buf_free(&out);
    image_config_free(config);
    return r;
}

static void print_failure(const struct job *job, const struct error *err)
{
    struct buf out;

    (void)fprintf(stderr, "cordium-image: %s\n", err->text);
    for (unsigned i = 0; build_log_kept(&job->log, i); i++) {
        (void)fprintf(stderr, "    %s\n", build_log_kept(&job->log, i));
    }
    buf_init(&out, RESULT_MAX);
    image_failure_write(&out, err, &job->log);
    (void)fwrite(out.ptr, 1, out.failed ? 0 : out.len, stdout);
    (void)fflush(stdout);
    buf_free(&out);
}

static int run_job(struct job *job, const char *command, const char *argument)
{
    uint64_t start_ms = now_ms();
    struct error err = {0};
    int r;

    arena_init(&job->arena, ARENA_BYTES_MAX);
    buf_init(&job->inspected, 1);
    build_log_init(&job->log, 0);
    if (strcmp(command, "clean") == 0) {
        r = engine_remove_work(job->engine.directory, &err);
    } else {
        r = strcmp(command, "prepare") == 0 ? prepare_tree(job, argument, &err)
                                            : make(job, argument, &err);
        r = r == 0 ? print_result(job, start_ms, &err) : r;
    }
    if (r < 0) {
        print_failure(job, &err);
    }
    buf_free(&job->inspected);
    arena_free(&job->arena);
    return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    const char *command = argc > 1 ? argv[1] : "";

    (void)signal(SIGPIPE, SIG_IGN); /* a reader that left does not end a build half-way */
    (void)umask(0);
    if (strcmp(command, "--help") == 0) {
        (void)fputs(USAGE, stdout);
        return 0;
    }
    bool takes_argument = strcmp(command, "pull") == 0 || strcmp(command, "prepare") == 0;
    if (!takes_argument && strcmp(command, "build") != 0 && strcmp(command, "clean") != 0) {
        return usage_error("unknown command ", command);
    }
    int r = parse_options(&job, argc - 1, argv + 1);
    if (r != 0) {
        return r;
    }
    /* optind counts from argv + 1. */
    if (argc - 1 - optind != (takes_argument ? 1 : 0)) {
        return usage_error("wrong number of arguments for ", command);
    }
    return run_job(&job, command, takes_argument ? argv[1 + optind] : NULL);
}
