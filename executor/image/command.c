#include "executor/image/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct pipes {
    int log[2];
    int capture[2];
    int exec_error[2]; /* closed by a successful execve */
};

static void close_if_open(int *fd)
{
    if (*fd != -1) {
        close(*fd);
        *fd = -1;
    }
}

static void pipes_close(struct pipes *p)
{
    for (int i = 0; i < 2; i++) {
        close_if_open(&p->log[i]);
        close_if_open(&p->capture[i]);
        close_if_open(&p->exec_error[i]);
    }
}

static int pipes_open(struct pipes *p, bool with_capture)
{
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(p->log, O_CLOEXEC) == -1 || pipe2(p->exec_error, O_CLOEXEC) == -1 ||
        (with_capture && pipe2(p->capture, O_CLOEXEC) == -1)) {
        int r = -errno;
        pipes_close(p);
        return r;
    }
    return 0;
}

static void child_exec(const struct command *c, const struct pipes *p)
{
    int in = c->stdin_fd != -1 ? c->stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)signal(SIGPIPE, SIG_DFL);
    (void)umask(022);
    if (in != -1 && dup2(in, STDIN_FILENO) != -1 &&
        dup2(c->capture ? p->capture[1] : p->log[1], STDOUT_FILENO) != -1 &&
        dup2(p->log[1], STDERR_FILENO) != -1) {
        /* execvpe() takes pointers to char for history's sake and changes nothing. */
        if (c->env) {
            execvpe(c->argv[0], (char *const *)(uintptr_t)c->argv,
                    (char *const *)(uintptr_t)c->env);
        } else {
            execvp(c->argv[0], (char *const *)(uintptr_t)c->argv);
        }
    }
    int error_number = errno;
    (void)!write(p->exec_error[1], &error_number, sizeof(error_number));
    _exit(127);
}

/* Reads what is there. Returns false at the end of the stream. */
static bool take_output(int fd, struct build_log *log, struct buf *capture)
{
    char bytes[16384];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    if (n == -1 && errno == EINTR) {
        return true;
    }
    if (n <= 0) {
        return false;
    }
    if (capture) {
        buf_add(capture, bytes, (size_t)n);
    } else {
        build_log_write(log, bytes, (size_t)n);
    }
    return true;
}

/* Until the program has ended: a background process that it left may hold the pipes for ever. */
static int pump(const struct command *c, struct pipes *p, pid_t pid)
{
    struct pollfd polls[2] = {{p->log[0], POLLIN, 0}, {p->capture[0], POLLIN, 0}};
    int status = 0;
    bool ended = false;

    for (;;) {
        if (!ended) {
            ended = waitpid(pid, &status, WNOHANG) == pid;
        }
        int ready = poll(polls, 2, ended ? 0 : 100);
        if (ready <= 0) {
            if (ended) {
                break;
            }
            continue;
        }
        if (polls[0].revents && !take_output(polls[0].fd, c->log, NULL)) {
            polls[0].fd = -1;
        }
        if (polls[1].revents && !take_output(polls[1].fd, c->log, c->capture)) {
            polls[1].fd = -1;
        }
        if (polls[0].fd == -1 && polls[1].fd == -1) {
            break;
        }
    }
    while (!ended && waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    return status;
}

int command_run(const struct command *c, int *ret_exit_code, struct error *err)
{
    struct pipes p;
    int exec_error = 0;

    int r = pipes_open(&p, c->capture != NULL);
    if (r < 0) {
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, -r, "run %s: pipe", c->argv[0]);
    }
    pid_t pid = fork();
    if (pid == -1) {
        r = errno;
        pipes_close(&p);
        return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, r, "run %s: fork", c->argv[0]);
    }
    if (pid == 0) {
        child_exec(c, &p);
    }
    close_if_open(&p.log[1]);
    close_if_open(&p.capture[1]);
    close_if_open(&p.exec_error[1]);
    int status = pump(c, &p, pid);
    build_log_flush(c->log);
    ssize_t told = read(p.exec_error[0], &exec_error, sizeof(exec_error));
    pipes_close(&p);
    if (told == (ssize_t)sizeof(exec_error)) {
        return error_set_errno(err, STATUS_UNAVAILABLE, exec_error, "run %s", c->argv[0]);
    }
    if (c->capture && c->capture->failed) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "%s: too much output", c->argv[0]);
    }
    *ret_exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return 0;
}
