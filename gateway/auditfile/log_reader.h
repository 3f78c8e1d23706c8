#ifndef AUDITFILE_LOG_READER_H
#define AUDITFILE_LOG_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/segment.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The lines of all files of the log, in order, from a sequence on. Works beside the gateway that
 * writes, rotates and compresses. It judges nothing: damaged lines come as they are. */
struct log_reader;

struct log_line {
    struct str text; /* without its newline; until the next call */
    const char *file;
};

/* from_sequence: the first line wanted; 0 or 1 for all. Lines that are not ours come with those
 * around them. */
int log_reader_open(int dir_fd, uint64_t from_sequence, struct log_reader **ret, struct error *err);
void log_reader_close(struct log_reader *r); /* NULL is fine */

/* 1, or 0 behind the last whole line that was there. The end of the active file without its newline
 * is being written, and does not come. Errors name the file. */
int log_reader_next(struct log_reader *r, struct log_line *ret, struct error *err);

/* The same by blocks, from the beginning of one on: for who decodes them elsewhere. Not together
 * with log_reader_next(). */
struct segment_block;
struct log_block {
    struct segment_block *block; /* given by the caller; filled */
    struct segment segment;      /* whose it is */
};
int log_reader_next_block(struct log_reader *r, struct log_block *ret, struct error *err);

#endif
