#ifndef AUDITFILE_LINE_FETCH_H
#define AUDITFILE_LINE_FETCH_H

#include "gateway/auditfile/index_scan.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Lines of the log by the place that the index gives. For one thread; neighbours are cheap one
 * after the other. */
struct line_fetch;

/* dir_fd is borrowed. NULL without memory. */
struct line_fetch *line_fetch_new(int dir_fd);
void line_fetch_free(struct line_fetch *f); /* NULL is fine */

/* The line without its newline, until the next call. NOT_FOUND: its file has gone; DATA_LOSS: the
 * line does not stand there, so that the index is not about this file. */
int line_fetch(struct line_fetch *f, const struct index_place *place, struct str *ret,
               struct error *err);

#endif
