/* cp: files and folders between here and a workspace, through programs that every image has. */
#include "gateway/cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/cli/exec_stream.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/local_file.h"
#include "gateway/cli/local_tree.h"

extern char **environ;

/* "WORKSPACE:PATH", or a local path. */
struct place {
    const char *workspace; /* NULL: here */
    const char *path;
    int interrupt_fd; /* readable when the copy is to end: what is half there is removed then */
};

static struct place parse_place(struct cli *cli, const char *text)
{
    const char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');
    if (!colon || colon == text || (slash && slash < colon)) {
        return (struct place){NULL, text, 0};
    }
    return (struct place){cli_printf(cli, "%.*s", (int)(colon - text), text), colon + 1, 0};
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int check_exit(const struct exec_stream *x, const char *what, struct error *err)
{
    return x->exit_code == 0 ? 0
                             : error_set(err, STATUS_FAILED_PRECONDITION,
                                         "%s: the program in the workspace failed (exit code %d)",
                                         what, x->exit_code);
}

/* Starts a local tar with one end of a pipe as its input or output. */
static int spawn_tar(const char *const *argv, int its_fd, int replaces, pid_t *ret,
                     struct error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, its_fd, replaces);
    int e = posix_spawnp(ret, "tar", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e == 0 ? 0 : error_set_errno(err, STATUS_FAILED_PRECONDITION, e, "cannot start 'tar'");
}

static int wait_tar(pid_t pid, struct error *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : error_set(err, STATUS_FAILED_PRECONDITION, "the local 'tar' failed");
}

static int upload_folder(struct cli *cli, const char *from, const struct place *to,
                         struct error *err)
{
    int ends[2];
    pid_t tar = -1;
    struct stat st;
    if (stat(from, &st) == -1) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "cannot open '%s'", from);
    }
    if (!S_ISDIR(st.st_mode)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is no folder: leave -r out", from);
    }
    if (pipe2(ends, O_CLOEXEC) == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "pipe");
    }
    const char *argv[] = {"tar", "-C", from, "-cf", "-", ".", NULL};
    int status = spawn_tar(argv, ends[1], STDOUT_FILENO, &tar, err);
    fd_close(&ends[1]);
    if (status == 0) {
        const char *words[] = {to->path};
        const char *path = exec_quote_words(cli, words, 1);
        struct exec_stream x = {
            .workspace = to->workspace,
            .command = cli_printf(cli, "mkdir -p -- %s && tar -C %s -xf -", path, path),
            .input_fd = ends[0],
            .interrupt_fd = to->interrupt_fd,
        };
        status = exec_stream_run(cli, &x, err);
        status = status == 0 ? check_exit(&x, to->path, err) : status;
    }
    fd_close(&ends[0]);
    if (tar > 0) {
        struct error tar_error;
        int tar_status = wait_tar(tar, &tar_error);
        if (status == 0 && tar_status < 0) {
            *err = tar_error;
            status = tar_status;
        }
    }
    return status;
}

static int upload_file(struct cli *cli, const char *from, const struct place *to, struct error *err)
{
    AUTO_FD int fd = open(from, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd == -1 || fstat(fd, &st) == -1) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "cannot open '%s'", from);
    }
    const char *words[] = {to->path[0] ? to->path : ".", base_name(from)};
    const char *path = exec_quote_words(cli, words, 1);
    const char *name = exec_quote_words(cli, words + 1, 1);
    struct exec_stream x = {
        .workspace = to->workspace,
        .command = cli_printf(
            cli,
            /* A reader sees the old file or the new one, never a part. */
            "t=%s; if [ -d \"$t\" ]; then t=\"$t\"/%s; fi; n=\"$t.part-$$\"; "
            "if cat > \"$n\" && chmod %o \"$n\" && mv -f \"$n\" \"$t\"; then exit 0; fi; "
            "rm -f \"$n\"; exit 1",
            path, name, (unsigned)(st.st_mode & 0777)),
        .input_fd = fd,
        .interrupt_fd = to->interrupt_fd,
    };
    int status = exec_stream_run(cli, &x, err);
    return status < 0 ? status : check_exit(&x, to->path, err);
}

struct sink {
    int fd;
};

static bool write_to_sink(void *state, const uint8_t *bytes, size_t n)
{
    const struct sink *s = state;
    return local_file_write_all(s->fd, str_make(bytes, n));
}

static int download(struct cli *cli, const struct place *from, const char *command, int fd,
                    struct error *err)
{
    struct sink sink = {fd};
    struct exec_stream x = {
        .workspace = from->workspace,
        .command = command,
        .input_fd = -1,
        .interrupt_fd = from->interrupt_fd,
        .on_stdout = write_to_sink,
        .state = &sink,
    };
    int status = exec_stream_run(cli, &x, err);
    return status < 0 ? status : check_exit(&x, from->path, err);
}

