#ifndef SERVICES_TERMINAL_TABLE_H
#define SERVICES_TERMINAL_TABLE_H

#include "gateway/services/terminal.h"

/* What the calls (terminal_service.c) do with a terminal (terminal.c). */

/* In the workspace's list, not started. NULL when memory is out. */
struct terminal *terminal_new(struct workspace_run *run, const char *id, uint16_t columns,
                              uint16_t rows);

/* Starts its shell; answers the request when the terminal is there or could not be made. */
void terminal_start(struct terminal *terminal, struct request *creator);

const char *terminal_id(const struct terminal *terminal);
struct terminal *terminal_next(const struct terminal *terminal);
void terminal_remove(struct terminal *terminal);
int terminal_write(struct terminal *terminal, struct str bytes, struct error *err);
void terminal_resize(struct terminal *terminal, uint16_t columns, uint16_t rows);

/* The request becomes a listener: size and what was shown so far, then what is shown. */
int terminal_listen(struct terminal *terminal, struct request *r, struct error *err);

#endif
