#ifndef AUDITFILE_FRAME_TABLE_H
#define AUDITFILE_FRAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* Where each frame of a compressed file stands, and what part of its lines it holds. */
struct frame_place {
    uint64_t content_offset; /* among the lines of the file */
    uint32_t content_bytes;
    uint32_t disk_bytes;
    uint64_t disk_offset;
};

/* Appends a struct frame_place for each frame of the file that fd is open on. DATA_LOSS for what is
 * no frame. */
int frame_table_read(int fd, struct buf *ret, struct error *err);

/* The frame that holds that byte of the lines; NULL when there is none. */
const struct frame_place *frame_table_find(const struct buf *table, uint64_t content_offset);

/* Bytes of all lines. */
uint64_t frame_table_content_bytes(const struct buf *table);

#endif
