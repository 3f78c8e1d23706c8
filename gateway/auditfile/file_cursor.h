#ifndef AUDITFILE_FILE_CURSOR_H
#define AUDITFILE_FILE_CURSOR_H

#include <stdint.h>

#include "gateway/auditfile/segment.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The lines of one file with their place in it, which compression does not change. Goes on where an
 * active file grows. */
struct file_cursor;

struct file_lines {
    struct str text; /* whole lines; until the next call */
    uint64_t offset; /* of the text among the file's lines, not compressed */
};

/* offset: of the first line that is wanted. NOT_FOUND when the file is gone. */
int file_cursor_open(int dir_fd, const struct segment *segment, uint64_t offset,
                     struct file_cursor **ret, struct error *err);
void file_cursor_close(struct file_cursor *c); /* NULL is fine */

/* 1; 0 behind the last line that is there: of an active file, more may come. */
int file_cursor_next(struct file_cursor *c, struct file_lines *ret, struct error *err);

/* Where the next lines begin. */
uint64_t file_cursor_offset(const struct file_cursor *c);

/* Goes on from there; of a file that is not compressed. */
void file_cursor_go_to(struct file_cursor *c, uint64_t offset);

/* As segment_reader_inode(). */
uint64_t file_cursor_inode(const struct file_cursor *c);

#endif
