#ifndef SERVICES_EXEC_PIPE_H
#define SERVICES_EXEC_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

/* The reading end of a program's output, on the libuv loop. A program that writes many small pieces
 * is read with a short pause after each, so that one message carries many of them; the first piece
 * after a silence is passed on at once. */
struct exec_pipe;
struct uv_loop_s;

struct exec_pipe_events {
    /* True: no more until exec_pipe_resume(). */
    bool (*data)(void *context, struct str bytes);
    /* End of file; once. */
    void (*end)(void *context);
    void *context;
};

/* Takes fd (non-blocking) in every case; NULL when memory is out. Reading starts at once. */
struct exec_pipe *exec_pipe_new(struct uv_loop_s *loop, int fd, size_t piece_bytes_max,
                                const struct exec_pipe_events *events);

/* Reads what is there now, until empty, paused or ended. */
void exec_pipe_drain(struct exec_pipe *pipe);
void exec_pipe_pause(struct exec_pipe *pipe);
void exec_pipe_resume(struct exec_pipe *pipe);

/* Closes the fd; no event comes any more. Allowed inside of an event. NULL is fine. */
void exec_pipe_free(struct exec_pipe *pipe);

#endif
