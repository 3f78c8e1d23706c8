#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* SIGINT and SIGTERM are read from the fd that is returned (a signalfd), not suffered, from now on:
 * for commands that have something to put in order first. -1: they end us as before. */
int interrupt_open(void);

/* Waits for one so long; true: there was one. */
bool interrupt_wait(int fd, int timeout_ms);

#endif
