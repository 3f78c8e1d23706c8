#ifndef AUDITFILE_LINE_BATCH_H
#define AUDITFILE_LINE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/auditfile/line.h"
#include "gateway/auditfile/segment.h"
#include "policy/base/status.h"

/* The log's lines in order, looked at (decompressed, split, hashed) by several threads. */
struct line_batch_reader;

struct line_batch {
    struct segment segment; /* whose lines these are */
    const struct line *lines;
    size_t count;
    size_t unended_bytes; /* of the active file's end, without a newline: not among the lines */
};

int line_batch_reader_new(int dir_fd, unsigned threads, struct line_batch_reader **ret,
                          struct error *err);
void line_batch_reader_free(struct line_batch_reader *r); /* NULL is fine */

/* The next lines, until the next call. 1, or 0 at the end. DATA_LOSS: a file that cannot be read;
 * ret->segment names it. */
int line_batch_next(struct line_batch_reader *r, struct line_batch *ret, struct error *err);

#endif
