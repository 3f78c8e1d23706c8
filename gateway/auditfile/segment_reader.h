#ifndef AUDITFILE_SEGMENT_READER_H
#define AUDITFILE_SEGMENT_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auditfile/segment.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* Reads one file of the log, block by block: some whole lines of a plain file, or one frame of a
 * compressed one. Compressed blocks are not decoded here, so that another thread may do it. */
struct segment_reader;

enum { SEGMENT_BLOCK_BYTES = 1 << 20 /* of a plain file */ };

struct segment_block {
    struct buf bytes; /* as they are in the file */
    bool is_compressed;
    bool is_last_torn; /* a plain file's last line has no newline; its writer may be at it */
};

/* NOT_FOUND when the file is gone: it was compressed or deleted meanwhile. */
int segment_reader_open(int dir_fd, const struct segment *segment, struct segment_reader **ret,
                        struct error *err);
void segment_reader_close(struct segment_reader *r); /* NULL is fine */

/* Goes to the beginning of a block from which on the line of that sequence will be met, when the
 * file has it. A guess by the first line of some blocks: lines before it come first. */
int segment_reader_seek(struct segment_reader *r, uint64_t sequence, struct error *err);

/* The file, whatever its name is by now; 0 when that cannot be told. */
uint64_t segment_reader_inode(const struct segment_reader *r);

/* The next block begins at that byte of the file: the beginning of a line, or of a frame. */
void segment_reader_go_to(struct segment_reader *r, uint64_t offset);

/* Leaves out what stands before the last `bytes` of a plain file; the first line is then cut. A
 * compressed file stays whole. */
void segment_reader_skip(struct segment_reader *r, uint64_t bytes);

/* The next block. 1; 0 at the end; DATA_LOSS with the offset for what is no frame and for a line
 * over SEGMENT_LINE_MAX_BYTES; UNAVAILABLE when it cannot be read. */
int segment_reader_next(struct segment_reader *r, struct segment_block *block, struct error *err);

/* Where the next block begins in the file. */
uint64_t segment_reader_offset(const struct segment_reader *r);

void segment_block_init(struct segment_block *block);
void segment_block_free(struct segment_block *block);

/* The block's lines: its own bytes, or those of its frame, which are put into `plain`. */
int segment_block_text(const struct segment_block *block, struct buf *plain, struct str *ret,
                       struct error *err);

#endif