static int download_file(struct cli *cli, const struct place *from, const char *to,
                         struct error *err)
{
    struct stat st;
    const char *target = stat(to, &st) == 0 && S_ISDIR(st.st_mode)
                             ? cli_printf(cli, "%s/%s", to, base_name(from->path))
                             : to;
    const char *partial = cli_printf(cli, "%s.part-%d", target, (int)getpid());
    AUTO_FD int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'",
                               partial);
    }
    const char *words[] = {from->path};
    const char *path = exec_quote_words(cli, words, 1);
    /* Reading a pipe or a device would not come to an end. */
    const char *command =
        cli_printf(cli,
                   "p=%s; if [ -f \"$p\" ]; then exec cat < \"$p\"; fi; w='not a regular file'; "
                   "[ -e \"$p\" ] || w='No such file or directory'; echo \"$p: $w\" >&2; exit 1",
                   path);
    int status = download(cli, from, command, fd, err);
    if (status == 0 && rename(partial, target) == -1) {
        status =
            error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write '%s'", target);
    }
    if (status < 0) {
        (void)unlink(partial);
    }
    return status;
}

/* Unpacks what the workspace's tar sends, below the folder `into`. */
static int receive_folder(struct cli *cli, const struct place *from, const char *into,
                          struct error *err)
{
    int ends[2];
    pid_t tar = -1;
    if (pipe2(ends, O_CLOEXEC) == -1) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, errno, "pipe");
    }
    /* The archive comes from hostile code: tar keeps members below the folder, and owners out. */
    const char *argv[] = {"tar", "-C", into, "--no-same-owner", "--no-same-permissions",
                          "-xf", "-",  NULL};
    int status = spawn_tar(argv, ends[0], STDIN_FILENO, &tar, err);
    fd_close(&ends[0]);
    if (status == 0) {
        const char *words[] = {from->path};
        status = download(cli, from,
                          cli_printf(cli, "tar -C %s -cf - .", exec_quote_words(cli, words, 1)),
                          ends[1], err);
    }
    fd_close(&ends[1]);
    if (tar > 0) {
        struct error tar_error;
        int tar_status = wait_tar(tar, &tar_error);
        if (status == 0 && tar_status < 0) {
            *err = tar_error;
            status = tar_status;
        }
    }
    return status;
}

/* tar follows links that are there before it starts, and an earlier copy may have left some. So it
 * unpacks into a fresh folder, which is merged into the other without following any. */
static int download_folder(struct cli *cli, const struct place *from, const char *to,
                           struct error *err)
{
    if (mkdir(to, 0777) == -1 && errno != EEXIST) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot make '%s'", to);
    }
    char *fresh = cli_printf(cli, "%s/.cordium-cp-XXXXXX", to);
    AUTO_FD int to_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (to_fd == -1 || !fresh || !mkdtemp(fresh)) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot write into '%s'",
                               to);
    }
    const char *name = base_name(fresh);
    AUTO_FD int from_fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int status = from_fd == -1 ? error_set_errno(err, STATUS_FAILED_PRECONDITION, errno,
                                                 "cannot open '%s'", fresh)
                               : receive_folder(cli, from, fresh, err);
    status = status < 0 ? status : local_tree_merge(from_fd, to_fd, to, err);
    int removed = fd_remove_tree(to_fd, name);
    if (status == 0 && removed < 0) {
        status =
            error_set_errno(err, STATUS_FAILED_PRECONDITION, -removed, "cannot remove '%s'", fresh);
    }
    return status;
}

static int copy_body(struct cli *cli, const struct arguments *args, int *exit_code,
                     struct error *err)
{
    (void)exit_code;
    struct place from = parse_place(cli, args->words.items[0]);
    struct place to = parse_place(cli, args->words.items[1]);
    if (!from.workspace == !to.workspace) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "exactly one of source and target must be WORKSPACE:PATH");
    }
    int interrupt_fd = interrupt_open();
    from.interrupt_fd = to.interrupt_fd = interrupt_fd > 0 ? interrupt_fd : 0;
    (void)signal(SIGPIPE, SIG_IGN); /* a tar that ended early shows in its exit code */
    if (to.workspace) {
        return args->is_recursive ? upload_folder(cli, from.path, &to, err)
                                  : upload_file(cli, from.path, &to, err);
    }
    return args->is_recursive ? download_folder(cli, &from, to.path, err)
                              : download_file(cli, &from, to.path, err);
}

static int run_copy(const struct command *self, const struct arguments *args)
{
    (void)self;
    return cli_run(args, copy_body);
}

static const struct argp_option copy_options[] = {{"recursive", 'r', NULL, 0, "copy a folder", 0},
                                                  ARG_END};

const struct command copy_commands[] = {
    {"cp", "Copy files between here and a Workspace.", "[WORKSPACE:]SOURCE [WORKSPACE:]TARGET",
     copy_options, 0, 2, 2, run_copy},
    {0},
};
