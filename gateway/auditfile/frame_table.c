#include "gateway/auditfile/frame_table.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "gateway/auditfile/frame.h"
#include "gateway/auditfile/segment.h"

enum { CHUNK_BYTES = 1 << 20 };

/* More of the file behind what is there. 1, or 0 at its end. */
static int read_more(int fd, uint64_t offset, struct buf *ahead, struct error *err)
{
    uint8_t *to = buf_reserve(ahead, CHUNK_BYTES);
    ssize_t n;
    if (!to) {
        return error_set(err, STATUS_DATA_LOSS, "at byte %" PRIu64 ": a frame of more than %d MiB",
                         offset, SEGMENT_LINE_MAX_BYTES >> 20);
    }
    do {
        n = pread(fd, to, CHUNK_BYTES, (off_t)(offset + ahead->len));
    } while (n == -1 && errno == EINTR);
    if (n == -1) {
        return error_set_errno(err, STATUS_UNAVAILABLE, errno, "read a file of the audit log");
    }
    ahead->len += (size_t)n;
    return n > 0;
}

static int add_frame(struct str frame, uint64_t disk_offset, struct buf *ret, struct error *err)
{
    size_t content = 0;
    int rc = frame_content_size(frame, &content, err);
    const struct frame_place place = {
        .content_offset = frame_table_content_bytes(ret),
        .content_bytes = (uint32_t)content, /* at most SEGMENT_LINE_MAX_BYTES */
        .disk_bytes = (uint32_t)frame.len,
        .disk_offset = disk_offset,
    };
    if (rc == 0) {
        buf_add(ret, &place, sizeof place);
    }
    return rc || !ret->failed ? rc : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

/* Takes the whole frames at the beginning of the bytes. */
static int take_frames(struct str bytes, uint64_t disk_offset, struct buf *ret, size_t *ret_taken,
                       struct error *err)
{
    size_t taken = 0;
    int rc = 1;
    while (rc == 1 && taken < bytes.len) {
        size_t n;
        struct str rest = str_make(bytes.ptr + taken, bytes.len - taken);
        rc = frame_measure(rest, &n, err);
        if (rc == 1) {
            int added = add_frame(str_make(rest.ptr, n), disk_offset + taken, ret, err);
            rc = added ? added : 1;
            taken += n;
        }
    }
    *ret_taken = taken;
    return rc < 0 ? rc : 0;
}

int frame_table_read(int fd, struct buf *ret, struct error *err)
{
    struct buf ahead;
    uint64_t offset = 0;
    int rc;
    buf_init(&ahead, SEGMENT_LINE_MAX_BYTES + CHUNK_BYTES);
    while ((rc = read_more(fd, offset, &ahead, err)) == 1) {
        size_t taken;
        rc = take_frames(buf_str(&ahead), offset, ret, &taken, err);
        if (rc) {
            break;
        }
        buf_consume(&ahead, taken);
        offset += taken;
    }
    if (rc == 0 && ahead.len > 0) {
        rc = error_set(err, STATUS_DATA_LOSS, "at byte %" PRIu64 ": its end is cut off", offset);
    }
    buf_free(&ahead);
    return rc;
}

const struct frame_place *frame_table_find(const struct buf *table, uint64_t content_offset)
{
    const struct frame_place *places = (const struct frame_place *)(const void *)table->ptr;
    size_t low = 0;
    size_t high = table->len / sizeof *places;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(places[middle].content_offset <= content_offset ? &low : &high) = middle;
    }
    return high > low && content_offset - places[low].content_offset < places[low].content_bytes
               ? &places[low]
               : NULL;
}

uint64_t frame_table_content_bytes(const struct buf *table)
{
    const struct frame_place *places = (const struct frame_place *)(const void *)table->ptr;
    size_t count = table->len / sizeof *places;
    return count > 0 ? places[count - 1].content_offset + places[count - 1].content_bytes : 0;
}
