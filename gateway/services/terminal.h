#ifndef SERVICES_TERMINAL_H
#define SERVICES_TERMINAL_H

#include "gateway/request.h"
#include "gateway/services/workspace_run.h"

/* Terminals: a shell behind a pty in a running workspace, with what it showed last, and any number
 * of listeners. They end with the shell, by RemoveTerminal, or with the workspace. */
struct terminal;

enum {
    TERMINALS_PER_WORKSPACE_MAX = 150,
    TERMINAL_SCROLLBACK_BYTES = 500000,
    TERMINAL_WRITE_MAX_BYTES = 1024 * 1024,
    TERMINAL_LISTENERS_MAX = 32,
    TERMINAL_PIECE_BYTES = 3 * 1024, /* as the original sends */
    TERMINAL_SIZE_MAX = 4096,        /* columns, rows */
};

void terminal_close_all(struct workspace_run *run);

int create_terminal_resolve(struct request *r, struct error *err);
void create_terminal_handle(struct request *r);
int remove_terminal_resolve(struct request *r, struct error *err);
void remove_terminal_handle(struct request *r);
int list_terminal_resolve(struct request *r, struct error *err);
void list_terminal_handle(struct request *r);
int write_terminal_data_resolve(struct request *r, struct error *err);
void write_terminal_data_handle(struct request *r);
int set_terminal_window_size_resolve(struct request *r, struct error *err);
void set_terminal_window_size_handle(struct request *r);
int listen_terminal_resolve(struct request *r, struct error *err);
void listen_terminal_handle(struct request *r);

#endif
