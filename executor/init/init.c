#include "executor/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/client/executor_client.h"
#include "executor/init/home_fill.h"
#include "executor/init/run_child.h"
#include "executor/ipc/channel.h"
#include "executor/proc/fd.h"

struct live_run {
    uint64_t run;
    pid_t pid;
};

struct init {
    const struct setup *setup;
    int control;
    int children; /* signalfd of SIGCHLD */
    struct live_run *runs;
    size_t run_count;
    size_t run_room;
    uint8_t message[INIT_MESSAGE_MAX];
};

/* Blocks when the executor is slow to read: its queue is longer than our runs are many. */
static void report(const struct init *init, const struct init_message *m, int fd)
{
    const struct iovec part = {(void *)m, sizeof *m};
    struct pollfd p = {.fd = init->control, .events = POLLOUT};
    while (channel_send(init->control, &part, 1, &fd, fd >= 0 ? 1 : 0) == -EAGAIN) {
        (void)poll(&p, 1, -1);
    }
}

void init_report_failure(const struct setup *setup, const char *step, int error_number)
{
    struct init_message m = {.type = INIT_FAILED, .error_number = error_number};
    if (setup->target) {
        (void)snprintf(m.text, sizeof m.text, "%s, '/%s' of the image", step, setup->target);
    } else {
        (void)snprintf(m.text, sizeof m.text, "%s", step);
    }
    const struct iovec part = {&m, sizeof m};
    (void)channel_send(setup->control, &part, 1, NULL, 0);
}

static void report_exit(const struct init *init, uint64_t run, uint32_t stage, int error_number,
                        int wait_status)
{
    struct init_message m = {
        .type = INIT_EXITED,
        .stage = stage,
        .run = run,
        .error_number = error_number,
        .wait_status = wait_status,
    };
    report(init, &m, -1);
}

static bool remember(struct init *init, uint64_t run, pid_t pid)
{
    if (init->run_count == init->run_room) {
        size_t room = init->run_room ? init->run_room * 2 : 16;
        struct live_run *runs =
            room > INIT_RUNS_MAX ? NULL : realloc(init->runs, room * sizeof *runs);
        if (!runs) {
            return false;
        }
        init->runs = runs;
        init->run_room = room;
    }
    init->runs[init->run_count++] = (struct live_run){run, pid};
    return true;
}

/* Reaps whatever ended: main processes are reported, adopted orphans only go. */
static void reap(struct init *init)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < init->run_count; i++) {
            if (init->runs[i].pid == pid) {
                uint64_t run = init->runs[i].run;
                init->runs[i] = init->runs[--init->run_count];
                report_exit(init, run, EXECUTOR_STAGE_RAN, 0, status);
                break;
            }
        }
    }
}

/* Splits the arguments in place into two NULL-terminated vectors of one allocation. */
static char **split_args(const struct init_start *start, char *args)
{
    size_t count = (size_t)start->argc + start->env_count;
    char **vector = calloc(count + 2, sizeof *vector);
    if (!vector) {
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (at >= start->args_bytes) {
            free(vector);
            return NULL;
        }
        /* A NULL stands between the two. */
        vector[i + (i >= start->argc)] = args + at;
        at += strnlen(args + at, start->args_bytes - at) + 1;
    }
    return vector;
}

static void set_oom_score(const struct init *init, const char *score)
{
    (void)!pwrite(init->setup->oom_score, score, strlen(score), 0);
}

static void start_program(struct init *init, const struct init_start *start, char *args,
                          const int *attach, const int *fds)
{
    char **vector = split_args(start, args);
    if (!vector) {
        report_exit(init, start->run, EXECUTOR_STAGE_FORK, ENOMEM, 0);
        return;
    }
    struct run_child child = {
        .start = start,
        .argv = vector,
        .env = vector + start->argc + 1,
        .attach = attach,
        .fds = fds,
    };
    /* Whoever must go when memory is short, it is not pid 1. A child cannot write its own score:
     * it is not dumpable until it runs its program. */
    set_oom_score(init, "500");
    pid_t pid = run_child_start(&child);
    set_oom_score(init, "0");
    free(vector);
    if (child.stage != EXECUTOR_STAGE_RAN) {
        report_exit(init, start->run, child.stage, child.error_number, 0);
    } else if (!remember(init, start->run, pid)) {
        (void)kill(pid, SIGKILL);
        report_exit(init, start->run, EXECUTOR_STAGE_FORK, ENOMEM, 0);
    }
}

