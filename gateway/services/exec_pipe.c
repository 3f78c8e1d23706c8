#include "gateway/services/exec_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

enum {
    PIECE_MAX_BYTES = 64 * 1024,
    READS_PER_EVENT_MAX = 8, /* so that one flood does not starve the loop */
    SMALL_READ_BYTES = 4096, /* shorter reads in a row make the pipe "chatty" */
    CHATTY_WITHIN_NS = 300 * 1000,
    CHATTY_PAUSE_MS = 1, /* libuv's shortest timer */
};

struct exec_pipe {
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open_handles;
    int fd;
    size_t piece_bytes_max;
    struct exec_pipe_events events;
    uint64_t last_small_ns;
    bool is_paused;
    bool is_waiting; /* for the timer */
    bool is_ended;
    bool is_freed;
    bool is_reading; /* in read_pieces(): freeing must wait */
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void update_poll(struct exec_pipe *pipe)
{
    if (pipe->is_ended || pipe->is_freed) {
        return;
    }
    if (pipe->is_paused || pipe->is_waiting) {
        (void)uv_poll_stop(&pipe->poll);
    } else {
        (void)uv_poll_start(&pipe->poll, UV_READABLE, on_poll);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    struct exec_pipe *pipe = handle->data;
    if (--pipe->open_handles == 0) {
        free(pipe);
    }
}

static void close_fd(struct exec_pipe *pipe)
{
    if (pipe->fd >= 0) {
        (void)uv_poll_stop(&pipe->poll);
        uv_close((uv_handle_t *)&pipe->poll, handle_closed);
        (void)close(pipe->fd);
        pipe->fd = -1;
    }
}

static void finish_free(struct exec_pipe *pipe)
{
    close_fd(pipe);
    uv_close((uv_handle_t *)&pipe->timer, handle_closed);
}

void exec_pipe_free(struct exec_pipe *pipe)
{
    if (!pipe || pipe->is_freed) {
        return;
    }
    pipe->is_freed = true;
    if (!pipe->is_reading) {
        finish_free(pipe);
    }
}

/* Returns the size of the last read; 0 when there was nothing. */
static size_t read_pieces(struct exec_pipe *pipe, unsigned reads_max)
{
    char piece[PIECE_MAX_BYTES];
    size_t last = 0;
    pipe->is_reading = true;
    for (unsigned i = 0; i < reads_max && !pipe->is_paused && !pipe->is_ended && !pipe->is_freed;
         i++) {
        ssize_t n = read(pipe->fd, piece, pipe->piece_bytes_max);
        if (n > 0) {
            last = (size_t)n;
            pipe->is_paused |= pipe->events.data(pipe->events.context, str_make(piece, last));
        } else if (n == -1 && errno == EINTR) {
            continue;
        } else if (n == -1 && errno == EAGAIN) {
            break;
        } else {
            /* End, or EIO of a terminal whose other side is closed. */
            pipe->is_ended = true;
        }
    }
    pipe->is_reading = false;
    return last;
}

/* After reading: tells the end, once, and finishes a free that came meanwhile. */
static bool settle(struct exec_pipe *pipe)
{
    if (pipe->is_ended && pipe->fd >= 0 && !pipe->is_freed) {
        close_fd(pipe);
        pipe->events.end(pipe->events.context);
        return false;
    }
    if (pipe->is_freed) {
        finish_free(pipe);
        return false;
    }
    return true;
}

static void on_timer(uv_timer_t *timer);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct exec_pipe *pipe = poll->data;
    (void)status; /* an error shows in read(2) */
    (void)events;
    size_t n = read_pieces(pipe, READS_PER_EVENT_MAX);
    if (!settle(pipe)) {
        return;
    }
    if (n > 0 && n < SMALL_READ_BYTES) {
        uint64_t now = uv_hrtime();
        if (now - pipe->last_small_ns < CHATTY_WITHIN_NS) {
            pipe->is_waiting = true;
            (void)uv_timer_start(&pipe->timer, on_timer, CHATTY_PAUSE_MS, 0);
        }
        pipe->last_small_ns = now;
    }
    update_poll(pipe);
}

static void on_timer(uv_timer_t *timer)
{
    struct exec_pipe *pipe = timer->data;
    pipe->is_waiting = false;
    if (pipe->is_freed || pipe->fd < 0) {
        return;
    }
    (void)read_pieces(pipe, READS_PER_EVENT_MAX);
    if (settle(pipe)) {
        pipe->last_small_ns = uv_hrtime();
        update_poll(pipe);
    }
}

struct exec_pipe *exec_pipe_new(struct uv_loop_s *loop, int fd, size_t piece_bytes_max,
                                const struct exec_pipe_events *events)
{
    struct exec_pipe *pipe = calloc(1, sizeof *pipe);
    if (!pipe || uv_poll_init(loop, &pipe->poll, fd)) {
        free(pipe);
        (void)close(fd);
        return NULL;
    }
    (void)uv_timer_init(loop, &pipe->timer);
    pipe->poll.data = pipe;
    pipe->timer.data = pipe;
    pipe->open_handles = 2;
    pipe->fd = fd;
    pipe->events = *events;
    pipe->piece_bytes_max = piece_bytes_max > PIECE_MAX_BYTES ? PIECE_MAX_BYTES : piece_bytes_max;
    update_poll(pipe);
    return pipe;
}

void exec_pipe_drain(struct exec_pipe *pipe)
{
    if (pipe->fd < 0 || pipe->is_freed) {
        return;
    }
    /* A pipe holds 64 KiB; a writer that keeps up with us is cut by the caller's clock. */
    (void)read_pieces(pipe, READS_PER_EVENT_MAX);
    if (settle(pipe)) {
        update_poll(pipe);
    }
}

void exec_pipe_pause(struct exec_pipe *pipe)
{
    pipe->is_paused = true;
    update_poll(pipe);
}

void exec_pipe_resume(struct exec_pipe *pipe)
{
    pipe->is_paused = false;
    update_poll(pipe);
}
