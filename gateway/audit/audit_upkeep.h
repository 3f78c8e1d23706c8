#ifndef AUDIT_AUDIT_UPKEEP_H
#define AUDIT_AUDIT_UPKEEP_H

#include "gateway/audit/audit_log.h"

/* What is done to finished files, in the worker pool: they are compressed, and the oldest are
 * deleted when they are too old or all are too large. First the tombstone, signed and on the disk;
 * then the file. What fails is told once and tried again at the next occasion. */
struct audit_upkeep;

enum { AUDIT_UPKEEP_INTERVAL_MS = 3600 * 1000 /* for what gets too old while nothing happens */ };

/* dir_fd and options live longer. NULL without memory. */
struct audit_upkeep *audit_upkeep_new(struct uv_loop_s *loop, struct audit_log *log, int dir_fd,
                                      const struct audit_log_options *options);

/* There may be something to do. */
void audit_upkeep_wake(struct audit_upkeep *u);

/* Ends a job early; then calls closed(arg) from the loop and is gone. */
void audit_upkeep_close(struct audit_upkeep *u, void (*closed)(void *arg), void *arg);

#endif