static void start_with_terminal(struct init *init, const struct init_start *start, char *args,
                                const int *attach)
{
    AUTO_FD int master = -1;
    AUTO_FD int slave = -1;
    int r = run_child_open_terminal(start, &master, &slave);
    if (r < 0) {
        report_exit(init, start->run, EXECUTOR_STAGE_TERMINAL, -r, 0);
        return;
    }
    const struct init_message m = {.type = INIT_STARTED, .run = start->run};
    report(init, &m, master);
    fd_close(&master);
    const int fds[3] = {slave, slave, slave};
    start_program(init, start, args, attach, fds);
}

static void handle_start(struct init *init, size_t size, struct channel_fds *fds)
{
    struct init_start start;
    if (size < sizeof start) {
        return;
    }
    memcpy(&start, init->message, sizeof start);
    size_t stdio = start.flags & INIT_RUN_TTY ? 0 : 3;
    size_t before = start.args_in_memfd ? 1 : 0;
    uint8_t *from_memfd = NULL;
    char *args = (char *)init->message + sizeof start;
    size_t args_bytes = size - sizeof start;
    if (start.args_in_memfd) {
        int r = fds->count > 0
                    ? fd_read_sealed(fds->fds[0], EXECUTOR_ARGS_BYTES_MAX, &from_memfd, &args_bytes)
                    : -EBADF;
        if (r < 0) {
            report_exit(init, start.run, EXECUTOR_STAGE_FORK, -r, 0);
            return;
        }
        args = (char *)from_memfd;
    }
    if (fds->count != before + start.attach_count + stdio || args_bytes != start.args_bytes) {
        report_exit(init, start.run, EXECUTOR_STAGE_FORK, EBADMSG, 0);
    } else if (start.flags & INIT_RUN_TTY) {
        start_with_terminal(init, &start, args, fds->fds + before);
    } else {
        start_program(init, &start, args, fds->fds + before,
                      fds->fds + before + start.attach_count);
    }
    free(from_memfd);
}

static void handle_signal(struct init *init, size_t size)
{
    struct init_signal m;
    if (size != sizeof m) {
        return;
    }
    memcpy(&m, init->message, sizeof m);
    for (size_t i = 0; i < init->run_count; i++) {
        if (init->runs[i].run == m.run) {
            (void)kill(m.whole_group ? -init->runs[i].pid : init->runs[i].pid, m.signal_number);
        }
    }
}

/* False when the executor is gone. */
static bool handle_order(struct init *init)
{
    struct channel_fds fds;
    ssize_t n = channel_recv(init->control, init->message, sizeof init->message, &fds);
    if (n == -EAGAIN) {
        return true;
    }
    uint32_t type = 0;
    if (n >= (ssize_t)sizeof type) {
        memcpy(&type, init->message, sizeof type);
    }
    if (type == INIT_START) {
        handle_start(init, (size_t)n, &fds);
    } else if (type == INIT_SIGNAL) {
        handle_signal(init, (size_t)n);
    }
    channel_fds_close(&fds);
    return n > 0;
}

struct fill {
    int source;
    const char *target;
};

static void fill_main(void *argument)
{
    const struct fill *fill = argument;
    home_fill(fill->source, fill->target);
}

void init_main(const struct setup *setup)
{
    struct init *init = calloc(1, sizeof *init);
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    if (!init || sigprocmask(SIG_SETMASK, &mask, NULL) == -1) {
        return;
    }
    init->setup = setup;
    init->control = setup->control;
    init->children = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    int listener = setup->listener;
    struct init_message ready = {.type = INIT_READY};
    memcpy(ready.step_us, setup->step_us, sizeof ready.step_us);
    report(init, &ready, listener);
    fd_close(&listener);
    if (setup->home_source >= 0) {
        struct fill fill = {setup->home_source, setup->request->home};
        (void)run_child_call(setup->request->uid, setup->request->gid, fill_main, &fill);
        int source = setup->home_source;
        fd_close(&source);
    }
    struct pollfd p[2] = {
        {.fd = init->control, .events = POLLIN},
        {.fd = init->children, .events = POLLIN},
    };
    bool goes_on = init->children >= 0;
    while (goes_on) {
        if (poll(p, 2, -1) == -1 && errno != EINTR) {
            break;
        }
        if (p[1].revents) {
            struct signalfd_siginfo info;
            (void)!read(init->children, &info, sizeof info);
            reap(init);
        }
        if (p[0].revents) {
            goes_on = handle_order(init);
        }
    }
}
